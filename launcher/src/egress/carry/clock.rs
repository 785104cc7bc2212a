//! What is due by the clock, and connectors that come back.

use super::{
    super::{connection::Stage, entry::Granted, limits, proxy::Outcome},
    Carrier,
    reach::watch,
};
use crate::sys::socket as socket_of;
use nix::sys::{
    epoll::EpollFlags,
    socket::{getsockopt, sockopt},
};
use std::{
    os::fd::AsFd,
    time::{Duration, Instant},
};

impl Carrier<'_> {
    pub(super) fn tick(&mut self, now: Instant) {
        let epoll = &self.epoll;
        let found = self.resolver.clock(now, &mut |socket, place| watch(epoll, socket, place));
        self.found(found, now);
        self.deliver(now);
        let idle = Duration::from_millis(self.network.limits().idle.0);
        for slot in 0..self.connections.len() {
            let Some(connection) = self.connections[slot].as_mut() else { continue };
            connection.held = match (connection.guard.is_holding(), connection.held) {
                (true, None) => Some(now),
                (true, since) => since,
                (false, _) => None,
            };
            let held = connection.held.is_some_and(|since| now.duration_since(since) > limits::HELLO);
            let quiet = now.duration_since(connection.active);
            match &connection.stage {
                Stage::Names { .. } if quiet > limits::HELLO => self.leaves(slot, now),
                Stage::Talk(_) if quiet > limits::HELLO => {
                    self.abort(slot, Granted::No, "a proxy request that didn't come to an end", now);
                }
                Stage::Lookup { until } if now > *until + limits::QUESTION => {
                    self.turn_away(slot, Outcome::Unreachable, "the name could not be looked up", now);
                }
                Stage::Dial { until, .. } if now > *until => {
                    self.turn_away(slot, Outcome::Unreachable, "it can't be reached: no answer", now);
                }
                Stage::Dial { one_until, .. } if now > *one_until => self.try_next(slot, now),
                Stage::Open if held => {
                    self.abort(slot, Granted::No, "a hello or head that didn't come to an end", now);
                }
                Stage::Open if quiet > idle => self.abort(slot, Granted::Yes, "idle for too long", now),
                Stage::Farewell { until } if now > *until => self.close(slot, Granted::No, "", now),
                Stage::Names { .. }
                | Stage::Talk(_)
                | Stage::Lookup { .. }
                | Stage::Dial { .. }
                | Stage::Open
                | Stage::Farewell { .. } => {}
            }
        }
    }

    /// Takes connectors back that have delivered everything.
    pub(super) fn deliver(&mut self, now: Instant) {
        for (socket, since) in std::mem::take(&mut self.delivering) {
            let done = socket_of::queued(socket.as_fd()).map_or(true, |bytes| bytes == 0);
            if !done && now.duration_since(since) < limits::DIAL {
                self.delivering.push((socket, since));
                continue;
            }
            let v6 = getsockopt(&socket, sockopt::Ipv6V6Only).is_ok();
            if socket_of::disconnect(socket.as_fd()).is_ok() {
                self.connectors[usize::from(v6)].push(socket);
            }
        }
        if self.full && !self.connectors[0].is_empty() {
            self.full = false;
            self.watch_visitors(EpollFlags::EPOLLIN);
        }
    }
}
