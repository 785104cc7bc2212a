//! One hostile peer: what a confined runtime may ask of its supervisor.
//!
//! The runtime's own root is empty and its filter lets it open nothing, so every file that the language touches comes
//! through here as a descriptor ([`files`]), by way of folders that were opened once ([`anchor`]); so does every program
//! that it starts ([`child`], [`processes`]), every request of HTTP, every prompt for a model ([`fetch`]) and every connection that
//! it keeps ([`connections`]).
//!
//! Invariant: the ceiling is checked here for every request, whatever the peer's own gate has said.
//! Invariant: the peer sends one request at a time and in order. Anything else ends it, and the report says why: a runtime
//! that breaks the protocol has been taken over.
//! Invariant: nothing here waits for the peer, and a peer that asks too fast waits by itself ([`rate`]).
//! Invariant: descriptors only go out. What comes with a request is closed by the kernel before it gets a number here.

mod anchor;
mod awaiting;
mod beside;
mod child;
mod connections;
mod database;
mod fetch;
mod files;
mod modules;
mod processes;
mod rate;
mod running;

use crate::sys::{memory_file, socket};
pub use anchor::Outer;
use awaiting::Awaiting;
use child::Caller;
pub use child::{Children, CommandStreams, Kept, MOST_OUTPUT, Nesting, Order, Used, Words};
use connections::Connections;
pub(crate) use database::prepare as prepare_database;
use database::{Got, Notebooks};
use fetch::Outgoing;
pub use fetch::{Model, Outside};
use files::{Files, No};
pub use modules::Modules;
use nix::{errno::Errno, unistd::ftruncate};
use policies::{
    audit::{Entry, Origin},
    broker::{self, Answer, Breach, Child, Command, MOST_MESSAGE, MOST_PIECE, Message, Request},
    capability::Capability,
    ceiling::Ceiling,
    layer::Layer,
    process::Spawn,
    scope::{Base, Target},
    terminal,
};
use processes::Processes;
use rate::Bucket;
pub(crate) use running::CHILD;
use running::{Running, Spent};
use serde::Serialize;
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// What a child costs, in ordinary requests.
const CHILD_COST: u32 = 40;
/// What a request to the outside costs.
const FETCH_COST: u32 = 10;
/// What a connection's process costs.
const CONNECT_COST: u32 = 20;

/// What a jail's runtime may ask for.
#[derive(Debug)]
pub struct Lent {
    /// What the jail was planned with, paths from the root.
    pub ceiling: Ceiling,
    /// Where the program's relative paths start.
    pub base: Base,
    /// What the program that started this one may reach.
    pub outer: Outer,
    /// The program's folder, in which its notebook is kept; `None`: it is kept nowhere.
    pub notebooks: Option<String>,
    /// How children are started; `None`: not at all.
    pub children: Option<Children>,
    /// Where a conversation's modules are found; `None`: they come with the program.
    pub modules: Option<Box<dyn Modules>>,
    /// How the outside is reached.
    pub outside: Outside,
}

/// The supervisor's end.
///
/// What it decides, it decides by itself: with no jail around its peer (in proofs and under a fuzzer) it is the same.
#[derive(Debug)]
pub struct Broker {
    /// `None` once the peer has closed its end.
    socket: Option<OwnedFd>,
    files: Files,
    notebooks: Notebooks,
    modules: Option<Box<dyn Modules>>,
    ceiling: Ceiling,
    base: Base,
    children: Option<Children>,
    /// The source of the next child, as far as it is here.
    source: Vec<u8>,
    /// The child that a request waits for.
    running: Option<Waited>,
    processes: Processes,
    connections: Connections,
    awaiting: Option<Awaiting>,
    /// What is asked of the caller's terminal, which isn't the broker's.
    of_terminal: Option<(u32, terminal::Act)>,
    outgoing: Outgoing,
    bucket: Bucket,
    /// Number of the next request.
    next: u32,
    buffer: Vec<u8>,
    /// The file of the last answer. It is emptied when the peer asks again: no limit of the jail counts what is in it, so there
    /// is never more than one.
    handed: Option<OwnedFd>,
}

/// A child, and who waits for its end.
#[derive(Debug)]
struct Waited {
    /// Number of the request.
    id: u32,
    kind: Kind,
    running: Running,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Program,
    Command,
}

/// An answer with what goes beside it.
struct Reply {
    answer: Answer,
    raw: Vec<u8>,
    file: Option<OwnedFd>,
    /// How many ordinary requests it cost.
    cost: u32,
}

impl Reply {
    fn of(answer: Answer) -> Self {
        Self { answer, raw: Vec::new(), file: None, cost: 1 }
    }

    fn opened(file: OwnedFd) -> Self {
        Self { file: Some(file), ..Self::of(Answer::Opened) }
    }

    /// JSON in the message, or in a file if it is too long.
    fn data(value: &impl Serialize) -> Result<Self, No> {
        Self::bytes(serde_json::to_vec(value).map_err(|_| No::kernel(Errno::EINVAL))?)
    }

    fn bytes(raw: Vec<u8>) -> Result<Self, No> {
        if raw.len() <= MOST_PIECE {
            return Ok(Self { raw, ..Self::of(Answer::Inline) });
        }
        let file = memory_file::sealed(&raw).map_err(No::kernel)?;
        Ok(Self { file: Some(file), ..Self::of(Answer::Filed { bytes: raw.len() as u64 }) })
    }
}

impl Broker {
    /// Listens to the peer at the other end of `socket`.
    #[must_use]
    pub fn new(socket: OwnedFd, lent: Lent) -> Self {
        Self {
            socket: Some(socket),
            files: Files::new(lent.ceiling.clone(), lent.base.clone(), lent.outer),
            notebooks: Notebooks::new(lent.notebooks, &lent.base),
            modules: lent.modules,
            ceiling: lent.ceiling,
            base: lent.base,
            children: lent.children,
            source: Vec::new(),
            running: None,
            processes: Processes::default(),
            connections: Connections::default(),
            awaiting: None,
            of_terminal: None,
            outgoing: Outgoing::new(lent.outside),
            bucket: Bucket::new(Instant::now()),
            next: 1,
            // One byte more than a message may have: what is longer is seen to be.
            buffer: vec![0; MOST_MESSAGE + 1],
            handed: None,
        }
    }

    /// What to poll for requests.
    #[must_use]
    pub fn requests(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// When a request could be served, if not now.
    pub fn ready_at(&mut self, now: Instant) -> Option<Instant> {
        self.bucket.ready_at(now)
    }

    /// Serves one request, if one is there.
    ///
    /// # Errors
    /// The breach for which the peer has to be ended.
    pub fn serve(
        &mut self,
        tell: &mut dyn FnMut(Entry),
        used: &mut dyn FnMut() -> Used,
    ) -> Result<(), Breach> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let length = match socket::receive_plain(socket.as_fd(), &mut self.buffer) {
            Ok(socket::Plain::Bytes(0)) => {
                // Nobody is left to hear of a child. The program itself may go on: what is waited for here ends soon.
                self.socket = None;
                self.connections.let_go();
                self.end_running(tell);
                self.processes.stop(tell);
                return Ok(());
            }
            Ok(socket::Plain::Bytes(length)) => length,
            Ok(socket::Plain::Cut) => return Err(Breach::TooLong),
            Ok(socket::Plain::WithDescriptor) => return Err(Breach::Descriptor),
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
            Err(_gone) => {
                self.socket = None;
                return Ok(());
            }
        };
        let due = self.running.is_some()
            || self.awaiting.is_some()
            || self.of_terminal.is_some()
            || self.processes.is_pending()
            || self.connections.is_pending()
            || self.outgoing.is_pending();
        if due {
            return Err(Breach::Early);
        }
        if let Some(handed) = self.handed.take() {
            // It was ours and sealed, so nothing can keep it from being cut.
            let _emptied = ftruncate(&handed, 0);
        }
        let buffer = std::mem::take(&mut self.buffer);
        let served = self.answer(buffer.get(..length).unwrap_or_default(), tell, used);
        self.buffer = buffer;
        served
    }

    fn answer(
        &mut self,
        message: &[u8],
        tell: &mut dyn FnMut(Entry),
        used: &mut dyn FnMut() -> Used,
    ) -> Result<(), Breach> {
        let Message { id, what, raw } = broker::request(message)?;
        if id != self.next {
            return Err(Breach::Number { wanted: self.next, got: id });
        }
        self.next = self.next.wrapping_add(1);
        let reply = match what {
            Request::RunProgram(child) => match self.begin(id, *child, tell, used()) {
                // The answer comes when it has ended.
                Ok(()) => return Ok(()),
                Err(no) => Err(no),
            },
            Request::RunCommand(command) => match self.begin_command(id, *command, used()) {
                Ok(()) => return Ok(()),
                Err(no) => Err(no),
            },
            Request::Spawn(spawn) => match self.spawn(id, *spawn, used()) {
                Ok(()) => return Ok(()),
                Err(no) => Err(no),
            },
            Request::Await { all, timeout_ms } => {
                self.awaiting = Some(Awaiting::new(id, all, timeout_ms, Instant::now()));
                return Ok(());
            }
            Request::Connect(connect) => {
                let with = (&self.ceiling, self.outgoing.outside());
                match self.connections.open(id, *connect, with) {
                    Ok(()) => {
                        self.bucket.take(CONNECT_COST);
                        return Ok(());
                    }
                    Err(no) => Err(no),
                }
            }
            Request::Terminal { act } => {
                if self.ceiling.covers(Capability::Stdin, Target::Whole) {
                    self.of_terminal = Some((id, act));
                    return Ok(());
                }
                Err(No::ceiling(Capability::Stdin, None))
            }
            Request::Connection { number, act } => self.connections.act(number, act, raw, tell),
            // Likewise, unless it is known at once.
            Request::Fetch(fetch) => match self.outgoing.fetch(id, *fetch, &self.ceiling) {
                Ok(()) => return Ok(()),
                Err(no) => Err(no),
            },
            Request::Prompt(prompt) => match self.outgoing.prompt(id, &prompt, &self.ceiling) {
                Ok(None) => return Ok(()),
                Ok(Some(reply)) => Ok(reply),
                Err(no) => Err(no),
            },
            what => self.act(what, raw),
        };
        let reply = reply.unwrap_or_else(|no| refusal(no, tell));
        self.bucket.take(reply.cost);
        self.send(id, reply)
    }

    /// Readable when a request to the outside has come to an end.
    #[must_use]
    pub fn outside(&self) -> Option<BorrowedFd<'_>> {
        self.outgoing.answered()
    }

    /// When it is not waited for any longer.
    pub(crate) fn outside_until(&self) -> Option<Instant> {
        self.outgoing.until()
    }

    /// A request to the outside may have come to an end: then it is answered.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn outside_ended(&mut self, now: Instant, tell: &mut dyn FnMut(Entry)) -> Result<(), Breach> {
        let Some((id, reply, entry)) = self.outgoing.take(now) else { return Ok(()) };
        tell(entry);
        let reply = reply.unwrap_or_else(|no| refusal(no, tell));
        self.bucket.take(FETCH_COST);
        self.send(id, reply)
    }

    /// Tokens of the model that were used.
    pub(crate) fn tokens(&self) -> u64 {
        self.outgoing.tokens()
    }

    /// Readable when the child has ended.
    #[must_use]
    pub fn child(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|waited| waited.running.ended())
    }

    /// What has to be kept free for children that run.
    pub(crate) fn kept(&self) -> Kept {
        self.running.as_ref().map_or(Kept::default(), |waited| waited.running.kept).and(self.processes.kept())
    }

    /// Whether this jail's control groups count its children as well.
    pub(crate) fn groups_nest(&self) -> bool {
        self.children.as_ref().is_some_and(|children| !children.groups.is_empty())
    }

    /// The child has ended: its request is answered, and `spent` hears of its processor time.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn child_ended(
        &mut self,
        tell: &mut dyn FnMut(Entry),
        spent: &mut dyn FnMut(Duration),
    ) -> Result<(), Breach> {
        let Some(Waited { id, kind, mut running }) = self.running.take() else { return Ok(()) };
        spent(running.spent());
        let ran = match kind {
            Kind::Program => running.ran(tell),
            Kind::Command => running.exited(tell).and_then(|exited| {
                let exited = exited.ok_or_else(|| No::misuse("the command's supervisor was killed"))?;
                let json = serde_json::to_vec(&exited).map_err(|_| No::kernel(Errno::EINVAL))?;
                Ok(Spent { json, fuel: 0, tokens: 0 })
            }),
        };
        if let (Ok(spent), Some(left)) = (&ran, self.children.as_mut().and_then(|all| all.fuel.as_mut())) {
            *left = left.saturating_sub(spent.fuel);
        }
        if let Ok(spent) = &ran {
            self.outgoing.spent_below(spent.tokens);
        }
        let reply = ran.and_then(|spent| Reply::bytes(spent.json));
        self.bucket.take(CHILD_COST);
        self.send(id, reply.unwrap_or_else(|no| Reply::of(Answer::Refused(no.refused))))
    }

    /// The program has ended, so what it started does.
    pub(crate) fn end(&mut self, tell: &mut dyn FnMut(Entry)) {
        self.connections.end(tell);
        self.end_running(tell);
    }

    fn end_running(&mut self, tell: &mut dyn FnMut(Entry)) {
        let Some(Waited { kind, running, .. }) = self.running.take() else { return };
        if !running.stop() {
            tell(running::untold());
            return;
        }
        // Nobody hears of the result.
        match kind {
            Kind::Program => drop(running.ran(tell)),
            Kind::Command => drop(running.exited(tell)),
        }
    }

    fn begin(&mut self, id: u32, child: Child, tell: &mut dyn FnMut(Entry), used: Used) -> Result<(), No> {
        let source = std::mem::take(&mut self.source);
        let capability = Capability::SandboxRun;
        if !self.ceiling.covers(capability, Target::Whole) {
            return Err(No::ceiling(capability, None));
        }
        let outer = self.files.outer();
        let Some(children) = &self.children else {
            return Err(No::misuse("this supervisor starts no children"));
        };
        let begun = children.begin(child, source, self.caller(outer, used))?;
        let cut = |capability: String, target: String, reason: &str| Entry {
            source: "run_program()".to_owned(),
            reason: reason.to_owned(),
            ..denial(capability, target)
        };
        for grant in begun.dropped {
            tell(cut(grant.check(), grant.scope_text().unwrap_or_default(), "above parent ceiling"));
        }
        if begun.profile_dropped {
            tell(cut("profile(native)".to_owned(), "native".to_owned(), "above parent profile"));
        }
        self.running = Some(Waited { id, kind: Kind::Program, running: begun.running });
        Ok(())
    }

    /// This jail's program, as the one that asks for a child.
    fn caller(&self, outer: Outer, used: Used) -> Caller<'_> {
        let used = if self.groups_nest() { used } else { used.with(self.processes.kept()) };
        Caller { ceiling: &self.ceiling, outer, base: &self.base, used, tokens: self.outgoing.left() }
    }

    /// How children are started, if a command may be that the ceiling covers.
    fn may_run(&self, command: &Command) -> Result<&Children, No> {
        let capability = Capability::Exec;
        let first = command.argv.first().map(String::as_str);
        if !self.ceiling.covers(capability, first.map_or(Target::Whole, Target::Command)) {
            return Err(No::ceiling(capability, first));
        }
        self.children.as_ref().ok_or_else(|| No::misuse("this supervisor starts no commands"))
    }

    fn begin_command(&mut self, id: u32, command: Command, used: Used) -> Result<(), No> {
        let input = std::mem::take(&mut self.source);
        let streams = CommandStreams::Kept(command.most_output.min(MOST_OUTPUT.0));
        self.may_run(&command)?;
        let outer = self.files.outer();
        let running =
            self.may_run(&command)?.begin_command(command, input, streams, self.caller(outer, used))?;
        self.running = Some(Waited { id, kind: Kind::Command, running });
        Ok(())
    }

    fn spawn(&mut self, id: u32, spawn: Spawn, used: Used) -> Result<(), No> {
        self.may_run(&spawn.command)?;
        let outer = self.files.outer();
        let mut processes = std::mem::take(&mut self.processes);
        let used = if self.groups_nest() { used } else { used.with(processes.kept()) };
        let begun = self
            .may_run(&spawn.command)
            .and_then(|children| processes.spawn(id, spawn, children, self.caller(outer, used)));
        self.processes = processes;
        begun
    }

    fn act(&mut self, what: Request, raw: &[u8]) -> Result<Reply, No> {
        match what {
            Request::Open { path, how } => self.files.open(&path, how).map(Reply::opened),
            Request::Replace { path } => self.files.replace(&path).map(Reply::opened),
            Request::Commit {} => self.files.commit().map(|()| Reply::of(Answer::Done)),
            Request::Look { path } => self.files.look(&path).map(|seen| Reply::of(Answer::Seen(seen))),
            Request::List { path } => {
                let listed = self.files.list(&path)?;
                let cost = u32::try_from(listed.len() / 16).unwrap_or(u32::MAX).saturating_add(1);
                Ok(Reply { cost, ..Reply::data(&listed)? })
            }
            Request::MakeFolder { path } => self.files.make_folder(&path).map(|()| Reply::of(Answer::Done)),
            Request::Remove { path, what } => {
                self.files.remove(&path, what).map(|()| Reply::of(Answer::Done))
            }
            Request::Database { path, part, act } => {
                self.files.database(&path, part, act, database::Folders::AreThere).map(Reply::from)
            }
            Request::Notebook { name, part, act } => {
                self.notebooks.act(&self.ceiling, &name, part, act).map(Reply::from)
            }
            Request::Source {} => child::collect(&mut self.source, raw).map(|()| Reply::of(Answer::Done)),
            Request::Body {} => self.outgoing.collect(raw).map(|()| Reply::of(Answer::Done)),
            Request::Module { path } => modules::module(self.modules.as_mut(), &path),
            Request::Model {} => Reply::data(&self.outgoing.state()),
            Request::Process { number, act } => self.processes.act(number, act, raw),
            Request::RunProgram(_)
            | Request::RunCommand(_)
            | Request::Spawn(_)
            | Request::Await { .. }
            | Request::Connect(_)
            | Request::Connection { .. }
            | Request::Terminal { .. }
            | Request::Fetch(_)
            | Request::Prompt(_) => Err(No::misuse("what is answered later is begun by itself")),
        }
    }

    fn send(&mut self, id: u32, reply: Reply) -> Result<(), Breach> {
        let bytes = broker::encode(id, &reply.answer, &reply.raw)?;
        let Some(socket) = &self.socket else { return Ok(()) };
        match socket::try_send(socket.as_fd(), &bytes, reply.file.as_ref().map(AsFd::as_fd)) {
            Ok(()) => {
                self.handed = match reply.answer {
                    Answer::Filed { .. } | Answer::Beside { .. } => reply.file,
                    // A file of the host, or none.
                    Answer::Opened
                    | Answer::Done
                    | Answer::Seen(_)
                    | Answer::Inline
                    | Answer::Piece { .. }
                    | Answer::Refused(_) => None,
                };
                Ok(())
            }
            // Its last answers fill the queue: it has asked without reading them.
            Err(Errno::EAGAIN) => Err(Breach::Early),
            Err(_gone) => {
                self.socket = None;
                Ok(())
            }
        }
    }
}

impl From<Got> for Reply {
    fn from(got: Got) -> Self {
        match got {
            Got::File(file) => Self::opened(file),
            Got::Seen(seen) => Self::of(Answer::Seen(seen)),
            Got::Removed => Self::of(Answer::Done),
        }
    }
}

/// A refusal as an answer, and the entry about it.
fn refusal(no: No, tell: &mut dyn FnMut(Entry)) -> Reply {
    if let Some((check, target)) = no.denied {
        tell(denial(check, target));
    }
    Reply::of(Answer::Refused(no.refused))
}

/// An entry about what the ceiling refused.
fn denial(capability: String, target: String) -> Entry {
    Entry {
        ts: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
        context: "program".to_owned(),
        capability,
        granted: false,
        source: "broker".to_owned(),
        reason: "above host ceiling (--sandbox/--cap-set)".to_owned(),
        origin: Origin::Program,
        file: None,
        line: None,
        seq: 0,
        layer: Layer::Broker,
        target,
    }
}
