//! The proxy's conversation, up to what is wanted.

use super::{
    super::{
        connection::Stage,
        entry::Granted,
        guard::{Guard, Names},
        proxy::{Outcome, Step, Wanted},
        relay,
    },
    Carrier,
};
use nix::sys::socket::MsgFlags;
use policies::scope::Host;
use std::time::Instant;

impl Carrier<'_> {
    /// Something happened on the first side.
    pub(super) fn go_on(&mut self, slot: usize, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
        match &mut connection.stage {
            Stage::Names { .. } => self.questions_by_tcp(slot, now),
            Stage::Talk(_) => self.talk(slot, now),
            Stage::Lookup { .. } | Stage::Dial { .. } => {}
            Stage::Open => self.pump(slot, now),
            Stage::Farewell { .. } => self.farewell(slot, now),
        }
    }

    /// The proxy's conversation.
    pub(super) fn talk(&mut self, slot: usize, now: Instant) {
        let mut buffer = [0; 16 << 10];
        loop {
            let Some(connection) = self.connections[slot].as_mut() else { return };
            let Stage::Talk(talk) = &mut connection.stage else { return };
            let mut step = match relay::read(&connection.first, &mut buffer, MsgFlags::empty()) {
                Ok(None) => return,
                Ok(Some(0)) | Err(_) => {
                    self.leaves(slot, now);
                    return;
                }
                Ok(Some(length)) => talk.take(&buffer[..length]),
            };
            if let Step::Say(words) = step {
                connection.down.push(words);
                let _said = connection.down.flush(&connection.first, &mut self.pipes);
                step = talk.take(&[]);
            }
            match step {
                Step::More | Step::Say(_) => {}
                Step::Wrong(words, why) => {
                    self.part(slot, words, Granted::No, why, now);
                    return;
                }
                Step::Wants(wanted) => {
                    self.wants(slot, wanted, now);
                    return;
                }
            }
        }
    }

    pub(super) fn wants(&mut self, slot: usize, wanted: Wanted, now: Instant) {
        let Wanted { mut target, manner, first, rest } = wanted;
        // A program that asked our name server itself gives the proxy a private address.
        if let Host::Ip(address) = target.host {
            match self.book.meant(address) {
                Some(host) => target.host = host,
                None => {
                    let Some(connection) = self.connections[slot].as_mut() else { return };
                    (connection.target, connection.manner) = (Some(target), manner);
                    self.turn_away(slot, Outcome::Refused, "a private address that no name has", now);
                    return;
                }
            }
        }
        let Some(connection) = self.connections[slot].as_mut() else { return };
        (connection.target, connection.manner) = (Some(target), manner);
        let body = first.map(|(head, body)| {
            connection.up.push(&head);
            body
        });
        self.look_up(slot, now);
        let Some(connection) = self.connections[slot].as_mut() else { return };
        if let Some(body) = body {
            connection.guard = Guard::behind_proxy_head(body);
        }
        if !matches!(connection.stage, Stage::Farewell { .. }) {
            self.first_bytes(slot, &rest, now);
        }
    }

    /// Puts bytes of the first side past the guard.
    pub(super) fn first_bytes(&mut self, slot: usize, bytes: &[u8], now: Instant) -> bool {
        let Some(connection) = self.connections[slot].as_mut() else { return false };
        let Some(target) = &connection.target else { return false };
        let network = self.network;
        let names = Names {
            may_name: &|name| network.may_name(target, name),
            by_address: matches!(target.host, Host::Ip(_)),
        };
        match connection.guard.take(bytes, &names, connection.up.pending()) {
            Ok(()) => true,
            Err(why) => {
                self.abort(slot, Granted::No, &why, now);
                false
            }
        }
    }
}
