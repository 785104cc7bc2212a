//! What a capability reaches: parse, normalise, compare.
//!
//! Invariant: `covers` compares normalised values only, so it costs no parsing and no allocation.

mod database;
pub mod glob;
mod host;
mod path;

pub use database::Database;
pub use host::{Host, HostPattern, HostScope, HostTarget};
pub use path::{Anchor, Base, NormalPath};

use crate::{capability::ScopeKind, error::ScopeFault};
use std::fmt;

/// A scope in its normal form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// No scope, or `*`: everything that the capability can reach.
    Any,
    /// A path pattern.
    Path(NormalPath),
    /// Hosts.
    Host(HostScope),
    /// A command pattern, compared as written.
    Command(String),
    /// A name, or the first letters of it and `*`.
    Name(String),
    /// A database or a pattern of some.
    Database(Database),
    /// A port.
    Port(u16),
}

/// What one use reaches for, normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// Nothing in particular: a capability without scope.
    Whole,
    /// A path. Relative ones are compared with relative scopes, absolute ones with absolute scopes.
    Path(&'a NormalPath),
    /// A host and port.
    Host(&'a HostTarget),
    /// A command as written.
    Command(&'a str),
    /// A name.
    Name(&'a str),
    /// A database.
    Database(&'a Database),
    /// A port.
    Port(u16),
}

impl Scope {
    /// From its text, for a capability of this kind.
    ///
    /// # Errors
    /// What each kind refuses; a scope on a capability that takes none is the caller's to refuse.
    pub fn parse(kind: ScopeKind, text: &str) -> Result<Self, ScopeFault> {
        path::check(text)?;
        if text.bytes().all(|b| b == b'*') {
            return Ok(Self::Any);
        }
        match kind {
            ScopeKind::None => Ok(Self::Any),
            ScopeKind::Path => NormalPath::parse(text).map(Self::Path),
            ScopeKind::Host => {
                HostScope::parse(text).map(|scope| if scope.is_any() { Self::Any } else { Self::Host(scope) })
            }
            ScopeKind::Command => Ok(Self::Command(glob::collapse(text))),
            ScopeKind::Name => {
                let name = glob::collapse(text);
                match name.find('*') {
                    Some(star) if star + 1 < name.len() => Err(ScopeFault::Star),
                    Some(_) | None => Ok(Self::Name(name)),
                }
            }
            ScopeKind::Database => Database::parse(text).map(Self::Database),
            ScopeKind::Port => host::parse_port(text).map(Self::Port),
        }
    }

    /// Whether a use is inside.
    #[must_use]
    pub fn covers(&self, target: Target<'_>) -> bool {
        match (self, target) {
            (Self::Any, _) => true,
            (Self::Path(scope), Target::Path(target)) => scope.covers(target),
            (Self::Host(scope), Target::Host(target)) => scope.covers(target),
            (Self::Command(scope), Target::Command(target)) => command_covers(scope, target),
            (Self::Name(scope), Target::Name(target)) => glob::covers(scope, target),
            (Self::Database(scope), Target::Database(target)) => scope.covers(target),
            (Self::Port(scope), Target::Port(target)) => *scope == target,
            // A use of another kind, or of everything: only 'any' covers it.
            (
                Self::Path(_)
                | Self::Host(_)
                | Self::Command(_)
                | Self::Name(_)
                | Self::Database(_)
                | Self::Port(_),
                _,
            ) => false,
        }
    }

    /// Whether everything that another scope reaches is inside.
    #[must_use]
    pub fn covers_scope(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Path(scope), Self::Path(other)) => scope.covers(other),
            (Self::Host(scope), Self::Host(other)) => scope.covers_scope(other),
            (Self::Command(scope), Self::Command(other)) | (Self::Name(scope), Self::Name(other)) => {
                glob::covers(scope, other)
            }
            (Self::Database(scope), Self::Database(other)) => scope.covers(other),
            (Self::Port(scope), Self::Port(other)) => scope == other,
            (
                Self::Path(_)
                | Self::Host(_)
                | Self::Command(_)
                | Self::Name(_)
                | Self::Database(_)
                | Self::Port(_),
                _,
            ) => false,
        }
    }

    /// The same scope with paths from the root. `./*` becomes two: the folder, and what is in it.
    ///
    /// # Errors
    /// `~` without a known home; a folder to start from whose name holds a star, which would become a pattern.
    pub fn absolute(&self, base: &Base) -> Result<Vec<Self>, ScopeFault> {
        if [Some(&base.workdir), base.home.as_ref()].into_iter().flatten().any(|folder| folder.contains('*'))
        {
            return Err(ScopeFault::Star);
        }
        match self {
            Self::Path(path) => {
                let mut scopes = vec![Self::Path(path.absolute(base)?)];
                if path.is_all_of_workdir() {
                    scopes.push(Self::Path(NormalPath::parse(".")?.absolute(base)?));
                }
                Ok(scopes)
            }
            Self::Database(Database::File(path)) => {
                Ok(vec![Self::Database(Database::File(path.absolute(base)?))])
            }
            Self::Any
            | Self::Host(_)
            | Self::Command(_)
            | Self::Name(_)
            | Self::Database(Database::Memory | Database::Url(_))
            | Self::Port(_) => Ok(vec![self.clone()]),
        }
    }
}

/// A path that leads upwards is another file than its letters say, and a path is not meant by a scope that is a name.
fn command_covers(scope: &str, target: &str) -> bool {
    let as_path = scope.contains('/') || scope == "*";
    let plain = !target.contains('/') || as_path && !target.split('/').any(|part| part == "..");
    plain && glob::covers(scope, target)
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Path(path) => write!(f, "{path}"),
            Self::Host(host) => write!(f, "{host}"),
            Self::Command(text) | Self::Name(text) => f.write_str(text),
            Self::Database(database) => write!(f, "{database}"),
            Self::Port(port) => write!(f, "{port}"),
        }
    }
}
