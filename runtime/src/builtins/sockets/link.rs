//! One connection through the broker: made, and asked for one act after another, none of which waits.

use super::websocket::Socket;
use crate::broker::Reply;
use crate::builtins::Ctx;
use crate::partition::Core;
use crate::vm::trap::{Fault, denied, raised};
use policies::broker::{By, Request};
use policies::capability::Capability;
use policies::connection::{Act, Connect, Connected};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// What is known of a connection here.
pub(super) struct Kept {
    /// As the gate is asked for it.
    pub(super) check: String,
    /// What is spoken over it, if that is known.
    pub(super) socket: Option<Socket>,
}

type All = BTreeMap<u32, Kept>;

/// The program's connections.
pub(super) fn with<T>(core: &Core, f: impl FnOnce(&mut All) -> T) -> T {
    let mut board = core.shared.borrow_mut();
    let slot = board.keep.entry("connections").or_insert_with(|| Box::new(All::new()));
    match slot.downcast_mut::<All>() {
        Some(all) => f(all),
        // Nobody else keeps anything under this name.
        None => f(&mut All::new()),
    }
}

/// Why nothing came of a request.
pub(super) enum No {
    /// The program ends, or the ceiling says no.
    Fault(Fault),
    /// The connection says no, as a fragment.
    Why(String),
}

impl From<Fault> for No {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl No {
    /// As an error of this builtin.
    pub(super) fn raised(self, name: &str, about: &str) -> Fault {
        match self {
            Self::Fault(fault) => fault,
            Self::Why(why) => raised(format!("{name}: {about}: {why}")),
        }
    }
}

fn ask(ctx: &mut Ctx<'_>, request: &Request, raw: &[u8]) -> Result<Reply, No> {
    ctx.core.host.flush();
    match ctx.core.host.broker(request, raw) {
        Ok(Reply::Refused(refused)) if refused.by == By::Ceiling => {
            Err(No::Fault(denied(format!("Capability not granted: {}", refused.why))))
        }
        Ok(Reply::Refused(refused)) => Err(No::Why(refused.why)),
        Ok(reply) => Ok(reply),
        Err(why) => Err(No::Why(format!("failed to {why}"))),
    }
}

fn data<T: DeserializeOwned>(reply: &Reply) -> Result<T, No> {
    let read = match reply {
        Reply::Json(json) => serde_json::from_slice(json).ok(),
        _ => None,
    };
    read.ok_or_else(|| No::Why("failed to read the supervisor's answer".to_owned()))
}

/// Makes a connection: its number, and the address at its other end. The gate has agreed to `check`.
pub(super) fn connect(ctx: &mut Ctx<'_>, check: String, connect: Connect) -> Result<(u32, String), No> {
    ctx.charge(16)?;
    let reply = ask(ctx, &Request::Connect(Box::new(connect)), &[])?;
    match data(&reply)? {
        Connected::Open { number, peer } => {
            with(ctx.core, |all| all.insert(number, Kept { check, socket: None }));
            Ok((number, peer))
        }
        Connected::Failed { kind, why } => Err(No::Why(format!("{}: {why}", kind.name()))),
    }
}

/// Sends what there is room for; how much that was.
pub(super) fn send(ctx: &mut Ctx<'_>, number: u32, bytes: &[u8]) -> Result<usize, No> {
    let reply = ask(ctx, &Request::Connection { number, act: Act::Send }, bytes)?;
    let taken: usize = data(&reply)?;
    let taken = taken.min(bytes.len());
    // Fuel goes with what is done, never with how often it was tried.
    ctx.charge(u64::from(taken > 0))?;
    Ok(taken)
}

/// What is there, and whether there will be no more.
pub(super) fn receive(ctx: &mut Ctx<'_>, number: u32, most: u32) -> Result<(Vec<u8>, bool), No> {
    let Reply::Piece { bytes, ended } =
        ask(ctx, &Request::Connection { number, act: Act::Receive { most } }, &[])?
    else {
        return Err(No::Why("the supervisor gave no piece".to_owned()));
    };
    ctx.charge(bytes.len() as u64 / 32 + u64::from(!bytes.is_empty()))?;
    Ok((bytes, ended))
}

/// No more will be sent.
pub(super) fn end_sending(ctx: &mut Ctx<'_>, number: u32) -> Result<(), No> {
    ask(ctx, &Request::Connection { number, act: Act::EndSending }, &[]).map(drop)
}

/// Forgets it; what was taken is still sent.
pub(super) fn close(ctx: &mut Ctx<'_>, number: u32) {
    with(ctx.core, |all| all.remove(&number));
    // It may have ended by itself.
    let _closed = ask(ctx, &Request::Connection { number, act: Act::Close }, &[]);
}

/// Asks the gate again, in silence where it agrees: a loop of reads is one decision, and its beginning has the entry.
///
/// # Errors
/// The denial, or that it is closed.
pub(in crate::builtins) fn allowed(ctx: &mut Ctx<'_>, number: u32) -> Result<(), Fault> {
    let check = with(ctx.core, |all| all.get(&number).map(|kept| kept.check.clone()));
    let check = check.ok_or_else(|| raised(format!("{}: this connection is closed", ctx.name)))?;
    if ctx.core.gate.covers(Capability::Net, Some(&check)) {
        return Ok(());
    }
    ctx.ask(Capability::Net, Some(&check))
}
