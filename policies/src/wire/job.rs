//! A job: a header, then sources, each behind its length.

use super::{Broken, MAGIC, MAX_HEADER, MAX_MODULES, MAX_SOURCE, MAX_STATE};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the runtime does with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Run it.
    Run,
    /// Run its `test` blocks.
    Test,
    /// Only read it.
    Check,
    /// Run it and print one JSON line.
    Conform,
    /// No program: statements come one after another on standard input.
    Repl,
    /// Only read it, and print as JSON what it [`Needs`].
    Needs,
}

/// Which builtins exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// All of them.
    Native,
    /// Those that look at nothing of the local machine.
    Pure,
}

/// Whether errors are told with everything around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Explain {
    /// Only the line.
    No,
    /// For people.
    Text,
    /// As an object.
    Json,
}

/// Which language the source is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// `.syn`
    Synsema,
    /// `.scua`
    Scua,
}

/// What a program asks for in its text, before it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// Its `require` lines and its modules': capability and scope.
    pub requires: Vec<(String, Option<String>)>,
    /// Modules that it uses, or that its modules use, by their names in a job.
    pub modules: Vec<String>,
}

/// A job's header; sources follow it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobHeader {
    /// What to do.
    pub mode: Mode,
    /// In which language.
    pub language: Language,
    /// The program's name in diagnostics.
    pub file: String,
    /// The host's ceiling in the grammar of `--cap-set`; absent: none was given.
    pub ceiling: Option<String>,
    /// Grants of the command line, in the same grammar; only SCUA has some.
    #[serde(default)]
    pub granted: Option<String>,
    /// Which builtins exist.
    pub profile: Profile,
    /// Fuel for the whole run.
    pub fuel: Option<u64>,
    /// Bytes of heap.
    pub heap: Option<u64>,
    /// Words after the program's file.
    pub args: Vec<String>,
    /// Variables that the program may be shown.
    pub env: BTreeMap<String, String>,
    /// No clock and no randomness but what the seed gives.
    pub deterministic: bool,
    /// Colour in diagnostics.
    pub color: bool,
    /// Details of errors (`--explain`).
    pub explain: Explain,
    /// With [`Mode::Conform`]: also the blackboard and the agents.
    #[serde(default)]
    pub swarm: bool,
    /// Captured output of each test (`-v`).
    pub verbose: bool,
    /// `log` goes with the output, in order.
    pub logs_with_output: bool,
    /// A person is at the terminal and can be asked.
    pub interactive: bool,
    /// Unix time at the start, in seconds.
    pub now: f64,
    /// Where relative paths start, absolute; absent: the program has no folder.
    pub workdir: Option<String>,
    /// Where an executable that `build` made writes its audit.
    #[serde(default)]
    pub audit: Option<String>,
    /// What `~` stands for, absolute.
    pub home: Option<String>,
    /// Names of the modules whose sources follow the program's, in order.
    pub modules: Vec<String>,
    /// How many of the last ones are files that `build` packed for the program to read.
    #[serde(default)]
    pub assets: usize,
    /// Waits are jumped over; only SCUA has that.
    #[serde(default)]
    pub virtual_time: bool,
    /// A saved state follows the sources, to be gone on with; only SCUA has some.
    #[serde(default)]
    pub restore: bool,
    /// The program's state is wanted at its end.
    #[serde(default)]
    pub save: bool,
}

impl JobHeader {
    /// A job to run one file with nothing granted beyond a ceiling.
    #[must_use]
    pub fn run(file: &str, ceiling: Option<String>) -> Self {
        Self {
            mode: Mode::Run,
            language: Language::Synsema,
            file: file.to_owned(),
            ceiling,
            granted: None,
            profile: Profile::Native,
            fuel: None,
            heap: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            deterministic: false,
            color: false,
            explain: Explain::No,
            swarm: false,
            verbose: false,
            logs_with_output: false,
            interactive: false,
            now: 0.0,
            workdir: None,
            audit: None,
            home: None,
            modules: Vec::new(),
            assets: 0,
            virtual_time: false,
            restore: false,
            save: false,
        }
    }
}

/// A job as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What to do and with what.
    pub header: JobHeader,
    /// The program's text; not yet known to be UTF-8.
    pub source: Vec<u8>,
    /// The modules' texts, in the header's order.
    pub modules: Vec<Vec<u8>>,
    /// What was saved of the program.
    pub state: Option<Vec<u8>>,
}

/// Writes a job.
///
/// # Errors
/// [`Broken::TooLong`] for what the reader would refuse.
pub fn encode_job(
    header: &JobHeader,
    source: &[u8],
    modules: &[Vec<u8>],
    state: Option<&[u8]>,
) -> Result<Vec<u8>, Broken> {
    let json =
        serde_json::to_vec(header).map_err(|e| Broken::Json { what: "the header", reason: e.to_string() })?;
    let bound = |what: &'static str, length: usize, limit: usize| {
        if length > limit { Err(Broken::TooLong { what, length: length as u64, limit }) } else { Ok(()) }
    };
    bound("the header", json.len(), MAX_HEADER)?;
    bound("the modules", modules.len().max(header.modules.len()), MAX_MODULES)?;
    let mut out = MAGIC.to_vec();
    out.extend((json.len() as u32).to_le_bytes());
    out.extend(json);
    for text in std::iter::once(source).chain(modules.iter().map(Vec::as_slice)) {
        bound("a source", text.len(), MAX_SOURCE)?;
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text);
    }
    if let Some(state) = state.filter(|_| header.restore) {
        bound("a state", state.len(), MAX_STATE)?;
        out.extend((state.len() as u64).to_le_bytes());
        out.extend(state);
    }
    Ok(out)
}

/// Reads a job.
///
/// # Errors
/// What is wrong with it.
pub fn decode_job(bytes: &[u8]) -> Result<Job, Broken> {
    let mut rest = bytes.strip_prefix(&MAGIC).ok_or(Broken::Magic)?;
    let length = u64::from(u32::from_le_bytes(take(&mut rest, "the header")?));
    let json = part(&mut rest, length, MAX_HEADER, "the header")?;
    let header: JobHeader = serde_json::from_slice(json)
        .map_err(|e| Broken::Json { what: "the header", reason: e.to_string() })?;
    if header.modules.len() > MAX_MODULES {
        let length = header.modules.len() as u64;
        return Err(Broken::TooLong { what: "the modules", length, limit: MAX_MODULES });
    }
    let mut texts = Vec::new();
    for _ in 0..=header.modules.len() {
        let length = u64::from_le_bytes(take(&mut rest, "a source")?);
        texts.push(part(&mut rest, length, MAX_SOURCE, "a source")?.to_vec());
    }
    let state = if header.restore {
        let length = u64::from_le_bytes(take(&mut rest, "a state")?);
        Some(part(&mut rest, length, MAX_STATE, "a state")?.to_vec())
    } else {
        None
    };
    let modules = texts.split_off(1);
    Ok(Job { header, source: texts.pop().unwrap_or_default(), modules, state })
}

fn take<const N: usize>(rest: &mut &[u8], what: &'static str) -> Result<[u8; N], Broken> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(Broken::Short { what })?;
    *rest = tail;
    Ok(*head)
}

fn part<'a>(rest: &mut &'a [u8], length: u64, limit: usize, what: &'static str) -> Result<&'a [u8], Broken> {
    let fits = usize::try_from(length).ok().filter(|n| *n <= limit);
    let Some(n) = fits else { return Err(Broken::TooLong { what, length, limit }) };
    let (head, tail) = rest.split_at_checked(n).ok_or(Broken::Short { what })?;
    *rest = tail;
    Ok(head)
}
