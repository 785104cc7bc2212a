//! What the host can do, as plain data: asked once by the launcher, or written by hand in a test.

use serde::{Deserialize, Serialize};

/// How the caller may use cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupFacts {
    /// Unified hierarchy with a writable, delegated or own place; which controllers are there.
    V2 {
        /// The memory controller can be used.
        memory: bool,
        /// The pids controller can be used.
        pids: bool,
        /// CPU time is accounted (always in v2).
        cpu: bool,
    },
    /// Version 1 hierarchies that can be written.
    V1 {
        /// memory
        memory: bool,
        /// pids
        pids: bool,
        /// cpuacct
        cpu: bool,
    },
    /// None that the caller may use.
    None,
}

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// Host root with the capabilities that the jail needs.
    Root,
    /// Anybody else.
    User {
        /// Effective user id.
        uid: u32,
        /// Effective group id.
        gid: u32,
    },
}

/// The kernel and the caller's rights on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// `x86_64` or `aarch64`.
    pub arch: String,
    /// Kernel release, `6.18.44`.
    pub kernel: String,
    /// Landlock ABI; 0 = none.
    pub landlock_abi: u32,
    /// Whether seccomp filters with user notification work.
    pub seccomp: bool,
    /// Whether user namespaces can be made by this caller (with the reason if not).
    pub user_namespaces: Result<(), String>,
    /// Whether a prepared empty network namespace can be entered (root, or a starter's own).
    pub shared_network_namespace: bool,
    /// Who calls.
    pub caller: Caller,
    /// Cgroups.
    pub cgroup: CgroupFacts,
    /// The caller's hard limit on open files.
    pub nofile_hard: u64,
    /// Whether idmapped mounts work (root, Linux 5.12).
    pub idmapped_mounts: bool,
}
