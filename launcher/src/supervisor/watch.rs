//! The loop: waits for one of a closed list of events, and has one handler for each.
//!
//! A run goes through three phases: the program runs; it has ended, and init is being collected; what it had written is
//! delivered. In the last one a slow reader may take its time, and a signal ends the wait.
//!
//! Invariant: within a turn the program's end is seen before the clock is looked at, and both before any output.
//! Invariant: nothing in a turn waits but the one poll.

mod keys;
mod report;
mod wait;

use super::{
    audit::{self, Audit},
    contact::{Place, Uncounted},
    frames::{Frames, Heard, To},
    inlet::{AtEnd, Inlet},
    limits::Watcher,
    lines::{Ends, Lines},
    notify::{Callers, Refuser},
    reap::{self, Cause, Ending},
    relay::{Allowance, Filled, Outlet, Written},
    signals::{Asked, SignalSource},
    terminal::{self, CallerTerminal, Manner},
    wants::{Keep, Prompt, Sink, Source, Wants},
};
use crate::{
    broker::Broker,
    cgroup::Cgroup,
    egress::Egress,
    jail::{ExitRecord, Running},
    sys::pidfd,
};
use nix::{errno::Errno, sys::signal::Signal};
use policies::{
    broker::Breach,
    plan::{Payload, Plan, Stream},
    report::Report,
    wire::WantFrame,
};
use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};
use wait::Event;

/// Bytes of the language's error texts that the report keeps.
const MOST_TOLD: usize = 1 << 20;

/// Watches the run until nothing of it is left, and tells how it went.
#[must_use]
pub fn supervise(running: Running, plan: &Plan, cgroup: Option<Cgroup>, wants: Wants) -> Report {
    let mut watch = Watch::new(running, plan, cgroup, wants);
    while !watch.is_over() {
        watch.turn();
    }
    watch.report()
}

/// Lines for the report.
#[derive(Debug)]
struct Kept {
    out: Lines,
    err: Lines,
}

#[derive(Debug)]
struct Watch<'p> {
    plan: &'p Plan,
    started: Instant,
    init: OwnedFd,
    payload: OwnedFd,
    exit: OwnedFd,
    /// Closed only when everything is over: init watches the other end.
    _lifeline: OwnedFd,
    refuser: Option<Refuser>,
    broker: Option<Broker>,
    egress: Option<Egress>,
    watcher: Watcher,
    out: Outlet,
    err: Outlet,
    input: Inlet,
    /// The jail's terminal, and the caller's if it has one.
    master: Option<OwnedFd>,
    caller: Option<CallerTerminal>,
    /// Where a program of a language may ask for keys.
    keys: Option<Source>,
    signals: Option<SignalSource>,
    kept: Option<Kept>,
    frames: Option<Frames>,
    /// Where a person is asked, and for what.
    quiet: bool,
    person: Option<OwnedFd>,
    want: Option<WantFrame>,
    /// Errors that the language's program made.
    told: Lines,
    allowance: Allowance,
    audit: Audit,
    uncounted: Option<Uncounted>,
    refused_output: bool,
    /// Tokens of a model that the broker has counted.
    tokens: u64,
    cause: Option<Cause>,
    stop: Option<Signal>,
    kill_at: Option<Instant>,
    killed: bool,
    ending: Option<Ending>,
    /// From the start to the end of the program.
    wall: Duration,
    collected: bool,
}

impl<'p> Watch<'p> {
    fn new(running: Running, plan: &'p Plan, cgroup: Option<Cgroup>, wants: Wants) -> Self {
        let started = Instant::now();
        let streams = running.streams;
        // The output of a terminal and its input are one descriptor; each side has its own handle on it.
        let master = streams.terminal.as_ref().and_then(|master| master.try_clone().ok());
        let caller = master
            .as_ref()
            .and_then(|_| wants.stdin.file().and_then(|input| CallerTerminal::of(input, Manner::Raw)));
        if let (Some(caller), Some(master)) = (&caller, &master) {
            caller.enter();
            caller.tell_size(master.as_fd());
        }
        let (to_jail, at_end) = match (&master, plan.stdin) {
            (Some(master), Stream::Relayed) => (master.try_clone().ok(), AtEnd::Character),
            (Some(_), Stream::Closed) => (None, AtEnd::Close),
            (None, _) => (streams.stdin, AtEnd::Close),
        };
        let keys = keys::keys_of(plan, &wants);
        let (stdout, err) = match (plan.stdout, &plan.payload) {
            (Stream::Relayed, _) => (wants.stdout, Outlet::new(streams.stderr, wants.stderr)),
            // What is wrong with a program of the language is told, whether it may print or not.
            (Stream::Closed, Payload::Runtime) => (Sink::Nowhere, Outlet::deaf(streams.stderr, wants.stderr)),
            (Stream::Closed, Payload::Command { .. }) => {
                (Sink::Nowhere, Outlet::new(streams.stderr, Sink::Nowhere))
            }
        };
        let context = match plan.payload {
            Payload::Runtime => "program",
            Payload::Command { .. } => audit::COMMAND,
        };
        let kept = match wants.keep {
            Keep::AtMost(bytes) if plan.stdout == Stream::Relayed => {
                let bytes = usize::try_from(bytes.0).unwrap_or(usize::MAX);
                let ends = if master.is_some() { Ends::Terminal } else { Ends::Plain };
                Some(Kept { out: Lines::new(bytes, ends), err: Lines::new(bytes, Ends::Plain) })
            }
            Keep::AtMost(_) | Keep::Nothing => None,
        };
        Self {
            plan,
            started,
            init: running.init_pidfd,
            payload: running.payload_pidfd,
            exit: running.exit_pipe,
            _lifeline: running.lifeline,
            refuser: running.listener.map(|listener| Refuser::new(listener, plan.filter)),
            broker: streams.broker.zip(wants.lent).map(|(socket, lent)| Broker::new(socket, lent)),
            egress: wants.egress,
            watcher: Watcher::new(&plan.limits, cgroup, running.init, running.scratch, started),
            out: Outlet::new(streams.terminal.or(streams.stdout), stdout),
            err,
            input: Inlet::new(wants.stdin, to_jail, at_end),
            master,
            caller,
            keys,
            signals: wants.signals,
            kept,
            frames: streams.frames.map(|file| Frames::new(file, wants.state)),
            quiet: wants.quiet,
            person: wants.person,
            want: None,
            told: Lines::new(MOST_TOLD, Ends::Plain),
            allowance: Allowance::new(plan.limits.output.value.map(|limit| limit.0)),
            audit: Audit::new(context),
            uncounted: Uncounted::of(plan, running.init),
            refused_output: false,
            tokens: 0,
            cause: None,
            stop: None,
            kill_at: None,
            killed: false,
            ending: None,
            wall: Duration::ZERO,
            collected: false,
        }
    }

    fn is_over(&self) -> bool {
        let frames = self.frames.as_ref().is_some_and(|frames| frames.readable().is_some());
        self.collected && self.out.is_done() && self.err.is_done() && !frames
    }

    /// Waits once, and handles what is there.
    fn turn(&mut self) {
        // Whether this turn's wait saw all that the jail ever wrote.
        let was_collected = self.collected;
        let ready = self.wait();
        if ready.has(Event::Ended) {
            self.ended();
        }
        if ready.has(Event::Gone) {
            self.gone();
        }
        if ready.has(Event::Signal) {
            self.signals();
        }
        if ready.has(Event::Memory)
            && let Some(cause) = self.watcher.answer_alarm()
        {
            self.end(cause);
        }
        self.clock();
        if ready.has(Event::Refused)
            && let Some(refuser) = &mut self.refuser
            && refuser.answer(&mut self.audit, Place::of(self.plan, self.egress.as_mut())) == Callers::Gone
        {
            self.refuser = None;
        }
        if ready.has(Event::Unfiltered) {
            // Nobody can be refused any more. Asking would wait for ever on kernels before 6.11, and spin on later ones.
            self.refuser = None;
        }
        if ready.has_ended(Event::OutReadable) {
            self.out.close_from();
        }
        if ready.has_ended(Event::ErrReadable) {
            self.err.close_from();
        }
        if ready.has(Event::Connection) {
            self.connections();
        }
        if ready.has(Event::OutReadable) {
            let kept = self.kept.as_mut().map(|kept| &mut kept.out);
            let used = self.allowance.used();
            let filled = self.out.fill(&mut self.allowance, keep_in(kept));
            self.filled(filled, used);
        }
        if ready.has(Event::ErrReadable) {
            let kept = self.kept.as_mut().map(|kept| &mut kept.err);
            let used = self.allowance.used();
            let filled = self.err.fill(&mut self.allowance, keep_in(kept));
            self.filled(filled, used);
        }
        if ready.has(Event::Frames) {
            self.frames();
        }
        // Behind the frames: what the gate has said of a request stands before what the broker says.
        if ready.has(Event::Asked) {
            self.asked();
        }
        if ready.has(Event::Child) {
            self.child();
        }
        self.processes(ready.has(Event::Process));
        self.outside();
        let frames = ready.has(Event::Frames);
        if frames || ready.has(Event::OutReadable) || ready.has(Event::OutWritable) {
            let written = self.out.flush();
            self.flushed(written, "output");
        }
        if frames || ready.has(Event::ErrReadable) || ready.has(Event::ErrWritable) {
            let written = self.err.flush();
            self.flushed(written, "errors");
        }
        // Whoever answers has seen everything by then.
        if self.idle() {
            self.ask();
        }
        if ready.has(Event::InReadable) {
            self.input.fill();
        }
        if ready.has(Event::InWritable) {
            self.input.flush();
        }
        if was_collected {
            // No writer is left: what can't be read now will never come.
            let later = |event| !ready.has(event);
            if later(Event::OutReadable) && later(Event::OutWritable) && self.out.readable().is_some() {
                self.out.close_from();
            }
            if later(Event::ErrReadable) && later(Event::ErrWritable) && self.err.readable().is_some() {
                self.err.close_from();
            }
            // They were waited for only if nothing waited for the caller then.
            if later(Event::Frames)
                && later(Event::OutWritable)
                && later(Event::ErrWritable)
                && self.idle()
                && let Some(frames) = &mut self.frames
            {
                frames.close();
            }
        }
    }

    /// Whether nothing waits for the caller: only then frames are taken.
    fn idle(&self) -> bool {
        self.out.is_idle() && self.err.is_idle()
    }

    /// The runtime has sent frames.
    fn frames(&mut self) {
        let Some(frames) = &mut self.frames else { return };
        let heard = frames.take(&mut To {
            out: &mut self.out,
            err: &mut self.err,
            prints: self.kept.as_mut().map(|kept| &mut kept.out),
            errors: &mut self.told,
            quiet: self.quiet,
            allowance: &mut self.allowance,
            audit: &mut self.audit,
            want: &mut self.want,
        });
        let printed = frames.has_printed();
        self.refuse_output(printed);
        match heard {
            Heard::Frames if self.want.is_some() && self.person.is_none() => {
                self.end(Cause::Broken("the runtime waits for a person, and none is there".to_owned()));
            }
            Heard::Frames => {}
            Heard::Over => self.over(),
            Heard::Broken(how) => self.end(Cause::Broken(how)),
        }
    }

    /// Asks the person for the line that the runtime waits for.
    fn ask(&mut self) {
        let (Some(want), Some(person)) = (self.want.take(), &self.person) else { return };
        // EPIPE: whoever asks has gone, and the input ends with it.
        if nix::unistd::write(person, &Prompt(want).encode()) == Err(Errno::EAGAIN) {
            self.end(Cause::Broken("the runtime asks without waiting".to_owned()));
        }
    }

    /// What a write to the caller came to.
    fn flushed(&mut self, written: Written, stream: &str) {
        match written {
            Written::Bytes(_) | Written::Later => {}
            // A foreign command sees its own pipe closed. The runtime's prints are frames, so this stands for SIGPIPE.
            Written::Gone if self.frames.is_some() && self.ending.is_none() => {
                self.stop.get_or_insert(Signal::SIGPIPE);
                self.kill();
            }
            Written::Gone => {}
            // Output that was lost must not look like success.
            Written::Failed(errno) => {
                self.end(Cause::Broken(format!("failed to write the program's {stream}: {}", errno.desc())));
            }
        }
    }

    /// The egress has entries, or has ended before its time: the jail then reaches nothing more.
    fn connections(&mut self) {
        let Some(egress) = &self.egress else { return };
        match egress.entries() {
            Ok(entries) => entries.into_iter().for_each(|entry| self.audit.add(entry)),
            Err(_) => {
                self.egress = None;
                self.audit.lost_egress();
            }
        }
    }

    /// Init has told of the program's end, or is dead itself.
    fn ended(&mut self) {
        self.wall = self.started.elapsed();
        let mut bytes = [0; ExitRecord::SIZE];
        let ending = match nix::unistd::read(&self.exit, &mut bytes) {
            Ok(ExitRecord::SIZE) => Ending::Told(ExitRecord::decode(bytes)),
            Err(Errno::EINTR) => return,
            Ok(_) | Err(_) => Ending::Untold,
        };
        self.ending = Some(ending);
        self.end_processes();
        let told_cpu = match ending {
            Ending::Told(record) => Some(Duration::from_micros(record.cpu_us)),
            Ending::Untold => None,
        };
        if let Some(cause) = self.watcher.last_look(told_cpu) {
            self.cause.get_or_insert(cause);
        }
        // Init is about to end by itself, and everything in the jail with it; this makes sure of it.
        self.kill();
        self.refuser = None;
        self.end_broker();
        self.input.close();
    }

    /// Init has ended, so nothing of the jail is left.
    fn gone(&mut self) {
        if self.ending.is_none() {
            // It was killed, and this came first; the record, if there is one, is in the pipe.
            self.ended();
        }
        reap::collect(self.init.as_fd());
        self.collected = true;
    }

    /// Signals to the launcher.
    fn signals(&mut self) {
        while let Some(asked) = self.signals.as_ref().and_then(SignalSource::next) {
            match asked {
                // What runs ends, and the conversation goes on.
                Asked::Stop(Signal::SIGINT) if self.person.is_some() && self.ending.is_none() => {
                    self.pass(Signal::SIGINT);
                }
                Asked::Stop(signal) => self.stop(signal),
                Asked::Pass(signal) => self.pass(signal),
                Asked::Resize => match (&self.caller, &self.master) {
                    (Some(caller), Some(master)) => caller.tell_size(master.as_fd()),
                    _ => self.pass(Signal::SIGWINCH),
                },
                Asked::Suspend => {
                    // The jail has a session of its own, so the shell's stop didn't reach it.
                    self.pass(Signal::SIGSTOP);
                    terminal::suspend(self.caller.as_ref());
                    self.resume();
                }
                Asked::Resume => self.resume(),
            }
        }
    }

    fn resume(&mut self) {
        if let Some(caller) = &self.caller {
            caller.enter();
            if let Some(master) = &self.master {
                caller.tell_size(master.as_fd());
            }
        }
        self.input.resume();
        self.pass(Signal::SIGCONT);
    }

    /// Asks the program to end, or ends it.
    ///
    /// SIGHUP without a terminal is how services are told to read their settings again: it is passed on, and is the cause
    /// of the end if the program dies of it, but no time starts to run. With a terminal it says that the terminal is gone.
    fn stop(&mut self, signal: Signal) {
        if self.ending.is_some() {
            // Only the delivery of output is left, and the caller doesn't want to wait for it.
            self.out.abandon();
            self.err.abandon();
            if let Some(frames) = &mut self.frames {
                frames.close();
            }
            return;
        }
        if self.kill_at.is_some() {
            self.kill();
            return;
        }
        self.stop = Some(signal);
        self.pass(signal);
        if signal == Signal::SIGHUP && self.caller.is_none() {
            return;
        }
        let grace = Duration::from_millis(self.plan.limits.grace.0);
        self.kill_at = Instant::now().checked_add(grace);
    }

    fn pass(&self, signal: Signal) {
        // ESRCH: it has just ended, and its record is on the way.
        let _ = pidfd::send_signal(self.payload.as_fd(), signal);
    }

    /// What is due by the clock, while the program runs.
    fn clock(&mut self) {
        if self.ending.is_some() || self.killed {
            return;
        }
        let now = Instant::now();
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill();
        }
        if let Some(cause) = self.watcher.look(now) {
            self.end(cause);
        }
    }

    /// The runtime asks for something.
    fn asked(&mut self) {
        let Some(broker) = &mut self.broker else { return };
        let audit = &mut self.audit;
        let watcher = &mut self.watcher;
        let served = broker.serve(&mut |entry| audit.add(entry), &mut || watcher.used());
        let nest = broker.groups_nest();
        watcher.keep(broker.kept(), nest);
        let asks = broker.asks_terminal();
        let answered = asks.map_or(Ok(()), |act| self.of_terminal(act));
        if let Err(breach) = served.and(answered) {
            self.breach(&breach);
        }
    }

    /// A program that the runtime started has ended.
    fn child(&mut self) {
        let Some(broker) = &mut self.broker else { return };
        let nest = broker.groups_nest();
        let audit = &mut self.audit;
        let watcher = &mut self.watcher;
        let mut over = None;
        let ended = broker
            .child_ended(&mut |entry| audit.add(entry), &mut |cpu| over = watcher.child_spent(cpu, nest));
        watcher.keep(broker.kept(), nest);
        self.tokens = broker.tokens();
        if let Err(breach) = ended {
            self.breach(&breach);
        }
        if let Some(cause) = over {
            self.end(cause);
        }
    }

    /// Something of a process that runs beside the runtime is there, or due.
    fn processes(&mut self, there: bool) {
        let Some(broker) = &mut self.broker else { return };
        let now = Instant::now();
        if !there && broker.processes_until().is_none_or(|at| now < at) {
            return;
        }
        let nest = broker.groups_nest();
        let audit = &mut self.audit;
        let watcher = &mut self.watcher;
        let mut over = None;
        let told = broker.processes_turn(now, &mut |entry| audit.add(entry), &mut |cpu| {
            over = over.take().or(watcher.child_spent(cpu, nest));
        });
        watcher.keep(broker.kept(), nest);
        if let Err(breach) = told {
            self.breach(&breach);
        }
        if let Some(cause) = over {
            self.end(cause);
        }
    }

    /// A request of the runtime to the outside has come to an end, or its time has.
    fn outside(&mut self) {
        let Some(broker) = self.broker.as_mut().filter(|broker| broker.outside().is_some()) else { return };
        let audit = &mut self.audit;
        let ended = broker.outside_ended(Instant::now(), &mut |entry| audit.add(entry));
        self.tokens = broker.tokens();
        if let Err(breach) = ended {
            self.breach(&breach);
        }
    }

    fn breach(&mut self, breach: &Breach) {
        // First of all it ends: what it has begun is let go afterwards.
        self.end(Cause::Broken(format!("the runtime broke the broker's protocol: {breach}")));
        self.end_broker();
    }

    /// Nothing is asked any more; what a child of the runtime did until now is told.
    fn end_broker(&mut self) {
        self.end_processes();
        if let Some(mut broker) = self.broker.take() {
            broker.end(&mut |entry| self.audit.add(entry));
        }
    }

    /// The processes beside the program end with it: they tell what they did, and what they used is counted.
    fn end_processes(&mut self) {
        let Some(broker) = &mut self.broker else { return };
        let nest = broker.groups_nest();
        let spent = broker.end_processes(&mut |entry| self.audit.add(entry));
        if !spent.is_zero() {
            let over = self.watcher.child_spent(spent, nest);
            self.cause = self.cause.take().or(over);
        }
    }

    /// What a read of output brought, and how much there had been before it.
    fn filled(&mut self, filled: Filled, before: u64) {
        self.refuse_output(self.allowance.used() > before);
        if filled == Filled::Over {
            self.over();
        }
    }

    /// Notes, once, output that isn't granted.
    fn refuse_output(&mut self, any: bool) {
        if self.plan.stdout == Stream::Closed && any && !self.refused_output {
            self.refused_output = true;
            self.audit.refused_output();
        }
    }

    /// More output than was allowed: nothing more is taken.
    fn over(&mut self) {
        self.end(Cause::Output);
        self.out.close_from();
        self.err.close_from();
        if let Some(frames) = &mut self.frames {
            frames.close();
        }
    }

    /// Ends the run for a cause; the first one stays.
    fn end(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
        if self.ending.is_none() {
            self.watcher.look_before_kill();
        }
        self.kill();
    }

    /// Kills init, and everything in the jail with it.
    fn kill(&mut self) {
        self.killed = true;
        // ESRCH: it has ended already.
        let _ = pidfd::send_signal(self.init.as_fd(), Signal::SIGKILL);
    }
}

/// Passes bytes to the lines that are kept, if any are.
fn keep_in(lines: Option<&mut Lines>) -> impl FnMut(&[u8]) {
    let mut lines = lines;
    move |bytes| {
        if let Some(lines) = &mut lines {
            lines.push(bytes);
        }
    }
}
