//! Each layer as this host can build it; a missing one is a refusal unless it was given up by name.
//!
//! Invariant: fail closed. The namespaces, the root and the network have no substitute yet, so they can't be given up;
//! of Landlock and the filter one must hold.

use super::{FilterName, Limits, Means, NamedNetwork, Network};
use crate::{
    error::{Choice, Refusal},
    facts::HostFacts,
    layer::{Layer, LayerState, Standing},
    policy::Proc,
    request::{Profile, Request, Subject},
};

/// The newest Landlock that the plan knows.
pub const NEWEST_ABI: u32 = 7;
/// The first Landlock that says all that the plan wants: scoping of sockets and signals.
const FULL_ABI: u32 = 6;

/// What each layer turned out to be.
pub(super) struct Built {
    pub(super) abi: u32,
    pub(super) filter: Option<FilterName>,
    pub(super) network: Network,
    pub(super) states: Vec<LayerState>,
}

/// Checks the host against what the jail needs.
pub(super) fn layers(
    request: &Request,
    host: &HostFacts,
    filter: FilterName,
    limits: &Limits,
) -> Result<Built, Refusal> {
    if let Err(reason) = &host.user_namespaces {
        return Err(Refusal::MissingLayer {
            layer: Layer::Namespaces,
            reason: format!("user namespaces can't be made here ({reason})"),
            remedy: "let the host's administrator allow them (kernel.unprivileged_userns_clone, \
                     user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)"
                .to_owned(),
            choice: Choice::None,
        });
    }
    let landlock_gone = host.landlock_abi == 0;
    let filter_gone = !host.seccomp;
    if landlock_gone {
        give_up(
            request,
            Layer::Landlock,
            "this kernel has no Landlock, or doesn't enable it",
            "run a kernel from 5.13 on, booted with landlock in lsm=",
        )?;
    }
    if filter_gone {
        give_up(
            request,
            Layer::Filter,
            "seccomp filters with user notification don't work here",
            "run a kernel from 5.5 on with CONFIG_SECCOMP_FILTER, and no outer filter that refuses seccomp(2)",
        )?;
    }
    if landlock_gone && filter_gone {
        return Err(Refusal::LastWall { missing: "landlock and filter".to_owned() });
    }
    let abi = host.landlock_abi.min(NEWEST_ABI);
    let network = match NamedNetwork::of(&request.ceiling, request.serve_address)? {
        // The runtime has no sockets in any case.
        Some(named) if matches!(request.subject, Subject::Command { .. }) => Network::Named(Box::new(named)),
        Some(_) | None if host.shared_network_namespace && !shows_proc(request) => Network::SharedEmpty,
        Some(_) | None => Network::OwnEmpty,
    };
    let states = Layer::ALL
        .into_iter()
        .map(|layer| {
            let (standing, how) = state(layer, request, abi, filter_gone, &network, filter, limits);
            LayerState { layer, standing, how }
        })
        .collect();
    Ok(Built { abi, filter: (!filter_gone).then_some(filter), network, states })
}

/// Whether the jail has a /proc, where /proc/self/net lists the socket pairs of all jails in its network namespace.
fn shows_proc(request: &Request) -> bool {
    matches!(request.subject, Subject::Command { .. }) && request.jail.proc == Proc::Own
}

fn give_up(request: &Request, layer: Layer, reason: &str, remedy: &str) -> Result<(), Refusal> {
    if request.allow_missing.contains(&layer) {
        return Ok(());
    }
    Err(Refusal::MissingLayer {
        layer,
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
        choice: Choice::AllowMissing,
    })
}

fn state(
    layer: Layer,
    request: &Request,
    abi: u32,
    filter_gone: bool,
    network: &Network,
    filter: FilterName,
    limits: &Limits,
) -> (Standing, String) {
    let in_force = |how: &str| (Standing::InForce, how.to_owned());
    let not_applicable = |how: &str| (Standing::NotApplicable, how.to_owned());
    match layer {
        Layer::Gate => match request.subject {
            Subject::Runtime { .. } => in_force("each effect is asked for: require ∩ ceiling"),
            Subject::Command { .. } => not_applicable("a foreign command has no gate"),
        },
        Layer::Profile => match request.subject {
            Subject::Runtime { profile: Profile::Pure } => {
                in_force("builtins that look at the system are not there")
            }
            Subject::Runtime { profile: Profile::Native } => {
                not_applicable("the native profile was asked for")
            }
            Subject::Command { .. } => not_applicable("a foreign command has no profile"),
        },
        Layer::Namespaces => in_force("user, pid, mount, ipc, uts, cgroup and network namespaces"),
        Layer::Root => in_force("a root of its own, with nothing in it but what is listed"),
        Layer::Landlock => landlock(abi),
        Layer::Filter if filter_gone => (
            Standing::Missing,
            "seccomp filters don't work here; accepted by --allow-missing filter".to_owned(),
        ),
        Layer::Filter => in_force(match filter {
            FilterName::Runtime => "seccomp, the runtime's list",
            FilterName::Command => "seccomp, a command's list: no program but the first",
            FilterName::CommandExec => "seccomp, a command's list with execve",
            FilterName::CommandNet => "seccomp, a command's list with sockets: no program but the first",
            FilterName::CommandNetExec => "seccomp, a command's list with sockets and execve",
        }),
        Layer::Network => match network {
            Network::SharedEmpty => in_force("an empty network namespace, prepared and shared"),
            Network::OwnEmpty => in_force("an empty network namespace of its own"),
            Network::Named(named) => (Standing::InForce, named.how()),
        },
        Layer::Broker => match request.subject {
            Subject::Runtime { .. } => {
                in_force("files and children: each request is checked by the supervisor")
            }
            Subject::Command { .. } => not_applicable("nothing of this ceiling goes through it"),
        },
        Layer::Limits => {
            let held =
                [("cpu", limits.cpu.means), ("memory", limits.memory.means), ("pids", limits.pids.means)];
            let how = held.map(|(name, means)| format!("{name} by {}", means.words())).join(", ");
            let cgroup = held.iter().all(|(_, means)| matches!(means, Means::CgroupV2 | Means::CgroupV1));
            (if cgroup { Standing::InForce } else { Standing::OtherMeans }, how)
        }
    }
}

fn landlock(abi: u32) -> (Standing, String) {
    if abi == 0 {
        return (Standing::Missing, "this kernel has none; accepted by --allow-missing landlock".to_owned());
    }
    if abi >= FULL_ABI {
        return (Standing::InForce, format!("ABI {abi}"));
    }
    let lacks: Vec<&str> = [
        (2, "moving files between folders (always refused)"),
        (3, "truncating (held by read-only mounts)"),
        (5, "device ioctls (held by the filter)"),
        (6, "scoping of sockets and signals (held by namespaces and the filter)"),
    ]
    .into_iter()
    .filter(|&(since, _)| abi < since)
    .map(|(_, what)| what)
    .collect();
    (Standing::OtherMeans, format!("ABI {abi}, which can't say: {}", lacks.join(", ")))
}
