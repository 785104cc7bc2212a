//! A program's text on its way into the jail. It is never parsed here: what must be known of it before its own jail can be
//! planned (its `require` lines, the modules that it uses) is read in a jail that holds nothing.

use super::{
    args::{CommonArgs, RunArgs},
    exit, launch,
    names::{self, Name},
    settings,
    sources::{self, Beside},
};
use crate::{error::Error, probe};
use nix::sys::memfd::{MFdFlags, memfd_create};
use policies::{
    capability::Capability,
    ceiling::{Ceiling, Grant},
    limits::{LimitSettings, Setting},
    policy::Policy,
    report::{Report, Verdict},
    request::{self, Options, Profile, Subject},
    scope::Base,
    units::Millis,
    wire::{self, JobHeader, Language, Mode, Needs},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Seek, Write},
    os::fd::OwnedFd,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A program with the modules that it was found to use.
#[derive(Debug)]
pub(super) struct Program {
    /// Its name in diagnostics: the path as given, or `<stdin>`.
    pub(super) name: String,
    language: Language,
    source: Vec<u8>,
    modules: BTreeMap<String, Vec<u8>>,
    /// Files that are a part of it.
    assets: BTreeMap<String, Vec<u8>>,
    /// What its `require` lines ask for, where that was read.
    required: Option<Ceiling>,
    /// What was saved of it, to be gone on with.
    state: Option<Vec<u8>>,
}

impl Program {
    /// Reads a file, or standard input for `-`: SCUA where the binary was called as `scua`, else Synsema.
    pub(super) fn read(path: &str) -> Result<Self, Error> {
        let (name, source) = if path == "-" {
            ("<stdin>", sources::bounded(io::stdin().lock(), wire::MAX_SOURCE))
        } else {
            (path, sources::program(path))
        };
        let source = source.map_err(|source| Error::File {
            act: "read the program",
            path: name.to_owned(),
            source,
        })?;
        // Standard input has no ending to tell by: it is of the language that the binary was called by.
        let scua = path.ends_with(".scua") || (path == "-" && names::called_as() == Name::Scua);
        let language = if scua { Language::Scua } else { Language::Synsema };
        Ok(Self { source, ..Self::empty(name, language) })
    }

    fn empty(name: &str, language: Language) -> Self {
        Self {
            name: name.to_owned(),
            language,
            source: Vec::new(),
            modules: BTreeMap::new(),
            assets: BTreeMap::new(),
            required: None,
            state: None,
        }
    }

    /// Packs files with it, by the paths that it reads them by.
    pub(super) fn pack(&mut self, assets: BTreeMap<String, Vec<u8>>) {
        self.assets = assets;
    }

    /// Goes on with what was saved of it.
    pub(super) fn restore(&mut self, state: Vec<u8>) {
        self.state = Some(state);
    }

    /// Whether programs of its language can be saved.
    pub(super) fn can_be_saved(&self) -> bool {
        self.language == Language::Scua
    }

    /// Finds the modules, and what the program requires if `ceiling` leaves that open.
    ///
    /// With a ceiling and without the word `use` in its text there is nothing to find, and no jail is started for it.
    /// It is ended where the limits of `common` end a run, all rounds together.
    ///
    /// # Errors
    /// [`Error::Looking`] if it was ended; a file of a module that can't be read.
    pub(super) fn explore(&mut self, ceiling: Option<&Ceiling>, common: &CommonArgs) -> Result<(), Error> {
        // SCUA's rights come from flags, and a program is one file: nothing in its text says more.
        if self.language == Language::Scua {
            return Ok(());
        }
        let uses = self.source.windows(4).any(|word| word == b"use ");
        if ceiling.is_some() && !uses {
            return Ok(());
        }
        let failed = |path: &str| {
            let path = path.to_owned();
            move |source| Error::File { act: "read the module", path, source }
        };
        let mut clock = Clock::start(common)?;
        let mut beside = None;
        // Each round may name modules that only the last round's modules use.
        for _round in 0..wire::MAX_MODULES {
            let Some(needs) = self.needs(&mut clock)? else {
                // What is wrong is the output of its own run.
                self.required.get_or_insert_with(|| required(&Needs::default()));
                return Ok(());
            };
            self.required = Some(required(&needs));
            let missing: Vec<String> =
                needs.modules.into_iter().filter(|name| !self.modules.contains_key(name)).collect();
            if missing.is_empty() {
                return Ok(());
            }
            let beside = match &mut beside {
                Some(beside) => beside,
                none => none.insert(Beside::of(&self.name, self.source.len()).map_err(failed(&self.name))?),
            };
            for name in missing {
                // One that isn't there is the program's error, told with its place when the program is loaded. So is one
                // that isn't named as programs are: the errors of one show its lines, and a program may be hostile.
                let text = if name.ends_with(".syn") { beside.module(&name) } else { Ok(None) };
                let Some(text) = text.map_err(failed(&name))? else { return Ok(()) };
                self.modules.insert(name, text);
                if self.modules.len() > wire::MAX_MODULES {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// What the program's own `require` lines grant, with what `run` grants of itself: where no ceiling says otherwise, a
    /// program that asks for input gets the caller's. From one that doesn't, none is taken.
    pub(super) fn required(&self) -> Option<Ceiling> {
        let required = self.required.as_ref()?;
        let input = Some(Grant::whole(Capability::Stdin)).filter(|_| self.asks_for_input());
        Some(Ceiling::of(required.grants().cloned().chain(input)))
    }

    fn asks_for_input(&self) -> bool {
        let asks =
            |text: &[u8]| ASKING.iter().any(|word| text.windows(word.len()).any(|at| at == word.as_bytes()));
        self.language == Language::Synsema
            && (asks(&self.source) || self.modules.values().any(|text| asks(text)))
    }

    /// What flags grant a SCUA program; the other language asks for its rights in its text.
    pub(super) fn grant(&mut self, granted: Ceiling) {
        if self.language == Language::Scua {
            self.required = Some(granted);
        }
    }

    /// One look at the text, in a jail that holds nothing. `None` if it doesn't parse: its own run will say so.
    fn needs(&self, clock: &mut Clock) -> Result<Option<Needs>, Error> {
        let mut header = JobHeader::run(&self.name, Some("stdout".into()));
        header.mode = Mode::Needs;
        let base = Base { workdir: "/".into(), home: None };
        let mut options = Options::new(Subject::Runtime { profile: Profile::Pure }, base);
        options.ceiling = Some(Ceiling::parse("stdout").map_err(settings::refused)?);
        options.limits = clock.left()?;
        let request = request::resolve(&Policy::runtime(), options)
            .map_err(|refusal| Error::Policy(refusal.to_string(), refusal.help()))?;
        let host = probe::fast();
        let plan = launch::plan(&request, &host, super::lookup::Sockets::Skipped)?;
        let report = launch::look(plan, &host, self.job(header)?)?;
        clock.went(&report)?;
        if !report.ok {
            return Ok(None);
        }
        Ok(report.output.first().and_then(|text| serde_json::from_str(text).ok()))
    }

    /// A program that a program made.
    pub(super) fn of_text(name: &str, source: Vec<u8>) -> Self {
        let language = if name.ends_with(".scua") { Language::Scua } else { Language::Synsema };
        Self { source, ..Self::empty(name, language) }
    }

    /// The program of a job that was written before.
    pub(super) fn of_job(job: wire::Job) -> Self {
        let mut named = job.header.modules.into_iter().zip(job.modules);
        let texts = named.len().saturating_sub(job.header.assets);
        Self {
            name: job.header.file,
            language: job.header.language,
            source: job.source,
            modules: named.by_ref().take(texts).collect(),
            assets: named.collect(),
            required: None,
            state: job.state,
        }
    }

    /// The job as bytes.
    pub(super) fn encode(&self, mut header: JobHeader) -> Result<Vec<u8>, Error> {
        header.language = self.language;
        header.modules = self.modules.keys().chain(self.assets.keys()).cloned().collect();
        header.assets = self.assets.len();
        let modules: Vec<Vec<u8>> = self.modules.values().chain(self.assets.values()).cloned().collect();
        header.restore = self.state.is_some();
        wire::encode_job(&header, &self.source, &modules, self.state.as_deref()).map_err(|broken| {
            Error::Usage { what: broken.to_string(), remedy: "give a smaller program".into() }
        })
    }

    /// The job, in memory: the runtime reads it from descriptor 3.
    pub(super) fn job(&self, header: JobHeader) -> Result<OwnedFd, Error> {
        let bytes = self.encode(header)?;
        let failed = |source| Error::Supervise { act: "hand the program over", source };
        let file = memfd_create(c"job", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from).map_err(failed)?;
        let mut file = File::from(file);
        file.write_all(&bytes).and_then(|()| file.rewind()).map_err(failed)?;
        Ok(file.into())
    }
}

/// What is left for looking at a program: one clock for all rounds.
#[derive(Debug)]
struct Clock {
    until: Option<Instant>,
    cpu: Option<Duration>,
}

impl Clock {
    fn start(common: &CommonArgs) -> Result<Self, Error> {
        let limits = settings::limits(common)?.over(LimitSettings::DEFAULT);
        let time = |Millis(ms)| Duration::from_millis(ms);
        let wall = limits.wall.and_then(Setting::value).map(time);
        Ok(Self {
            // No limit, if that is beyond all clocks.
            until: wall.and_then(|wall| Instant::now().checked_add(wall)),
            cpu: limits.cpu.and_then(Setting::value).map(time),
        })
    }

    /// The limits of the next round.
    fn left(&self) -> Result<LimitSettings, Error> {
        let wall = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let limit = |left: Option<Duration>, ended| match left.map(|left| left.as_millis()) {
            None => Ok(Some(Setting::Unlimited)),
            Some(0) => Err(over(ended)),
            Some(ms) => Ok(Some(Setting::At(Millis(u64::try_from(ms).unwrap_or(u64::MAX))))),
        };
        Ok(LimitSettings {
            wall: limit(wall, Verdict::WallTime)?,
            cpu: limit(self.cpu, Verdict::CpuTime)?,
            ..LimitSettings::NONE
        })
    }

    /// A round has ended: with an error if whoever ended it doesn't want another.
    fn went(&mut self, report: &Report) -> Result<(), Error> {
        let used = report.usage.cpu.map_or(Duration::ZERO, |Millis(ms)| Duration::from_millis(ms));
        self.cpu = self.cpu.map(|left| left.saturating_sub(used));
        match report.status {
            ended @ (Verdict::WallTime | Verdict::CpuTime) => Err(over(ended)),
            // What else is wrong with it, its own run will say.
            Verdict::Ok
            | Verdict::Nonzero
            | Verdict::Stopped
            | Verdict::Signal
            | Verdict::Memory
            | Verdict::Fuel
            | Verdict::Output
            | Verdict::Disk
            | Verdict::Processes
            | Verdict::JailFailed => Ok(()),
        }
    }
}

fn over(ended: Verdict) -> Error {
    let (what, remedy) = if ended == Verdict::CpuTime {
        ("the limit on CPU time is met", "raise it with --cpu")
    } else {
        ("the wall clock limit is met", "raise it with --wall")
    };
    Error::Looking { why: what.to_owned(), code: exit::TIMED_OUT, remedy: Some(remedy) }
}

/// The header of a run, with what the command line says.
pub(super) fn header(
    mode: Mode,
    program: &Program,
    args: &RunArgs,
    ceiling: Option<&Ceiling>,
) -> Result<JobHeader, Error> {
    let mut header = JobHeader::run(&program.name, ceiling.map(ToString::to_string));
    header.mode = mode;
    header.profile = match args.profile() {
        super::args::Profile::Native => wire::Profile::Native,
        super::args::Profile::Pure => wire::Profile::Pure,
    };
    if program.language == Language::Scua {
        header.granted = Some(args.allow.granted()?.to_string());
    }
    header.fuel = settings::count("--fuel", args.fuel.as_deref())?;
    header.heap = settings::size(names::called_as().heap_flag(), args.memory_heap.as_deref())?;
    header.args.clone_from(&args.args);
    header.deterministic = args.deterministic;
    header.explain = match (args.explain, args.format) {
        (false, _) => wire::Explain::No,
        (true, super::args::Format::Text) => wire::Explain::Text,
        (true, super::args::Format::Json) => wire::Explain::Json,
    };
    header.swarm = args.swarm;
    header.virtual_time = args.virtual_time;
    header.logs_with_output = mode == Mode::Run && matches!(args.format, super::args::Format::Json);
    header.save = mode == Mode::Run && args.save.is_some();
    header.verbose = args.verbose;
    header.now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    Ok(header)
}

/// Whether a person is there: both ends of the conversation are terminals.
pub(super) fn interactive(common: &CommonArgs) -> bool {
    use io::IsTerminal;
    common.stdin.is_none() && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Builtins that read what the caller types.
const ASKING: [&str; 4] = ["read_line(", "ask(", "approve(", "confirm("];

/// `require` lines as a ceiling. A line that is none grants nothing; the program's own run will say what is wrong with it.
fn required(needs: &Needs) -> Ceiling {
    let automatic = ["stdout", "time", "llm"].map(|name| (name.to_owned(), None));
    Ceiling::of(
        needs
            .requires
            .iter()
            .cloned()
            .chain(automatic)
            .filter_map(|(name, scope)| Grant::new(Capability::from_name(&name)?, scope.as_deref()).ok()),
    )
}
