//! `plan(request, paths, host)`: the tightest thing that this kernel can be told.

use super::{
    Device, Execute, FilterName, IdMap, Identity, JailPath, LandlockPlan, Network, Node, Outside, Payload,
    Plan, Right, Stream, capabilities, environment,
    files::{self, Granting, Holds, Outcome},
    layers,
    layout::{Layout, READ_TREE, SCRATCH_RIGHTS},
    limits,
};
use crate::{
    capability::Capability,
    ceiling::{Ceiling, Grant},
    error::Refusal,
    facts::{Caller, HostFacts},
    policy::{Proc, RootKind},
    request::{PathFacts, Request, Subject, Terminal, Workdir},
};
use std::collections::BTreeMap;

pub use super::layers::NEWEST_ABI;

/// Where a foreign command's working folder stands.
pub(super) const WORKDIR: &str = "/work";
/// The jail's user and group. Never 0: much software takes root for granted and tries what only root may.
const USER: u32 = 1000;
/// Permission bits of folders that everybody in the jail shares.
const SHARED: u32 = 0o1777;

/// Decides everything that the kernel will be told.
///
/// # Errors
/// [`Refusal`]: a layer that the host lacks and that wasn't given up by name, a path that can't be put into a jail or
/// isn't there, a capability behind which nothing is built yet, a limit too small to start in.
pub fn plan(request: &Request, facts: &PathFacts, host: &HostFacts) -> Result<Plan, Refusal> {
    capabilities::refuse_languages_own(&request.ceiling, &request.subject)?;
    let idmap = match host.caller {
        Caller::Root if host.idmapped_mounts => IdMap::OwnerIsJailUser,
        Caller::Root | Caller::User { .. } => IdMap::AsIs,
    };
    let mut granting = Granting {
        facts,
        holds: if host.landlock_abi == 0 { Holds::MountsAlone } else { Holds::Both },
        idmap,
        notes: Vec::new(),
        socket: None,
    };
    let mut layout = Layout::default();
    let mut outcomes = BTreeMap::new();
    if let Subject::Command { .. } = request.subject {
        furnish(&mut layout, request, &mut granting)?;
    }
    granting.provide(&mut layout, &request.provides)?;
    match &request.subject {
        Subject::Command { .. } => grant_files(&mut layout, &mut granting, &request.ceiling, &mut outcomes)?,
        Subject::Runtime { .. } => files::by_broker(&request.ceiling, &mut outcomes, &mut granting.notes)?,
    }
    let payload = match &request.subject {
        Subject::Runtime { .. } => Payload::Runtime,
        Subject::Command { .. } => {
            let payload = granting.program(&mut layout, facts.program.as_ref().ok_or(Refusal::NoProgram)?)?;
            for grant in request.ceiling.grants().filter(|grant| grant.capability() == Capability::Exec) {
                outcomes.insert(grant.clone(), granting.exec(&mut layout, grant.scope(), request)?);
            }
            payload
        }
    };
    if granting.holds == Holds::MountsAlone {
        let mounted = |(grant, outcome): (Grant, Outcome)| {
            let outcome = outcome.by_mounts_alone(grant.capability());
            (grant, outcome)
        };
        outcomes = outcomes.into_iter().map(mounted).collect();
    }
    let workdir = match &request.subject {
        Subject::Command { .. } => WORKDIR.to_owned(),
        // Empty, so that a program that may read nothing doesn't learn where it was started.
        Subject::Runtime { .. } => "/".to_owned(),
    };
    if host.caller == Caller::Root && idmap == IdMap::AsIs && !outcomes.is_empty() {
        granting.notes.push(
            "this kernel has no idmapped mounts: granted files are reached by their permissions for others only".to_owned(),
        );
    }
    let limits = limits::limits(request.limits, host, &mut granting.notes)?;
    let filter = filter_name(request);
    let built = layers::layers(request, host, filter, &limits)?;
    if let (None, Some(socket)) = (built.filter, &granting.socket) {
        let why = "it is a socket of the host, and without the filter a program could call it";
        return Err(Refusal::PathRefused { path: socket.0.clone(), why });
    }
    let mut environment = environment::environment(request);
    if let Network::Named(named) = &built.network {
        for (at, text) in named.files() {
            layout.put(at, Node::Text(text));
            layout.allow(at, &[Right::ReadFile]);
        }
        for (name, value) in named.environment() {
            environment.entry(name.to_owned()).or_insert(value);
        }
    }
    let (root, rules) = layout.finish()?;
    let stream = |capability| if request.ceiling.has(capability) { Stream::Relayed } else { Stream::Closed };
    Ok(Plan {
        payload,
        root,
        workdir: JailPath(workdir),
        landlock: LandlockPlan { abi: built.abi, rules: if built.abi == 0 { Vec::new() } else { rules } },
        filter: built.filter,
        network: built.network,
        identity: Identity {
            uid: USER,
            gid: USER,
            outside: match host.caller {
                Caller::Root => Outside::Unused,
                Caller::User { .. } => Outside::Caller,
            },
        },
        hostname: "jail".to_owned(),
        limits,
        environment,
        stdin: stream(Capability::Stdin),
        stdout: stream(Capability::Stdout),
        capabilities: capabilities::rows(&request.ceiling, &request.subject, &outcomes),
        layers: built.states,
        notes: granting.notes,
    })
}

fn filter_name(request: &Request) -> FilterName {
    match request.subject {
        Subject::Runtime { .. } => FilterName::Runtime,
        Subject::Command { .. } => {
            let sockets = request.ceiling.has(Capability::Net) || request.ceiling.has(Capability::Serve);
            match (sockets, request.ceiling.has(Capability::Exec)) {
                (false, false) => FilterName::Command,
                (false, true) => FilterName::CommandExec,
                (true, false) => FilterName::CommandNet,
                (true, true) => FilterName::CommandNetExec,
            }
        }
    }
}

/// What every foreign command finds: scratch folders, a small /dev, /etc and /proc as the policy has them.
fn furnish(layout: &mut Layout, request: &Request, granting: &mut Granting<'_>) -> Result<(), Refusal> {
    scratch(layout, "/tmp", SHARED);
    match &request.workdir {
        Workdir::Scratch => scratch(layout, WORKDIR, 0o700),
        Workdir::Host { path, access } => granting.workdir(layout, path, *access)?,
    }
    devices(layout, request.terminal);
    if request.jail.root == RootKind::Usual {
        let shell = if request.provides.is_empty() { "/usr/sbin/nologin" } else { "/bin/sh" };
        for (at, text) in environment::etc(shell) {
            layout.put(at, Node::Text(text));
        }
        layout.allow("/etc", &READ_TREE);
    }
    if request.jail.proc == Proc::Own {
        layout.put("/proc", Node::Proc);
        layout.allow("/proc", &READ_TREE);
        granting.notes.push(
            "/proc/self/mountinfo tells where on the host each of these places lies and on which disk, \
             /proc/self/uid_map the jail's user id outside; proc = \"none\" in the policy hides both"
                .to_owned(),
        );
    }
    Ok(())
}

fn scratch(layout: &mut Layout, at: &str, mode: u32) {
    layout.put(at, Node::Scratch { execute: Execute::Refused, mode });
    layout.allow(at, &SCRATCH_RIGHTS);
}

fn devices(layout: &mut Layout, terminal: Terminal) {
    layout.put("/dev", Node::Folder);
    for (at, device) in [
        ("/dev/null", Device::Null),
        ("/dev/zero", Device::Zero),
        ("/dev/full", Device::Full),
        ("/dev/random", Device::Random),
        ("/dev/urandom", Device::Urandom),
    ] {
        layout.put(at, Node::Device(device));
    }
    for (at, to) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        layout.put(at, Node::Link(to.to_owned()));
    }
    layout.allow("/dev", &[Right::ReadFile, Right::ReadDir, Right::WriteFile]);
    scratch(layout, "/dev/shm", SHARED);
    if terminal == Terminal::Own {
        layout.put("/dev/tty", Node::Device(Device::Tty));
        layout.put("/dev/pts", Node::Pts);
        layout.put("/dev/ptmx", Node::Link("pts/ptmx".to_owned()));
        layout.allow("/dev/tty", &[Right::ReadFile, Right::WriteFile, Right::IoctlDev]);
        layout.allow("/dev/pts", &[Right::ReadFile, Right::ReadDir, Right::WriteFile, Right::IoctlDev]);
    }
}

fn grant_files(
    layout: &mut Layout,
    granting: &mut Granting<'_>,
    ceiling: &Ceiling,
    outcomes: &mut BTreeMap<Grant, Outcome>,
) -> Result<(), Refusal> {
    let is_file = |grant: &&Grant| Capability::File.includes(grant.capability());
    let grants: Vec<&Grant> = ceiling.grants().filter(is_file).collect();
    granting.refuse_ways_out(&grants)?;
    for grant in grants {
        outcomes.insert(grant.clone(), granting.grant(layout, grant)?);
    }
    for grant in ceiling.grants().filter(|grant| grant.capability() == Capability::Db) {
        outcomes.insert(grant.clone(), granting.database(layout, grant)?);
    }
    Ok(())
}
