//! A stub resolver: the hosts file, then plain questions to the servers of resolv.conf, over descriptors that the loop
//! polls. No name service switch: a static binary must not load its modules.
//!
//! Source: resolv.conf(5), hosts(5), RFC 1035 section 7, RFC 5452 (a port and a number of its own for each question).

use super::{
    dial,
    dns::{self, A, AAAA, Answer},
    limits,
};
use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, connect, recv, send, socket,
    },
};
use policies::scope::Host;
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// Largest of the two files that is read.
const MOST_FILE: usize = 4 << 20;
/// Servers that are asked (resolv.conf(5), MAXNS).
const SERVERS: usize = 3;
/// Rounds through all servers.
const ROUNDS: usize = 2;
/// Largest answer over UDP that we asked for by saying nothing about sizes; some servers send more.
const UDP_ANSWER: usize = 4096;

/// What the host says about names.
#[derive(Debug, Default)]
pub(super) struct HostNames {
    servers: Vec<SocketAddr>,
    hosts: HashMap<String, Vec<IpAddr>>,
}

impl HostNames {
    /// Reads `/etc/resolv.conf` and `/etc/hosts`, as the launcher sees them.
    pub(super) fn read() -> Self {
        let text = |path| {
            let bytes = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(bytes.get(..MOST_FILE).unwrap_or(&bytes)).into_owned()
        };
        Self::parse(&text("/etc/resolv.conf"), &text("/etc/hosts"))
    }

    fn parse(resolv: &str, hosts: &str) -> Self {
        let mut names = Self::default();
        for line in resolv.lines() {
            let mut words = line.split_whitespace();
            if words.next() == Some("nameserver")
                // A zone behind a % has no meaning for what is global.
                && let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok())
                && names.servers.len() < SERVERS
            {
                names.servers.push(SocketAddr::new(address, 53));
            }
        }
        if names.servers.is_empty() {
            // resolv.conf(5): "the default is to use the name server on the local machine".
            names.servers.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53));
        }
        for line in hosts.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
            for word in words {
                if let Ok(Host::Name(name)) = Host::parse(word) {
                    names.hosts.entry(name).or_default().push(address);
                }
            }
        }
        names
    }
}

/// One of the two questions about a name.
#[derive(Debug)]
enum Half {
    Udp {
        id: u16,
        socket: OwnedFd,
    },
    Tcp {
        id: u16,
        socket: OwnedFd,
        out: Vec<u8>,
        got: Vec<u8>,
    },
    Done(Vec<IpAddr>),
    /// No server could say.
    Failed,
}

/// A name that is being looked up.
#[derive(Debug)]
struct Lookup {
    waiting: Vec<usize>,
    halves: [Half; 2],
    /// Which server, and how often all of them were asked before.
    tries: [usize; 2],
    asked: [Instant; 2],
    began: Instant,
    /// The shorter of the two times to live.
    ttl: u32,
}

/// A name that was found, or not.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) waiting: Vec<usize>,
    /// Both families; empty: it has no address, or no server could say.
    pub(super) addresses: Vec<IpAddr>,
}

/// Where a descriptor of the resolver belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) lookup: usize,
    pub(super) half: usize,
}

impl Place {
    /// As the number beside an event of a loop that has no other ones.
    pub(super) fn encode(self) -> u64 {
        (self.lookup as u64) << 1 | self.half as u64
    }

    /// From that number.
    pub(super) fn decode(number: u64) -> Self {
        Self { lookup: (number >> 1) as usize, half: (number & 1) as usize }
    }
}

/// The resolver.
#[derive(Debug)]
pub(super) struct Resolver {
    names: HostNames,
    lookups: BTreeMap<usize, (String, Lookup)>,
    by_name: HashMap<String, usize>,
    next: usize,
    remembered: HashMap<String, (Instant, Vec<IpAddr>)>,
}

const KINDS: [u16; 2] = [A, AAAA];

impl Resolver {
    pub(super) fn new(names: HostNames) -> Self {
        Self { names, lookups: BTreeMap::new(), by_name: HashMap::new(), next: 0, remembered: HashMap::new() }
    }

    /// The addresses, where they are known already; else `who` is told later. `watch` registers a new descriptor.
    pub(super) fn ask(
        &mut self,
        name: &str,
        who: usize,
        now: Instant,
        watch: &mut dyn FnMut(BorrowedFd<'_>, Place),
    ) -> Option<Vec<IpAddr>> {
        if let Some(addresses) = self.names.hosts.get(name) {
            return Some(addresses.clone());
        }
        if let Some((until, addresses)) = self.remembered.get(name) {
            if now < *until {
                return Some(addresses.clone());
            }
            self.remembered.remove(name);
        }
        if let Some(lookup) = self.by_name.get(name) {
            if let Some((_, lookup)) = self.lookups.get_mut(lookup) {
                lookup.waiting.push(who);
            }
            return None;
        }
        let number = self.next;
        self.next += 1;
        let lookup = Lookup {
            waiting: vec![who],
            halves: [Half::Failed, Half::Failed],
            tries: [0; 2],
            asked: [now; 2],
            began: now,
            ttl: u32::MAX,
        };
        self.by_name.insert(name.to_owned(), number);
        self.lookups.insert(number, (name.to_owned(), lookup));
        for half in 0..2 {
            self.question(number, half, now, watch);
        }
        None
    }

    /// Whether something is under way, so that the clock matters.
    pub(super) fn is_busy(&self) -> bool {
        !self.lookups.is_empty()
    }

    /// Sends one question to the next server that takes it.
    fn question(
        &mut self,
        number: usize,
        half: usize,
        now: Instant,
        watch: &mut dyn FnMut(BorrowedFd<'_>, Place),
    ) {
        let Some((name, lookup)) = self.lookups.get_mut(&number) else { return };
        lookup.halves[half] = Half::Failed;
        while lookup.tries[half] < self.names.servers.len() * ROUNDS {
            let server = self.names.servers[lookup.tries[half] % self.names.servers.len()];
            lookup.tries[half] += 1;
            lookup.asked[half] = now;
            if let Ok((id, socket)) = send_question(server, name, KINDS[half]) {
                watch(socket.as_fd(), Place { lookup: number, half });
                lookup.halves[half] = Half::Udp { id, socket };
                return;
            }
        }
    }

    /// Something can be read or written on a descriptor of a lookup.
    pub(super) fn ready(
        &mut self,
        place: Place,
        now: Instant,
        watch: &mut dyn FnMut(BorrowedFd<'_>, Place),
    ) -> Option<Found> {
        let (name, lookup) = self.lookups.get_mut(&place.lookup)?;
        let kind = KINDS[place.half];
        let answer = match &mut lookup.halves[place.half] {
            Half::Udp { id, socket } => {
                let mut message = [0; UDP_ANSWER];
                match recv(socket.as_raw_fd(), &mut message, MsgFlags::empty()) {
                    Ok(length) => dns::read_answer(&message[..length], *id, name, kind),
                    Err(Errno::EAGAIN | Errno::EINTR) => Answer::Stray,
                    Err(_) => Answer::Failed,
                }
            }
            Half::Tcp { id, socket, out, got } => match tcp_step(socket, out, got) {
                Some(Ok(message)) => match dns::read_answer(&message, *id, name, kind) {
                    Answer::Stray | Answer::Truncated => Answer::Failed,
                    answer => answer,
                },
                Some(Err(_)) => Answer::Failed,
                None => Answer::Stray,
            },
            Half::Done(_) | Half::Failed => Answer::Stray,
        };
        match answer {
            Answer::Stray => {}
            Answer::Addresses(addresses, ttl) => {
                lookup.ttl = lookup.ttl.min(ttl);
                lookup.halves[place.half] = Half::Done(addresses);
            }
            Answer::Truncated => {
                let server = self.names.servers[(lookup.tries[place.half] - 1) % self.names.servers.len()];
                match begin_tcp(server, name, kind) {
                    Ok((id, socket, out)) => {
                        watch(socket.as_fd(), place);
                        lookup.halves[place.half] = Half::Tcp { id, socket, out, got: Vec::new() };
                    }
                    Err(_) => self.question(place.lookup, place.half, now, watch),
                }
            }
            Answer::Failed => self.question(place.lookup, place.half, now, watch),
        }
        self.finished(place.lookup, now)
    }

    /// Asks the next server where one was silent, and gives up where all were.
    pub(super) fn clock(&mut self, now: Instant, watch: &mut dyn FnMut(BorrowedFd<'_>, Place)) -> Vec<Found> {
        let numbers: Vec<usize> = self.lookups.keys().copied().collect();
        let mut found = Vec::new();
        for number in numbers {
            for half in 0..2 {
                let Some((_, lookup)) = self.lookups.get_mut(&number) else { continue };
                let open = matches!(lookup.halves[half], Half::Udp { .. } | Half::Tcp { .. });
                if open && now.duration_since(lookup.began) > limits::LOOKUP {
                    lookup.halves[half] = Half::Failed;
                } else if open && now.duration_since(lookup.asked[half]) > limits::QUESTION {
                    self.question(number, half, now, watch);
                }
            }
            found.extend(self.finished(number, now));
        }
        found
    }

    /// Both halves are there: the lookup ends.
    fn finished(&mut self, number: usize, now: Instant) -> Option<Found> {
        let (_, lookup) = self.lookups.get(&number)?;
        if lookup.halves.iter().any(|half| matches!(half, Half::Udp { .. } | Half::Tcp { .. })) {
            return None;
        }
        let (name, lookup) = self.lookups.remove(&number)?;
        self.by_name.remove(&name);
        let mut addresses = Vec::new();
        for half in lookup.halves {
            if let Half::Done(found) = half {
                addresses.extend(found.into_iter().take(limits::ADDRESSES));
            }
        }
        if !addresses.is_empty() && lookup.ttl > 0 {
            if self.remembered.len() >= limits::REMEMBERED {
                self.remembered.clear();
            }
            let time = Duration::from_secs(u64::from(lookup.ttl)).min(limits::REMEMBER);
            self.remembered.insert(name.clone(), (now + time, addresses.clone()));
        }
        Some(Found { name, waiting: lookup.waiting, addresses })
    }
}

/// A number that a stranger can't guess. The kernel has them from boot on; without any, no question is asked.
fn random() -> Result<u16, Errno> {
    let mut bytes = [0; 2];
    crate::sys::random::fill(&mut bytes)?;
    Ok(u16::from_ne_bytes(bytes))
}

/// On a socket of its own, connected, so that only the server's own answers come in, at a random port.
fn send_question(server: SocketAddr, name: &str, kind: u16) -> Result<(u16, OwnedFd), Errno> {
    let family = if server.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let made = socket(family, SockType::Datagram, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    connect(made.as_raw_fd(), &SockaddrStorage::from(server))?;
    let id = random()?;
    send(made.as_raw_fd(), &dns::query(id, name, kind), MsgFlags::MSG_NOSIGNAL)?;
    Ok((id, made))
}

fn begin_tcp(server: SocketAddr, name: &str, kind: u16) -> Result<(u16, OwnedFd, Vec<u8>), Errno> {
    let made = dial::begin(server)?;
    let id = random()?;
    let query = dns::query(id, name, kind);
    let out = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
    Ok((id, made, out))
}

/// Writes what is left of the question, then reads the answer; `None`: it is not whole yet.
fn tcp_step(socket: &OwnedFd, out: &mut Vec<u8>, got: &mut Vec<u8>) -> Option<Result<Vec<u8>, Errno>> {
    while !out.is_empty() {
        match send(socket.as_raw_fd(), out, MsgFlags::MSG_NOSIGNAL) {
            Ok(sent) => drop(out.drain(..sent)),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOTCONN) => return None,
            Err(errno) => return Some(Err(errno)),
        }
    }
    let mut bytes = [0; 4096];
    loop {
        match recv(socket.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
            Ok(0) => return Some(Err(Errno::ECONNRESET)),
            Ok(length) => got.extend_from_slice(&bytes[..length]),
            Err(Errno::EAGAIN | Errno::EINTR) => return None,
            Err(errno) => return Some(Err(errno)),
        }
        if let Some((length, message)) = got.split_first_chunk::<2>()
            && message.len() >= usize::from(u16::from_be_bytes(*length))
        {
            return Some(Ok(message[..usize::from(u16::from_be_bytes(*length))].to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_read_as_their_manuals_say() {
        let names = HostNames::parse(
            "# nameserver 9.9.9.9\nnameserver 192.0.2.1\nsearch x\nnameserver fe80::1%eth0\nnameserver ::1\n",
            "127.0.0.1 localhost\n192.0.2.7\tA.example a # b\n2001:db8::7 a.example\nbad line\n",
        );
        assert_eq!(names.servers, ["192.0.2.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
        let addresses: [IpAddr; 2] = ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
        assert_eq!(names.hosts["a.example"], addresses);
        assert!(!names.hosts.contains_key("b"));
        assert_eq!(HostNames::parse("", "").servers, ["127.0.0.1:53".parse().unwrap()]);
    }
}
