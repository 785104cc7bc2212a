//! Path scopes and path targets: normalisation and matching.
//!
//! Both sides are normalised the same way: `\` becomes `/`, `.` and `..` are taken out by their letters, never above
//! the root. A path stays relative to the working or home folder until [`NormalPath::absolute`] is given both.
//!
//! Invariant: what is compared has no `..` but at the front of a relative path, no `.`, no double and no trailing slash.
//! Links are resolved by whoever touches the disk, before the comparison; this module knows letters only.

use super::glob;
use crate::error::ScopeFault;
use std::fmt;

/// What a path starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anchor {
    /// `/`
    Root,
    /// The working folder.
    Work,
    /// `~`
    Home,
}

/// Where relative paths start, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The working folder, absolute.
    pub workdir: String,
    /// The home folder, absolute, if one is known.
    pub home: Option<String>,
}

/// A normalised path; as a scope it may hold stars.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NormalPath {
    anchor: Anchor,
    /// Parts behind the anchor, joined with `/`; empty = the anchor itself.
    text: String,
}

impl NormalPath {
    /// Normalises by letters.
    ///
    /// # Errors
    /// Empty text, control characters, more than 4096 bytes.
    pub fn parse(text: &str) -> Result<Self, ScopeFault> {
        check(text)?;
        let text = text.replace('\\', "/");
        let (anchor, rest) = if let Some(rest) = text.strip_prefix('/') {
            (Anchor::Root, rest)
        } else if text == "~" {
            (Anchor::Home, "")
        } else if let Some(rest) = text.strip_prefix("~/") {
            (Anchor::Home, rest)
        } else {
            (Anchor::Work, text.as_str())
        };
        let path = Self { anchor, text: String::new() }.join(rest);
        Ok(Self { text: glob::collapse(&path.text), ..path })
    }

    /// This path and `rest` behind it, `.` and `..` taken out.
    fn join(&self, rest: &str) -> Self {
        let mut parts: Vec<&str> = self.text.split('/').filter(|part| !part.is_empty()).collect();
        for part in rest.split('/') {
            match part {
                "" | "." => {}
                // Above the root there is the root. Above the other two it depends on where they are.
                ".." => match parts.last() {
                    Some(&last) if last != ".." => {
                        parts.pop();
                    }
                    Some(_) | None if self.anchor == Anchor::Root => {}
                    Some(_) | None => parts.push(".."),
                },
                part => parts.push(part),
            }
        }
        Self { anchor: self.anchor, text: parts.join("/") }
    }

    /// The same path from the root.
    ///
    /// # Errors
    /// `~` without a known home.
    pub fn absolute(&self, base: &Base) -> Result<Self, ScopeFault> {
        let root = |text: &str| Self { anchor: Anchor::Root, text: String::new() }.join(text);
        match self.anchor {
            Anchor::Root => Ok(self.clone()),
            Anchor::Work => Ok(root(&base.workdir).join(&self.text)),
            Anchor::Home => Ok(root(base.home.as_deref().ok_or(ScopeFault::NoHome)?).join(&self.text)),
        }
    }

    /// Whether it starts at the root.
    #[must_use]
    pub fn is_absolute(&self) -> bool {
        self.anchor == Anchor::Root
    }

    /// Whether it holds a star.
    #[must_use]
    pub fn has_star(&self) -> bool {
        self.text.contains('*')
    }

    /// `./*`: everything in the working folder and, by the language's rule, that folder itself.
    pub(crate) fn is_all_of_workdir(&self) -> bool {
        self.anchor == Anchor::Work && self.text == "*"
    }

    /// As a scope: whether it covers a target, or all of another scope.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        // The folder that a path starts from is not 'in' it: `~/*` leaves out `~`. `./*` alone has it too.
        self.anchor == other.anchor
            && match other.text.as_str() {
                "" => self.text.is_empty() || self.is_all_of_workdir(),
                text => !climbs_away(&self.text, text) && glob::covers(&self.text, text),
            }
    }
}

/// Whether the target goes further up than the scope says: `*` must not match a leading `..`.
fn climbs_away(scope: &str, target: &str) -> bool {
    let climbs = |text: &str| text.split('/').take_while(|&part| part == "..").count();
    climbs(scope) != climbs(target)
}

impl fmt::Display for NormalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.anchor, self.text.as_str()) {
            (Anchor::Root, text) => write!(f, "/{text}"),
            (Anchor::Home, "") => f.write_str("~"),
            (Anchor::Home, text) => write!(f, "~/{text}"),
            (Anchor::Work, "") => f.write_str("."),
            // Without the dot these would be read as the whole disk, and as the home folder.
            (Anchor::Work, text) if text == "*" || text.starts_with('~') => write!(f, "./{text}"),
            (Anchor::Work, text) => f.write_str(text),
        }
    }
}

/// What no scope of any kind may hold.
pub(super) fn check(text: &str) -> Result<(), ScopeFault> {
    if text.is_empty() {
        Err(ScopeFault::Empty)
    } else if text.len() > 4096 {
        Err(ScopeFault::TooLong)
    } else if text.chars().any(char::is_control) {
        Err(ScopeFault::Control)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> NormalPath {
        NormalPath::parse(text).unwrap()
    }

    #[test]
    fn dots_and_double_slashes_are_taken_out() {
        for (text, normal) in [
            ("/a//b/./c/../d/", "/a/b/d"),
            ("/../../etc", "/etc"),
            ("./a.txt", "a.txt"),
            ("..", ".."),
            ("a/../../b", "../b"),
            (".", "."),
            ("./**", "./*"),
            ("./data/**", "data/*"),
            ("~/x/..", "~"),
            ("./~/x", "./~/x"),
            ("a\\b", "a/b"),
            ("/", "/"),
        ] {
            assert_eq!(path(text).to_string(), normal, "{text}");
            assert_eq!(path(normal), path(text), "{text}");
        }
    }

    #[test]
    fn a_climbing_path_never_stays_in_the_scope() {
        assert!(path("/data/*").covers(&path("/data//x/../y")));
        assert!(!path("/data/*").covers(&path("/data/../etc/passwd")));
        assert!(!path("./*").covers(&path("../x")));
        assert!(!path("*.txt").covers(&path("../a.txt")));
        assert!(path("../*").covers(&path("../a.txt")));
        assert!(!path("../*").covers(&path("../../a.txt")));
    }

    #[test]
    fn the_working_folder_itself_is_in_dot_star_only() {
        assert!(path("./*").covers(&path(".")));
        assert!(!path("/data/*").covers(&path("/data")));
        assert!(!path("~/*").covers(&path("~")) && !path("/*").covers(&path("/")));
    }

    #[test]
    fn absolute_paths_start_at_the_given_folders() {
        let base = Base { workdir: "/home/u/w".to_owned(), home: Some("/home/u".to_owned()) };
        for (text, absolute) in
            [("a", "/home/u/w/a"), ("../../../../x", "/x"), ("~/y", "/home/u/y"), ("/z", "/z")]
        {
            assert_eq!(path(text).absolute(&base).unwrap().to_string(), absolute);
        }
        let homeless = Base { home: None, ..base };
        assert_eq!(path("~/y").absolute(&homeless), Err(ScopeFault::NoHome));
    }
}
