//! The jail's name server: private addresses for granted names, a refusal for all others.
//!
//! A name is not looked up when it is asked for: the program gets the private address at once, and the real one is
//! found when something connects there. So no part of a refused name ever leaves the host.

use super::{
    dns::{self, A, AAAA, Asked, Code},
    limits,
};
use policies::{
    plan::{
        NamedNetwork,
        network::{PRIVATE_V4, PRIVATE_V6, private},
    },
    scope::Host,
};
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Numbers from here on are given to names that a pattern covers.
const ON_DEMAND: u32 = 0x1_0000;

/// Which name stands behind which private address.
#[derive(Debug)]
pub(super) struct AddressBook<'n> {
    network: &'n NamedNetwork,
    numbers: HashMap<String, u32>,
    names: HashMap<u32, String>,
    next: u32,
}

impl<'n> AddressBook<'n> {
    pub(super) fn new(network: &'n NamedNetwork) -> Self {
        Self { network, numbers: HashMap::new(), names: HashMap::new(), next: 0 }
    }

    /// The private addresses of a granted name.
    fn addresses(&mut self, name: &str) -> (Ipv4Addr, Ipv6Addr) {
        if let Some(fixed) = self.network.addresses(name) {
            return fixed;
        }
        if let Some(number) = self.numbers.get(name) {
            return private(*number);
        }
        let number = ON_DEMAND + self.next % limits::NAMES;
        self.next = self.next.wrapping_add(1);
        if let Some(oldest) = self.names.insert(number, name.to_owned()) {
            self.numbers.remove(&oldest);
        }
        self.numbers.insert(name.to_owned(), number);
        private(number)
    }

    /// What a connection to an address means; `None`: a private address that nobody has.
    pub(super) fn meant(&self, address: IpAddr) -> Option<Host> {
        let number = match address {
            IpAddr::V4(address) => {
                let from = u32::from(address).wrapping_sub(u32::from(PRIVATE_V4.0));
                (from < 1 << (32 - PRIVATE_V4.1)).then_some(from)
            }
            IpAddr::V6(address) => {
                let from = u128::from(address).wrapping_sub(u128::from(PRIVATE_V6.0));
                (from < 1 << (128 - PRIVATE_V6.1)).then(|| u32::try_from(from).unwrap_or(u32::MAX))
            }
        };
        match number {
            None => Some(Host::Ip(address)),
            Some(number) => match self.names.get(&number) {
                Some(name) => Some(Host::Name(name.clone())),
                None => self.network.name_at(address).map(|name| Host::Name(name.to_owned())),
            },
        }
    }

    /// Answers one message; also tells what was refused.
    pub(super) fn answer(&mut self, message: &[u8]) -> (Option<Vec<u8>>, Option<NotAnswered>) {
        let question = match dns::read_query(message) {
            Asked::Noise => return (None, Some(NotAnswered::NoQuestion)),
            Asked::Wrong { id, code } => return (Some(dns::wrong(id, code)), Some(NotAnswered::NoQuestion)),
            Asked::Question(question) => question,
        };
        let granted = match Host::parse(&question.name) {
            Ok(host @ Host::Name(_)) if self.network.knows(&host) => Some(host),
            Ok(_) | Err(_) => None,
        };
        let Some(Host::Name(name)) = granted else {
            let answer = dns::answer(&question, Code::Refused, None);
            return (Some(answer), Some(NotAnswered::Name(question.name)));
        };
        let address = match question.kind {
            A => Some(IpAddr::V4(self.addresses(&name).0)),
            AAAA => Some(IpAddr::V6(self.addresses(&name).1)),
            _other => None,
        };
        (Some(dns::answer(&question, Code::NoError, address)), None)
    }
}

/// What the name server gave no address for, though it may have said something.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotAnswered {
    /// A name that isn't granted.
    Name(String),
    /// What is no question, or none that this server reads.
    NoQuestion,
}

/// Refused questions that are told of: a few at once, then one at a time.
#[derive(Debug)]
pub(super) struct Bucket {
    tokens: u32,
    filled: std::time::Instant,
}

impl Bucket {
    pub(super) fn new(now: std::time::Instant) -> Self {
        Self { tokens: limits::REFUSALS, filled: now }
    }

    pub(super) fn take(&mut self, now: std::time::Instant) -> bool {
        let more = now.saturating_duration_since(self.filled).as_nanos() / limits::REFUSAL_REFILL.as_nanos();
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            self.tokens = self.tokens.saturating_add(more).min(limits::REFUSALS);
            self.filled = now;
        }
        let free = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        free
    }
}
