//! Descriptors over the start's control channel.

use super::fd;
use nix::{
    errno::Errno,
    sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg},
};
use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

/// Descriptors that one message may carry; the kernel's own bound is 253.
pub(crate) const MOST: usize = 64;

/// Sends one message, with up to [`MOST`] descriptors.
///
/// Source: unix(7), SCM_RIGHTS.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut raw = [-1; MOST];
    for (place, descriptor) in raw.iter_mut().zip(descriptors) {
        *place = descriptor.as_raw_fd();
    }
    let rights = [ControlMessage::ScmRights(raw.get(..descriptors.len()).ok_or(Errno::EINVAL)?)];
    let control: &[ControlMessage<'_>] = if descriptors.is_empty() { &[] } else { &rights };
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None)
        .map(drop)
}

/// Receives one message of at most `buffer.len()` bytes and its descriptors in their order; 0 bytes = the end.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = nix::cmsg_space!([std::os::fd::RawFd; MOST]);
    let mut parts = [IoSliceMut::new(buffer)];
    let message =
        recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raws) = control {
            descriptors.extend(raws.into_iter().map(fd::own));
        }
    }
    Ok((message.bytes, descriptors))
}

/// Sends one message without waiting, with a descriptor or without.
///
/// # Errors
/// EAGAIN if the other side's queue is full.
pub(crate) fn try_send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let raw = descriptor.map(|d| [d.as_raw_fd()]);
    let rights = raw.as_ref().map(|raw| [ControlMessage::ScmRights(raw)]);
    let control: &[ControlMessage<'_>] = rights.as_ref().map_or(&[], |r| r);
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    sendmsg::<UnixAddr>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, flags, None).map(drop)
}

/// A message from a peer that may send none but bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plain {
    /// So many; 0 = the end.
    Bytes(usize),
    /// It is longer than the buffer.
    Cut,
    /// There were descriptors beside it. They have no number here: the kernel has closed them.
    WithDescriptor,
}

/// Receives one message without waiting and without room for descriptors.
///
/// Source: unix(7): without a buffer for them, descriptors are closed and MSG_CTRUNC is set.
pub(crate) fn receive_plain(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Plain, Errno> {
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, None, flags)?;
    Ok(if message.flags.contains(MsgFlags::MSG_CTRUNC) {
        Plain::WithDescriptor
    } else if message.flags.contains(MsgFlags::MSG_TRUNC) {
        Plain::Cut
    } else {
        Plain::Bytes(message.bytes)
    })
}

/// Bytes of memory that wait in a socket to be read by its peer.
///
/// Source: unix(7), "SIOCOUTQ"; linux/sockios.h.
///
/// # Errors
/// `ENOTTY` or `EINVAL` for a descriptor that has no such queue.
pub(crate) fn queued(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (the number of TIOCOUTQ) writes one int, to where `bytes` lives.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    Errno::result(done).map(|_| u64::try_from(bytes).unwrap_or(0))
}

/// Takes a TCP socket back to where it can be connected anew.
///
/// Source: connect(2), "dissolve the association by connecting to an address with sa_family AF_UNSPEC"; tcp(7).
pub(crate) fn disconnect(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    // SAFETY: `nowhere` is live and as long as the length passed; the kernel only reads it.
    let done = unsafe {
        libc::connect(socket.as_raw_fd(), &raw const nowhere, size_of::<libc::sockaddr>() as libc::socklen_t)
    };
    Errno::result(done).map(drop)
}
