//! The network of a jail whose ceiling names hosts: private addresses, ports, and the one rule on what they open.
//!
//! Inside, each granted name has addresses of its own, every one of which is local to the jail's namespace: whatever the
//! program connects to, it reaches a socket of the egress, which learns from the address what was meant.
//!
//! Invariant: [`NamedNetwork::covering`] is the only place that decides whether a host and port are granted; the
//! relay, the proxies and the checks of server names all ask it.
//! Source: RFC 2544 and RFC 6890 (198.18.0.0/15), RFC 4193 (unique local addresses).

use crate::{
    capability::Capability,
    ceiling::{Ceiling, Grant},
    error::Refusal,
    scope::{Host, HostPattern, HostTarget, Scope, Target},
    units::{Bytes, Millis},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Where the jail's name server listens, port 53.
pub const RESOLVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The IPv4 range of private addresses: 198.18.0.0/15. Granted names stand in its first half, names that a pattern
/// covers get the second one as they are asked for.
pub const PRIVATE_V4: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);
/// The IPv6 range: a unique local prefix of thirdwall's own.
pub const PRIVATE_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd74, 0x6877, 0x616c, 0x6c00, 0, 0, 0, 0), 64);
/// Ports of a grant that names none.
pub const DEFAULT_PORTS: [u16; 2] = [80, 443];
/// Most names that are granted one by one: half of the range, less the resolver's own corner.
const MOST_NAMES: usize = 60_000;
/// Most ports: each is a socket.
const MOST_PORTS: usize = 256;
/// Where the proxy listens unless the ceiling needs that port itself.
const PROXY_PORT: u16 = 3128;

/// How far the network reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// The granted ports only.
    Ports,
    /// Every port, by a redirect in the namespace's own tables (a bare `net`).
    EveryPort,
}

/// Whether addresses outside the private ranges lead to the egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Literals {
    /// Only those that the ceiling names.
    Named,
    /// All of them: some grant covers every host.
    All,
}

/// Who takes what is sent to an address inside the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taker {
    /// The egress, which makes an entry of its own.
    Egress,
    /// A program of the jail, if one listens there.
    Jail,
    /// Nobody.
    Nobody(Lacking),
}

/// Why nobody is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacking {
    /// No way leads to that address.
    Address,
    /// No granted host has that port.
    Port,
    /// Connections alone are carried.
    Datagrams,
}

impl Lacking {
    /// As the audit says it.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::Address => "nobody is there: the ceiling doesn't grant that address",
            Self::Port => "nobody is there: the ceiling grants that port for no host",
            Self::Datagrams => "nobody is there: of datagrams only questions to the name server are carried",
        }
    }
}

/// How something is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// A connection, or a socket of datagrams that is connected: from outside they look alike.
    Connect,
    /// One datagram.
    Datagram,
}

/// Bounds on what the egress carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkLimits {
    /// Connections at one time.
    pub connections: u32,
    /// Bytes of all connections together, both ways.
    pub bytes: Bytes,
    /// A connection that carries nothing for so long is ended.
    pub idle: Millis,
}

impl NetworkLimits {
    /// Unless asked otherwise.
    pub const DEFAULT: Self = Self { connections: 256, bytes: Bytes(64 << 30), idle: Millis(5 * 60 * 1000) };
}

/// A network namespace from which named hosts can be reached, through the egress and in no other way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedNetwork {
    grants: Vec<Grant>,
    names: BTreeMap<String, u32>,
    literals: Vec<IpAddr>,
    all_literals: Literals,
    ports: Vec<u16>,
    reach: Reach,
    proxy: Option<u16>,
    serve: Vec<u16>,
    serve_address: IpAddr,
    limits: NetworkLimits,
    /// Never part of a plan: the runtime's jail has no network.
    #[serde(skip)]
    portless: Portless,
}

/// What a grant without a port opens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Portless {
    /// The ports of the web: a foreign command, of which nobody knows what it speaks.
    #[default]
    Web,
    /// Every port: the language's own requests, which are HTTP wherever they go.
    Every,
}

impl NamedNetwork {
    /// For the language's own requests, which the supervisor's side makes: what `net` grants, as the language means it.
    #[must_use]
    pub fn of_language(ceiling: &Ceiling) -> Option<Self> {
        let nets =
            Ceiling::of(ceiling.grants().filter(|grant| grant.capability() == Capability::Net).cloned());
        // No port is listened on, so none of the refusals of a plan is met but that of too many names.
        let network = Self::of(&nets, IpAddr::V4(Ipv4Addr::LOCALHOST)).ok().flatten()?;
        Some(Self { portless: Portless::Every, ..network })
    }

    /// From the grants of `net` and `serve`; `None` if there are none.
    pub(super) fn of(ceiling: &Ceiling, serve_address: IpAddr) -> Result<Option<Self>, Refusal> {
        let of = |capability| ceiling.grants().filter(move |grant| grant.capability() == capability);
        let grants: Vec<Grant> = of(Capability::Net).cloned().collect();
        let mut serve = BTreeSet::new();
        for grant in of(Capability::Serve) {
            let Scope::Port(port) = grant.scope() else {
                return Err(Refusal::Network {
                    grant: grant.to_string(),
                    why: "which port of the host to listen on is not said",
                });
            };
            serve.insert(*port);
        }
        if grants.is_empty() && serve.is_empty() {
            return Ok(None);
        }
        let mut names = BTreeMap::new();
        let mut literals = BTreeSet::new();
        let mut ports = BTreeSet::new();
        let (mut all_literals, mut reach) = (Literals::Named, Reach::Ports);
        for grant in &grants {
            let Scope::Host(scope) = grant.scope() else {
                (all_literals, reach) = (Literals::All, Reach::EveryPort);
                ports.extend(DEFAULT_PORTS);
                continue;
            };
            match scope.hosts() {
                HostPattern::All => all_literals = Literals::All,
                HostPattern::Under(_) => {}
                HostPattern::One(Host::Name(name)) => {
                    let next = u32::try_from(names.len()).unwrap_or(u32::MAX);
                    names.entry(name.clone()).or_insert(next);
                }
                HostPattern::One(Host::Ip(address)) => {
                    literals.insert(*address);
                }
            }
            match scope.port() {
                Some(port) => drop(ports.insert(port)),
                None => ports.extend(DEFAULT_PORTS),
            }
            let too_many = if names.len() > MOST_NAMES {
                Some("more names than there are private addresses")
            } else if ports.len() > MOST_PORTS {
                Some("more than 256 ports")
            } else {
                None
            };
            if let Some(why) = too_many {
                return Err(Refusal::Network { grant: grant.to_string(), why });
            }
        }
        if let Some(port) = serve.intersection(&ports).next() {
            return Err(Refusal::Network {
                grant: format!("serve={port}"),
                why: "the egress listens on that port for the granted hosts",
            });
        }
        let proxy = (PROXY_PORT..u16::MAX).find(|port| !ports.contains(port) && !serve.contains(port));
        Ok(Some(Self {
            proxy: proxy.filter(|_| !grants.is_empty()),
            grants,
            names,
            literals: literals.into_iter().collect(),
            all_literals,
            ports: ports.into_iter().collect(),
            reach,
            serve: serve.into_iter().collect(),
            serve_address,
            limits: NetworkLimits::DEFAULT,
            portless: Portless::Web,
        }))
    }

    /// The grants that open a host on a port. Empty: it is refused.
    pub fn covering<'a>(&'a self, target: &'a HostTarget) -> impl Iterator<Item = &'a Grant> {
        self.grants.iter().filter(move |grant| opens(grant, target, self.portless))
    }

    /// Whether a host and port are granted.
    #[must_use]
    pub fn opens(&self, target: &HostTarget) -> bool {
        self.covering(target).next().is_some()
    }

    /// Whether some port of a host is granted: what the name server answers for.
    #[must_use]
    pub fn knows(&self, host: &Host) -> bool {
        self.grants.iter().any(|grant| match grant.scope() {
            Scope::Host(scope) => {
                let port = scope.port().unwrap_or(DEFAULT_PORTS[0]);
                grant.covers(Capability::Net, Target::Host(&HostTarget { host: host.clone(), port }))
            }
            Scope::Any => true,
            Scope::Path(_) | Scope::Command(_) | Scope::Name(_) | Scope::Database(_) | Scope::Port(_) => {
                false
            }
        })
    }

    /// Whether the ceiling names this very address for this port: what makes an address that isn't public reachable.
    #[must_use]
    pub fn names_address(&self, address: IpAddr, port: u16) -> bool {
        let target = HostTarget { host: Host::Ip(address), port };
        self.covering(&target).any(|grant| match grant.scope() {
            Scope::Host(scope) => matches!(scope.hosts(), HostPattern::One(_)),
            Scope::Any
            | Scope::Path(_)
            | Scope::Command(_)
            | Scope::Name(_)
            | Scope::Database(_)
            | Scope::Port(_) => false,
        })
    }

    /// Whether `name` may stand in a hello or a request on a connection to `opened`: the grants that opened the
    /// connection must cover it.
    #[must_use]
    pub fn may_name(&self, opened: &HostTarget, name: &Host) -> bool {
        let named = HostTarget { host: name.clone(), port: opened.port };
        *name == opened.host || self.covering(opened).any(|grant| opens(grant, &named, self.portless))
    }

    /// Whether no name on a connection to `opened` could be refused: every host is granted there.
    #[must_use]
    pub fn any_name(&self, opened: &HostTarget) -> bool {
        self.covering(opened).any(|grant| match grant.scope() {
            Scope::Any => true,
            Scope::Host(scope) => *scope.hosts() == HostPattern::All,
            Scope::Path(_) | Scope::Command(_) | Scope::Name(_) | Scope::Database(_) | Scope::Port(_) => {
                false
            }
        })
    }

    /// The fixed private addresses of a name that is granted by itself.
    #[must_use]
    pub fn addresses(&self, name: &str) -> Option<(Ipv4Addr, Ipv6Addr)> {
        self.names.get(name).map(|place| private(*place + 2))
    }

    /// The name behind a fixed private address.
    #[must_use]
    pub fn name_at(&self, address: IpAddr) -> Option<&str> {
        self.names
            .iter()
            .find(|(_, place)| {
                let (v4, v6) = private(**place + 2);
                address == IpAddr::V4(v4) || address == IpAddr::V6(v6)
            })
            .map(|(name, _)| name.as_str())
    }

    /// What leads to the egress: ranges of addresses that become local to the namespace.
    #[must_use]
    pub fn routes(&self) -> Vec<(IpAddr, u8)> {
        if self.grants.is_empty() {
            return Vec::new();
        }
        let mut routes =
            vec![(IpAddr::V4(PRIVATE_V4.0), PRIVATE_V4.1), (IpAddr::V6(PRIVATE_V6.0), PRIVATE_V6.1)];
        match self.all_literals {
            Literals::All => {
                routes
                    .extend([(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0)]);
            }
            Literals::Named => {
                routes.extend(self.literals.iter().filter(|address| !address.is_loopback()).map(|address| {
                    match address {
                        IpAddr::V4(_) => (*address, 32),
                        IpAddr::V6(_) => (*address, 128),
                    }
                }))
            }
        }
        routes
    }

    /// Who takes what is sent to an address inside: for the audit alone, since nothing is refused by it.
    #[must_use]
    pub fn taker(&self, address: SocketAddr, sending: Sending) -> Taker {
        let (ip, port) = (address.ip().to_canonical(), address.port());
        let resolver = ip == IpAddr::V4(RESOLVER) && port == 53 && !self.grants.is_empty();
        if resolver {
            return Taker::Egress;
        }
        let listens = self.ports.contains(&port) && !self.grants.is_empty();
        if ip.is_loopback() || ip.is_unspecified() {
            let proxy = self.proxy == Some(port) && ip.is_ipv4();
            let egress = sending == Sending::Connect && (proxy || listens);
            return if egress { Taker::Egress } else { Taker::Jail };
        }
        if !self.routes().into_iter().any(|range| within(ip, range)) {
            return Taker::Nobody(Lacking::Address);
        }
        match (sending, self.reach) {
            (Sending::Datagram, _) => Taker::Nobody(Lacking::Datagrams),
            // Its other ports are led nowhere: they are the name server's own.
            (Sending::Connect, Reach::EveryPort) if ip == IpAddr::V4(RESOLVER) && !listens => {
                Taker::Nobody(Lacking::Port)
            }
            (Sending::Connect, Reach::EveryPort) => Taker::Egress,
            (Sending::Connect, Reach::Ports) if listens => Taker::Egress,
            (Sending::Connect, Reach::Ports) => Taker::Nobody(Lacking::Port),
        }
    }

    /// Ports that the egress accepts on.
    #[must_use]
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// How far it reaches.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Where the proxy listens, if anything may be reached.
    #[must_use]
    pub fn proxy(&self) -> Option<u16> {
        self.proxy
    }

    /// Ports that the jail serves on.
    #[must_use]
    pub fn serve(&self) -> &[u16] {
        &self.serve
    }

    /// Where the host listens for them.
    #[must_use]
    pub fn serve_address(&self) -> IpAddr {
        self.serve_address
    }

    /// Bounds.
    #[must_use]
    pub fn limits(&self) -> NetworkLimits {
        self.limits
    }

    /// The grants of `net`.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Ports that Landlock lets the jail connect to; `None`: all.
    #[must_use]
    pub fn connect_ports(&self) -> Option<Vec<u16>> {
        match self.reach {
            Reach::EveryPort => None,
            Reach::Ports if self.grants.is_empty() => Some(Vec::new()),
            Reach::Ports => {
                let mut ports: BTreeSet<u16> = self.ports.iter().copied().collect();
                ports.extend(self.proxy);
                ports.insert(53);
                Some(ports.into_iter().collect())
            }
        }
    }

    /// Variables for programs that prefer a proxy.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let Some(port) = self.proxy else { return Vec::new() };
        let http = format!("http://127.0.0.1:{port}");
        let socks = format!("socks5h://127.0.0.1:{port}");
        let mut variables: Vec<(&'static str, String)> = ["http_proxy", "https_proxy", "HTTPS_PROXY"]
            .into_iter()
            .map(|name| (name, http.clone()))
            .collect();
        variables.extend(["all_proxy", "ALL_PROXY"].into_iter().map(|name| (name, socks.clone())));
        variables.extend(
            ["no_proxy", "NO_PROXY"].into_iter().map(|name| (name, "localhost,127.0.0.1,::1".into())),
        );
        variables
    }

    /// Files that make the C library ask the jail's name server.
    pub(super) fn files(&self) -> Vec<(&'static str, String)> {
        if self.grants.is_empty() {
            return Vec::new();
        }
        vec![("/etc/resolv.conf", format!("nameserver {RESOLVER}\noptions timeout:5 attempts:2\n"))]
    }

    /// One sentence for the layer's row.
    pub(super) fn how(&self) -> String {
        let mut parts = Vec::new();
        if !self.grants.is_empty() {
            parts.push("the granted hosts, each connection through the egress");
        }
        if !self.serve.is_empty() {
            parts.push("the served ports, each connection from the supervisor's side");
        }
        format!("a network namespace of its own; in it {}", parts.join(" and "))
    }
}

/// The private addresses of a number. 0 and 1 are the range's own and the resolver's.
#[must_use]
pub fn private(number: u32) -> (Ipv4Addr, Ipv6Addr) {
    let v4 = u32::from(PRIVATE_V4.0) + (number & 0x1_ffff);
    let v6 = u128::from(PRIVATE_V6.0) + u128::from(number);
    (Ipv4Addr::from(v4), Ipv6Addr::from(v6))
}

/// Whether an address is one of a range.
fn within(address: IpAddr, (range, prefix): (IpAddr, u8)) -> bool {
    // A shift by the whole width is what a prefix of 0 asks for.
    match (address, range) {
        (IpAddr::V4(one), IpAddr::V4(range)) => {
            (u32::from(one) ^ u32::from(range)).checked_shr(32 - u32::from(prefix)).unwrap_or(0) == 0
        }
        (IpAddr::V6(one), IpAddr::V6(range)) => {
            (u128::from(one) ^ u128::from(range)).checked_shr(128 - u32::from(prefix)).unwrap_or(0) == 0
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// Whether a grant opens a target; without a port of its own, on the default ones only (a bare `net`, or the
/// language: on all).
fn opens(grant: &Grant, target: &HostTarget, portless: Portless) -> bool {
    let port_ok = match grant.scope() {
        Scope::Any => true,
        Scope::Host(scope) => {
            portless == Portless::Every || scope.port().is_some() || DEFAULT_PORTS.contains(&target.port)
        }
        Scope::Path(_) | Scope::Command(_) | Scope::Name(_) | Scope::Database(_) | Scope::Port(_) => false,
    };
    port_ok && grant.covers(Capability::Net, Target::Host(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(ceiling: &str) -> NamedNetwork {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        NamedNetwork::of(&Ceiling::parse(ceiling).unwrap(), address).unwrap().unwrap()
    }

    fn target(host: &str, port: u16) -> HostTarget {
        HostTarget { host: Host::parse(host).unwrap(), port }
    }

    #[test]
    fn a_grant_without_a_port_opens_the_default_ones() {
        let net = network("net=a.example");
        assert!(net.opens(&target("a.example", 80)) && net.opens(&target("A.example.", 443)));
        assert!(!net.opens(&target("a.example", 8080)) && !net.opens(&target("b.example", 80)));
        assert_eq!(net.ports(), [80, 443]);
        assert_eq!(net.connect_ports(), Some(vec![53, 80, 443, 3128]));
        let net = network("net=a.example:3128");
        assert!(!net.opens(&target("a.example", 80)) && net.opens(&target("a.example", 3128)));
        assert_eq!(net.proxy(), Some(3129));
    }

    #[test]
    fn what_finds_nobody_inside_is_told_apart_from_what_the_egress_judges() {
        use Sending::{Connect, Datagram};
        let of =
            |net: &NamedNetwork, address: &str, sending| match net.taker(address.parse().unwrap(), sending) {
                Taker::Egress => "egress",
                Taker::Jail => "jail",
                Taker::Nobody(Lacking::Address) => "no address",
                Taker::Nobody(Lacking::Port) => "no port",
                Taker::Nobody(Lacking::Datagrams) => "no datagram",
            };
        let net = network("net=a.example,net=192.0.2.7,net=[2001:db8::7]:9");
        for (address, sending, taker) in [
            ("198.18.0.1:53", Connect, "egress"),
            ("198.18.0.1:53", Datagram, "egress"),
            ("198.18.0.1:54", Datagram, "no datagram"),
            ("198.18.0.2:443", Connect, "egress"),
            ("198.18.0.2:443", Datagram, "no datagram"),
            ("198.18.0.2:81", Connect, "no port"),
            ("198.20.0.2:443", Connect, "no address"),
            ("192.0.2.7:80", Connect, "egress"),
            ("[::ffff:192.0.2.7]:80", Connect, "egress"),
            ("192.0.2.6:80", Connect, "no address"),
            ("8.8.8.8:53", Datagram, "no address"),
            ("[2001:db8::7]:9", Connect, "egress"),
            ("[2001:db8::8]:9", Connect, "no address"),
            ("127.0.0.1:3128", Connect, "egress"),
            ("127.0.0.1:80", Connect, "egress"),
            ("127.0.0.1:3129", Connect, "jail"),
            ("[::1]:3128", Connect, "jail"),
            ("0.0.0.0:99", Datagram, "jail"),
        ] {
            assert_eq!(of(&net, address, sending), taker, "{address} {sending:?}");
        }
        let net = network("net");
        assert_eq!(of(&net, "8.8.8.8:5", Connect), "egress");
        assert_eq!(of(&net, "8.8.8.8:5", Datagram), "no datagram");
        assert_eq!(of(&network("serve=80"), "127.0.0.1:80", Connect), "jail");
        assert_eq!(of(&network("serve=80"), "198.18.0.1:53", Connect), "no address");
    }

    #[test]
    fn for_the_language_a_grant_without_a_port_opens_them_all() {
        let of = |text| NamedNetwork::of_language(&Ceiling::parse(text).unwrap());
        let net = of("net=a.example,net=b.example:9,net=127.0.0.1,serve=80").unwrap();
        assert!(net.opens(&target("a.example", 8080)) && net.opens(&target("b.example", 9)));
        assert!(!net.opens(&target("b.example", 80)) && !net.opens(&target("c.example", 80)));
        assert!(net.names_address("127.0.0.1".parse().unwrap(), 8080));
        assert!(of("stdout,serve=80").is_none());
    }

    #[test]
    fn each_name_has_addresses_of_its_own() {
        let net = network("net=a.example,net=b.example:9,net=192.0.2.7,net=127.0.0.1:8080");
        let (a, b) = (net.addresses("a.example").unwrap(), net.addresses("b.example").unwrap());
        assert_ne!(a, b);
        assert_eq!(net.name_at(IpAddr::V4(b.0)), Some("b.example"));
        assert_eq!(net.name_at(IpAddr::V6(a.1)), Some("a.example"));
        assert_eq!(net.name_at(IpAddr::V4(RESOLVER)), None);
        assert!(net.routes().contains(&("192.0.2.7".parse().unwrap(), 32)));
        assert!(!net.routes().iter().any(|(address, _)| address.is_loopback()));
        assert!(net.names_address("127.0.0.1".parse().unwrap(), 8080));
        assert!(!net.names_address("127.0.0.1".parse().unwrap(), 80));
    }

    #[test]
    fn a_name_on_a_connection_must_be_in_the_grant_that_opened_it() {
        let net = network("net=a.example,net=*.b.example,net=192.0.2.7");
        let host = |text: &str| Host::parse(text).unwrap();
        assert!(net.may_name(&target("x.b.example", 443), &host("y.B.example")));
        assert!(!net.may_name(&target("a.example", 443), &host("y.b.example")));
        assert!(!net.may_name(&target("192.0.2.7", 443), &host("a.example")));
        assert!(!net.any_name(&target("a.example", 443)));
        assert!(network("net").any_name(&target("a.example", 5)));
    }

    #[test]
    fn a_bare_grant_reaches_every_port_but_names_no_address() {
        let net = network("net");
        assert_eq!((net.reach(), net.connect_ports()), (Reach::EveryPort, None));
        assert!(net.opens(&target("127.0.0.1", 22)) && !net.names_address("127.0.0.1".parse().unwrap(), 22));
        assert!(!network("net=*:22").names_address("10.0.0.1".parse().unwrap(), 22));
    }

    #[test]
    fn a_port_of_the_name_server_that_is_none_of_the_egress_has_nobody() {
        let net = network("net");
        let taker = |port| net.taker(SocketAddr::new(IpAddr::V4(RESOLVER), port), Sending::Connect);
        assert_eq!(taker(54), Taker::Nobody(Lacking::Port));
        assert_eq!((taker(53), taker(443)), (Taker::Egress, Taker::Egress));
        let elsewhere = SocketAddr::new("192.0.2.7".parse().unwrap(), 54);
        assert_eq!(net.taker(elsewhere, Sending::Connect), Taker::Egress);
    }

    #[test]
    fn a_port_can_be_served_or_reached_but_not_both() {
        let of =
            |text: &str| NamedNetwork::of(&Ceiling::parse(text).unwrap(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(matches!(of("serve=80,net=a.example"), Err(Refusal::Network { .. })));
        assert!(matches!(of("serve"), Err(Refusal::Network { .. })));
        assert!(of("stdout").unwrap().is_none());
        let net = of("serve=8080").unwrap().unwrap();
        assert_eq!((net.proxy(), net.connect_ports(), net.routes().len()), (None, Some(vec![]), 0));
    }

    #[test]
    fn the_plan_of_a_network_survives_json() {
        let net = network("net=*.b.example:8443,net=[2001:db8::1],serve=8000");
        let text = serde_json::to_string(&net).unwrap();
        assert_eq!(serde_json::from_str::<NamedNetwork>(&text).unwrap(), net);
    }
}
