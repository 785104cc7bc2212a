//! The process that reads a person's keys: line editing, history, completion.
//!
//! It gets a [`Prompt`] for each line that the runtime waits for, and answers with one line. Of the jail it sees these two
//! bytes and nothing else. It ends when there are no more prompts, or with ^D.

use crate::{
    supervisor::Prompt,
    sys::{
        clone::{self, Side},
        pidfd,
        process::exit_now,
        wait,
    },
};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::{
        signal::Signal,
        termios::{SetArg, Termios, tcgetattr, tcsetattr},
    },
    unistd::pipe2,
};
use policies::wire::Wanted;
use rustyline::{
    Config, Context, EditMode, Helper, completion::Completer, error::ReadlineError, highlight::Highlighter,
    hint::Hinter, history::FileHistory, validate::Validator,
};
use std::{
    borrow::Cow,
    collections::VecDeque,
    env,
    fs::{DirBuilder, File},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

/// Lines of history.
const MOST_REMEMBERED: usize = 2000;
/// Instead of a line: the person gives up what was begun.
const GIVEN_UP: &str = "\u{3}";
/// Where lines are remembered; empty: nowhere.
const HISTORY: &str = "THIRDWALL_HISTORY";

/// The running process, as the supervisor sees it.
#[derive(Debug)]
pub(super) struct Editor {
    process: OwnedFd,
    before: Option<Termios>,
}

impl Editor {
    /// Starts it. Gives where its lines are read, and where it is told what to ask for.
    ///
    /// To be called in a process with one thread, before any descriptor of a jail exists.
    pub(super) fn start() -> io::Result<(Self, OwnedFd, OwnedFd)> {
        let (lines, to_lines) = pipe2(OFlag::O_CLOEXEC)?;
        let (prompts, to_prompts) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let before = tcgetattr(io::stdin()).ok();
        match clone::fork_into(0, None)? {
            Side::Child => {
                drop((lines, to_prompts));
                let done =
                    blocking(&prompts).is_ok() && talk(File::from(to_lines), File::from(prompts)).is_ok();
                exit_now(if done { 0 } else { 1 })
            }
            Side::Parent { pidfd, .. } => Ok((Self { process: pidfd, before }, lines, to_prompts)),
        }
    }

    /// Ends it and gives the terminal's settings back, which it had no time to do if it was reading.
    pub(super) fn end(self) {
        // ESRCH: it has ended already.
        let _ = pidfd::send_signal(self.process.as_fd(), Signal::SIGTERM);
        let _ = wait::collect(self.process.as_fd());
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, before);
        }
    }
}

/// Both ends of a pipe are set at once; this end may wait.
fn blocking(file: &OwnedFd) -> Result<(), Errno> {
    nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_SETFL(OFlag::empty())).map(drop)
}

/// Whether colour is fine with the person.
pub(super) fn colour_is_welcome() -> bool {
    let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && !dumb
}

/// Asks and answers, to the end.
fn talk(mut lines: File, mut prompts: File) -> Result<(), ReadlineError> {
    // While a statement runs, an interrupt is for the runtime alone.
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::new(AtomicBool::new(false)))?;
    let config = Config::builder().max_history_size(MOST_REMEMBERED)?.edit_mode(EditMode::Emacs).build();
    let mut editor = rustyline::Editor::<Words, FileHistory>::with_config(config)?;
    editor.set_helper(Some(Words::new()));
    let history = history();
    if let Some(path) = &history {
        let _none_yet = editor.load_history(path);
    }
    // Lines that came in one piece, by pasting.
    let mut pasted: VecDeque<String> = VecDeque::new();
    let mut bytes = [0; Prompt::SIZE];
    while prompts.read_exact(&mut bytes).is_ok() {
        let Prompt(want) = Prompt::decode(bytes);
        let line = match pasted.pop_front() {
            Some(line) => line,
            None => {
                let prompt = match want.what {
                    Wanted::Entry => ">>> ",
                    Wanted::More => "... ",
                    Wanted::Line => "",
                };
                let indent = " ".repeat(usize::from(want.indent));
                match editor.readline_with_initial(prompt, (&indent, "")) {
                    Ok(text) => {
                        if want.what != Wanted::Line && !text.trim().is_empty() {
                            editor.add_history_entry(text.as_str())?;
                            if let Some(path) = &history {
                                let _unwritable = editor.append_history(path);
                            }
                        }
                        pasted.extend(text.split('\n').map(|line| line.trim_end_matches('\r').to_owned()));
                        pasted.pop_front().unwrap_or_default()
                    }
                    Err(ReadlineError::Interrupted) => GIVEN_UP.to_owned(),
                    Err(ReadlineError::Eof) => return Ok(()),
                    Err(ReadlineError::Signal(_)) => String::new(),
                    Err(other) => return Err(other),
                }
            }
        };
        // One that is only indented ends a block, like an empty one.
        let line = if want.what != Wanted::Line && line.trim().is_empty() { "" } else { &line };
        lines.write_all(format!("{line}\n").as_bytes())?;
    }
    Ok(())
}

/// The file of remembered lines, in a folder of the person's own.
fn history() -> Option<PathBuf> {
    if let Some(path) = env::var_os(HISTORY) {
        return (!path.is_empty()).then(|| path.into());
    }
    let folder = match env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(folder) => folder,
        None => PathBuf::from(env::var_os("HOME").filter(|home| !home.is_empty())?).join(".local/state"),
    };
    let folder = folder.join("thirdwall");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    Some(folder.join("repl_history"))
}

/// Completion from the language's own words, and a prompt in colour.
struct Words {
    all: Vec<&'static str>,
    colour: bool,
}

impl Words {
    fn new() -> Self {
        Self { all: runtime::synsema::words(), colour: colour_is_welcome() }
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..at];
        let start = before
            .char_indices()
            .rev()
            .take_while(|(_, c)| c.is_alphanumeric() || *c == '_')
            .last()
            .map_or(at, |(start, _)| start);
        let begun = &before[start..];
        if begun.is_empty() {
            return Ok((at, vec!["    ".to_owned()]));
        }
        let fits = self.all.iter().filter(|word| word.starts_with(begun));
        Ok((start, fits.map(|word| (*word).to_owned()).collect()))
    }
}

impl Highlighter for Words {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _default: bool) -> Cow<'b, str> {
        if self.colour && !prompt.is_empty() {
            Cow::Owned(format!("\u{1b}[32m{prompt}\u{1b}[0m"))
        } else {
            Cow::Borrowed(prompt)
        }
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Validator for Words {}

impl Helper for Words {}
