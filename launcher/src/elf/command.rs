//! From the name of a command to the file that is executed: PATH, links, the interpreters of scripts.
//!
//! The kernel resolves a script by executing its interpreter; the jail's one exec is of a file that the launcher
//! opened, so the launcher does it. `#!/usr/bin/env NAME` is resolved as well: env would need an exec of its own.
//! Source: execve(2), "Interpreter scripts"; env(1), -S.

use super::{
    HostFile,
    header::{self, Unfit},
    libraries::open,
};
use nix::unistd::{AccessFlags, access};
use std::{ffi::OsStr, fs::File, io, path::Path};

/// Scripts whose interpreter is a script.
const MOST_SCRIPTS: usize = 4;
/// The kernel reads this much of a script (BINPRM_BUF_SIZE since Linux 5.1).
const FIRST_LINE: usize = 256;

/// A command that can be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The ELF file that is executed.
    pub program: HostFile,
    /// Whether that file names a loader; without one it needs no other file.
    pub dynamic: bool,
    /// What comes before the command's own arguments in argv: its name, or the interpreter's with its argument and the
    /// script's path.
    pub argv: Vec<String>,
    /// The scripts, outermost first: files that the interpreter has to be able to read.
    pub scripts: Vec<HostFile>,
}

/// Why a command can't be executed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Nothing of that name.
    #[error("find the command {name}: {searched}")]
    NotFound {
        /// As given.
        name: String,
        /// Where it was looked for.
        searched: String,
    },
    /// Something that is no program.
    #[error("execute {path}: {why}")]
    NotExecutable {
        /// Its path.
        path: String,
        /// Why not.
        why: String,
        /// Who can do what about it.
        help: &'static str,
    },
    /// The kernel refuses to open it.
    #[error("read {path}")]
    Unreadable {
        /// Its path.
        path: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

impl CommandError {
    /// The exit code of the launcher: 127 not found, 126 not executable.
    #[must_use]
    pub fn exit(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } | Self::Unreadable { .. } => 126,
        }
    }

    /// The remedy.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "check the spelling, or give the path of the file",
            Self::NotExecutable { help, .. } => help,
            Self::Unreadable { .. } => {
                "the file has to be readable: its headers say which loader and libraries it needs"
            }
        }
    }
}

/// Finds a command as a shell does, by `path` where the name has no slash, and resolves scripts.
///
/// # Errors
/// Each with its exit code and remedy.
pub fn locate(name: &str, path: Option<&OsStr>) -> Result<Command, CommandError> {
    let mut file = find(name, path)?;
    let mut argv = vec![name.to_owned()];
    let mut scripts = Vec::new();
    loop {
        let opened = open(&file.real).map_err(|source| unreadable(&file.asked, source))?;
        let refuse = |why, help| Err(not_executable(&file.asked, why, help));
        match header::read(&opened) {
            Ok(headers) => {
                let dynamic = headers.interpreter.is_some();
                return Ok(Command { program: file, dynamic, argv, scripts });
            }
            Err(Unfit::Foreign) => {
                return refuse("it is for another architecture", "build it for this host, 64 bits");
            }
            Err(Unfit::Broken) => {
                return refuse("its ELF headers are broken", "build or copy the file again");
            }
            Err(Unfit::NotElf) => {}
        }
        let Some(line) = first_line(&opened).map_err(|source| unreadable(&file.asked, source))? else {
            return refuse(
                "it is neither an ELF file nor a script",
                "begin a script with #! and its interpreter, or name the interpreter first",
            );
        };
        if scripts.len() == MOST_SCRIPTS {
            return refuse(
                "its interpreters are scripts, too many in a row",
                "name the interpreter's program",
            );
        }
        let Some(words) = interpreter(&line) else {
            return refuse("its #! line names no absolute path", "write the interpreter's whole path");
        };
        let script = text(&file.asked)?;
        let (program, mut front) = resolve(words, path)?;
        front.push(script);
        front.extend(argv.drain(1..));
        argv = front;
        scripts.push(std::mem::replace(&mut file, program));
    }
}

/// The words of a script's first line: the interpreter and at most one argument, as the kernel splits it.
fn interpreter(line: &str) -> Option<(String, Option<String>)> {
    let line = line.trim_matches([' ', '\t']);
    let (path, argument) = match line.split_once([' ', '\t']) {
        Some((path, rest)) => (path, Some(rest.trim_matches([' ', '\t'])).filter(|rest| !rest.is_empty())),
        None => (line, None),
    };
    path.starts_with('/').then(|| (path.to_owned(), argument.map(str::to_owned)))
}

/// The interpreter's file, and how argv begins.
fn resolve(
    (interpreter, argument): (String, Option<String>),
    path: Option<&OsStr>,
) -> Result<(HostFile, Vec<String>), CommandError> {
    let through_env = Path::new(&interpreter).file_name() == Some(OsStr::new("env"));
    if let Some(argument) = argument.as_deref().filter(|_| through_env) {
        let words: Vec<&str> = match argument.strip_prefix("-S") {
            // Quotes, escapes and variables are env's own: such a line is left to it.
            Some(rest) if !rest.contains(['"', '\'', '\\', '$']) => rest.split_whitespace().collect(),
            _ => vec![argument],
        };
        if let Some(name) = words.first().filter(|name| !name.starts_with('-') && !name.contains('=')) {
            let front = words.iter().map(|word| (*word).to_owned()).collect();
            return Ok((find(name, path)?, front));
        }
    }
    let file = find(&interpreter, path)?;
    Ok((file, [Some(interpreter), argument].into_iter().flatten().collect()))
}

fn find(name: &str, path: Option<&OsStr>) -> Result<HostFile, CommandError> {
    let not_found = |searched: String| CommandError::NotFound { name: name.to_owned(), searched };
    if name.is_empty() || name.contains('\0') {
        return Err(not_found("no file can have that name".into()));
    }
    if name.contains('/') {
        return executable(Path::new(name)).unwrap_or_else(|| Err(not_found("no such file".into())));
    }
    let Some(path) = path else { return Err(not_found("there is no PATH".into())) };
    let mut refused = None;
    // An empty or relative entry would mean the working folder, which an attacker may fill.
    for folder in std::env::split_paths(path).filter(|folder| folder.is_absolute()) {
        match executable(&folder.join(name)) {
            Some(Ok(file)) => return Ok(file),
            Some(Err(error)) => refused = refused.or(Some(error)),
            None => {}
        }
    }
    Err(refused.unwrap_or_else(|| not_found(format!("no such file in PATH ({})", path.display()))))
}

/// `None` if nothing is there.
fn executable(path: &Path) -> Option<Result<HostFile, CommandError>> {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return None;
        }
        Err(error) => return Some(Err(unreadable(path, error))),
    };
    if metadata.is_dir() {
        return Some(Err(not_executable(path, "it is a folder", "name a program in it")));
    }
    if !metadata.is_file() {
        return Some(Err(not_executable(path, "it is not a regular file", "name a program")));
    }
    if access(path, AccessFlags::X_OK).is_err() {
        return Some(Err(not_executable(path, "it is not executable", "set its permission with chmod +x")));
    }
    let file = std::path::absolute(path).and_then(HostFile::at).map_err(|error| unreadable(path, error));
    Some(file.and_then(|file| text(&file.asked).and(text(&file.real)).map(|_| file)))
}

/// The text behind `#!` up to the line's end; `None` without one.
fn first_line(file: &File) -> io::Result<Option<String>> {
    let mut bytes = [0; FIRST_LINE];
    let length = header::read_up_to(file, &mut bytes, 0)?;
    let line = bytes.get(..length).and_then(|bytes| bytes.strip_prefix(b"#!"));
    Ok(line.and_then(|rest| {
        let end = rest.iter().position(|byte| matches!(byte, b'\n' | 0))?;
        std::str::from_utf8(rest.get(..end)?).ok().map(str::to_owned)
    }))
}

fn text(path: &Path) -> Result<String, CommandError> {
    path.to_str().map(str::to_owned).ok_or_else(|| not_executable(path, "its path is not UTF-8", "rename it"))
}

fn not_executable(path: &Path, why: &'static str, help: &'static str) -> CommandError {
    CommandError::NotExecutable { path: path.display().to_string(), why: why.to_owned(), help }
}

fn unreadable(path: &Path, source: io::Error) -> CommandError {
    CommandError::Unreadable { path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests;
