//! Connects and sends inside a named network: looked at, and told where nobody is there to take them.
//!
//! Landlock refuses a port that isn't granted, and the namespace has no way to an address that isn't: both are an errno that
//! nobody outside would see. What the egress takes it judges and tells of itself.
//!
//! Invariant: nothing is decided here. The address is a copy of memory that the caller may change before the kernel reads it,
//! and the call goes on whatever was found; a port that is opened for it leads to the egress, which asks the kernel where
//! the connection went.
//! Source: seccomp_unotify(2), process_vm_readv(2), proc_pid_net(5), proc_pid_mem(5).

use super::audit::Audit;
use crate::{
    egress::Egress,
    sys::notify::{self, Notice},
};
use nix::{
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::Pid,
};
use policies::plan::{
    NamedNetwork, Network, Plan,
    network::{Lacking, Sending, Taker},
};
use std::{
    fs::File,
    io::{IoSliceMut, Read, Seek},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::BorrowedFd,
};

/// sizeof(struct sockaddr_in6), the longest that is read.
const LONGEST: usize = 28;
/// Of a list of sockets of the jail; a longer one is not told of.
const MOST_TEXT: u64 = 1 << 20;
/// linux/tcp.h, TCP_LISTEN as /proc prints it.
const LISTENS: &str = "0A";

/// Where the calls are made.
#[derive(Debug)]
pub(super) struct Place<'a> {
    network: &'a NamedNetwork,
    egress: Option<&'a mut Egress>,
}

impl<'a> Place<'a> {
    /// Of a plan; `None` where there are no sockets.
    pub(super) fn of(plan: &'a Plan, egress: Option<&'a mut Egress>) -> Option<Self> {
        match &plan.network {
            Network::Named(network) => Some(Self { network, egress }),
            Network::SharedEmpty | Network::OwnEmpty => None,
        }
    }

    /// Looks at a connect(2) or sendto(2).
    pub(super) fn look(&mut self, listener: BorrowedFd<'_>, notice: &Notice, audit: &mut Audit) {
        let [_, second, _, flags, fifth, sixth] = notice.args;
        let connects = i64::from(notice.nr) == libc::SYS_connect;
        let (at, length) = if connects { (second, notice.args[2]) } else { (fifth, sixth) };
        let fast_open = flags as i32 & libc::MSG_FASTOPEN != 0;
        let sending = if connects || fast_open { Sending::Connect } else { Sending::Datagram };
        let Some(address) = copy(listener, notice, at, length) else { return };
        // Resolvers connect sockets of datagrams to port 0, to learn which address they would send from.
        if address.port() == 0 {
            return;
        }
        if sending == Sending::Connect && leads_nowhere(address.ip()) {
            audit.nobody_there(&self.name(address), "TCP has no connections to such an address");
            return;
        }
        match self.network.taker(address, sending) {
            Taker::Egress if sending == Sending::Connect => {
                if let Some(egress) = &mut self.egress
                    && let Err(why) = egress.open_port(self.network, address)
                {
                    audit.nobody_there(&self.name(address), why);
                }
            }
            Taker::Egress => {}
            Taker::Jail => {
                if listens(notice.thread, address.port(), sending) == Some(false) {
                    audit.nobody_there(&self.name(address), "nobody listens there in the jail");
                    audit.told_datagrams += u64::from(sending == Sending::Datagram);
                }
            }
            Taker::Nobody(lacking) => {
                audit.nobody_there(&self.name(address), lacking.why());
                audit.told_datagrams += u64::from(lacking == Lacking::Datagrams);
            }
        }
    }

    /// The address as the ceiling writes it: a private one by its name.
    fn name(&self, address: SocketAddr) -> String {
        match self.network.name_at(address.ip()) {
            Some(name) => format!("{name}:{}", address.port()),
            None => SocketAddr::new(address.ip().to_canonical(), address.port()).to_string(),
        }
    }
}

/// Whether connect(2) itself refuses an address, so that the egress never sees it: to many, or on a link that isn't named.
fn leads_nowhere(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    }
}

/// The address that a call names, as it stands in the caller's memory now.
fn copy(listener: BorrowedFd<'_>, notice: &Notice, at: u64, length: u64) -> Option<SocketAddr> {
    let mut bytes = [0; LONGEST];
    // socklen_t: the kernel reads the low half.
    let length = (length as u32 as usize).min(LONGEST);
    let remote = RemoteIoVec { base: usize::try_from(at).ok()?, len: length };
    let caller = Pid::from_raw(i32::try_from(notice.thread).ok()?);
    let got = process_vm_readv(caller, &mut [IoSliceMut::new(bytes.get_mut(..length)?)], &[remote]).ok()?;
    // The number may have become another process's, even one outside.
    if !notify::waits(listener, notice) {
        return None;
    }
    read(bytes.get(..got)?)
}

/// From a sockaddr_in or sockaddr_in6 of at least the length that the kernel asks for.
fn read(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..4)?.first_chunk()?);
    let ip = match family {
        libc::AF_INET if bytes.len() >= 16 => {
            IpAddr::V4(Ipv4Addr::from(*bytes.get(4..8)?.first_chunk::<4>()?))
        }
        libc::AF_INET6 if bytes.len() >= 24 => {
            IpAddr::V6(Ipv6Addr::from(*bytes.get(8..24)?.first_chunk::<16>()?))
        }
        _none => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Whether a socket of the caller's namespace takes what comes to a port; `None` if that can't be seen. Connected may be a
/// socket of datagrams too; a datagram is taken by none of the others.
fn listens(thread: u32, port: u16, sending: Sending) -> Option<bool> {
    let lists: &[&str] = match sending {
        Sending::Connect => &["tcp", "udp", "tcp6", "udp6"],
        Sending::Datagram => &["udp", "udp6"],
    };
    for list in lists {
        let Ok(file) = File::open(format!("/proc/{thread}/net/{list}")) else {
            // A kernel without IPv6 has no such list.
            if list.ends_with('6') {
                continue;
            }
            return None;
        };
        let mut text = String::new();
        let length = file.take(MOST_TEXT).read_to_string(&mut text).ok()?;
        if length as u64 == MOST_TEXT {
            return None;
        }
        let here = text.lines().skip(1).any(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let (local, state) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
            let known = local.rsplit(':').next().and_then(|text| u16::from_str_radix(text, 16).ok());
            known == Some(port) && (list.starts_with("udp") || state == LISTENS)
        });
        if here {
            return Some(true);
        }
    }
    Some(false)
}

/// What found nobody and was not looked at: the kernel's own count of datagrams, for calls whose address is in memory
/// behind memory (sendmsg, sendmmsg) and for sockets that were connected before.
#[derive(Debug)]
pub(super) struct Uncounted(Vec<File>);

impl Uncounted {
    /// Of the namespace that a process is in. The files keep it, so that they can be read when the process is gone.
    pub(super) fn of(plan: &Plan, init: Pid) -> Option<Self> {
        Place::of(plan, None)?;
        let open = |list| File::open(format!("/proc/{init}/net/{list}")).ok();
        Some(Self(["snmp", "snmp6"].into_iter().filter_map(open).collect()))
    }

    /// Datagrams for which nobody was there.
    pub(super) fn datagrams(self) -> u64 {
        let mut count = 0_u64;
        for mut file in self.0 {
            let mut text = String::new();
            if file.rewind().is_ok() && file.take(MOST_TEXT).read_to_string(&mut text).is_ok() {
                count = count.saturating_add(no_ports(&text));
            }
        }
        count
    }
}

/// `NoPorts` of UDP, in the way of /proc/net/snmp (a line of names, a line of numbers) or of snmp6 (one of each in a line).
fn no_ports(text: &str) -> u64 {
    let mut udp = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let place = udp.next().and_then(|names| names.split(' ').position(|name| name == "NoPorts"));
    let v4 = place.zip(udp.next()).and_then(|(place, numbers)| numbers.split(' ').nth(place));
    let v6 = text.lines().find_map(|line| line.strip_prefix("Udp6NoPorts"));
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
    number(v4).saturating_add(number(v6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn addresses_are_read_at_the_lengths_that_the_kernel_takes() {
        let mut v4 = vec![0; 16];
        v4[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        v4[2..8].copy_from_slice(&[0x1f, 0x90, 192, 0, 2, 7]);
        assert_eq!(read(&v4), Some("192.0.2.7:8080".parse().unwrap()));
        assert_eq!(read(&v4[..15]), None);
        let mut v6 = vec![0; 28];
        v6[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        v6[2..4].copy_from_slice(&[0, 53]);
        v6[23] = 1;
        assert_eq!(read(&v6), Some("[::1]:53".parse().unwrap()));
        assert_eq!((read(&v6[..23]), read(&[]), read(&[2])), (None, None, None));
        v6[0] = libc::AF_UNIX as u8;
        assert_eq!(read(&v6), None);
    }

    #[test]
    fn a_port_of_the_jail_itself_is_found_in_the_kernels_lists() {
        let me = std::process::id();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        for port in [&tcp.local_addr().unwrap(), &udp.local_addr().unwrap()].map(SocketAddr::port) {
            assert_eq!(listens(me, port, Sending::Connect), Some(true));
        }
        let udp = udp.local_addr().unwrap().port();
        assert_eq!(listens(me, udp, Sending::Datagram), Some(true));
        assert_eq!(listens(u32::MAX, 80, Sending::Connect), None);
    }

    #[test]
    fn a_datagram_is_not_taken_by_a_listener_of_streams() {
        // In a loop, as somebody else's socket of datagrams may have the port that the kernel chose.
        let free = (0..20).any(|_| {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = tcp.local_addr().unwrap().port();
            listens(std::process::id(), port, Sending::Datagram) == Some(false)
        });
        assert!(free);
    }

    #[test]
    fn the_kernels_count_is_read_in_both_ways() {
        let snmp = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts InErrors\nUdp: 5 17 0\nUdpLite: InDatagrams\nUdpLite: 0\n";
        assert_eq!(no_ports(snmp), 17);
        assert_eq!(no_ports("Ip6InReceives    \t3\nUdp6NoPorts                     \t4\n"), 4);
        assert_eq!(no_ports(""), 0);
    }
}
