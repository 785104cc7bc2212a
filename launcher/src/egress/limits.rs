//! Bounds on what a jail can make the egress do, apart from those of the plan (connections, bytes, idle time).

use std::time::Duration;

/// From the first byte to the name that must be in it: a slow hello ends here.
pub(super) const HELLO: Duration = Duration::from_secs(10);
/// To find a name's addresses, all servers and tries together.
pub(super) const LOOKUP: Duration = Duration::from_secs(10);
/// One question to one server.
pub(super) const QUESTION: Duration = Duration::from_secs(2);
/// To open a connection, all addresses together.
pub(super) const DIAL: Duration = Duration::from_secs(15);
/// One address, while there are others.
pub(super) const DIAL_ONE: Duration = Duration::from_secs(4);
/// Addresses of one name that are tried.
pub(super) const ADDRESSES: usize = 8;
/// Largest client hello.
pub(super) const HELLO_BYTES: usize = 32 << 10;
/// Largest head of an HTTP request.
pub(super) const HEAD_BYTES: usize = 64 << 10;
/// Longest first line.
pub(super) const LINE_BYTES: usize = 16 << 10;
/// Names that a pattern covers and that have a private address at one time.
pub(super) const NAMES: u32 = 4096;
/// Names whose addresses are remembered.
pub(super) const REMEMBERED: usize = 512;
/// Longest time that an answer is used for, whatever it says itself.
pub(super) const REMEMBER: Duration = Duration::from_secs(30);
/// One turn of a connection, so that a fast one doesn't starve the others.
pub(super) const TURN: usize = 4 << 20;
/// A pipe between two sockets.
pub(super) const PIPE: usize = 1 << 20;
/// Pipes that are kept for the next burst.
pub(super) const PIPES: usize = 8;
/// Entries for refused name questions at once, and the time in which one more becomes free.
pub(super) const REFUSALS: u32 = 50;
/// See [`REFUSALS`].
pub(super) const REFUSAL_REFILL: Duration = Duration::from_millis(200);
/// A datagram to the name server; longer ones are cut and so malformed.
pub(super) const DATAGRAM: usize = 1232;
