//! Which real addresses may be dialled.
//!
//! Invariant: an address is checked here as a number, right before the connect to that very number. What a name
//! resolved to at another time plays no part.
//! Source: the IANA special-purpose address registries (RFC 6890), RFC 4291, RFC 6052 (64:ff9b::/96), RFC 3056 (6to4),
//! RFC 4380 (Teredo), RFC 8215.

use nix::{
    errno::Errno,
    sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, socket},
};
use policies::plan::NamedNetwork;
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsRawFd, OwnedFd},
};

/// The host's own addresses as they were at the start. Later ones are found by [`is_own`].
#[derive(Debug)]
pub(super) struct OwnAddresses(BTreeSet<IpAddr>);

impl OwnAddresses {
    /// Asks the kernel. Before the filter, which knows no netlink.
    pub(super) fn read() -> Self {
        let mut own = BTreeSet::new();
        if let Ok(addresses) = nix::ifaddrs::getifaddrs() {
            for address in addresses.filter_map(|interface| interface.address) {
                if let Some(v4) = address.as_sockaddr_in() {
                    own.insert(IpAddr::V4(v4.ip()));
                } else if let Some(v6) = address.as_sockaddr_in6() {
                    own.insert(IpAddr::V6(v6.ip()));
                }
            }
        }
        Self(own)
    }
}

/// Which addresses a granted name may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Public ones, and those that the ceiling names as numbers.
    Public,
    /// Any: the host's own settings name what is reached, not a program.
    Any,
}

/// Why an address is not dialled; `None`: it may be.
pub(super) fn refused(
    address: SocketAddr,
    reached: Reached,
    network: &NamedNetwork,
    own: &OwnAddresses,
) -> Option<&'static str> {
    if reached == Reached::Any || network.names_address(address.ip(), address.port()) {
        return None;
    }
    let public = match address.ip() {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    };
    if !public {
        return Some("is not public, and the ceiling doesn't name it");
    }
    if own.0.contains(&address.ip()) || is_own(address) {
        return Some("is the host's own, and the ceiling doesn't name it");
    }
    None
}

/// Whether the kernel would send from the very address that it sends to. Nothing is sent: a UDP socket only gets a route.
fn is_own(address: SocketAddr) -> bool {
    let local = || -> Result<IpAddr, Errno> {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let probe = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        connect(probe.as_raw_fd(), &SockaddrStorage::from(address))?;
        super::local_address(&probe).map(|local| local.ip())
    };
    local().is_ok_and(|local| local == address.ip())
}

/// Begins a connection.
pub(super) fn begin(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let made = socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    match connect(made.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(made),
        Err(errno) => Err(errno),
    }
}

fn within_v4(address: Ipv4Addr, range: [u8; 4], prefix: u32) -> bool {
    let mask = u32::MAX << (32 - prefix);
    u32::from(address) & mask == u32::from(Ipv4Addr::from(range)) & mask
}

/// Whether an IPv4 address is one that anybody on the internet could have.
pub(super) fn is_public_v4(address: Ipv4Addr) -> bool {
    const SPECIAL: [([u8; 4], u32); 15] = [
        ([0, 0, 0, 0], 8),       // this network
        ([10, 0, 0, 0], 8),      // private
        ([100, 64, 0, 0], 10),   // shared by carriers
        ([127, 0, 0, 0], 8),     // loopback
        ([169, 254, 0, 0], 16),  // link-local, and the clouds' metadata
        ([172, 16, 0, 0], 12),   // private
        ([192, 0, 0, 0], 24),    // protocol assignments
        ([192, 0, 2, 0], 24),    // documentation
        ([192, 88, 99, 0], 24),  // 6to4 relays
        ([192, 168, 0, 0], 16),  // private
        ([198, 18, 0, 0], 15),   // benchmarks, and the jail's own private range
        ([198, 51, 100, 0], 24), // documentation
        ([203, 0, 113, 0], 24),  // documentation
        ([224, 0, 0, 0], 4),     // multicast
        ([240, 0, 0, 0], 4),     // reserved, and broadcast
    ];
    // Microsoft Azure's metadata and Oracle's: public numbers, never public services.
    const METADATA: [[u8; 4]; 2] = [[168, 63, 129, 16], [192, 0, 0, 192]];
    !SPECIAL.iter().any(|(range, prefix)| within_v4(address, *range, *prefix))
        && !METADATA.iter().any(|known| Ipv4Addr::from(*known) == address)
}

fn within_v6(address: Ipv6Addr, range: [u16; 8], prefix: u32) -> bool {
    let mask = u128::MAX << (128 - prefix);
    u128::from(address) & mask == u128::from(Ipv6Addr::from(range)) & mask
}

/// Whether an IPv6 address is a global one, and none that carries an IPv4 address.
pub(super) fn is_public_v6(address: Ipv6Addr) -> bool {
    const SPECIAL: [([u16; 8], u32); 5] = [
        ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), // protocol assignments: Teredo, ORCHID, benchmarks
        ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
        ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), // 6to4: an IPv4 address inside
        ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), // documentation
        ([0x3ffe, 0, 0, 0, 0, 0, 0, 0], 16), // the old test network
    ];
    // Global unicast is 2000::/3 alone; loopback, mapped, 64:ff9b::, unique local, link-local and multicast are outside.
    within_v6(address, [0x2000, 0, 0, 0, 0, 0, 0, 0], 3)
        && !SPECIAL.iter().any(|(range, prefix)| within_v6(address, *range, *prefix))
        // ISATAP (RFC 5214) hides an IPv4 address in the lower half.
        && !matches!(address.segments(), [_, _, _, _, 0 | 0x200, 0x5efe, _, _])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_pass() {
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.170",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2a00::5efe:7f00:1",
            "3fff::1",
        ] {
            let public = match text.parse().unwrap() {
                IpAddr::V4(v4) => is_public_v4(v4),
                IpAddr::V6(v6) => is_public_v6(v6),
            };
            assert!(!public, "{text}");
        }
        for text in ["1.1.1.1", "100.63.255.255", "172.32.0.1", "192.0.1.1", "198.20.0.1", "223.255.255.255"]
        {
            assert!(is_public_v4(text.parse().unwrap()), "{text}");
        }
        for text in ["2606:4700:4700::1111", "2a00:1450::1", "2001:4860::1", "2620:fe::fe"] {
            assert!(is_public_v6(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn the_hosts_own_addresses_are_found_without_a_packet() {
        assert!(is_own("127.0.0.1:9".parse().unwrap()));
        assert!(OwnAddresses::read().0.contains(&"127.0.0.1".parse().unwrap()));
    }
}
