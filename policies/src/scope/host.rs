//! Host scopes and host targets: case, IDNA, ports, and every spelling of an IP address.
//!
//! Invariant: equal hosts are equal values, however they were written (`0x7f.1`, `::ffff:127.0.0.1`, `LOCALHOST.`).
//! Source: WHATWG URL, section 3.5 (IPv4 parser); UTS 46 (IDNA).

use crate::error::ScopeFault;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A host, in the one form that is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name: lower case, ASCII, no trailing dot.
    Name(String),
    /// An address; an IPv4 address inside an IPv6 one is the IPv4 address.
    Ip(IpAddr),
}

impl Host {
    /// From any spelling. An IPv6 address stands in brackets.
    ///
    /// # Errors
    /// Not a host name and not an address.
    pub fn parse(text: &str) -> Result<Self, ScopeFault> {
        super::path::check(text)?;
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(ScopeFault::Brackets)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| ScopeFault::Address)?;
            return Ok(Self::Ip(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)));
        }
        if text.contains('*') {
            return Err(ScopeFault::Star);
        }
        let ascii = idna::domain_to_ascii_cow(text.as_bytes(), idna::AsciiDenyList::URL)
            .map_err(|_| ScopeFault::HostName)?;
        let name = ascii.strip_suffix('.').unwrap_or(&ascii);
        let last = name.rsplit('.').next().unwrap_or_default();
        if is_number(last) {
            return ipv4(name).map(|address| Self::Ip(IpAddr::V4(address))).ok_or(ScopeFault::Address);
        }
        let label_ok = |label: &str| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        if name.len() > 253 || !name.split('.').all(label_ok) {
            return Err(ScopeFault::HostName);
        }
        Ok(Self::Name(name.to_owned()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// A use: one host and the port that is dialled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostTarget {
    /// Where to.
    pub host: Host,
    /// The URL's own port, or its scheme's.
    pub port: u16,
}

/// Which hosts a scope reaches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    /// Every host, on one port (without a port it is no scope at all, but 'any').
    All,
    /// A domain and everything beneath it.
    Under(String),
    /// One host.
    One(Host),
}

/// A scope of `net`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostScope {
    hosts: HostPattern,
    /// `None` = any port.
    port: Option<u16>,
}

impl HostScope {
    /// From `host`, `host:port`, `*.domain`, `[v6]:port`, or a URL, of which host and explicit port are kept.
    ///
    /// # Errors
    /// Not a host, or a port that is none.
    pub fn parse(text: &str) -> Result<Self, ScopeFault> {
        super::path::check(text)?;
        let authority = match text.split_once("://") {
            Some((_, rest)) => {
                let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
                let authority = &rest[..end];
                authority.rsplit_once('@').map_or(authority, |(_, host)| host)
            }
            None => text,
        };
        let (host, port) = split_port(authority)?;
        let hosts = if host == "*" {
            HostPattern::All
        } else if let Some(domain) = host.strip_prefix("*.") {
            match Host::parse(domain)? {
                Host::Name(name) => HostPattern::Under(name),
                Host::Ip(_) => return Err(ScopeFault::Star),
            }
        } else {
            HostPattern::One(Host::parse(host)?)
        };
        Ok(Self { hosts, port })
    }

    /// Which hosts.
    #[must_use]
    pub fn hosts(&self) -> &HostPattern {
        &self.hosts
    }

    /// Which port; `None` = any.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// `*` without a port, which is the same as no scope.
    pub(super) fn is_any(&self) -> bool {
        self.hosts == HostPattern::All && self.port.is_none()
    }

    /// Whether a use is inside.
    #[must_use]
    pub fn covers(&self, target: &HostTarget) -> bool {
        self.port.is_none_or(|port| port == target.port)
            && match (&self.hosts, &target.host) {
                (HostPattern::All, _) => true,
                (HostPattern::Under(domain), Host::Name(name)) => is_under(domain, name),
                (HostPattern::Under(_), Host::Ip(_)) => false,
                (HostPattern::One(host), target) => host == target,
            }
    }

    /// Whether all of another scope is inside.
    #[must_use]
    pub fn covers_scope(&self, other: &Self) -> bool {
        (self.port.is_none() || self.port == other.port)
            && match (&self.hosts, &other.hosts) {
                (HostPattern::All, _) => true,
                (
                    HostPattern::Under(domain),
                    HostPattern::Under(name) | HostPattern::One(Host::Name(name)),
                ) => is_under(domain, name),
                (HostPattern::One(host), HostPattern::One(other)) => host == other,
                (HostPattern::Under(_) | HostPattern::One(_), _) => false,
            }
    }
}

impl fmt::Display for HostScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            HostPattern::All => f.write_str("*")?,
            HostPattern::Under(domain) => write!(f, "*.{domain}")?,
            HostPattern::One(host) => write!(f, "{host}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

fn is_under(domain: &str, name: &str) -> bool {
    name == domain || name.strip_suffix(domain).is_some_and(|front| front.ends_with('.'))
}

fn split_port(text: &str) -> Result<(&str, Option<u16>), ScopeFault> {
    let host_end = if text.starts_with('[') { text.find(']').ok_or(ScopeFault::Brackets)? + 1 } else { 0 };
    match text[host_end..].split_once(':') {
        None if host_end > 0 && host_end < text.len() => Err(ScopeFault::Brackets),
        None => Ok((text, None)),
        Some((_, port)) if port.contains(':') => Err(ScopeFault::Brackets),
        Some((front, _)) if host_end > 0 && !front.is_empty() => Err(ScopeFault::Brackets),
        Some((front, port)) => Ok((&text[..host_end + front.len()], Some(parse_port(port)?))),
    }
}

/// A port number in decimal digits, 1–65535.
pub(super) fn parse_port(text: &str) -> Result<u16, ScopeFault> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|&port| digits && port != 0).ok_or(ScopeFault::Port)
}

/// Whether the last label makes the host an IPv4 address, or an error.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    !label.is_empty() && (hex || label.bytes().all(|b| b.is_ascii_digit()))
}

/// One to four parts in decimal, octal or hexadecimal; the last one fills the bytes that are left.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u64> = text.split('.').map(part).collect::<Option<_>>()?;
    let (last, front) = parts.split_last()?;
    if front.len() > 3 || front.iter().any(|&part| part > 255) || *last >= 256_u64.pow(4 - front.len() as u32)
    {
        return None;
    }
    let high: u64 = front.iter().zip([24, 16, 8]).map(|(part, shift)| part << shift).sum();
    u32::try_from(high + last).ok().map(Ipv4Addr::from)
}

fn part(text: &str) -> Option<u64> {
    let (digits, radix) = if let Some(hex) = text.strip_prefix("0x") {
        (hex, 16)
    } else if text.len() > 1 && text.starts_with('0') {
        (&text[1..], 8)
    } else {
        (text, 10)
    };
    if digits.is_empty() && radix == 16 {
        return Some(0);
    }
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_address_is_that_address() {
        for text in [
            "127.0.0.1",
            "0x7f.1",
            "2130706433",
            "0177.0.0.1",
            "127.1",
            "[::ffff:127.0.0.1]",
            "127.0.0.1.",
            "0x7F000001",
        ] {
            assert_eq!(Host::parse(text).unwrap().to_string(), "127.0.0.1", "{text}");
        }
        for text in ["256.1.1.1", "1.2.3.4.5", "0x1ffffffff", "1.2.3.09", "[::g]", "[::1", "::1"] {
            assert!(Host::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_folded() {
        assert_eq!(Host::parse("API.Example.COM.").unwrap().to_string(), "api.example.com");
        assert_eq!(Host::parse("Bücher.example").unwrap().to_string(), "xn--bcher-kva.example");
        for text in ["", "a..b", "-a.com", "a b", "a/b", "a*b"] {
            assert!(Host::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn scopes_reach_their_hosts_and_ports_only() {
        let covers = |scope: &str, host: &str, port| {
            HostScope::parse(scope).unwrap().covers(&HostTarget { host: Host::parse(host).unwrap(), port })
        };
        assert!(covers("*.d.com", "d.com", 80) && covers("*.d.com", "a.b.D.com", 80));
        assert!(!covers("*.d.com", "bad.com", 80) && !covers("d.com", "a.d.com", 80));
        assert!(covers("d.com:443", "d.com", 443) && !covers("d.com:443", "d.com", 80));
        assert!(covers("https://u:p@d.com:8443/x?y", "d.com", 8443));
        assert!(covers("[::1]:80", "[0:0::1]", 80) && covers("*:53", "[::1]", 53));
        assert!(!covers("*.0x7f.com", "127.0.0.1", 80));
        for text in ["d.com:", "d.com:0", "d.com:99999", "::1", "*.1.2.3.4", "a.*.com", "http://"] {
            assert!(HostScope::parse(text).is_err(), "{text}");
        }
    }
}
