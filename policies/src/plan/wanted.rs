//! What a path grant wants: which paths, and which rights on them.

use super::{Access, HostPath, Right, layout::READ_TREE};
use crate::{capability::Capability, request::PathQuery, scope::Scope};

/// A path scope, as what must be looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The whole disk.
    Everything,
    /// One file or folder, that node alone.
    Exact(String),
    /// All that is in a folder.
    Tree(String),
    /// Any other pattern.
    Pattern(String),
}

impl Wanted {
    /// Of an absolute path scope.
    pub(crate) fn of(scope: &Scope) -> Self {
        match scope {
            Scope::Path(path) => Self::of_text(&path.to_string()),
            Scope::Any
            | Scope::Host(_)
            | Scope::Command(_)
            | Scope::Name(_)
            | Scope::Database(_)
            | Scope::Port(_) => Self::Everything,
        }
    }

    pub(super) fn of_text(path: &str) -> Self {
        match path.strip_suffix("/*") {
            Some("") => Self::Everything,
            Some(folder) if !folder.contains('*') => Self::Tree(folder.to_owned()),
            Some(_) => Self::Pattern(path.to_owned()),
            None if path.contains('*') => Self::Pattern(path.to_owned()),
            None => Self::Exact(path.to_owned()),
        }
    }

    /// What to ask the host.
    pub(crate) fn query(&self) -> PathQuery {
        match self {
            Self::Everything => PathQuery::Pattern("/*".to_owned()),
            Self::Exact(path) | Self::Tree(path) => PathQuery::Path(HostPath(path.clone())),
            Self::Pattern(pattern) => PathQuery::Pattern(pattern.clone()),
        }
    }
}

/// The queries for a command pattern: as it stands, or in each folder of the search path.
pub(crate) fn command_patterns(pattern: &str, search_path: &str) -> Vec<PathQuery> {
    if pattern.contains('/') {
        // A pattern with a relative folder names nothing in the jail: commands are compared as they are written.
        return if pattern.starts_with('/') { vec![Wanted::of_text(pattern).query()] } else { Vec::new() };
    }
    let folders = search_path.split(':').filter(|folder| folder.starts_with('/'));
    folders.map(|folder| PathQuery::Pattern(format!("{}/{pattern}", folder.trim_end_matches('/')))).collect()
}

/// Which of the two file rights a grant gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Read,
    Write,
    Both,
}

impl Reach {
    pub(super) fn of(capability: Capability) -> Self {
        if capability == Capability::FileWrite {
            Self::Write
        } else if capability == Capability::File {
            Self::Both
        } else {
            Self::Read
        }
    }

    pub(super) fn access(self) -> Access {
        match self {
            Self::Read => Access::ReadOnly,
            Self::Write | Self::Both => Access::ReadWrite,
        }
    }

    pub(super) fn tree(self) -> &'static [Right] {
        match self {
            Self::Read => &READ_TREE,
            Self::Write => &[Right::WriteFile, Right::Make],
            Self::Both => &[Right::ReadFile, Right::ReadDir, Right::WriteFile, Right::Make],
        }
    }

    pub(super) fn file(self) -> &'static [Right] {
        match self {
            Self::Read => &[Right::ReadFile],
            Self::Write => &[Right::WriteFile],
            Self::Both => &[Right::ReadFile, Right::WriteFile],
        }
    }
}
