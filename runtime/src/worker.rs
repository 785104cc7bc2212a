//! The jailed process: reads one job, runs it, writes frames.
//!
//! Invariant: nothing here opens, connects or starts anything: the two files come in, frames go out.

mod repl;

use crate::broker::{Broker, Reply};
use crate::bytecode::Program;
use crate::diagnostic;
use crate::explain;
use crate::partition::host::{Host, Scene};
use crate::partition::{Logs, Profile, Settings};
use crate::scua;
use crate::source::Source;
use crate::synsema::{self, Loader, program};
use policies::audit::Entry;
use policies::broker::Request;
use policies::ceiling::Ceiling;
use policies::scope::Base;
use policies::wire::{self, EndFrame, ErrorFrame, Explain, Frame, Job, Language, Mode, WantFrame, Wanted};
use rustix::rand::GetRandomFlags;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of frames that wait at most.
const BUFFER: usize = 64 << 10;
/// How long a wait goes on before it is asked whether it still should.
const MOST_ASLEEP: Duration = Duration::from_millis(20);
/// Bytes of a job at most: header, program and modules.
const MAX_JOB: u64 = 512 << 20;

/// Runs the job; the exit code is the program's.
#[must_use]
pub fn run(job: File, frames: File) -> i32 {
    run_with(job, frames, None)
}

/// As [`run`], with a connection to the supervisor's broker ([`policies::broker::DESCRIPTOR`]).
#[must_use]
pub fn run_with(job: File, frames: File, broker: Option<OwnedFd>) -> i32 {
    let out = Rc::new(RefCell::new(Frames::new(frames)));
    let mut bytes = Vec::new();
    let read = job.take(MAX_JOB).read_to_end(&mut bytes);
    let job = match read {
        Ok(_) => wire::decode_job(&bytes).map_err(|e| e.to_string()),
        Err(e) => Err(format!("read the job: {e}")),
    };
    drop(bytes);
    match job {
        Ok(job) => work(job, &out, broker.map(Broker::new)),
        Err(reason) => fail(&out, &format!("failed to {reason}")),
    }
}

fn fail(out: &Rc<RefCell<Frames>>, message: &str) -> i32 {
    let mut out = out.borrow_mut();
    out.send(&Frame::Error(diagnostic::plain("Internal error", message)));
    out.end(1, 0, 0, None);
    1
}

fn work(job: Job, out: &Rc<RefCell<Frames>>, broker: Option<Broker>) -> i32 {
    let header = job.header;
    let ceiling = match header.ceiling.as_deref().map(Ceiling::parse).transpose() {
        Ok(ceiling) => ceiling,
        Err(e) => return fail(out, &format!("failed to read the ceiling: {e}")),
    };
    if header.mode == Mode::Repl {
        return repl::talk(header, ceiling, out, broker);
    }
    if header.language == Language::Scua {
        return match ceiling_of(header.granted.as_deref()) {
            Ok(granted) => scua(header, (job.source, job.state), (ceiling, granted), out, broker),
            Err(e) => fail(out, &e),
        };
    }
    let Ok(text) = String::from_utf8(job.source) else {
        let mut out = out.borrow_mut();
        let message = format!("{}:1:1: the file is not UTF-8", header.file);
        out.send(&Frame::Error(diagnostic::plain("Lexer error", &message)));
        out.end(1, 0, 0, None);
        return 1;
    };
    let mut modules = BTreeMap::new();
    for (name, bytes) in header.modules.iter().zip(job.modules) {
        if let Ok(text) = String::from_utf8(bytes) {
            modules.insert(name.clone(), text);
        }
    }
    let mut given = Given { entry: header.file.clone(), modules };
    if header.mode == Mode::Needs {
        let entry = header.file.clone();
        let name_of = |importer: &str, path: &str| join(importer, path, importer == entry).ok();
        let found = synsema::needs(Source::new(&header.file, &text), &mut given, &name_of);
        let mut out = out.borrow_mut();
        let exit = match found.map(|needs| serde_json::to_string(&needs)) {
            Ok(Ok(line)) => {
                out.send(&Frame::Print(line));
                0
            }
            Ok(Err(_)) | Err(_) => 1,
        };
        out.end(exit, 0, 0, None);
        return exit;
    }
    if header.mode == Mode::Check {
        return check(Source::new(&header.file, &text), &mut given, out);
    }
    let program = match synsema::load(Source::new(&header.file, &text), &mut given) {
        Ok(program) => Rc::new(program),
        Err(failure) => {
            let errors: Vec<ErrorFrame> =
                failure.errors.iter().map(|error| diagnostic::of_load(error, &failure.sources)).collect();
            tell(out, &errors, header.explain, &failure.sources, &Scene::default());
            out.borrow_mut().end(1, 0, 0, None);
            return 1;
        }
    };
    let settings = settings(&header, ceiling);
    let (mode, explained, swarm) = (header.mode, header.explain, header.swarm);
    let host = Rc::new(RefCell::new(Outside::new(header, out, broker)));
    match mode {
        Mode::Run | Mode::Check | Mode::Needs | Mode::Repl => {
            let sources = program.sources.clone();
            let outcome = program::run(program, settings, Box::new(host.clone()));
            tell(out, &outcome.errors, explained, &sources, &host.borrow().scene);
            finish(&mut out.borrow_mut(), &outcome.end)
        }
        Mode::Test => test(program, settings, host, out),
        Mode::Conform => {
            let (outcome, board) = program::run_swarm(program, settings, Box::new(host.clone()));
            let errors: Vec<&str> = outcome.errors.iter().map(|e| e.text.as_str()).collect();
            let mut line = serde_json::json!({
                "ok": outcome.end.exit == 0,
                "out": host.borrow().captured,
                "err": errors,
            });
            if swarm && let (Some(line), serde_json::Value::Object(board)) = (line.as_object_mut(), board) {
                line.extend(board);
            }
            let mut out = out.borrow_mut();
            out.send(&Frame::Print(line.to_string()));
            let end = EndFrame { exit: 0, ..outcome.end };
            finish(&mut out, &end)
        }
    }
}

/// Sends a run's errors; the last one's scene goes with it where errors are explained.
fn tell(
    out: &Rc<RefCell<Frames>>,
    errors: &[ErrorFrame],
    explained: Explain,
    sources: &[Rc<Source>],
    scene: &Scene,
) {
    let mut out = out.borrow_mut();
    for (i, error) in errors.iter().enumerate() {
        let source = error.file.as_ref().and_then(|file| sources.iter().find(|source| source.name == *file));
        let source = source.map(Rc::as_ref);
        let nothing = Scene::default();
        let scene = if i + 1 == errors.len() { scene } else { &nothing };
        let more = match explained {
            Explain::No => None,
            Explain::Text => Some(explain::text(error, source, scene)),
            Explain::Json => Some(explain::object(error, source, scene)),
        };
        // An explanation shows the line itself.
        let bare = ErrorFrame { source: error.source.clone().filter(|_| more.is_none()), ..error.clone() };
        out.send(&Frame::Error(bare));
        if let Some(more) = more {
            out.send(&Frame::Log(more));
        }
    }
}

fn settings(header: &wire::JobHeader, ceiling: Option<Ceiling>) -> Settings {
    Settings {
        ceiling,
        base: header.workdir.clone().map(|workdir| Base { workdir, home: header.home.clone() }),
        profile: match header.profile {
            wire::Profile::Native => Profile::Native,
            wire::Profile::Pure => Profile::Pure,
        },
        fuel: header.fuel,
        heap: header.heap,
        logs: match header.mode {
            Mode::Run | Mode::Repl if !header.logs_with_output => Logs::Stderr,
            _ => Logs::WithOutput,
        },
    }
}

/// `check`: errors, or warnings that don't change the exit code.
fn check(source: Source, modules: &mut dyn Loader, out: &Rc<RefCell<Frames>>) -> i32 {
    let mut out = out.borrow_mut();
    let exit = match synsema::check(source, modules) {
        Ok(warnings) => {
            for warning in warnings {
                out.send(&Frame::Log(warning));
            }
            0
        }
        Err(failure) => {
            for error in &failure.errors {
                out.send(&Frame::Error(diagnostic::of_load(error, &failure.sources)));
            }
            1
        }
    };
    out.end(exit, 0, 0, None);
    exit
}

fn ceiling_of(granted: Option<&str>) -> Result<Ceiling, String> {
    match granted {
        None => Ceiling::parse("stdout").map_err(|e| e.to_string()),
        Some(text) => Ceiling::parse(text).map_err(|e| format!("failed to read the grants: {e}")),
    }
}

/// A program of the second language.
fn scua(
    header: wire::JobHeader,
    (source, state): (Vec<u8>, Option<Vec<u8>>),
    (ceiling, granted): (Option<Ceiling>, Ceiling),
    out: &Rc<RefCell<Frames>>,
    broker: Option<Broker>,
) -> i32 {
    if header.mode == Mode::Needs {
        // Rights come from flags alone, and a program is one file.
        let mut out = out.borrow_mut();
        let line = serde_json::to_string(&wire::Needs::default()).unwrap_or_default();
        out.send(&Frame::Print(line));
        out.end(0, 0, 0, None);
        return 0;
    }
    let program = match scua::load(&header.file, &source, &[]) {
        Ok(program) => Rc::new(program),
        Err(error) => {
            let text = String::from_utf8_lossy(&source);
            let mut out = out.borrow_mut();
            out.send(&Frame::Error(scua::program::refused(&error, &header.file, &text)));
            out.end(1, 0, 0, None);
            return 1;
        }
    };
    drop(source);
    if header.mode == Mode::Check {
        out.borrow_mut().end(0, 0, 0, None);
        return 0;
    }
    if header.mode == Mode::Test {
        return fail(out, "SCUA has no `test` blocks");
    }
    let grants = scua::program::Grants {
        ceiling,
        granted,
        base: header.workdir.clone().map(|workdir| Base { workdir, home: header.home.clone() }),
        fuel: header.fuel,
        memory: header.heap,
        virtual_time: header.deterministic || header.virtual_time,
    };
    let mode = header.mode;
    let save = if header.save { scua::program::Save::Yes } else { scua::program::Save::No };
    let host = Rc::new(RefCell::new(Outside::new(header, out, broker)));
    let ran = scua::program::run_saved(program, grants, state.as_deref(), save, Box::new(host.clone()));
    drop(state);
    let (outcome, saved) = match ran {
        Ok(ran) => ran,
        Err(error) => return fail(out, &format!("failed to {error}: {}", error.help())),
    };
    let mut out = out.borrow_mut();
    if mode == Mode::Conform {
        let errors: Vec<&str> = outcome.errors.iter().map(|e| e.text.as_str()).collect();
        let line = serde_json::json!({
            "ok": outcome.end.exit == 0,
            "out": host.borrow().captured,
            "err": errors,
        });
        out.send(&Frame::Print(line.to_string()));
        return finish(&mut out, &EndFrame { exit: 0, ..outcome.end });
    }
    for error in &outcome.errors {
        out.send(&Frame::Error(error.clone()));
    }
    match saved {
        Some(Ok(state)) => {
            for part in state.chunks(wire::MAX_FRAME) {
                out.send(&Frame::State(part.to_vec()));
            }
        }
        Some(Err(error)) => out.send(&Frame::Log(format!("scua: failed to {error}: {}", error.help()))),
        None => {}
    }
    finish(&mut out, &outcome.end)
}

fn test(
    program: Rc<Program>,
    settings: Settings,
    host: Rc<RefCell<Outside>>,
    out: &Rc<RefCell<Frames>>,
) -> i32 {
    let (results, outcome) = program::test(program, settings, Box::new(host.clone()));
    let verbose = host.borrow().verbose;
    let captured = std::mem::take(&mut host.borrow_mut().captured);
    let mut out = out.borrow_mut();
    if verbose {
        for line in captured {
            out.send(&Frame::Print(line));
        }
    }
    for error in &outcome.errors {
        out.send(&Frame::Error(error.clone()));
    }
    let mut failed = usize::from(!outcome.errors.is_empty());
    let total = results.len() + failed;
    for result in &results {
        match &result.failure {
            None => out.send(&Frame::Print(format!("✓ {}", result.name))),
            Some(reason) => {
                failed += 1;
                let place = match (&result.place, verbose) {
                    (Some(place), true) => format!(" ({place})"),
                    _ => String::new(),
                };
                out.send(&Frame::Print(format!("✗ {}: {reason}{place}", result.name)));
            }
        }
    }
    out.send(&Frame::Print(format!("{} passed, {failed} failed ({total} total)", total - failed)));
    finish(&mut out, &EndFrame { exit: i32::from(failed > 0), ..outcome.end })
}

fn finish(out: &mut Frames, end: &EndFrame) -> i32 {
    out.send(&Frame::End(end.clone()));
    out.flush();
    end.exit
}

/// Modules that came with the job, by the path from the program's folder.
struct Given {
    entry: String,
    modules: BTreeMap<String, String>,
}

impl Loader for Given {
    fn load(&mut self, importer: &str, path: &str) -> Result<(String, String), String> {
        let name = join(importer, path, importer == self.entry)?;
        match self.modules.get(&name) {
            Some(text) => Ok((name, text.clone())),
            None => Err(format!("Module not found: '{path}'")),
        }
    }
}

/// One line of standard input without its end; `None` at the end of the input.
fn line_of_input() -> Option<String> {
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => {
            let cut = line.trim_end_matches(['\n', '\r']).len();
            line.truncate(cut);
            Some(line)
        }
    }
}

/// The module's path, relative as the importer's is, without `.` and `..`.
///
/// # Errors
/// It climbs out of the entry file's folder.
pub fn join(importer: &str, path: &str, from_entry: bool) -> Result<String, String> {
    let folder = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
    let absolute = folder.starts_with('/');
    let mut parts: Vec<&str> = folder.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
    let floor = if from_entry { parts.len() } else { 0 };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.len() <= floor {
                    return Err(if from_entry {
                        "module path escapes the importing directory".to_owned()
                    } else {
                        "module path escapes the project root".to_owned()
                    });
                }
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    Ok(format!("{}{}", if absolute { "/" } else { "" }, parts.join("/")))
}

/// Frames on their way out.
struct Frames {
    file: File,
    waiting: Vec<u8>,
    broken: bool,
    last: Option<Instant>,
}

impl Frames {
    fn new(file: File) -> Self {
        Self { file, waiting: Vec::with_capacity(4096), broken: false, last: None }
    }

    fn send(&mut self, frame: &Frame) {
        wire::encode(frame, &mut self.waiting);
        self.full();
    }

    fn print(&mut self, text: &str) {
        wire::encode_print(text, &mut self.waiting);
        self.full();
    }

    fn full(&mut self) {
        if self.waiting.len() >= BUFFER {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.waiting.is_empty() {
            if !self.broken {
                // A reader that went away is no error of the program: nothing more is sent.
                self.broken = self.file.write_all(&self.waiting).is_err();
            }
            self.waiting.clear();
        }
    }

    fn end(&mut self, exit: i32, fuel: u64, heap_peak: u64, trap: Option<String>) {
        self.send(&Frame::End(EndFrame { exit, fuel, heap_peak, trap, llm_tokens: 0 }));
        self.flush();
    }
}

enum Clock {
    System,
    Fixed(f64),
}

/// The outside of a program in the jail.
struct Outside {
    out: Rc<RefCell<Frames>>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    interactive: bool,
    mode: Mode,
    clock: Clock,
    /// Prints under `test` and `conform`.
    captured: Vec<String>,
    verbose: bool,
    broker: Option<Broker>,
    /// Whether errors are explained, and what could be seen at the last one.
    explains: bool,
    scene: Scene,
    /// Somebody wants what runs to end; only a conversation can go on afterwards.
    interrupt: Option<Arc<AtomicBool>>,
}

impl Outside {
    fn new(header: wire::JobHeader, out: &Rc<RefCell<Frames>>, broker: Option<Broker>) -> Self {
        Self {
            out: out.clone(),
            args: header.args,
            env: header.env,
            interactive: header.interactive,
            mode: header.mode,
            clock: if header.deterministic { Clock::Fixed(header.now) } else { Clock::System },
            captured: Vec::new(),
            verbose: header.verbose,
            broker,
            explains: header.explain != Explain::No,
            scene: Scene::default(),
            interrupt: None,
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

impl Host for Outside {
    fn print(&mut self, text: &str) {
        match self.mode {
            Mode::Run | Mode::Check | Mode::Needs | Mode::Repl => self.out.borrow_mut().print(text),
            Mode::Test if !self.verbose => {}
            Mode::Test | Mode::Conform => self.captured.push(text.to_owned()),
        }
    }

    fn eprint(&mut self, text: &str) {
        self.out.borrow_mut().send(&Frame::Log(text.to_owned()));
    }

    fn audit(&mut self, mut entry: Entry) {
        entry.ts = self.now();
        self.out.borrow_mut().send(&Frame::Audit(entry));
    }

    fn read_line(&mut self) -> Option<String> {
        if let Some(flag) = &self.interrupt {
            // A person types it, where the launcher shows the prompt.
            self.out.borrow_mut().send(&Frame::Want(WantFrame { what: Wanted::Line, indent: 0 }));
            self.out.borrow_mut().flush();
            let line = line_of_input();
            if line.as_deref() == Some(repl::GIVEN_UP) {
                flag.store(true, Ordering::Relaxed);
                return None;
            }
            return line;
        }
        self.out.borrow_mut().flush();
        line_of_input()
    }

    fn now(&mut self) -> f64 {
        match self.clock {
            Clock::System => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()),
            Clock::Fixed(now) => now,
        }
    }

    fn sleep(&mut self, seconds: f64) {
        self.out.borrow_mut().flush();
        match &mut self.clock {
            // A fixed clock moves by what is waited for, and by nothing else.
            Clock::Fixed(now) => *now += seconds,
            Clock::System => {
                let Ok(mut left) = Duration::try_from_secs_f64(seconds) else { return };
                while self.interrupt.is_some() && left > MOST_ASLEEP && !self.is_interrupted() {
                    std::thread::sleep(MOST_ASLEEP);
                    left -= MOST_ASLEEP;
                }
                if !self.is_interrupted() {
                    std::thread::sleep(left);
                }
            }
        }
    }

    fn random(&mut self, into: &mut [u8]) {
        // The system call itself: the jail has no device to fall back on, and the C library's symbol isn't looked up in a
        // static program. A kernel that gives no random numbers gives no program either: nothing weaker stands in.
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::rand::getrandom(rest, GetRandomFlags::empty()) {
                Ok(more) if more > 0 => filled += more,
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => std::process::abort(),
            }
        }
    }

    fn tick(&mut self) {
        // A print is seen at once by whoever reads along, but not every slice costs a system call.
        let mut out = self.out.borrow_mut();
        if !out.waiting.is_empty() {
            let now = Instant::now();
            if out.last.is_none_or(|t| now.duration_since(t) > Duration::from_millis(5)) {
                out.flush();
                out.last = Some(now);
            }
        }
    }

    fn flush(&mut self) {
        self.out.borrow_mut().flush();
    }

    fn delivers(&self) -> bool {
        !self.out.borrow().broken
    }

    fn args(&self) -> Vec<String> {
        self.args.clone()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn env_names(&self) -> Vec<String> {
        self.env.keys().cloned().collect()
    }

    fn interactive(&self) -> bool {
        self.interactive
    }

    fn explains(&self) -> bool {
        self.explains
    }

    fn scene(&mut self, scene: Scene) {
        self.scene = scene;
    }

    fn interrupted(&mut self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.swap(false, Ordering::Relaxed))
    }

    fn broker(&mut self, request: &Request, raw: &[u8]) -> Result<Reply, String> {
        // What the gate said of this request stands before what the broker says of it.
        self.out.borrow_mut().flush();
        match &mut self.broker {
            Some(broker) => broker.ask(request, raw),
            None => Err("ask the supervisor: this run has none".to_owned()),
        }
    }
}

/// An error frame's text and the marked line, as the command line shows them.
#[must_use]
pub fn shown(error: &ErrorFrame) -> String {
    let excerpt = diagnostic::excerpt(error);
    if excerpt.is_empty() { error.text.clone() } else { format!("{}\n{excerpt}", error.text) }
}
