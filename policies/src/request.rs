//! What is asked for: a policy with the command line on top, before any fact of the host is known.
//!
//! Order of flow: [`resolve`] → [`Request::paths`], [`Request::commands`] (what the launcher must look up) →
//! [`PathFacts`] → [`plan`](crate::plan::plan).
//!
//! Invariant: a request has one origin for each thing: `--cap-set` replaces the policy's ceiling and never what the
//! policy provides; a limit on the command line replaces the policy's.

use crate::{
    capability::Capability,
    ceiling::Ceiling,
    error::Refusal,
    layer::Layer,
    limits::LimitSettings,
    plan::{Access, HostPath, database, exec, wanted},
    policy::{JailSettings, Policy, Provided},
    scope::{Base, Scope},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
};

/// Which builtins the language has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Those that look at the operating system are not registered.
    Pure,
    /// All.
    Native,
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// thirdwall's own language runtime.
    Runtime {
        /// Which builtins it has.
        profile: Profile,
    },
    /// A foreign command, as typed.
    Command {
        /// argv, the command included.
        argv: Vec<String>,
    },
}

/// The working folder of a foreign command. The runtime's is the caller's own, with granted paths only in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workdir {
    /// A private, empty, bounded folder at `/work`.
    Scratch,
    /// A host folder, bound at `/work`.
    Host {
        /// On the host, absolute.
        path: HostPath,
        /// Read only or not.
        access: Access,
    },
}

/// Whether the command gets a pseudo-terminal of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// Pipes.
    None,
    /// A pseudo-terminal that the supervisor owns.
    Own,
}

/// What the command line and the caller's surroundings add to a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What runs.
    pub subject: Subject,
    /// `--cap-set` or `--sandbox`; for the runtime without either, the program's `require` lines. `None` = the policy's.
    pub ceiling: Option<Ceiling>,
    /// Limits on the command line.
    pub limits: LimitSettings,
    /// `--workdir`.
    pub workdir: Workdir,
    /// Whether there is a terminal.
    pub terminal: Terminal,
    /// Where the caller's relative paths start. Relative scopes name paths of the host, from here.
    pub base: Base,
    /// The caller's environment, of which the ceiling lets names through.
    pub environment: BTreeMap<String, String>,
    /// Variables that the command line sets, on top of the policy's.
    pub set: BTreeMap<String, String>,
    /// `--allow-missing`.
    pub allow_missing: BTreeSet<Layer>,
    /// Where the host listens for `serve`.
    pub serve_address: IpAddr,
}

impl Options {
    /// Nothing asked for beyond the policy.
    #[must_use]
    pub fn new(subject: Subject, base: Base) -> Self {
        Self {
            subject,
            ceiling: None,
            limits: LimitSettings::NONE,
            workdir: Workdir::Scratch,
            terminal: Terminal::None,
            base,
            environment: BTreeMap::new(),
            set: BTreeMap::new(),
            allow_missing: BTreeSet::new(),
            serve_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        }
    }
}

/// A policy and the options on top of it, each thing settled, paths from the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub(crate) policy: String,
    pub(crate) subject: Subject,
    pub(crate) ceiling: Ceiling,
    pub(crate) provides: Vec<Provided>,
    pub(crate) limits: LimitSettings,
    pub(crate) set: BTreeMap<String, String>,
    pub(crate) callers: BTreeMap<String, String>,
    pub(crate) jail: JailSettings,
    pub(crate) workdir: Workdir,
    pub(crate) terminal: Terminal,
    pub(crate) base: Base,
    pub(crate) allow_missing: BTreeSet<Layer>,
    pub(crate) serve_address: IpAddr,
}

impl Request {
    /// Whether the payload gets a terminal of its own.
    #[must_use]
    pub fn terminal(&self) -> Terminal {
        self.terminal
    }
}

/// Settles what is asked for.
///
/// # Errors
/// [`Refusal::Scope`]: a scope starts at `~` and no home is known.
pub fn resolve(policy: &Policy, options: Options) -> Result<Request, Refusal> {
    let ceiling = options.ceiling.as_ref().unwrap_or_else(|| policy.ceiling());
    let ceiling = ceiling
        .absolute(&options.base)
        .map_err(|(grant, fault)| Refusal::Scope { grant: grant.to_string(), fault })?;
    let mut set = policy.environment().clone();
    set.extend(options.set);
    // A terminal is an input: whoever may read none gets none.
    let terminal = if ceiling.has(Capability::Stdin) { options.terminal } else { Terminal::None };
    Ok(Request {
        policy: policy.name().to_owned(),
        subject: options.subject,
        ceiling,
        provides: policy.provides().to_vec(),
        limits: options.limits.over(policy.limits()),
        set,
        callers: options.environment,
        jail: policy.jail(),
        workdir: options.workdir,
        terminal,
        base: options.base,
        allow_missing: options.allow_missing,
        serve_address: options.serve_address,
    })
}

/// One thing that the launcher must look up on the host before planning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathQuery {
    /// One path. Answer: one [`Found`], or none if it isn't there.
    Path(HostPath),
    /// A pattern with `*` (any run of characters, `/` included; [`glob::covers`](crate::scope::glob::covers) decides).
    /// Answer: every existing path that matches. Below a match there is no need to look further if the pattern ends in
    /// `*`: everything there matches too.
    Pattern(String),
}

/// What kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A socket, a device, a FIFO.
    Other,
}

/// Whom a file's permission bits let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenTo {
    /// Everybody may read it, and execute it if its owner may.
    Everybody,
    /// Somebody may not.
    Some,
}

impl OpenTo {
    /// From permission bits.
    #[must_use]
    pub const fn of_mode(mode: u32) -> Self {
        let executable = mode & 0o111 != 0;
        if mode & 0o004 != 0 && (!executable || mode & 0o001 != 0) { Self::Everybody } else { Self::Some }
    }
}

/// One path that exists on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// As asked, or as it matched.
    pub at: HostPath,
    /// With all links resolved.
    pub real: HostPath,
    /// What stands at `real`.
    pub kind: Kind,
    /// Whom its permission bits let read it (and execute it, if it is executable).
    pub open_to: OpenTo,
    /// If the last part of `at` is a link: its text.
    pub link: Option<String>,
    /// The first path socket found in it, if it is a folder and was searched.
    pub socket: Option<HostPath>,
}

/// A program and the files that it is made of, as its ELF headers say (for a script: its interpreter).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFacts {
    /// The file that the kernel executes.
    pub program: Found,
    /// argv as the kernel gets it (for a script: interpreter, its argument, the script, and so on).
    pub argv: Vec<String>,
    /// The loader that the program names.
    pub loader: Option<Found>,
    /// The libraries that it names, theirs too, and a script's own file.
    pub files: Vec<Found>,
}

/// What the launcher found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathFacts {
    /// Answers to [`Request::paths`]. An absent key counts as 'not there'.
    pub found: BTreeMap<PathQuery, Vec<Found>>,
    /// Answers to [`Request::commands`]. An absent key counts as 'not there'.
    pub commands: BTreeMap<String, ProgramFacts>,
    /// The program to run; `None` for the runtime.
    pub program: Option<ProgramFacts>,
}

impl Request {
    /// The policy's name or file, as given.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// What runs.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The ceiling, paths from the root.
    #[must_use]
    pub fn ceiling(&self) -> &Ceiling {
        &self.ceiling
    }

    /// Where relative paths start.
    #[must_use]
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// The value of PATH inside: where commands without a slash are looked up, on the host and in the jail alike.
    #[must_use]
    pub fn search_path(&self) -> &str {
        self.set.get("PATH").map_or(crate::plan::environment::SEARCH_PATH, String::as_str)
    }

    /// What must be looked up on the host.
    #[must_use]
    pub fn paths(&self) -> BTreeSet<PathQuery> {
        let mut queries: BTreeSet<PathQuery> =
            self.provides.iter().map(|provided| PathQuery::Path(provided.path.clone())).collect();
        if let Workdir::Host { path, .. } = &self.workdir {
            queries.insert(PathQuery::Path(path.clone()));
        }
        for grant in self.ceiling.grants() {
            match (grant.capability(), grant.scope()) {
                // The runtime's files are the broker's: it looks when it is asked.
                (Capability::File | Capability::FileRead | Capability::FileWrite, _)
                    if matches!(self.subject, Subject::Runtime { .. }) => {}
                (Capability::File | Capability::FileRead | Capability::FileWrite, scope) => {
                    queries.insert(wanted::Wanted::of(scope).query());
                }
                (Capability::Db, _) if matches!(self.subject, Subject::Command { .. }) => {
                    queries.extend(database::queries(grant));
                }
                (Capability::Exec, Scope::Command(pattern))
                    if pattern.contains('*') && matches!(self.subject, Subject::Command { .. }) =>
                {
                    queries.extend(wanted::command_patterns(pattern, self.search_path()));
                    queries.extend(exec::LOADERS.map(|loader| PathQuery::Path(HostPath(loader.to_owned()))));
                }
                (
                    Capability::Stdout
                    | Capability::Stdin
                    | Capability::Time
                    | Capability::Random
                    | Capability::Llm
                    | Capability::Judge
                    | Capability::SandboxRun
                    | Capability::Attest
                    | Capability::Net
                    | Capability::Exec
                    | Capability::Env
                    | Capability::Secret
                    | Capability::Reveal
                    | Capability::Sign
                    | Capability::Wallet
                    | Capability::Spend
                    | Capability::Memory
                    | Capability::Db
                    | Capability::Serve,
                    _,
                ) => {}
            }
        }
        queries
    }

    /// The commands that are granted by name: to be looked up in [`search_path`](Self::search_path) unless they have a
    /// slash, and their ELF headers read.
    #[must_use]
    pub fn commands(&self) -> Vec<&str> {
        // What the runtime starts is looked up when it does, for a jail of its own.
        if matches!(self.subject, Subject::Runtime { .. }) {
            return Vec::new();
        }
        self.ceiling
            .grants()
            .filter_map(|grant| match grant.scope() {
                Scope::Command(name) if !name.contains('*') => Some(name.as_str()),
                Scope::Any
                | Scope::Path(_)
                | Scope::Host(_)
                | Scope::Command(_)
                | Scope::Name(_)
                | Scope::Database(_)
                | Scope::Port(_) => None,
            })
            .collect()
    }
}
