//! A program's own children: each in a jail of its own, under a supervisor of its own.
//!
//! The supervisor forks (it has one thread); the fork closes what it must not hold, becomes small, and then does what a
//! launcher does. Its result waits in a memory file until its end is seen ([`Running`]).
//!
//! Invariant: a child's ceiling is clipped here to what this jail was planned with, its profile to this jail's, whatever
//! the caller said; each item that was cut off is one entry of this jail's audit.
//! Invariant: a child's limits come out of what is left of this jail's, less what this jail needs to tell of it. Where no
//! group counts it here too, they are kept free for it while it runs, and the processor time that it used is added afterwards.
//! Invariant: when this supervisor ends, however it ends, the child's jail does: by the death signal of its supervisor,
//! whose end closes the lifeline of its init.

use super::{anchor::Outer, files::No, running::Running};
use crate::sys::{
    clone::{self, Side},
    fd, memory_file,
    process::{self, exit_now},
    socket,
};
use nix::{
    errno::Errno,
    pty::Winsize,
    sched::{CloneFlags, setns},
    sys::{
        prctl::set_pdeathsig,
        signal::Signal,
        socket::{AddressFamily, SockFlag, SockType, socketpair},
    },
    unistd::{Pid, getppid, setsid, write},
};
use policies::{
    broker::{Child, Command, Exited, MOST_SOURCE, Profile, Ran, is_variable, steers},
    capability::Capability,
    ceiling::{Ceiling, Clipped, Grant, clip},
    limits::{LimitSettings, Setting},
    plan::Limits,
    scope::{Base, NormalPath},
    units::{Bytes, Millis},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
    time::Duration,
};

/// Kept back of each limit for this jail to tell what became of its child.
const MEMORY_KEPT: u64 = 24 << 20;
/// Init, the payload and the supervisor of the child, which count here as well.
const PROCESSES_KEPT: u64 = 3;
/// Output of a child, all streams together.
pub const MOST_OUTPUT: Bytes = Bytes::mib(10);
/// Longest time of a child, where the caller asks for more: no number overflows, and nobody waits for it.
const LONGEST: u64 = 365 * 24 * 3600 * 1000;
/// Between a signal that asks a process to end and the one that ends it.
const GRACE: Millis = Millis::seconds(2);

/// How deep jails are nested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nesting {
    /// 0 for a program that a person started.
    pub depth: u32,
    /// A call at this depth is refused.
    pub most: u32,
}

/// How children are started, and how deep they may nest.
#[derive(Debug)]
pub struct Children {
    /// Does what a launcher does, in the fork.
    pub start: fn(Order) -> Result<Ran, String>,
    /// The same for a foreign command.
    pub command: fn(Order, Words) -> Result<Exited, String>,
    /// The profile of this jail.
    pub profile: Profile,
    /// How deep this jail is.
    pub nesting: Nesting,
    /// The limits that this jail was planned with.
    pub limits: Limits,
    /// Fuel that is left for children, where the jail's is limited.
    pub fuel: Option<u64>,
    /// Bytes of a runtime's heap, where that is limited.
    pub heap: Option<u64>,
    /// Files of this jail's control groups through which a child's supervisor enters them: what the child uses then counts
    /// here too. Empty where groups can't nest.
    pub groups: Vec<OwnedFd>,
    /// The host's network, where this process has left it: a child's supervisor starts there.
    pub home: Option<OwnedFd>,
}

/// What this jail uses of its limits.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// Bytes in use now.
    pub memory: u64,
    /// Processes and threads now.
    pub processes: u64,
    /// Processor time until now.
    pub cpu: Millis,
}

/// What is kept free for children that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Bytes.
    pub memory: u64,
    /// Processor time.
    pub cpu: Duration,
    /// Processes and threads.
    pub processes: u64,
}

/// A child that was decided on.
#[derive(Debug)]
pub struct Order {
    /// The program.
    pub source: Vec<u8>,
    /// Its name in messages.
    pub filename: String,
    /// Paths from the root.
    pub ceiling: Ceiling,
    /// Which builtins it has.
    pub profile: Profile,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Where it starts.
    pub base: Base,
    /// What the program that starts it may reach, by real paths.
    pub outer: Outer,
    /// Its limits.
    pub limits: LimitSettings,
    /// Its fuel.
    pub fuel: Option<u64>,
    /// Bytes of its heap.
    pub heap: Option<u64>,
    /// Tokens of models that are left of the run's, for it and for what it starts.
    pub tokens: Option<u64>,
    /// How deep it is.
    pub nesting: Nesting,
    /// Whom to send the pidfd of its jail's init.
    pub started: OwnedFd,
}

impl Order {
    /// Tells the caller's supervisor which process to kill.
    ///
    /// # Errors
    /// Those of sendmsg(2).
    pub(crate) fn tell_started(started: BorrowedFd<'_>, init: BorrowedFd<'_>) -> Result<(), Errno> {
        socket::send(started, b"i", &[init])
    }
}

/// What an order for a command says beyond one for a program.
#[derive(Debug)]
pub struct Words {
    /// Its words; the first is a name, or a path from the root.
    pub argv: Vec<String>,
    /// The folder of the host that it works in; `None`: one of its own.
    pub folder: Option<String>,
    /// What becomes of its streams.
    pub streams: CommandStreams,
}

/// What becomes of a command's streams.
#[derive(Debug)]
pub enum CommandStreams {
    /// Its input is the order's source; of each stream so many bytes are given back at its end.
    Kept(u64),
    /// They are the caller's, while it runs.
    Live {
        /// Its input.
        stdin: OwnedFd,
        /// Its output.
        stdout: OwnedFd,
        /// Its errors; `None`: with the output, on a terminal.
        stderr: Option<OwnedFd>,
        /// The size of its terminal, where it has one.
        terminal: Option<Winsize>,
    },
}

/// Who asks for a child, and what it has itself.
pub(super) struct Caller<'a> {
    pub(super) ceiling: &'a Ceiling,
    pub(super) outer: Outer,
    pub(super) base: &'a Base,
    pub(super) used: Used,
    /// Tokens of models that are left, where they are limited.
    pub(super) tokens: Option<u64>,
}

/// What became of a request for a child.
pub(super) struct Begun {
    pub(super) running: Running,
    /// Items of its ceiling that this jail doesn't have.
    pub(super) dropped: Vec<Grant>,
    /// Whether it asked for more builtins than this jail has.
    pub(super) profile_dropped: bool,
}

/// How much of what is left a child may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// All: its caller waits for it.
    All,
    /// A part: its caller goes on beside it, and may start others.
    Part,
}

impl Kept {
    /// All that a child may use.
    fn of(limits: &LimitSettings) -> Self {
        let cpu = limits.cpu.and_then(Setting::value);
        Self {
            memory: limits.memory.and_then(Setting::value).map_or(0, |Bytes(bytes)| bytes),
            cpu: cpu.map_or(Duration::ZERO, |Millis(ms)| Duration::from_millis(ms)),
            processes: limits.pids.and_then(Setting::value).unwrap_or(0),
        }
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            cpu: self.cpu.saturating_add(other.cpu),
            processes: self.processes.saturating_add(other.processes),
        }
    }
}

impl Used {
    /// With what is kept free for others.
    pub(super) fn with(self, kept: Kept) -> Self {
        let cpu = u64::try_from(kept.cpu.as_millis()).unwrap_or(u64::MAX);
        Self {
            memory: self.memory.saturating_add(kept.memory),
            processes: self.processes.saturating_add(kept.processes),
            cpu: Millis(self.cpu.0.saturating_add(cpu)),
        }
    }
}

impl Caller<'_> {
    /// What of a ceiling it has itself. Relative scopes are the caller's, so `cwd` can't move them.
    fn clip(&self, asked: &Ceiling) -> Result<Clipped, No> {
        let asked = asked
            .absolute(self.base)
            .map_err(|(grant, fault)| No::misuse(format!("ceiling: {grant}: {fault}")))?;
        Ok(clip(&asked, self.ceiling))
    }
}

impl Children {
    /// Checks, clips, and forks.
    pub(super) fn begin(&self, child: Child, source: Vec<u8>, caller: Caller<'_>) -> Result<Begun, No> {
        if self.nesting.depth >= self.nesting.most {
            return Err(No::limit(format!("max depth {} exceeded", self.nesting.most)));
        }
        let workdir = folder(child.cwd.as_deref(), caller.base)?;
        check(&child.env, |name| steers(name).then_some("would steer the engine"))?;
        let clipped = caller.clip(&child.ceiling)?;
        let (profile, profile_dropped) = match (self.profile, child.profile) {
            (Profile::Pure, Profile::Native) => (Profile::Pure, true),
            (_, profile) => (profile, false),
        };
        let limits = self.limits(child.timeout_ms, caller.used, Share::All)?;
        let running = self.fork(None, limits, |limits, started| Order {
            source,
            filename: child.filename,
            ceiling: clipped.kept,
            profile,
            env: child.env,
            base: Base { workdir, home: caller.base.home.clone() },
            outer: caller.outer,
            limits,
            fuel: match (self.fuel, child.fuel) {
                (Some(left), Some(asked)) => Some(left.min(asked)),
                (left, asked) => left.or(asked),
            },
            heap: self.heap,
            tokens: caller.tokens,
            nesting: Nesting { depth: self.nesting.depth + 1, ..self.nesting },
            started,
        })?;
        Ok(Begun { running, dropped: clipped.dropped, profile_dropped })
    }

    /// The same for a foreign command, whose first word the ceiling covers.
    pub(super) fn begin_command(
        &self,
        command: Command,
        input: Vec<u8>,
        streams: CommandStreams,
        caller: Caller<'_>,
    ) -> Result<Running, No> {
        // The name of a granted program would stand for another file, or another file's code would run in it.
        let steers =
            |name: &str| (steers(name) || name == "PATH").then_some("would steer which program runs");
        check(&command.env, steers)?;
        let mut argv = command.argv;
        let Some(first) = argv.first_mut() else { return Err(No::misuse("there is no command")) };
        if first.contains('/') {
            let path = NormalPath::parse(first).and_then(|path| path.absolute(caller.base));
            *first = path.map_err(|fault| No::misuse(fault.to_string()))?.to_string();
        }
        if argv.iter().any(|word| word.contains('\0')) {
            return Err(No::misuse("a word has a NUL byte"));
        }
        // Of what the caller has, a foreign command is given what it can use itself.
        let clipped = caller.clip(&command.ceiling)?;
        let kept = clipped.kept.grants().filter(|grant| may_be_a_commands(grant.capability())).cloned();
        // Its input and output are the caller's own call, and reach nobody else.
        let own = [Capability::Stdout, Capability::Stdin, Capability::Time, Capability::Random];
        let ceiling = Ceiling::of(kept.chain(own.map(Grant::whole)));
        let workdir = match command.cwd.as_deref() {
            None => caller.base.workdir.clone(),
            Some(cwd) => folder(Some(cwd), caller.base)?,
        };
        let in_reach = |folder: &str| {
            let all = Grant::new(Capability::FileRead, Some(&format!("{}/*", folder.trim_end_matches('/'))));
            all.is_ok_and(|all| ceiling.covers_grant(&all))
        };
        let folder = in_reach(&workdir).then(|| workdir.clone());
        if folder.is_none() && command.cwd.is_some() {
            let all = format!("{}/*", workdir.trim_end_matches('/'));
            return Err(No::ceiling(Capability::FileRead, Some(&all)));
        }
        let share = match streams {
            CommandStreams::Kept(_) => Share::All,
            CommandStreams::Live { .. } => Share::Part,
        };
        let limits = self.limits(command.timeout_ms, caller.used, share)?;
        self.fork(Some(Words { argv, folder, streams }), limits, |limits, started| Order {
            source: input,
            filename: String::new(),
            ceiling,
            profile: self.profile,
            env: command.env,
            base: Base { workdir, home: caller.base.home.clone() },
            outer: caller.outer,
            limits,
            fuel: None,
            heap: None,
            tokens: None,
            nesting: self.nesting,
            started,
        })
    }

    fn fork(
        &self,
        words: Option<Words>,
        limits: LimitSettings,
        order: impl FnOnce(LimitSettings, OwnedFd) -> Order,
    ) -> Result<Running, No> {
        let kernel = No::kernel;
        let kept = Kept::of(&limits);
        let (started, told) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
                .map_err(kernel)?;
        let result = memory_file::empty().map_err(kernel)?;
        let order = order(limits, told);
        let tokens = order.tokens;
        let us = nix::unistd::getpid();
        match clone::fork_into(0, None).map_err(kernel)? {
            Side::Child => self.become_supervisor(us, order, words, result),
            Side::Parent { pid: _, pidfd } => {
                drop((order, words));
                Ok(Running::new((kept, tokens), pidfd, started, result))
            }
        }
    }

    /// What a child may use at most.
    fn limits(&self, timeout_ms: u64, used: Used, share: Share) -> Result<LimitSettings, No> {
        let too_little =
            |what: &str| No::limit(format!("this program has too little {what} left to start another"));
        let timeout = Millis(timeout_ms.clamp(1, LONGEST));
        // Where a group counts children here, it holds them together; elsewhere each one is given its own part.
        let part = |left: u64, parts: u64| {
            if share == Share::Part && self.groups.is_empty() { left / parts } else { left }
        };
        let memory = match self.limits.memory.value {
            Some(limit) => {
                let left = limit.0.saturating_sub(used.memory).saturating_sub(MEMORY_KEPT);
                let left = part(left, 2);
                if left < MEMORY_KEPT {
                    return Err(too_little("memory"));
                }
                Setting::At(Bytes(left))
            }
            None => Setting::At(Bytes::mib(512)),
        };
        let pids = match self.limits.pids.value {
            Some(limit) => {
                let left = limit.saturating_sub(used.processes).saturating_sub(PROCESSES_KEPT);
                let left = part(left, 4);
                if left == 0 {
                    return Err(too_little("room for processes"));
                }
                Setting::At(left)
            }
            None => Setting::At(64),
        };
        // An eighth stays for telling of it.
        let cpu = match self.limits.cpu.value {
            Some(limit) => Millis((part(limit.0.saturating_sub(used.cpu.0), 4) / 8 * 7).max(1)).min(timeout),
            None => timeout,
        };
        // What is read while it comes is bounded by whoever reads it.
        let (output, grace) = match share {
            Share::All => (Setting::At(MOST_OUTPUT), None),
            Share::Part => (Setting::Unlimited, Some(GRACE)),
        };
        Ok(LimitSettings {
            wall: Some(Setting::At(timeout)),
            cpu: Some(Setting::At(cpu)),
            memory: Some(memory),
            pids: Some(pids),
            output: Some(output),
            grace,
            ..LimitSettings::NONE
        })
    }

    /// The fork's side. Never returns.
    fn become_supervisor(&self, parent: Pid, order: Order, words: Option<Words>, result: OwnedFd) -> ! {
        // No destructor of the caller's runs here: what it holds is closed by number, and its values are left alone.
        let ready = || -> Result<(), Errno> {
            set_pdeathsig(Signal::SIGKILL)?;
            if getppid() != parent {
                return Err(Errno::ESRCH);
            }
            // Out of the terminal's group: its signals are for the caller's supervisor, which then ends this one.
            setsid()?;
            process::begin_blocked();
            for group in &self.groups {
                write(group, b"0")?;
            }
            if let Some(home) = &self.home {
                setns(home, CloneFlags::CLONE_NEWNET)?;
            }
            let mut kept = vec![order.started.as_raw_fd(), result.as_raw_fd()];
            if let Some(Words { streams: CommandStreams::Live { stdin, stdout, stderr, .. }, .. }) = &words {
                kept.extend([stdin.as_raw_fd(), stdout.as_raw_fd()]);
                kept.extend(stderr.as_ref().map(AsRawFd::as_raw_fd));
            }
            close_all_but(&kept)
        };
        let ready = ready().map_err(|errno| format!("cannot start a supervisor: {}", errno.desc()));
        let told = match (ready, words) {
            (Ok(()), None) => serde_json::to_vec(&(self.start)(order)),
            (Ok(()), Some(words)) => serde_json::to_vec(&(self.command)(order, words)),
            (Err(why), _) => serde_json::to_vec(&Err::<(), String>(why)),
        };
        let mut file = File::from(result);
        let written = told.map(|bytes| file.write_all(&bytes));
        exit_now(i32::from(!matches!(written, Ok(Ok(())))))
    }
}

/// Whether a foreign command has a use for a capability of the caller's. What the language alone knows (a notebook, sealed
/// values, children) it hasn't, and its environment is what the call says.
fn may_be_a_commands(capability: Capability) -> bool {
    match capability {
        Capability::File
        | Capability::FileRead
        | Capability::FileWrite
        | Capability::Exec
        | Capability::Net => true,
        Capability::Stdout
        | Capability::Stdin
        | Capability::Time
        | Capability::Random
        | Capability::Llm
        | Capability::Judge
        | Capability::SandboxRun
        | Capability::Attest
        | Capability::Env
        | Capability::Secret
        | Capability::Reveal
        | Capability::Sign
        | Capability::Wallet
        | Capability::Spend
        | Capability::Memory
        | Capability::Db
        | Capability::Serve => false,
    }
}

/// Whether variables can be a child's; `steers` says what one would do that it may not.
fn check(env: &BTreeMap<String, String>, steers: impl Fn(&str) -> Option<&'static str>) -> Result<(), No> {
    for (name, value) in env {
        if !is_variable(name) || value.contains('\0') {
            return Err(No::misuse(format!("env: '{name}' is no variable")));
        }
        if let Some(why) = steers(name) {
            return Err(No::misuse(format!("env: '{name}' {why}")));
        }
    }
    Ok(())
}

/// The folder in which a child starts: any that is there. It gives no right to anything in it.
fn folder(cwd: Option<&str>, base: &Base) -> Result<String, No> {
    let Some(cwd) = cwd else { return Ok(base.workdir.clone()) };
    let no = |why: String| No::misuse(format!("cwd: {why}"));
    let path =
        NormalPath::parse(cwd).and_then(|path| path.absolute(base)).map_err(|fault| no(fault.to_string()))?;
    let path = path.to_string();
    if !Path::new(&path).is_dir() {
        return Err(no(format!("there is no folder '{cwd}'")));
    }
    Ok(path)
}

/// Closes everything from 3 on but these.
fn close_all_but(kept: &[i32]) -> Result<(), Errno> {
    let mut kept = kept.to_vec();
    kept.sort_unstable();
    let mut from = 3;
    for number in kept {
        fd::close_between(from, number - 1)?;
        from = number + 1;
    }
    fd::close_from(from)
}

/// Adds a piece to a source.
pub(super) fn collect(source: &mut Vec<u8>, piece: &[u8]) -> Result<(), No> {
    if source.len().saturating_add(piece.len()) > MOST_SOURCE {
        source.clear();
        return Err(No::limit(format!("source: more than {MOST_SOURCE} bytes")));
    }
    source.extend_from_slice(piece);
    Ok(())
}
