//! This host: who can call, where the programs are, and what was skipped for want of something.

use std::{
    fs, io,
    io::Write,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    sync::OnceLock,
    time::SystemTime,
};
use tempfile::TempDir;

/// Who starts the jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The test's own user, which is root.
    Root,
    /// An id without an account, taken on by the child of a root test.
    Stranger,
    /// The test's own user, which isn't root.
    Caller,
}

/// Where the tests' folders are made. Not in /tmp: every jail has its own there, with everything granted in it.
const FOLDERS: &str = "/var/tmp";

/// Above all ids that distributions hand out to people.
const STRANGER: u32 = 654_321;

impl Who {
    /// Everybody that this test can be.
    pub(crate) fn all() -> &'static [Self] {
        if is_root() { &[Self::Root, Self::Stranger] } else { &[Self::Caller] }
    }

    /// One who is not root.
    pub(crate) fn ordinary() -> Self {
        if is_root() { Self::Stranger } else { Self::Caller }
    }

    pub(crate) fn take_on(self, command: &mut Command) {
        if self == Self::Stranger {
            // std also leaves all groups when the id changes.
            command.uid(STRANGER).gid(STRANGER);
        }
    }

    /// A folder of their own.
    pub(crate) fn folder(self) -> TempDir {
        let folder = tempfile::Builder::new().prefix("thirdwall-test-").tempdir_in(FOLDERS).unwrap();
        self.own(folder.path());
        folder
    }

    pub(crate) fn own(self, path: &Path) {
        if self == Self::Stranger {
            chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
        }
    }
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Says that something could not be tested here. Not through the test's captured output: it has to be seen and counted.
pub(crate) fn skip(why: &str) {
    let _said = writeln!(io::stderr(), "skipped: {why}");
}

/// The two programs, in a folder that everybody can read.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) thirdwall: PathBuf,
    pub(crate) hostile: PathBuf,
}

pub(crate) fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<(Programs, ChildStdin)> = OnceLock::new();
    let (programs, _alive) = PROGRAMS.get_or_init(|| {
        let built = Path::new(env!("CARGO_BIN_EXE_hostile"));
        let launcher = launcher_beside(built);
        let folder = tempfile::Builder::new().prefix("thirdwall-programs-").tempdir_in(FOLDERS).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = |from: &Path| {
            let to = folder.path().join(from.file_name().unwrap());
            fs::copy(from, &to).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
            to
        };
        let programs = Programs { thirdwall: copy(&launcher), hostile: copy(built) };
        (programs, remove_at_our_end(folder))
    });
    programs
}

/// Statics are never dropped, so another process waits for the end of this one and then removes the folder.
fn remove_at_our_end(folder: TempDir) -> ChildStdin {
    let mut remover = Command::new("sh");
    remover.args(["-c", "read line; rm -rf \"$1\"", "sh"]).arg(folder.keep());
    remover.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    remover.spawn().unwrap().stdin.unwrap()
}

/// The launcher of the same build. Cargo makes no binaries of dependencies for a test, so it is asked to where what stands
/// there is absent or older than its sources.
fn launcher_beside(hostile: &Path) -> PathBuf {
    let folder = hostile.parent().unwrap();
    let launcher = folder.join("thirdwall");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = ["launcher", "policies", "runtime", "Cargo.lock"].map(|part| newest(&root.join(part)));
    let built = fs::metadata(&launcher).and_then(|stat| stat.modified());
    if built.is_ok_and(|built| sources.iter().all(|source| *source < built)) {
        return launcher;
    }
    // target/TRIPLE/PROFILE
    let target = folder.ancestors().nth(2).unwrap();
    let profile = match folder.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "launcher", "--bin", "thirdwall", "--profile", profile]);
    let built = build.arg("--target-dir").arg(target).current_dir(root).status().unwrap();
    assert!(built.success(), "the launcher doesn't build");
    launcher
}

fn newest(path: &Path) -> SystemTime {
    let own = fs::metadata(path).and_then(|stat| stat.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    // Folders change with every editor's and test's passing file; only what is in them counts.
    match fs::read_dir(path) {
        Ok(entries) => entries
            .flatten()
            .filter(|entry| {
                !["target", "tests", "fuzz", "benches"].iter().any(|skipped| entry.file_name() == *skipped)
            })
            .map(|entry| newest(&entry.path()))
            .max()
            .unwrap_or(SystemTime::UNIX_EPOCH),
        Err(_) => own,
    }
}
