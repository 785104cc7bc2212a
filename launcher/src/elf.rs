//! What a command is made of: its file, its interpreters, its loader and its libraries, read from the host's files.
//!
//! The files may be hostile (a submission's program): every size, count and depth has a bound, nothing is executed, and
//! no foreign text is parsed beyond the first line of a script and the headers of an ELF file.
//!
//! Source: elf(5); ld.so(8); execve(2), "Interpreter scripts".

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)
)]

mod cache;
mod command;
mod header;
mod libraries;

pub use command::{Command, CommandError, locate};
pub use libraries::{Libraries, libraries};

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// A file that a command needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostFile {
    /// The absolute path by which it will be asked for, without `.` and `..`.
    pub asked: PathBuf,
    /// The same file without symbolic links.
    pub real: PathBuf,
}

impl HostFile {
    /// Follows the links of `asked`, which has to be absolute.
    ///
    /// A place in the jail is made for it, so `..` is taken out by its letters; where that would name another file (a
    /// link stood before it), the file is asked for by its real path.
    fn at(asked: PathBuf) -> io::Result<Self> {
        let real = asked.canonicalize()?;
        let plain = without_dots(&asked);
        let same = plain == asked || plain.canonicalize().is_ok_and(|other| other == real);
        let asked = if same { plain } else { real.clone() };
        Ok(Self { asked, real })
    }

    /// Whether a program may bring this file along by naming it in its headers or its first line.
    ///
    /// The program may be hostile, and the launcher reads with the caller's rights: what it names must be open to
    /// everybody on this host anyway (the file, and each folder on the way), or stand right beside the program and
    /// belong to the program's owner.
    ///
    /// # Errors
    /// What looking at the files gives.
    pub fn may_come_with(&self, program: &Path) -> io::Result<bool> {
        let file = self.real.metadata()?;
        let own = program.parent() == self.real.parent() && file.uid() == program.metadata()?.uid();
        if own {
            return Ok(true);
        }
        let mut folders = self.real.ancestors().skip(1);
        let reachable =
            folders.all(|folder| folder.metadata().is_ok_and(|folder| folder.mode() & 0o001 != 0));
        Ok(reachable && file.mode() & 0o004 != 0)
    }
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn a_place_in_the_jail_never_has_dots() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/file"), "").unwrap();
        std::os::unix::fs::symlink("a/b", top.join("link")).unwrap();
        let plain = HostFile::at(top.join("a/b/../file")).unwrap();
        assert_eq!(plain.asked, top.join("a/file"));
        // Through the link, `..` leads elsewhere than its letters say.
        let through = HostFile::at(top.join("link/../file")).unwrap();
        assert_eq!(through.asked, top.join("a/file"));
    }

    #[test]
    fn a_program_brings_what_is_public_or_its_own_and_nothing_private() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("own")).unwrap();
        fs::create_dir_all(top.join("private")).unwrap();
        fs::create_dir_all(top.join("own/below")).unwrap();
        for file in ["own/program", "own/library", "own/below/secret", "private/secret"] {
            fs::write(top.join(file), "").unwrap();
            fs::set_permissions(top.join(file), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let may = |file: &Path| {
            HostFile::at(file.to_owned()).unwrap().may_come_with(&top.join("own/program")).unwrap()
        };
        assert!(may(&top.join("own/library")));
        assert!(!may(&top.join("own/below/secret")), "it is below, not beside");
        assert!(!may(&top.join("private/secret")), "its mode is closed");
        fs::set_permissions(top.join("private/secret"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(top.join("private"), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!may(&top.join("private/secret")), "its folder is closed");
        assert!(may(Path::new("/bin/sh")));
    }
}
