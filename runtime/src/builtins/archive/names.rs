//! Names in archives: which of them may become paths, and that no two of them become one.
//!
//! Invariant: a name that passes has no root, no drive, no `..`, no backslash and no control character, whatever system
//! wrote it; joined to a folder it stays below it. All names of an archive pass before the first file is written.
//! Source: CVE-2018-1002200 and its kin ("zip slip"); APPNOTE.TXT 4.4.17; POSIX.1-2017 pax.

use std::collections::BTreeMap;

/// Longest name, in bytes.
const MOST_BYTES: usize = 1024;
/// Most parts of a name.
const MOST_PARTS: usize = 64;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
}

/// A name as a path below a folder; why not, if it can't be one. Empty: the folder itself.
pub(super) fn fit(name: &str) -> Result<String, &'static str> {
    if name.len() > MOST_BYTES {
        return Err("a name of more than 1024 bytes");
    }
    if name.chars().any(char::is_control) {
        return Err("a name with a control character");
    }
    if name.contains('\\') {
        return Err("a name with a backslash");
    }
    if name.starts_with('/') {
        return Err("an absolute name");
    }
    if name.as_bytes().get(1) == Some(&b':') {
        return Err("a name with a drive");
    }
    let name = name.strip_suffix('/').unwrap_or(name);
    let mut parts = Vec::new();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." => return Err("a name with `..`"),
            "" if name.is_empty() => {}
            "" => return Err("a name with an empty part"),
            part => parts.push(part),
        }
    }
    if parts.len() > MOST_PARTS {
        return Err("a name of more than 64 parts");
    }
    Ok(parts.join("/"))
}

/// The names of one archive.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, Kind>);

impl Names {
    /// Takes a name in; why not, if it can't be.
    pub(super) fn add(&mut self, name: &str, kind: Kind) -> Result<(), &'static str> {
        if name.is_empty() {
            return if kind == Kind::Folder { Ok(()) } else { Err("a file without a name") };
        }
        match (self.0.insert(name.to_owned(), kind), kind) {
            (None, _) | (Some(Kind::Folder), Kind::Folder) => Ok(()),
            (Some(_), _) => Err("a name that is there twice"),
        }
    }

    /// A file that another entry takes for a folder.
    pub(super) fn clash(&self) -> Option<&str> {
        self.0.keys().find_map(|name| {
            let mut above = name.as_str();
            while let Some((folder, _)) = above.rsplit_once('/') {
                if let Some((file, Kind::File)) = self.0.get_key_value(folder) {
                    return Some(file.as_str());
                }
                above = folder;
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in [
            "/etc/passwd",
            "../a",
            "a/../../b",
            "a/..",
            "..",
            "..\\a",
            "a\\b",
            "C:/a",
            "c:a",
            "//host/share",
            "a//b",
            "a\0b",
            "a\nb",
        ] {
            assert!(fit(name).is_err(), "{name:?}");
        }
        for (name, path) in [
            ("a", "a"),
            ("a/b.txt", "a/b.txt"),
            ("./a/./b", "a/b"),
            ("a/", "a"),
            ("./", ""),
            ("..a/b..", "..a/b.."),
            ("é/ß", "é/ß"),
        ] {
            assert_eq!(fit(name), Ok(path.to_owned()), "{name:?}");
        }
        assert!(fit(&"a".repeat(1024)).is_ok() && fit(&"a".repeat(1025)).is_err());
        assert!(fit(&"a/".repeat(64)).is_ok() && fit(&"a/".repeat(65)).is_err());
    }

    #[test]
    fn two_entries_are_never_one_file() {
        let mut names = Names::default();
        assert_eq!(names.add("a", Kind::Folder), Ok(()));
        assert_eq!(names.add("a", Kind::Folder), Ok(()));
        assert_eq!(names.add("a/b", Kind::File), Ok(()));
        assert!(names.add("a/b", Kind::File).is_err());
        assert!(names.add("a", Kind::File).is_err());
        let mut names = Names::default();
        names.add("x/y/z", Kind::File).unwrap();
        assert_eq!(names.clash(), None);
        names.add("x", Kind::File).unwrap();
        assert_eq!(names.clash(), Some("x"));
    }

    proptest! {
        #[test]
        fn what_fits_stays_below(name in "[a.\\\\/:~\u{0}-\u{2} ]{0,12}") {
            if let Ok(path) = fit(&name) {
                prop_assert!(!path.starts_with('/') && !path.contains('\\'));
                prop_assert!(path.split('/').all(|part| part != ".." && part != "."));
                prop_assert_eq!(fit(&path), Ok(path.clone()));
            }
        }
    }
}
