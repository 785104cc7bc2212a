//! Database scopes: a file, `:memory:`, or a URL without credentials, port and query.

use super::{glob, path::NormalPath};
use crate::error::ScopeFault;
use std::fmt;

/// A database, or a pattern of some. The three kinds never cover each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Database {
    /// A database that lives in memory only.
    Memory,
    /// A database file.
    File(NormalPath),
    /// `scheme://host/name`.
    Url(String),
}

impl Database {
    /// From its text; a URL loses credentials, port and query.
    ///
    /// # Errors
    /// As for paths; a URL without scheme or host.
    pub fn parse(text: &str) -> Result<Self, ScopeFault> {
        super::path::check(text)?;
        if text == ":memory:" {
            return Ok(Self::Memory);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return NormalPath::parse(text).map(Self::File);
        };
        let rest = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
        let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let host_end = host.rfind(']').map_or(0, |bracket| bracket + 1);
        let host = host[host_end..].find(':').map_or(host, |colon| &host[..host_end + colon]);
        let scheme_ok =
            !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.*".contains(&b));
        if !scheme_ok || host.is_empty() {
            return Err(ScopeFault::DatabaseUrl);
        }
        let host = host.trim_end_matches('.').to_lowercase();
        Ok(Self::Url(glob::collapse(&format!("{}://{host}/{name}", scheme.to_lowercase()))))
    }

    /// As a scope: whether it covers a target, or all of another scope.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Memory, Self::Memory) => true,
            (Self::File(scope), Self::File(target)) => scope.covers(target),
            (Self::Url(scope), Self::Url(target)) => glob::covers(scope, target),
            (Self::Memory | Self::File(_) | Self::Url(_), _) => false,
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str(":memory:"),
            Self::File(path) => write!(f, "{path}"),
            Self::Url(url) => f.write_str(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_what_is_secret_or_beside_the_point() {
        let database = |text: &str| Database::parse(text).unwrap();
        assert_eq!(database("Postgres://u:p@DB.local:5432/app?x=1").to_string(), "postgres://db.local/app");
        assert!(database("postgres://localhost/*").covers(&database("postgres://localhost:1/x")));
        assert!(!database("/*").covers(&database("postgres://localhost/x")));
        assert!(!database("./*").covers(&database(":memory:")));
        assert!(Database::parse("://x/y").is_err() && Database::parse("postgres:///y").is_err());
    }
}
