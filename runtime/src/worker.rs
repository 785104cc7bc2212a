//! The jailed process: reads one job, runs it, writes frames.
//!
//! Invariant: nothing here opens, connects or starts anything: the two files come in, frames go out.

mod frames;
mod modules;
mod outside;
mod repl;

use crate::broker::Broker;
use crate::bytecode::Program;
use crate::diagnostic;
use crate::explain;
use crate::partition::host::Scene;
use crate::partition::{Logs, Profile, Settings};
use crate::scua;
use crate::source::Source;
use crate::synsema::{self, Loader, program};
use frames::Frames;
use modules::Given;
use outside::{Outside, line_of_input};
use policies::ceiling::Ceiling;
use policies::scope::Base;
use policies::wire::{self, EndFrame, ErrorFrame, Explain, Frame, Job, Language, Mode};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::rc::Rc;

pub use modules::join;

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
    refuse(out, "Internal error", message)
}

/// What is the caller's, or that of a file that it gave.
fn refuse(out: &Rc<RefCell<Frames>>, kind: &str, message: &str) -> i32 {
    let mut out = out.borrow_mut();
    out.send(&Frame::Error(diagnostic::plain(kind, message)));
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
    let mut assets = BTreeMap::new();
    let texts = header.modules.len().saturating_sub(header.assets);
    for (place, (name, bytes)) in header.modules.iter().zip(job.modules).enumerate() {
        if place >= texts {
            assets.insert(name.clone(), bytes.into());
        } else if let Ok(text) = String::from_utf8(bytes) {
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
    let host = Rc::new(RefCell::new(Outside::new(header, out, broker).with_assets(assets)));
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
            tell(out, &outcome.errors, explained, &[], &Scene::default());
            let mut out = out.borrow_mut();
            if swarm {
                out.send(&Frame::Print(board.to_string()));
            }
            finish(&mut out, &outcome.end)
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
        return refuse(out, "error", "SCUA has no `test` blocks: `run` or `check` the file");
    }
    let grants = scua::program::Grants {
        ceiling,
        granted,
        base: header.workdir.clone().map(|workdir| Base { workdir, home: header.home.clone() }),
        fuel: header.fuel,
        memory: header.heap,
        virtual_time: header.deterministic || header.virtual_time,
    };
    let save = if header.save { scua::program::Save::Yes } else { scua::program::Save::No };
    let host = Rc::new(RefCell::new(Outside::new(header, out, broker)));
    let ran = scua::program::run_saved(program, grants, state.as_deref(), save, Box::new(host.clone()));
    drop(state);
    let (outcome, saved) = match ran {
        Ok(ran) => ran,
        Err(error) => return refuse(out, "error", &format!("failed to {error}: {}", error.help())),
    };
    let mut out = out.borrow_mut();
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

/// An error frame's text and the marked line, as the command line shows them.
#[must_use]
pub fn shown(error: &ErrorFrame) -> String {
    let excerpt = diagnostic::excerpt(error);
    if excerpt.is_empty() { error.text.clone() } else { format!("{}\n{excerpt}", error.text) }
}
