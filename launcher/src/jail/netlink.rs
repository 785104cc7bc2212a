//! Requests to the kernel about the jail's own network namespace: loopback up, local routes, one redirect.
//!
//! Messages are laid out by hand: a handful of fixed requests, made once in a start, by a process that must not load
//! anything. Nobody outside writes to these sockets, so answers are read for their error number only.
//! Source: rtnetlink(7), netlink(7); linux/rtnetlink.h, linux/netfilter/nf_tables.h.

use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
    },
};
use std::{
    net::{IpAddr, Ipv6Addr},
    os::fd::{AsRawFd, OwnedFd},
};

/// Index of the loopback device in every network namespace.
const LOOPBACK: u32 = 1;
/// linux/rtnetlink.h
const RTM_NEWLINK: u16 = 16;
/// linux/rtnetlink.h
const RTM_NEWROUTE: u16 = 24;
/// linux/netlink.h
const REQUEST: u16 = 0x1;
/// linux/netlink.h
const ACK: u16 = 0x4;
/// linux/netlink.h
const CREATE: u16 = 0x400;
/// linux/netlink.h
const APPEND: u16 = 0x800;
/// linux/netlink.h
const NESTED: u16 = 0x8000;

/// A message that grows; lengths are put in at the end.
#[derive(Debug)]
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16, sequence: u32) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags | REQUEST).to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        Self(bytes)
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn attribute(self, kind: u16, value: &[u8]) -> Self {
        Self([self.0, attribute(kind, value)].concat())
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self.0
    }
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn nested(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NESTED, &parts.concat())
}

/// A socket to one of netlink's families.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    fn open(family: SockProtocol) -> Result<Self, Errno> {
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, family).map(Self)
    }

    /// For links and routes.
    pub(crate) fn routes() -> Result<Self, Errno> {
        Self::open(SockProtocol::NetlinkRoute)
    }

    fn ask(&self, message: &[u8]) -> Result<(), Errno> {
        sendto(self.0.as_raw_fd(), message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut answer = [0; 1024];
        let length = recv(self.0.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        // struct nlmsghdr, then struct nlmsgerr, which starts with the negative error number.
        let code = answer[..length].get(16..20).ok_or(Errno::EPROTO)?;
        let mut number = [0; 4];
        number.copy_from_slice(code);
        match i32::from_ne_bytes(number) {
            0 => Ok(()),
            error => Err(Errno::from_raw(-error)),
        }
    }

    /// Brings the loopback device up. It then has 127.0.0.1 and ::1.
    pub(crate) fn loopback_up(&self) -> Result<(), Errno> {
        let up = libc::IFF_UP as u32;
        // struct ifinfomsg: family, padding, type, index, flags, change.
        let mut body = vec![0; 4];
        body.extend(LOOPBACK.to_ne_bytes());
        body.extend(up.to_ne_bytes());
        body.extend(up.to_ne_bytes());
        self.ask(&Message::new(RTM_NEWLINK, ACK, 1).raw(&body).finish())
    }

    /// Makes all addresses of a range local to this namespace.
    pub(crate) fn local_route(&self, address: IpAddr, prefix: u8) -> Result<(), Errno> {
        let (family, bytes) = match address {
            IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
            IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
        };
        // struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags.
        let body = [
            family as u8,
            prefix,
            0,
            0,
            libc::RT_TABLE_LOCAL,
            libc::RTPROT_STATIC,
            if address.is_ipv4() { libc::RT_SCOPE_HOST } else { libc::RT_SCOPE_UNIVERSE },
            libc::RTN_LOCAL,
            0,
            0,
            0,
            0,
        ];
        let mut message = Message::new(RTM_NEWROUTE, ACK | CREATE, 2).raw(&body);
        if prefix > 0 {
            message = message.attribute(libc::RTA_DST, &bytes);
        }
        if address.is_ipv6() {
            // The device has no address of the range; ::1 is a good sender for what never leaves.
            message = message.attribute(libc::RTA_PREFSRC, &Ipv6Addr::LOCALHOST.octets());
        }
        self.ask(&message.attribute(libc::RTA_OIF, &LOOPBACK.to_ne_bytes()).finish())
    }
}

/// Redirects every TCP connection that this namespace begins to `port`, but those to its loopback and to `exempt`.
///
/// The listener there learns from SO_ORIGINAL_DST what was meant.
pub(crate) fn redirect_all(port: u16, exempt: std::net::Ipv4Addr) -> Result<(), Errno> {
    let netlink = Netlink::open(SockProtocol::NetlinkNetFilter)?;
    let mut batch = Vec::new();
    let mut sequence = 10;
    let mut add = |kind: u16, flags: u16, family: u8, resource: u16, attributes: &[Vec<u8>]| {
        sequence += 1;
        let [high, low] = resource.to_be_bytes();
        let message =
            Message::new(kind, flags, sequence).raw(&[family, 0, high, low]).raw(&attributes.concat());
        batch.extend(message.finish());
    };
    add(BATCH_BEGIN, 0, 0, TABLES, &[]);
    add(TABLES << 8, CREATE, INET, 0, &[attribute(1, NAME)]);
    let hook = nested(4, &[attribute(1, &be(LOCAL_OUT)), attribute(2, &(-100_i32).to_be_bytes())]);
    add(
        TABLES << 8 | NEWCHAIN,
        CREATE,
        INET,
        0,
        &[attribute(1, NAME), attribute(3, NAME), hook, attribute(5, &be(1)), attribute(7, b"nat\0")],
    );
    let rules = [
        [family_is(2), payload_is(16, &[127]), accept()].concat(),
        [family_is(10), payload_is(24, &Ipv6Addr::LOCALHOST.octets()), accept()].concat(),
        [family_is(2), payload_is(16, &exempt.octets()), accept()].concat(),
        [meta_is(META_L4PROTO, 6), redirect(port)].concat(),
    ];
    for rule in rules {
        let flags = CREATE | APPEND | ACK;
        let expressions = attribute(4 | NESTED, &rule);
        add(TABLES << 8 | NEWRULE, flags, INET, 0, &[attribute(1, NAME), attribute(2, NAME), expressions]);
    }
    add(BATCH_END, 0, 0, TABLES, &[]);
    netlink.ask(&batch)
}

/// linux/netfilter/nfnetlink.h
const BATCH_BEGIN: u16 = 0x10;
/// linux/netfilter/nfnetlink.h
const BATCH_END: u16 = 0x11;
/// NFNL_SUBSYS_NFTABLES of linux/netfilter/nfnetlink.h
const TABLES: u16 = 10;
/// linux/netfilter/nf_tables.h
const NEWCHAIN: u16 = 3;
/// linux/netfilter/nf_tables.h
const NEWRULE: u16 = 6;
/// NFPROTO_INET of linux/netfilter.h
const INET: u8 = 1;
/// NF_INET_LOCAL_OUT of linux/netfilter.h
const LOCAL_OUT: u32 = 3;
/// linux/netfilter/nf_tables.h
const META_NFPROTO: u32 = 15;
/// linux/netfilter/nf_tables.h
const META_L4PROTO: u32 = 16;
/// Of the table and of its chain.
const NAME: &[u8] = b"thirdwall\0";

fn be(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn expression(name: &[u8], data: &[Vec<u8>]) -> Vec<u8> {
    nested(1, &[attribute(1, name), nested(2, data)])
}

/// Goes on with the rule if register 1 holds `value`.
fn is(value: &[u8]) -> Vec<u8> {
    expression(b"cmp\0", &[attribute(1, &be(1)), attribute(2, &be(0)), nested(3, &[attribute(1, value)])])
}

fn meta_is(key: u32, value: u8) -> Vec<u8> {
    [expression(b"meta\0", &[attribute(2, &be(key)), attribute(1, &be(1))]), is(&[value])].concat()
}

fn family_is(family: u8) -> Vec<u8> {
    meta_is(META_NFPROTO, family)
}

/// Compares bytes of the network header.
fn payload_is(offset: u32, value: &[u8]) -> Vec<u8> {
    let load = [
        attribute(1, &be(1)),
        attribute(2, &be(1)),
        attribute(3, &be(offset)),
        attribute(4, &be(value.len() as u32)),
    ];
    [expression(b"payload\0", &load), is(value)].concat()
}

fn accept() -> Vec<u8> {
    let verdict = nested(2, &[nested(2, &[attribute(1, &be(1))])]);
    expression(b"immediate\0", &[attribute(1, &be(0)), verdict])
}

fn redirect(port: u16) -> Vec<u8> {
    let value = nested(2, &[attribute(1, &port.to_be_bytes())]);
    [
        expression(b"immediate\0", &[attribute(1, &be(1)), value]),
        expression(b"redir\0", &[attribute(1, &be(1))]),
    ]
    .concat()
}
