//! A program's own children: each in a jail of its own, under a supervisor of its own.
//!
//! The supervisor forks (it has one thread); the fork closes what it must not hold, becomes small, and then does what a
//! launcher does. Its result waits in a memory file until its end is seen.
//!
//! Invariant: a child's ceiling is clipped here to what this jail was planned with, its profile to this jail's, whatever
//! the caller said; each item that was cut off is one entry of this jail's audit.
//! Invariant: a child's limits come out of what is left of this jail's, less what this jail needs to tell of it. Where no
//! group counts it here too, they are kept free for it while it runs, and the processor time that it used is added afterwards.
//! Invariant: when this supervisor ends, however it ends, the child's jail does: by the death signal of its supervisor,
//! whose end closes the lifeline of its init.

use super::{anchor::Outer, files::No};
use crate::sys::{
    clone::{self, Side},
    fd, memory_file,
    process::exit_now,
    socket,
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, setns},
    sys::{
        prctl::set_pdeathsig,
        resource::{UsageWho, getrusage},
        signal::{SigSet, Signal},
        socket::{AddressFamily, SockFlag, SockType, socketpair},
        time::TimeVal,
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::{Pid, getppid, setsid, write},
};
use policies::{
    audit::Entry,
    broker::{Child, Command, Exited, MOST_SOURCE, Profile, Ran, is_variable, steers},
    capability::Capability,
    ceiling::{Ceiling, Grant, clip},
    limits::{LimitSettings, Setting},
    plan::Limits,
    scope::{Base, NormalPath},
    units::{Bytes, Millis},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
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

/// What is kept free for a child that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Bytes.
    pub memory: u64,
    /// Processor time.
    pub cpu: Duration,
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
    /// Bytes of each stream that are given back.
    pub most_output: u64,
}

/// A child that runs.
#[derive(Debug)]
pub(super) struct Running {
    /// Number of the request that waits.
    pub(super) id: u32,
    /// Whether it is a foreign command.
    foreign: bool,
    /// Tokens of models that it may use, where they are limited.
    tokens: Option<u64>,
    /// What it may use.
    pub(super) kept: Kept,
    supervisor: OwnedFd,
    started: OwnedFd,
    result: OwnedFd,
    reaped: bool,
}

/// What is left for a child of what isn't a limit of the jail's plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    /// What this jail uses.
    pub(super) used: Used,
    /// Tokens of models.
    pub(super) tokens: Option<u64>,
}

/// What a child left behind.
#[derive(Debug)]
pub(super) struct Spent {
    /// A [`Ran`] or an [`Exited`].
    pub(super) json: Vec<u8>,
    pub(super) fuel: u64,
    /// Tokens of models.
    pub(super) tokens: u64,
}

/// What became of a request for a child.
pub(super) struct Begun {
    pub(super) running: Running,
    /// Items of its ceiling that this jail doesn't have.
    pub(super) dropped: Vec<Grant>,
    /// Whether it asked for more builtins than this jail has.
    pub(super) profile_dropped: bool,
}

impl Kept {
    /// All that a child may use.
    fn of(limits: &LimitSettings) -> Self {
        let cpu = limits.cpu.and_then(Setting::value);
        Self {
            memory: limits.memory.and_then(Setting::value).map_or(0, |Bytes(bytes)| bytes),
            cpu: cpu.map_or(Duration::ZERO, |Millis(ms)| Duration::from_millis(ms)),
        }
    }
}

impl Children {
    /// Checks, clips, and forks.
    pub(super) fn begin(
        &self,
        id: u32,
        child: Child,
        source: Vec<u8>,
        (ceiling, outer): (&Ceiling, Outer),
        base: &Base,
        left: Left,
    ) -> Result<Begun, No> {
        if self.nesting.depth >= self.nesting.most {
            return Err(No::limit(format!("max depth {} exceeded", self.nesting.most)));
        }
        let cwd = folder(child.cwd.as_deref(), base)?;
        for (name, value) in &child.env {
            if !is_variable(name) || value.contains('\0') {
                return Err(No::misuse(format!("env: '{name}' is no variable")));
            }
            if steers(name) {
                return Err(No::misuse(format!("env: '{name}' would steer the engine")));
            }
        }
        // Relative scopes are the caller's, so `cwd` can't move them.
        let requested = child
            .ceiling
            .absolute(base)
            .map_err(|(grant, fault)| No::misuse(format!("ceiling: {grant}: {fault}")))?;
        let clipped = clip(&requested, ceiling);
        let (profile, profile_dropped) = match (self.profile, child.profile) {
            (Profile::Pure, Profile::Native) => (Profile::Pure, true),
            (_, profile) => (profile, false),
        };
        let limits = self.limits(child.timeout_ms, left.used)?;
        let kept = Kept::of(&limits);
        let kernel = No::kernel;
        let (started, told) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
                .map_err(kernel)?;
        let result = memory_file::empty().map_err(kernel)?;
        let order = Order {
            source,
            filename: child.filename,
            ceiling: clipped.kept,
            profile,
            env: child.env,
            base: Base { workdir: cwd, home: base.home.clone() },
            outer,
            limits,
            fuel: match (self.fuel, child.fuel) {
                (Some(left), Some(asked)) => Some(left.min(asked)),
                (left, asked) => left.or(asked),
            },
            heap: self.heap,
            tokens: left.tokens,
            nesting: Nesting { depth: self.nesting.depth + 1, ..self.nesting },
            started: told,
        };
        let running = self.fork(order, None, result, |supervisor, result| Running {
            id,
            foreign: false,
            tokens: left.tokens,
            kept,
            supervisor,
            started,
            result,
            reaped: false,
        })?;
        Ok(Begun { running, dropped: clipped.dropped, profile_dropped })
    }

    /// The same for a foreign command, whose first word the ceiling covers.
    pub(super) fn begin_command(
        &self,
        id: u32,
        command: Command,
        input: Vec<u8>,
        (ceiling, outer): (&Ceiling, Outer),
        base: &Base,
        used: Used,
    ) -> Result<Begun, No> {
        for (name, value) in &command.env {
            if !is_variable(name) || value.contains('\0') {
                return Err(No::misuse(format!("env: '{name}' is no variable")));
            }
            // The name of a granted program would stand for another file, or another file's code would run in it.
            if steers(name) || name == "PATH" {
                return Err(No::misuse(format!("env: '{name}' would steer which program runs")));
            }
        }
        let mut argv = command.argv;
        let Some(first) = argv.first_mut() else { return Err(No::misuse("there is no command")) };
        if first.contains('/') {
            let path = NormalPath::parse(first).and_then(|path| path.absolute(base));
            *first = path.map_err(|fault| No::misuse(fault.to_string()))?.to_string();
        }
        if argv.iter().any(|word| word.contains('\0')) {
            return Err(No::misuse("a word has a NUL byte"));
        }
        let requested = command
            .ceiling
            .absolute(base)
            .map_err(|(grant, fault)| No::misuse(format!("ceiling: {grant}: {fault}")))?;
        let clipped = clip(&requested, ceiling);
        // Of what the caller has, a foreign command is given what it can use itself.
        let kept = clipped.kept.grants().filter(|grant| may_be_a_commands(grant.capability())).cloned();
        // Its input and output are the caller's own call, and reach nobody else.
        let own = [Capability::Stdout, Capability::Stdin, Capability::Time, Capability::Random];
        let ceiling = Ceiling::of(kept.chain(own.map(Grant::whole)));
        let workdir = match command.cwd.as_deref() {
            None => base.workdir.clone(),
            Some(cwd) => folder(Some(cwd), base)?,
        };
        let in_reach = |folder: &str| {
            let all = Grant::new(Capability::FileRead, Some(&format!("{}/*", folder.trim_end_matches('/'))));
            all.is_ok_and(|all| ceiling.covers_grant(&all))
        };
        let folder = in_reach(&workdir).then(|| workdir.clone());
        if folder.is_none() && command.cwd.is_some() {
            return Err(No::misuse(format!("cwd: file.read(\"{workdir}/*\") isn't granted to this program")));
        }
        let limits = self.limits(command.timeout_ms, used)?;
        let kept = Kept::of(&limits);
        let kernel = No::kernel;
        let (started, told) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
                .map_err(kernel)?;
        let result = memory_file::empty().map_err(kernel)?;
        let order = Order {
            source: input,
            filename: String::new(),
            ceiling,
            profile: self.profile,
            env: command.env,
            base: Base { workdir, home: base.home.clone() },
            outer,
            limits,
            fuel: None,
            heap: None,
            tokens: None,
            nesting: self.nesting,
            started: told,
        };
        let words = Words { argv, folder, most_output: command.most_output.min(MOST_OUTPUT.0) };
        let running = self.fork(order, Some(words), result, |supervisor, result| Running {
            id,
            foreign: true,
            tokens: None,
            kept,
            supervisor,
            started,
            result,
            reaped: false,
        })?;
        Ok(Begun { running, dropped: Vec::new(), profile_dropped: false })
    }

    fn fork(
        &self,
        order: Order,
        words: Option<Words>,
        result: OwnedFd,
        running: impl FnOnce(OwnedFd, OwnedFd) -> Running,
    ) -> Result<Running, No> {
        let us = nix::unistd::getpid();
        match clone::fork_into(0, None).map_err(No::kernel)? {
            Side::Child => self.become_supervisor(us, order, words, result),
            Side::Parent { pid: _, pidfd } => {
                drop(order);
                Ok(running(pidfd, result))
            }
        }
    }

    /// What a child may use at most.
    fn limits(&self, timeout_ms: u64, used: Used) -> Result<LimitSettings, No> {
        let too_little =
            |what: &str| No::limit(format!("this program has too little {what} left to start another"));
        let timeout = Millis(timeout_ms.clamp(1, LONGEST));
        let memory = match self.limits.memory.value {
            Some(limit) => {
                let left = limit.0.saturating_sub(used.memory).saturating_sub(MEMORY_KEPT);
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
                if left == 0 {
                    return Err(too_little("room for processes"));
                }
                Setting::At(left)
            }
            None => Setting::At(64),
        };
        // An eighth stays for telling of it.
        let cpu = match self.limits.cpu.value {
            Some(limit) => Millis((limit.0.saturating_sub(used.cpu.0) / 8 * 7).max(1)).min(timeout),
            None => timeout,
        };
        Ok(LimitSettings {
            wall: Some(Setting::At(timeout)),
            cpu: Some(Setting::At(cpu)),
            memory: Some(memory),
            pids: Some(pids),
            output: Some(Setting::At(MOST_OUTPUT)),
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
            SigSet::empty().thread_set_mask()?;
            for group in &self.groups {
                write(group, b"0")?;
            }
            if let Some(home) = &self.home {
                setns(home, CloneFlags::CLONE_NEWNET)?;
            }
            close_all_but(&[order.started.as_raw_fd(), result.as_raw_fd()])
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

impl Running {
    /// Readable when the child's supervisor has ended.
    pub(super) fn ended(&self) -> BorrowedFd<'_> {
        self.supervisor.as_fd()
    }

    /// Collects it, and gives the processor time of its supervisor and of all that this one has collected.
    ///
    /// Source: getrusage(2), RUSAGE_CHILDREN: nothing else is collected meanwhile.
    pub(super) fn spent(&mut self) -> Duration {
        let collected = || {
            let of = |time: TimeVal| {
                let (seconds, micros) = (u64::try_from(time.tv_sec()), u64::try_from(time.tv_usec()));
                Duration::from_secs(seconds.unwrap_or(0)) + Duration::from_micros(micros.unwrap_or(0))
            };
            let usage = getrusage(UsageWho::RUSAGE_CHILDREN);
            usage.map_or(Duration::ZERO, |usage| of(usage.user_time()) + of(usage.system_time()))
        };
        let before = collected();
        self.collect();
        collected().saturating_sub(before)
    }

    /// What it left behind. Its audit goes to this jail's: the host knows what a program's child did, whatever the program
    /// makes of it.
    pub(super) fn result(mut self, tell: &mut dyn FnMut(Entry)) -> Result<Spent, No> {
        self.collect();
        let mut file = File::from(self.result.try_clone().map_err(|_| No::kernel(Errno::EMFILE))?);
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|_| No::kernel(Errno::EIO))?;
        if self.foreign {
            let exited = serde_json::from_slice::<Result<Exited, String>>(&bytes);
            // What a command printed is held twice at most.
            drop(bytes);
            return match exited {
                Ok(Ok(mut exited)) => {
                    std::mem::take(&mut exited.audit).into_iter().for_each(tell);
                    let json = serde_json::to_vec(&exited).map_err(|_| No::kernel(Errno::EINVAL))?;
                    Ok(Spent { json, fuel: 0, tokens: 0 })
                }
                Ok(Err(why)) => Err(No::misuse(why)),
                Err(_) => Err(No::misuse("the command's supervisor was killed")),
            };
        }
        let ran = match serde_json::from_slice::<Result<Ran, String>>(&bytes) {
            Ok(Ok(ran)) => {
                ran.audit.iter().cloned().map(of_child).for_each(tell);
                ran
            }
            Ok(Err(why)) => return Err(No::misuse(why)),
            // It was killed: by the kernel, for memory that this jail's group counts too.
            Err(_) => {
                tell(of_child(untold()));
                Ran {
                    ok: false,
                    output: Vec::new(),
                    errors: vec!["run_program: the child's supervisor was killed".to_owned()],
                    audit: Vec::new(),
                    exit: None,
                    timed_out: false,
                    // It couldn't say: it counts as if it had used all.
                    llm_tokens: self.tokens.unwrap_or(0),
                    fuel: 0,
                }
            }
        };
        let json = serde_json::to_vec(&ran).map_err(|_| No::kernel(Errno::EINVAL))?;
        Ok(Spent { json, fuel: ran.fuel, tokens: ran.llm_tokens })
    }

    /// Ends it before its time, with its jail. What it did until then goes to this jail's audit.
    pub(super) fn end(self, tell: &mut dyn FnMut(Entry)) {
        // A second stop doesn't wait until the program has ended by itself.
        for stop in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
            // ESRCH: it has ended.
            let _gone = crate::sys::pidfd::send_signal(self.supervisor.as_fd(), stop);
        }
        let mut over = [PollFd::new(self.supervisor.as_fd(), PollFlags::POLLIN)];
        if poll(&mut over, PollTimeout::from(2000_u16)) == Ok(1) {
            let _nobody_hears = self.result(tell);
        } else {
            tell(of_child(untold()));
        }
    }

    /// Waits for the child's supervisor, which has ended or was killed.
    fn collect(&mut self) {
        if !self.reaped {
            self.reaped = true;
            while waitid(Id::PIDFd(self.supervisor.as_fd()), WaitPidFlag::WEXITED) == Err(Errno::EINTR) {}
        }
    }
}

/// A child's entry, as it stands in the audit of the jail that started it.
fn of_child(entry: Entry) -> Entry {
    Entry { context: format!("child:{}", entry.context), ..entry }
}

/// What stands there in the place of entries that are lost.
fn untold() -> Entry {
    Entry {
        source: "run_program()".to_owned(),
        reason: "its supervisor was killed: what it did before isn't known".to_owned(),
        ..super::denial(Capability::SandboxRun.name().to_owned(), "audit".to_owned())
    }
}

impl Drop for Running {
    /// Ends the child's jail, and waits until it is gone.
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        let kill = |process: BorrowedFd<'_>| {
            // ESRCH: it has ended.
            let _gone = crate::sys::pidfd::send_signal(process, Signal::SIGKILL);
        };
        kill(self.supervisor.as_fd());
        self.collect();
        let mut message = [0; 1];
        // Its supervisor is dead, so what it had to tell is there; the end of the channel comes after it.
        if let Ok((1, descriptors)) = socket::receive(self.started.as_fd(), &mut message)
            && let Ok([init]) = <[OwnedFd; 1]>::try_from(descriptors)
        {
            kill(init.as_fd());
            let mut gone = [PollFd::new(init.as_fd(), PollFlags::POLLIN)];
            let _waited = poll(&mut gone, PollTimeout::from(2000_u16));
        }
    }
}
