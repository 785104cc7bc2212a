//! What can be wrong: refused input with its place, and refusals to plan. Each has a remedy in [`help`](Malformed::help).

use crate::{capability::Capability, layer::Layer};
use thiserror::Error;

/// Why a scope's text is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ScopeFault {
    /// Nothing is written.
    #[error("it is empty")]
    Empty,
    /// NUL, a line break and the like.
    #[error("it holds a control character")]
    Control,
    /// Longer than any path or name can be.
    #[error("it is longer than 4096 bytes")]
    TooLong,
    /// `*` where it means nothing.
    #[error("'*' can't stand there")]
    Star,
    /// Not a host name.
    #[error("it is no host name")]
    HostName,
    /// All digits, but no address.
    #[error("it looks like an IP address and is none")]
    Address,
    /// More colons than a port needs, and no brackets.
    #[error("an IPv6 address needs brackets")]
    Brackets,
    /// Not 1–65535.
    #[error("a port is a number from 1 to 65535")]
    Port,
    /// A database URL without host.
    #[error("a database URL is scheme://host/name")]
    DatabaseUrl,
    /// A path that must start at the root and doesn't.
    #[error("it doesn't start at the root")]
    Relative,
    /// `~` and nobody's home is known.
    #[error("'~' has no meaning here: the home folder is not known")]
    NoHome,
}

/// Input that is not what its grammar says. The text fits after "failed to read …:".
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// A size.
    #[error("malformed size '{text}': {why}")]
    Size {
        /// As written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A time.
    #[error("malformed time '{text}': {why}")]
    Time {
        /// As written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A count.
    #[error("malformed number '{text}': {why}")]
    Count {
        /// As written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A list of capabilities that nobody wrote by hand.
    #[error("the list of capabilities has {length} bytes, more than {most}")]
    CeilingTooLong {
        /// Of the text.
        length: usize,
        /// The bound.
        most: usize,
    },
    /// An empty list of capabilities.
    #[error("the list of capabilities is empty")]
    EmptyCeiling,
    /// Two commas in a row, or one at an end.
    #[error("empty item{}", at(*column))]
    EmptyItem {
        /// 1-based, in characters; 0 = told elsewhere.
        column: usize,
    },
    /// `none` beside others.
    #[error("'none'{} stands beside other capabilities", at(*column))]
    NoneMixed {
        /// 1-based, in characters; 0 = told elsewhere.
        column: usize,
    },
    /// No such capability.
    #[error("unknown capability '{name}'{}", at(*column))]
    UnknownCapability {
        /// As written.
        name: String,
        /// 1-based, in characters.
        column: usize,
        /// The nearest that exists.
        nearest: Option<&'static str>,
    },
    /// A scope on a capability that has none.
    #[error("'{capability}' takes no scope, but has '{scope}'{}", at(*column))]
    ScopeNotTaken {
        /// Which.
        capability: Capability,
        /// As written.
        scope: String,
        /// 1-based, in characters; 0 = told elsewhere.
        column: usize,
    },
    /// A scope that is none.
    #[error("malformed scope '{scope}' of '{capability}'{}: {fault}", at(*column))]
    Scope {
        /// Which.
        capability: Capability,
        /// As written.
        scope: String,
        /// 1-based, in characters.
        column: usize,
        /// What is wrong with it.
        fault: ScopeFault,
    },
    /// A word that is none of a closed list.
    #[error("unknown {what} '{word}'")]
    Word {
        /// What was expected: `layer`, `ready policy`, `key` …
        what: &'static str,
        /// As written.
        word: String,
        /// The nearest that exists.
        nearest: Option<String>,
        /// All that exist, for people.
        known: String,
    },
    /// A path that a policy provides.
    #[error("malformed path '{path}': {fault}")]
    Path {
        /// As written.
        path: String,
        /// What is wrong with it.
        fault: ScopeFault,
    },
    /// A variable that no environment can hold.
    #[error("malformed variable '{name}': {why}")]
    Variable {
        /// As written.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// TOML itself, or a value of the wrong kind.
    #[error("{message}")]
    Toml {
        /// As the TOML reader says it.
        message: String,
    },
    /// `extends` goes round in circles or very deep.
    #[error("'extends' leads through more than {most} policies, the last '{last}'")]
    ExtendsTooDeep {
        /// The bound.
        most: usize,
        /// Where it was given up.
        last: String,
    },
    /// `extends` names a file that can't be read.
    #[error("'extends' names the file '{file}', which can't be read")]
    ExtendsMissing {
        /// As written.
        file: String,
    },
    /// Any of the above, in a policy file.
    #[error("{file}:{line}:{column}: {fault}")]
    InPolicy {
        /// The file's name as it was given.
        file: String,
        /// 1-based.
        line: usize,
        /// 1-based, in characters.
        column: usize,
        /// What is wrong there.
        fault: Box<Malformed>,
    },
}

fn at(column: usize) -> String {
    if column == 0 { String::new() } else { format!(" at column {column}") }
}

impl Malformed {
    /// The column inside the value, and the same fault without it, for a place that is told in full.
    pub(crate) fn take_column(mut self) -> (usize, Self) {
        let column = match &mut self {
            Self::EmptyItem { column }
            | Self::NoneMixed { column }
            | Self::UnknownCapability { column, .. }
            | Self::ScopeNotTaken { column, .. }
            | Self::Scope { column, .. } => std::mem::take(column),
            Self::Size { .. }
            | Self::Time { .. }
            | Self::Count { .. }
            | Self::CeilingTooLong { .. }
            | Self::EmptyCeiling
            | Self::Word { .. }
            | Self::Path { .. }
            | Self::Variable { .. }
            | Self::Toml { .. }
            | Self::ExtendsTooDeep { .. }
            | Self::ExtendsMissing { .. }
            | Self::InPolicy { .. } => 0,
        };
        (column.max(1), self)
    }

    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Size { .. } => "write a whole number with K, M or G (powers of 1024), like 64M".to_owned(),
            Self::Time { .. } => "write a number with ms, s, m or h, like 10s or 500ms".to_owned(),
            Self::Count { .. } => "write a whole number, like 64".to_owned(),
            Self::CeilingTooLong { .. } => "grant folders with '/*' instead of files one by one".to_owned(),
            Self::EmptyCeiling => "write 'none' for a program that may do nothing".to_owned(),
            Self::EmptyItem { .. } => {
                "write items as name or name=scope, with one comma between them".to_owned()
            }
            Self::NoneMixed { .. } => "'none' stands alone; leave it out, or leave the others out".to_owned(),
            Self::UnknownCapability { nearest: Some(name), .. } => format!("did you mean '{name}'?"),
            Self::UnknownCapability { nearest: None, .. } => {
                format!("the names are {}", Capability::ALL.map(Capability::name).join(" "))
            }
            Self::ScopeNotTaken { capability, .. } => format!("write just '{capability}'"),
            Self::Scope { capability, .. } => scope_help(*capability),
            Self::Word { nearest: Some(name), .. } => format!("did you mean '{name}'?"),
            Self::Word { nearest: None, known, .. } => format!("the choice is: {known}"),
            Self::Path { .. } => {
                "write a folder or file from the root, without '*', like /usr or /etc/ssl?".to_owned()
            }
            Self::Variable { .. } => "write NAME = \"value\"".to_owned(),
            Self::Toml { .. } => "the keys of a policy stand in policies/schema/policy.json".to_owned(),
            Self::ExtendsTooDeep { .. } => {
                "a policy must not extend itself, not by way of others either".to_owned()
            }
            Self::ExtendsMissing { .. } => {
                "the path is taken from the folder of the policy that says so; a file of at most 1 MiB"
                    .to_owned()
            }
            Self::InPolicy { fault, .. } => fault.help(),
        }
    }
}

fn scope_help(capability: Capability) -> String {
    use crate::capability::ScopeKind;
    match capability.scope_kind() {
        ScopeKind::None => format!("write just '{capability}'"),
        ScopeKind::Path => {
            format!("write a path, like {capability}=./data/*; leave the scope out for the whole disk")
        }
        ScopeKind::Host => {
            "write a host, like net=api.example.com:443, net=*.example.com or net=[::1]:80".to_owned()
        }
        ScopeKind::Command => "write a command, like exec=git or exec=/usr/bin/*".to_owned(),
        ScopeKind::Name => {
            format!("write a name, like {capability}=API_KEY, or its beginning and a star, API_*")
        }
        ScopeKind::Database => "write a file, :memory:, or a URL like postgres://localhost/name".to_owned(),
        ScopeKind::Port => "write a port number, like serve=8080".to_owned(),
    }
}

/// Whether a missing layer can be given up by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// By `--allow-missing`.
    AllowMissing,
    /// Not at all: nothing could stand in for it.
    None,
}

/// Who asks for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// `[provides]` of the policy.
    Policy,
    /// `--workdir`.
    Workdir,
}

impl Needed {
    const fn words(self) -> &'static str {
        match self {
            Self::Policy => "the policy",
            Self::Workdir => "--workdir",
        }
    }
}

/// Why there is no plan. The text fits after "failed to plan the jail:".
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The host can't build a layer.
    #[error("the host lacks the layer '{}': {reason}", layer.name())]
    MissingLayer {
        /// Which.
        layer: Layer,
        /// Why the host can't.
        reason: String,
        /// Who can do what about it.
        remedy: String,
        /// Whether it can be given up.
        choice: Choice,
    },
    /// Too many layers were given up: of these one must hold.
    #[error("the host lacks {missing}, and of these one must hold, whatever --allow-missing says")]
    LastWall {
        /// Which layers are missing.
        missing: String,
    },
    /// The ceiling grants a command what only programs of the two languages have.
    #[error("'{grant}' is granted, and a foreign command has no such thing")]
    LanguagesOwn {
        /// The grant as in a ceiling.
        grant: String,
    },
    /// A path that the run needs and the host doesn't have.
    #[error("{path} doesn't exist on this host, and {} needs it", needed_by.words())]
    MissingPath {
        /// On the host.
        path: String,
        /// Who asks for it.
        needed_by: Needed,
    },
    /// A path that can't be given to a jail.
    #[error("{path} can't be put into a jail: {why}")]
    PathRefused {
        /// On the host.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// A pattern that matches more files than a jail is given.
    #[error("the scope '{pattern}' matches {found} files, and a jail is given at most {most}")]
    TooManyMatches {
        /// As absolute path.
        pattern: String,
        /// How many.
        found: usize,
        /// The bound.
        most: usize,
    },
    /// A scope that can't be made absolute.
    #[error("the scope of '{grant}' can't be resolved: {fault}")]
    Scope {
        /// The grant as in a ceiling.
        grant: String,
        /// Why.
        fault: ScopeFault,
    },
    /// A limit that the program couldn't even start in.
    #[error("the limit {limit} of {value} is too small for any program to start; the least is {least}")]
    LimitTooSmall {
        /// Its name.
        limit: &'static str,
        /// As asked.
        value: String,
        /// The least.
        least: String,
    },
    /// A grant of `net` or `serve` that no network can be made for.
    #[error("'{grant}' can't be given: {why}")]
    Network {
        /// The grant as in a ceiling.
        grant: String,
        /// Why.
        why: &'static str,
    },
    /// A grant of `db` that a foreign command can't be given.
    #[error("'{grant}' can't be given to a command: {why}")]
    Database {
        /// The grant as in a ceiling.
        grant: String,
        /// Why.
        why: &'static str,
    },
    /// The caller's facts lack the program: an error of the caller.
    #[error("the program to run was not looked up")]
    NoProgram,
}

impl Refusal {
    /// What to do about it, and who can.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::MissingLayer { layer, remedy, choice: Choice::AllowMissing, .. } => {
                format!("{remedy}; or accept that it is missing with --allow-missing {}", layer.name())
            }
            Self::MissingLayer { layer, remedy, choice: Choice::None, .. } => {
                format!("{remedy}; no jail is built without {}, --allow-missing or not", layer.name())
            }
            Self::LastWall { .. } => "run on a host that has at least one of them".to_owned(),
            Self::LanguagesOwn { .. } => {
                "take it out of the ceiling: it is for programs of the two languages, which `run` starts"
                    .to_owned()
            }
            Self::MissingPath { needed_by: Needed::Policy, .. } => {
                "install it, take it out of the policy, or write a '?' behind it there: optional".to_owned()
            }
            Self::MissingPath { needed_by: Needed::Workdir, .. } => {
                "make it, or leave --workdir out for a scratch folder".to_owned()
            }
            Self::PathRefused { .. } => "name a file or folder of ordinary data instead".to_owned(),
            Self::TooManyMatches { pattern, .. } => {
                let folder = pattern.split('*').next().unwrap_or_default();
                let folder = &folder[..folder.rfind('/').map_or(0, |slash| slash + 1)];
                format!("grant the whole folder: {folder}*")
            }
            Self::Scope { .. } => "write the path from the root".to_owned(),
            Self::LimitTooSmall { .. } => "raise it".to_owned(),
            Self::Network { .. } => {
                "name the port, like serve=8080, or take one of the grants out".to_owned()
            }
            Self::Database { .. } => {
                "name the database's own file, like db=/srv/app.db; a server of databases like net=db.example.com:5432"
                    .to_owned()
            }
            Self::NoProgram => "this is a bug of the launcher".to_owned(),
        }
    }
}
