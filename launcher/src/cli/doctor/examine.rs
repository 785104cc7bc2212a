//! From facts to findings. Pure.

use crate::probe::at_least;
use policies::{
    facts::{Caller, CgroupFacts, HostFacts},
    layer::{Layer, Standing},
    plan::Means,
};
use serde::Serialize;

/// What was seen besides the facts that a plan is made from.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Whether the prepared empty network namespace is there.
    pub pinned_network: bool,
    /// What a container has mounted over parts of /proc.
    pub masked_proc: Vec<String>,
    /// Cgroups of dead launchers that were just removed.
    pub removed_cgroups: Vec<String>,
}

/// Whether the jail has all its layers here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Jail {
    /// It has.
    Full,
    /// A layer is missing; a start is refused unless `--allow-missing` names it.
    Incomplete,
}

/// Who can apply a remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// Whoever runs thirdwall.
    Caller,
    /// The administrator of the host.
    Host,
    /// Whoever configures the container that thirdwall runs in.
    Container,
    /// A newer or otherwise configured kernel.
    Kernel,
}

/// What would help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// Who can do it.
    pub who: Who,
    /// What is to be done.
    pub what: String,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which.
    pub layer: Layer,
    /// Whether it can be had here.
    pub standing: Standing,
    /// By what, or why not.
    pub how: String,
    /// What would help.
    pub remedies: Vec<Remedy>,
}

/// What one Landlock ABI added, and the host lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LandlockStep {
    /// The ABI.
    pub abi: u32,
    /// The first kernel that has it.
    pub kernel: &'static str,
    /// What it added.
    pub adds: &'static str,
    /// What holds it here instead.
    pub meanwhile: &'static str,
}

/// One limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitRow {
    /// Its option, without dashes.
    pub limit: &'static str,
    /// What will hold it.
    pub means: Means,
    /// How well.
    pub how: String,
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Whether a full jail can be built.
    pub jail: Jail,
    /// `x86_64` or `aarch64`.
    pub arch: String,
    /// Kernel release.
    pub kernel: String,
    /// Who calls, in words.
    pub caller: String,
    /// Each layer that the host has a part in.
    pub layers: Vec<Finding>,
    /// Landlock's ABI, 0 = none.
    pub landlock_abi: u32,
    /// What newer ones would add.
    pub landlock_lacks: Vec<LandlockStep>,
    /// Each limit.
    pub limits: Vec<LimitRow>,
    /// Cgroups of dead launchers that were removed.
    pub removed_cgroups: Vec<String>,
}

/// Kernel documents: userspace-api/landlock.rst, "Previous limitations".
const LANDLOCK: [LandlockStep; 7] = [
    LandlockStep {
        abi: 1,
        kernel: "5.13",
        adds: "rules for files and folders",
        meanwhile: "only the new root and its mounts",
    },
    LandlockStep {
        abi: 2,
        kernel: "5.19",
        adds: "moving files between folders",
        meanwhile: "it is always refused",
    },
    LandlockStep { abi: 3, kernel: "6.2", adds: "truncating files", meanwhile: "read-only mounts hold it" },
    LandlockStep {
        abi: 4,
        kernel: "6.7",
        adds: "TCP ports",
        meanwhile: "the filter and the network namespace hold them",
    },
    LandlockStep {
        abi: 5,
        kernel: "6.10",
        adds: "ioctls on devices",
        meanwhile: "the jail has a few harmless devices only",
    },
    LandlockStep {
        abi: 6,
        kernel: "6.12",
        adds: "scopes of abstract sockets and signals",
        meanwhile: "the filter and the namespaces hold them",
    },
    LandlockStep {
        abi: 7,
        kernel: "6.15",
        adds: "an audit of what Landlock refuses (root only)",
        meanwhile: "such a refusal is an errno and no entry",
    },
];

/// The first Landlock with which nothing has to be held by other means.
const FULL_LANDLOCK: u32 = 6;

/// Judges.
#[must_use]
pub fn examine(facts: &HostFacts, around: &Surroundings) -> Diagnosis {
    let layers = vec![
        namespaces(facts),
        root(facts, around),
        landlock(facts),
        filter(facts),
        network(facts, around),
        limits_layer(facts),
    ];
    let missing = layers.iter().any(|finding| finding.standing == Standing::Missing);
    Diagnosis {
        jail: if missing { Jail::Incomplete } else { Jail::Full },
        arch: facts.arch.clone(),
        kernel: facts.kernel.clone(),
        caller: match facts.caller {
            Caller::Root => "root of the host".into(),
            Caller::User { uid: 0, .. } => "root without the host's rights (a container?)".into(),
            Caller::User { uid, .. } => format!("user {uid}"),
        },
        layers,
        landlock_abi: facts.landlock_abi,
        landlock_lacks: LANDLOCK.into_iter().filter(|step| step.abi > facts.landlock_abi).collect(),
        limits: limits(facts),
        removed_cgroups: around.removed_cgroups.clone(),
    }
}

fn finding(layer: Layer, standing: Standing, how: impl Into<String>) -> Finding {
    Finding { layer, standing, how: how.into(), remedies: Vec::new() }
}

impl Finding {
    fn remedy(mut self, who: Who, what: impl Into<String>) -> Self {
        self.remedies.push(Remedy { who, what: what.into() });
        self
    }
}

fn namespaces(facts: &HostFacts) -> Finding {
    match &facts.user_namespaces {
        Ok(()) => finding(
            Layer::Namespaces,
            Standing::InForce,
            "user, pid, mount, ipc, uts, cgroup and network namespaces can be made",
        ),
        Err(reason) => {
            finding(Layer::Namespaces, Standing::Missing, format!("user namespaces can't be made: {reason}"))
                .remedy(
                    Who::Host,
                    "sysctl -w user.max_user_namespaces=65536; on Debian kernel.unprivileged_userns_clone=1; on Ubuntu \
                     kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for thirdwall with `userns,`",
                )
                .remedy(
                    Who::Container,
                    "a seccomp profile that lets clone, unshare, setns, mount, umount2 and pivot_root through \
                     (docker: --security-opt seccomp=FILE)",
                )
        }
    }
}

fn root(facts: &HostFacts, around: &Surroundings) -> Finding {
    let hidden = facts.caller != Caller::Root && !around.masked_proc.is_empty();
    if facts.user_namespaces.is_err() {
        return finding(Layer::Root, Standing::Missing, "a new root takes the namespaces");
    }
    if hidden {
        let first = around.masked_proc.first().map_or("", String::as_str);
        return finding(
            Layer::Root,
            Standing::OtherMeans,
            format!(
                "a new root, but no /proc in it: a container hides parts of its own ({first} and the like), so the \
                 kernel refuses another; programs that need /proc won't start"
            ),
        )
        .remedy(Who::Container, "an unmasked /proc (docker: --security-opt systempaths=unconfined)");
    }
    let ids = match (facts.caller, facts.idmapped_mounts) {
        (Caller::Root, true) => "; host folders appear under the jail's own ids (idmapped mounts)",
        (Caller::Root, false) => "; no idmapped mounts: granted host folders keep their owners",
        (Caller::User { .. }, _) => "",
    };
    let found = finding(
        Layer::Root,
        Standing::InForce,
        format!("a new root with nothing in it but what is listed{ids}"),
    );
    if facts.caller == Caller::Root && !facts.idmapped_mounts {
        return found.remedy(Who::Kernel, "5.12 or newer, for idmapped mounts");
    }
    found
}

fn landlock(facts: &HostFacts) -> Finding {
    match facts.landlock_abi {
        0 => {
            let found = finding(
                Layer::Landlock,
                Standing::Missing,
                "this kernel has no Landlock, or doesn't enable it",
            );
            if at_least(&facts.kernel, 5, 13) {
                found
                    .remedy(
                        Who::Host,
                        "boot with landlock in the kernel's lsm= list, and CONFIG_SECURITY_LANDLOCK built in",
                    )
                    .remedy(Who::Container, "a seccomp profile that lets the three landlock_ calls through")
            } else {
                found.remedy(Who::Kernel, "5.13 or newer")
            }
        }
        abi if abi < FULL_LANDLOCK => finding(
            Layer::Landlock,
            Standing::OtherMeans,
            format!("ABI {abi}; what it can't say is held by other layers, see below"),
        )
        .remedy(Who::Kernel, "6.12 or newer, for ABI 6"),
        abi => finding(Layer::Landlock, Standing::InForce, format!("ABI {abi}")),
    }
}

fn filter(facts: &HostFacts) -> Finding {
    if !facts.seccomp {
        return finding(
            Layer::Filter,
            Standing::Missing,
            "seccomp filters with notification don't work here",
        )
        .remedy(Who::Kernel, "5.5 or newer with CONFIG_SECCOMP_FILTER")
        .remedy(Who::Container, "a seccomp profile that lets seccomp(2) through");
    }
    if at_least(&facts.kernel, 5, 19) {
        return finding(Layer::Filter, Standing::InForce, "seccomp, with denials notified to the supervisor");
    }
    finding(
        Layer::Filter,
        Standing::InForce,
        "seccomp, with denials notified to the supervisor; a signal may repeat an entry (no WAIT_KILLABLE_RECV)",
    )
    .remedy(Who::Kernel, "5.19 or newer")
}

fn network(facts: &HostFacts, around: &Surroundings) -> Finding {
    if facts.user_namespaces.is_err() {
        return finding(Layer::Network, Standing::Missing, "a network namespace takes the namespaces");
    }
    let how = match (facts.shared_network_namespace, around.pinned_network) {
        (true, true) => "one empty network namespace, prepared and pinned, is entered",
        (true, false) => "one empty network namespace is entered; the first start prepares and pins it",
        (false, _) => "each jail makes an empty network namespace of its own: the dearest step of its start",
    };
    finding(Layer::Network, Standing::InForce, how)
}

fn limits_layer(facts: &HostFacts) -> Finding {
    let rows = limits(facts);
    let weaker: Vec<&str> = rows
        .iter()
        .filter(|row| matches!(row.limit, "cpu" | "memory" | "pids"))
        .filter(|row| !matches!(row.means, Means::CgroupV1 | Means::CgroupV2))
        .map(|row| row.limit)
        .collect();
    if weaker.is_empty() {
        return finding(Layer::Limits, Standing::InForce, "CPU time, memory and processes by cgroup");
    }
    let found = finding(
        Layer::Limits,
        Standing::OtherMeans,
        format!("without a cgroup of their own: {}", weaker.join(", ")),
    );
    match facts.caller {
        Caller::Root => found
            .remedy(
                Who::Host,
                "mount the cgroup hierarchy at /sys/fs/cgroup, with the memory and pids controllers",
            )
            .remedy(Who::Container, "a writable /sys/fs/cgroup in a cgroup namespace of its own"),
        Caller::User { .. } => found
            .remedy(
                Who::Caller,
                "start it in a group of its own: systemd-run --user --scope -p Delegate=yes thirdwall …",
            )
            .remedy(
                Who::Host,
                "delegate a cgroup v2 subtree with the memory and pids controllers to this user",
            )
            .remedy(Who::Container, "a writable /sys/fs/cgroup in a cgroup namespace of its own"),
    }
}

fn limits(facts: &HostFacts) -> Vec<LimitRow> {
    let (memory, pids, cpu) = match facts.cgroup {
        CgroupFacts::V2 { memory, pids, cpu } => pick(Means::CgroupV2, memory, pids, cpu),
        CgroupFacts::V1 { memory, pids, cpu } => pick(Means::CgroupV1, memory, pids, cpu),
        CgroupFacts::None => (None, None, None),
    };
    let row = |limit, means, how: &str| LimitRow { limit, means, how: how.to_owned() };
    let or = |limit, cgroup: Option<Means>, means: Means, how: &str| match cgroup {
        Some(cgroup) => row(limit, cgroup, "of the whole tree, exact"),
        None => row(limit, means, how),
    };
    vec![
        row("wall", Means::Supervisor, "a timer, from the exec on"),
        or(
            "cpu",
            cpu,
            Means::Polling,
            "looks at the tree from time to time; no bound for short-lived processes",
        ),
        or(
            "memory",
            memory,
            Means::Polling,
            "looks at the tree from time to time: coarse, and not all that the kernel keeps",
        ),
        or("pids", pids, Means::Rlimit, "counted for the jail's user"),
        LimitRow {
            limit: "nofile",
            means: Means::Rlimit,
            how: format!("each process; at most {} here", facts.nofile_hard),
        },
        row("output", Means::Supervisor, "counted and cut, exact"),
        row("disk", Means::Tmpfs, "the size of scratch and /tmp together; none on a host folder"),
    ]
}

fn pick(means: Means, memory: bool, pids: bool, cpu: bool) -> (Option<Means>, Option<Means>, Option<Means>) {
    (memory.then_some(means), pids.then_some(means), cpu.then_some(means))
}
