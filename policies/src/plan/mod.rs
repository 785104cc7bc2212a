//! The plan: everything that the kernel will be told, decided before anything is done.
//!
//! Order of flow: a settled [`Request`](crate::request::Request), the paths found for it and the host's facts →
//! [`plan`] → [`Plan`] → [`explain()`], or the launcher's jail.
//!
//! Invariant: serialisable and complete. The launcher adds no decision of its own; it only opens, mounts and sets.
//! One rule can't be written as a path: for [`Payload::Runtime`] the launcher lets Landlock execute the runtime's own
//! descriptor, and nothing else.

mod capabilities;
pub mod database;
mod decide;
pub(crate) mod environment;
pub(crate) mod exec;
mod explain;
mod files;
mod layers;
mod layout;
mod limits;
pub mod network;
mod provide;
pub(crate) mod wanted;

pub use decide::{NEWEST_ABI, plan};
pub use explain::explain;
pub use network::{NamedNetwork, NetworkLimits};

use crate::{
    layer::LayerState,
    units::{Bytes, Millis},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// A path on the host: absolute, no NUL, normalised.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostPath(pub String);

/// A path inside the jail: absolute, no NUL, normalised.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JailPath(pub String);

impl fmt::Display for HostPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for JailPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Whether a tree can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read only, at the mount and in Landlock.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

/// Whether files of a tree can be executed, and mapped as code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Execute {
    /// The mount is noexec.
    Refused,
    /// The mount is not noexec.
    Allowed,
}

/// Whether owner ids are translated on the mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdMap {
    /// Ids as on the host.
    AsIs,
    /// The owner of the tree's top appears as the jail's user, and what the jail creates belongs to that owner.
    OwnerIsJailUser,
}

/// A device node of the private /dev.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// /dev/null
    Null,
    /// /dev/zero
    Zero,
    /// /dev/full
    Full,
    /// /dev/random
    Random,
    /// /dev/urandom
    Urandom,
    /// /dev/tty, with a terminal only
    Tty,
}

/// What stands at a path of the jail's root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// A tree or a single file of the host, bound.
    Bind {
        /// Where it is on the host.
        source: HostPath,
        /// Read only or not.
        access: Access,
        /// Executable or not.
        execute: Execute,
        /// Owner ids.
        idmap: IdMap,
    },
    /// A folder on the jail's own bounded tmpfs, writable. Mode 0700 for scratch, 1777 for /tmp and /dev/shm.
    Scratch {
        /// Executable or not.
        execute: Execute,
        /// Permission bits.
        mode: u32,
    },
    /// An empty read-only folder.
    Folder,
    /// A small read-only file made for the jail (/etc/passwd and the like).
    Text(String),
    /// A symbolic link.
    Link(String),
    /// One device node of the host, bound.
    Device(Device),
    /// proc of the jail's own pid namespace: read-only, subset=pid, hidepid=ptraceable.
    Proc,
    /// A devpts instance of the jail's own (with a terminal only); /dev/ptmx is a link into it.
    Pts,
}

/// One entry of the jail's root. The plan's list is sorted by path, so that parents come first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where, inside.
    pub at: JailPath,
    /// What.
    pub node: Node,
}

/// Rights of one Landlock rule, in the terms of the plan; the launcher maps them to the bits that the ABI knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Read files.
    ReadFile,
    /// List folders.
    ReadDir,
    /// Execute files.
    Execute,
    /// Write to files that exist, and truncate them.
    WriteFile,
    /// Make and remove regular files, folders and links; rename and link across folders. Never devices.
    Make,
    /// Make path sockets and FIFOs.
    MakeIpc,
    /// Device ioctls (terminals only).
    IoctlDev,
}

/// One Landlock rule: rights beneath a path of the jail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockRule {
    /// Folder or file, inside.
    pub at: JailPath,
    /// What is granted beneath it.
    pub rights: Vec<Right>,
}

/// Landlock's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockPlan {
    /// The ABI that is used: min(host's, the newest that the plan knows). 0 = missing, by --allow-missing.
    pub abi: u32,
    /// Rules; everything else is refused.
    pub rules: Vec<LandlockRule>,
}

/// Which precompiled filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterName {
    /// The language runtime's: the smallest.
    Runtime,
    /// A foreign command without `exec`: the first exec only.
    Command,
    /// A foreign command that may execute programs (Landlock says which).
    CommandExec,
    /// A foreign command without `exec` whose ceiling opens the network.
    CommandNet,
    /// A foreign command with both.
    CommandNetExec,
}

/// The network's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// One prepared empty network namespace, shared: no sockets are granted.
    SharedEmpty,
    /// A new empty network namespace for this jail alone.
    OwnEmpty,
    /// A new one from which granted hosts can be reached, or in which granted ports are served.
    Named(Box<NamedNetwork>),
}

/// Host user outside the jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// The caller's own ids.
    Caller,
    /// An unused host id, chosen by the launcher for this jail (root callers).
    Unused,
}

/// User and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// uid inside, never 0.
    pub uid: u32,
    /// gid inside, never 0.
    pub gid: u32,
    /// Who that is outside.
    pub outside: Outside,
}

/// How a memory, process or CPU limit is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// cgroup v2.
    CgroupV2,
    /// cgroup v1.
    CgroupV1,
    /// A resource limit of the processes.
    Rlimit,
    /// The supervisor looks from time to time.
    Polling,
    /// The supervisor's own timer or counter.
    Supervisor,
    /// The size of the jail's tmpfs.
    Tmpfs,
}

/// One limit with the means that holds it. `value: None` = no limit was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit<T> {
    /// The bound.
    pub value: Option<T>,
    /// What holds it (or would).
    pub means: Means,
}

/// Limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Wall clock from exec.
    pub wall: Limit<Millis>,
    /// CPU time of the tree.
    pub cpu: Limit<Millis>,
    /// Memory of the tree.
    pub memory: Limit<Bytes>,
    /// Processes and threads (the jail's init not counted).
    pub pids: Limit<u64>,
    /// Open files of each process.
    pub nofile: u64,
    /// Output bytes, all streams together.
    pub output: Limit<Bytes>,
    /// Bytes of the jail's tmpfs.
    pub disk: Bytes,
    /// Between TERM and KILL when the run is stopped.
    pub grace: Millis,
}

/// Whether a stream is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Through the supervisor.
    Relayed,
    /// Not granted: input is empty, output is dropped and audited.
    Closed,
}

/// How exactly the jail says what a capability's scope says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// The same.
    Exact,
    /// Wider, by this.
    Coarser(String),
    /// The kernel can't hold it.
    LanguageOnly,
    /// Nothing behind it is built yet; refused everywhere.
    NotBuilt,
}

/// One row of `explain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapabilityRow {
    /// Name as in the ceiling.
    pub capability: String,
    /// Its scope, if any.
    pub scope: Option<String>,
    /// Whether the ceiling grants it.
    pub granted: bool,
    /// How exactly.
    pub fit: Fit,
    /// What holds it, a sentence.
    pub held_by: String,
}

/// The program that is executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// thirdwall's own language runtime, from a descriptor.
    Runtime,
    /// A foreign command.
    Command {
        /// The file that is executed, as seen inside (a script's interpreter, resolved).
        program: JailPath,
        /// Where that file is on the host.
        source: HostPath,
        /// argv, the first included.
        argv: Vec<String>,
    },
}

/// Everything that the kernel will be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What runs.
    pub payload: Payload,
    /// The root, parents first.
    pub root: Vec<Mount>,
    /// The working folder, inside.
    pub workdir: JailPath,
    /// Landlock.
    pub landlock: LandlockPlan,
    /// The filter's name; `None` = missing, by --allow-missing.
    pub filter: Option<FilterName>,
    /// The network.
    pub network: Network,
    /// User and group.
    pub identity: Identity,
    /// Host name inside.
    pub hostname: String,
    /// Limits.
    pub limits: Limits,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// Standard input.
    pub stdin: Stream,
    /// Standard output and error.
    pub stdout: Stream,
    /// Each capability of the closed list.
    pub capabilities: Vec<CapabilityRow>,
    /// Each layer as planned.
    pub layers: Vec<LayerState>,
    /// What a reader should know: sockets in provided trees, folders without a disk limit.
    pub notes: Vec<String>,
}
