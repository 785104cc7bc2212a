//! Refusals and failed steps, each with its remedy and who can apply it.

use crate::{
    elf::CommandError,
    jail::{Failure, Step},
};
use nix::errno::Errno;
use policies::plan::{Node, Plan};
use std::io;

/// Why nothing was started, or why the supervisor gave up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line contradicts itself or lacks something.
    #[error("read the command line: {what}")]
    Usage {
        /// What is wrong with it.
        what: String,
        /// What to write instead.
        remedy: String,
    },
    /// A file that the command line names.
    #[error("{act} {path}")]
    File {
        /// `read`, `open`, `write to` …
        act: &'static str,
        /// Its path as given.
        path: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A command that doesn't exist, or can't be executed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A policy, ceiling, scope, size or plan was refused.
    #[error("{0}")]
    Policy(String, String),
    /// A step on the way into the jail failed; nothing of the program has run.
    #[error("build the jail: step {} failed{}", .failure.step.name(), at(.item.as_deref()))]
    Step {
        /// Step and errno.
        failure: Failure,
        /// What the step was about.
        item: Option<String>,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// A served port that can't be listened on.
    #[error("listen on {address} for the program")]
    Listen {
        /// Of the host.
        address: std::net::SocketAddr,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// A program was ended while it was only looked at: nothing of it has run.
    #[error("look at the program before it starts: {why}")]
    Looking {
        /// What ended it.
        why: String,
        /// As for a run that ends so.
        code: u8,
        /// What to do.
        remedy: Option<&'static str>,
    },
    /// The supervisor lost a means that it needs.
    #[error("supervise the jail: {act}")]
    Supervise {
        /// What it was doing.
        act: &'static str,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

fn at(item: Option<&str>) -> String {
    item.map_or_else(String::new, |item| format!(" at {item}"))
}

impl Error {
    /// A failed step, with the item that it was about by name.
    #[must_use]
    pub fn step(failure: Failure, plan: &Plan) -> Self {
        let place = failure.item.and_then(|item| usize::try_from(item).ok());
        let item = match failure.step {
            Step::BuildRoot => place.and_then(|place| plan.root.get(place)).map(|mount| match &mount.node {
                Node::Bind { source, .. } => format!("{} (from {})", mount.at.0, source.0),
                Node::Scratch { .. }
                | Node::Folder
                | Node::Text(_)
                | Node::Link(_)
                | Node::Device(_)
                | Node::Proc
                | Node::Pts => mount.at.0.clone(),
            }),
            Step::Landlock => {
                place.and_then(|place| plan.landlock.rules.get(place)).map(|rule| rule.at.0.clone())
            }
            Step::WorkFolder => Some(plan.workdir.0.clone()),
            _any_other => None,
        };
        Self::Step { failure, item, source: failure.errno }
    }

    /// What to do about it, and who can.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Usage { remedy, .. } | Self::Policy(_, remedy) => {
                (!remedy.is_empty()).then(|| remedy.clone())
            }
            Self::Command(error) => Some(error.help().into()),
            Self::File { .. } | Self::Supervise { .. } => None,
            Self::Listen { source, .. } => match source {
                Errno::EADDRINUSE => Some("end what listens there, or serve another port".into()),
                Errno::EACCES => Some(
                    "serve a port from 1024 up, or let root lower net.ipv4.ip_unprivileged_port_start (ip(7))".into(),
                ),
                Errno::EADDRNOTAVAIL => Some("name an address of this host with --serve-address".into()),
                _other => None,
            },
            Self::Looking { remedy, .. } => remedy.map(str::to_owned),
            Self::Step { failure, .. } => Some(step_help(*failure)),
        }
    }

    /// The exit code of the table in `cli::exit`.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Command(error) => error.exit(),
            Self::Looking { code, .. } => *code,
            Self::Step { failure: Failure { step: Step::Exec | Step::OpenProgram, errno, .. }, .. } => {
                match errno {
                    Errno::ENOENT => 127,
                    Errno::EACCES | Errno::ENOEXEC => 126,
                    _other => 125,
                }
            }
            Self::Usage { .. }
            | Self::File { .. }
            | Self::Policy(..)
            | Self::Step { .. }
            | Self::Listen { .. }
            | Self::Supervise { .. } => 125,
        }
    }
}

fn step_help(failure: Failure) -> String {
    let text = match (failure.step, failure.errno) {
        (Step::Clone, Errno::EPERM | Errno::ENOSPC | Errno::EUSERS) => {
            "this host refuses user namespaces to you: the host's administrator can allow them \
             (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone or \
             kernel.apparmor_restrict_unprivileged_userns), or run thirdwall as root; `thirdwall doctor` tells which"
        }
        (Step::EnterNetwork, _) => {
            "the prepared network namespace can't be entered: root can remove it with \
             `umount /run/thirdwall/empty-network`, and the next start makes it anew"
        }
        (Step::EnterCgroup, _) => {
            "the cgroup can't be entered: `thirdwall doctor` tells which hierarchy is usable"
        }
        (Step::BuildRoot, Errno::ENOENT) => "the host has no such file: correct the policy or the path",
        (Step::BuildRoot, Errno::EINVAL) => {
            "the filesystem may not support idmapped mounts: give a folder on another one (ext4, xfs, btrfs; \
             tmpfs since Linux 6.3), or start thirdwall as the folder's owner"
        }
        (Step::CopyIn, Errno::ENOSPC) => "the copied files don't fit: raise --disk",
        (Step::CopyIn, Errno::EEXIST) => "two copied files have one name: give the second as FILE:NAME",
        (Step::OpenProgram, Errno::EMFILE) => {
            "your hard limit on open files is not above the jail's: lower --nofile, or raise it (ulimit -Hn)"
        }
        (Step::Exec, Errno::ENOENT) => {
            "the program's loader is not in the jail: add its folder to the policy's [provides]"
        }
        (Step::Exec, Errno::EACCES) => "the program, or its loader, may not be executed by the jail's user",
        (Step::MakeRoot | Step::PivotRoot | Step::BuildRoot, Errno::EPERM) => {
            "this host (often a container) refuses mounts in a user namespace: its runtime's profile must allow them; \
             `thirdwall doctor` tells more"
        }
        (Step::SelfTestOpen | Step::SelfTestCall, _) => {
            "a layer was set up and doesn't hold on this kernel: please report it; nothing of the program has run"
        }
        _any_other => "`thirdwall doctor` tells what this host has",
    };
    text.into()
}
