//! Egress: what a jail's ceiling grants of the network, carried by a small confined process outside the jail.
//!
//! ```text
//! in the jail's namespace                      │ the egress, in the host's network
//! program ── socket made by init, held ──▶ accepts; the address says what was meant
//!            by the egress                     │ ceiling? → hosts file, DNS → public? → connect to that very address
//!                                              │ first bytes: TLS name, HTTP host → covered by the grant? → splice
//! ```
//!
//! Order of reading: [`names`] (what the program is told), [`carry`] (the loop), [`dial`] (what may be reached),
//! [`guard`] (what may be said first), [`relay`] (the bytes), [`proxy`] (for programs that prefer one); [`client`] (the
//! language's own requests, which a process of its own makes).
//!
//! Invariant: the process holds nothing but its sockets: no file, no Linux capability, no other descriptor of the
//! launcher's, and a filter that knows no open and no exec. If it dies, the jail reaches nothing.
//! Invariant: nothing that the jail says chooses an address; a connect goes only to a number that [`dial`] has just
//! checked.

mod carry;
pub(crate) mod client;
mod confine;
mod connection;
mod dial;
mod dns;
mod entry;
mod guard;
mod http;
mod limits;
mod names;
mod opening;
mod process;
mod proxy;
mod relay;
mod resolve;
mod tls;

pub use confine::Walls;
pub(crate) use dial::Reached;
pub use process::{Egress, Prepared};

use nix::{
    errno::Errno,
    sys::socket::{SockaddrStorage, getsockname},
};
use std::{
    net::{IpAddr, SocketAddr},
    os::fd::{AsRawFd, OwnedFd},
};

/// The address at this side of a socket; an IPv4 address inside an IPv6 one is the IPv4 address.
fn local_address(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
    plain(&getsockname::<SockaddrStorage>(socket.as_raw_fd())?)
}

fn plain(address: &SockaddrStorage) -> Result<SocketAddr, Errno> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Ok(SocketAddr::new(IpAddr::V4(v4.ip()), v4.port()));
    }
    let v6 = address.as_sockaddr_in6().ok_or(Errno::EAFNOSUPPORT)?;
    let ip = v6.ip().to_ipv4_mapped().map_or(IpAddr::V6(v6.ip()), IpAddr::V4);
    Ok(SocketAddr::new(ip, v6.port()))
}
