//! While a connection lasts: what a side sends goes past the guard and on.

use super::{
    super::{
        connection::Stage,
        entry::Granted,
        guard::Names,
        limits,
        relay::{self, Moved},
    },
    Carrier,
};
use nix::{errno::Errno, sys::socket::MsgFlags};
use policies::scope::Host;
use std::time::Instant;

impl Carrier<'_> {
    /// Moves what can be moved.
    pub(super) fn pump(&mut self, slot: usize, now: Instant) {
        let mut moved_in_all = 0;
        loop {
            let Some(connection) = self.connections[slot].as_mut() else { return };
            if !matches!(connection.stage, Stage::Open) {
                return;
            }
            let before = connection.up.bytes + connection.down.bytes;
            let went = self.back(slot, now).and_then(|back| Ok((back, self.there(slot, now)?)));
            let Some(connection) = self.connections[slot].as_mut() else { return };
            let moved = connection.up.bytes + connection.down.bytes - before;
            self.carried += moved;
            let busy = match went {
                Ok((back, there)) => back | there,
                Err(errno) => {
                    let why = format!("broken off: {}", errno.desc().to_lowercase());
                    self.abort(slot, Granted::Yes, &why, now);
                    return;
                }
            };
            if moved > 0 {
                connection.active = now;
                moved_in_all += moved as usize;
            }
            let alone = connection.guard.is_done() && connection.up.is_empty();
            if connection.down.is_over() && (connection.up.is_over() || alone) {
                self.close(slot, Granted::Yes, "closed", now);
                return;
            }
            if self.carried > self.network.limits().bytes.0 {
                self.abort(slot, Granted::No, "the jail's limit of bytes is met", now);
                return;
            }
            if !busy {
                return;
            }
            if moved_in_all > limits::TURN {
                self.again.push(slot);
                return;
            }
        }
    }

    /// One step from the second side to the first; tells whether there may be another.
    pub(super) fn back(&mut self, slot: usize, now: Instant) -> Result<bool, Errno> {
        let Some(connection) = self.connections[slot].as_mut() else { return Ok(false) };
        let Some(second) = &connection.second else { return Ok(false) };
        if connection.down.is_over() {
            return Ok(false);
        }
        let mut filled = Moved::Blocked;
        if connection.down.is_empty() && !connection.down.has_ended() {
            if connection.guard.awaits_switch() {
                let mut first = [0; 12];
                match relay::read(second, &mut first, MsgFlags::MSG_PEEK)? {
                    Some(length) if length == first.len() || length == 0 => {
                        let target = connection.target.clone();
                        let network = self.network;
                        let names = Names {
                            may_name: &|name| {
                                target.as_ref().is_some_and(|target| network.may_name(target, name))
                            },
                            by_address: target
                                .as_ref()
                                .is_some_and(|target| matches!(target.host, Host::Ip(_))),
                        };
                        let out = connection.up.pending();
                        if let Err(why) = connection.guard.answered(&first[..length], &names, out) {
                            self.abort(slot, Granted::No, &why, now);
                            return Ok(false);
                        }
                    }
                    Some(_) | None => return Ok(false),
                }
            }
            filled = connection.down.fill(second, &mut self.pipes)?;
        }
        let flushed = connection.down.flush(&connection.first, &mut self.pipes)?;
        Ok(matches!(filled, Moved::Some(_)) && flushed != Moved::Blocked
            || matches!(flushed, Moved::Some(1..)))
    }

    /// One step from the first side to the second.
    pub(super) fn there(&mut self, slot: usize, now: Instant) -> Result<bool, Errno> {
        let Some(connection) = self.connections[slot].as_mut() else { return Ok(false) };
        if connection.up.is_over() {
            return Ok(false);
        }
        if connection.guard.is_done() && connection.down.bytes > 0 {
            // Whoever asks again after an answer would wait for ever: a connection that ends is asked anew.
            let mut next = [0; 1];
            let waits = relay::read(&connection.first, &mut next, MsgFlags::MSG_PEEK)? == Some(1);
            if connection.guard.has_more() || waits && !matches!(next, [b'\r' | b'\n']) {
                self.abort(
                    slot,
                    Granted::No,
                    "another request behind the one that the proxy has carried",
                    now,
                );
                return Ok(false);
            }
        }
        let mut filled = false;
        if connection.up.is_empty() && !connection.up.has_ended() && !connection.guard.is_done() {
            if connection.guard.is_opaque() {
                filled = matches!(connection.up.fill(&connection.first, &mut self.pipes)?, Moved::Some(_));
            } else if !connection.guard.is_full() {
                let mut buffer = [0; 16 << 10];
                match relay::read(&connection.first, &mut buffer, MsgFlags::empty())? {
                    None => {}
                    Some(0) => {
                        let out = connection.up.pending();
                        if let Err(why) = connection.guard.end(out) {
                            self.abort(slot, Granted::No, &why, now);
                            return Ok(false);
                        }
                        connection.up.end();
                    }
                    Some(length) => {
                        filled = true;
                        if !self.first_bytes(slot, &buffer[..length], now) {
                            return Ok(false);
                        }
                    }
                }
            }
        }
        let Some(connection) = self.connections[slot].as_mut() else { return Ok(false) };
        let Some(second) = &connection.second else { return Ok(false) };
        let flushed = connection.up.flush(second, &mut self.pipes)?;
        Ok(filled && flushed != Moved::Blocked || matches!(flushed, Moved::Some(1..)))
    }
}
