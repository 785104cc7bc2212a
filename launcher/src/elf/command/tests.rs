//! Commands in folders of their own: names, interpreters, libraries, and headers that lie.

use super::*;
use crate::elf::libraries;
use std::{fs, os::unix::fs::PermissionsExt};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>, mode: u32) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn refusal(name: &str) -> (u8, String) {
    let error = locate(name, Some(OsStr::new("/usr/bin:/bin"))).unwrap_err();
    assert!(!error.help().is_empty());
    (error.exit(), error.to_string())
}

/// This test's own file: a program for this host, on any host.
fn own_program() -> Vec<u8> {
    fs::read(std::env::current_exe().unwrap()).unwrap()
}

#[test]
fn a_name_is_found_by_path_and_links_are_followed() {
    let folder = Folder::new();
    folder.file("real", own_program(), 0o755);
    std::os::unix::fs::symlink("real", folder.0.path().join("tool")).unwrap();
    let found = locate("tool", Some(folder.0.path().as_os_str())).unwrap();
    assert_eq!(found.program.asked, folder.0.path().join("tool"));
    assert_eq!(found.program.real.file_name().unwrap(), "real");
    assert_eq!(found.argv, ["tool"]);
    assert!(found.scripts.is_empty());
}

#[test]
fn what_is_not_there_is_127() {
    assert_eq!(refusal("no-such-command-here").0, 127);
    assert_eq!(refusal("/no/such/file").0, 127);
    assert_eq!(refusal("").0, 127);
    assert_eq!(locate("sh", None).unwrap_err().exit(), 127);
    // The working folder is not searched, whatever PATH says.
    let relative = locate("Cargo.toml", Some(OsStr::new(".:"))).unwrap_err();
    assert_eq!(relative.exit(), 127);
}

#[test]
fn what_is_no_program_is_126_and_says_why() {
    let folder = Folder::new();
    let says = |path: &str, why: &str| {
        let (exit, text) = refusal(path);
        assert_eq!(exit, 126, "{text}");
        assert!(text.contains(why) && text.contains(path), "{text}");
    };
    says(folder.0.path().to_str().unwrap(), "a folder");
    says(&folder.file("plain", own_program(), 0o644), "not executable");
    says(&folder.file("text", "echo hi\n", 0o755), "neither an ELF file nor a script");
    says(&folder.file("empty", "", 0o755), "neither an ELF file nor a script");
    says(&folder.file("relative", "#!sh\n", 0o755), "no absolute path");
    says("/dev/null", "not a regular file");
    let mut foreign = own_program();
    foreign[18] = 40; // EM_ARM
    says(&folder.file("foreign", &foreign, 0o755), "another architecture");
    let mut narrow = own_program();
    narrow[4] = 1; // ELFCLASS32
    says(&folder.file("narrow", &narrow, 0o755), "another architecture");
    says(&folder.file("cut", &own_program()[..80], 0o755), "broken");
    nix::unistd::mkfifo(&folder.0.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    says(folder.0.path().join("fifo").to_str().unwrap(), "not a regular file");
}

#[test]
fn interpreters_are_resolved_as_the_kernel_does() {
    let folder = Folder::new();
    let engine = folder.file("engine", own_program(), 0o755);
    let script = folder.file("script", format!("#! {engine} -a  b \nrest"), 0o755);
    let found = locate(&script, None).unwrap();
    assert_eq!(found.program.asked.to_str().unwrap(), engine);
    assert_eq!(found.argv, [engine.as_str(), "-a  b", &script]);
    assert_eq!(found.scripts[0].asked.to_str().unwrap(), script);

    let outer = folder.file("outer", format!("#!{script} x\n"), 0o755);
    let found = locate(&outer, None).unwrap();
    assert_eq!(found.argv, [engine.as_str(), "-a  b", &script, "x", &outer]);
    assert_eq!(found.scripts.len(), 2);
}

#[test]
fn env_is_resolved_too() {
    let folder = Folder::new();
    folder.file("engine", own_program(), 0o755);
    folder.file("env", own_program(), 0o755);
    let env = folder.0.path().join("env");
    let with = |line: &str| {
        let script = folder.file("script", format!("#!{} {line}\n", env.display()), 0o755);
        (locate(&script, Some(folder.0.path().as_os_str())).unwrap(), script)
    };
    let (found, script) = with("engine");
    assert_eq!(found.program.asked, folder.0.path().join("engine"));
    assert_eq!(found.argv, ["engine", &script]);
    let (found, script) = with("-S engine -u -v");
    assert_eq!(found.argv, ["engine", "-u", "-v", &script]);
    // What only env can read is left to it.
    assert_eq!(with("-S A=1 engine").0.program.asked, env);
    assert_eq!(with("-S \"engine x\"").0.program.asked, env);
}

#[test]
fn a_script_that_interprets_itself_ends() {
    let folder = Folder::new();
    let path = folder.0.path().join("loop");
    let script = folder.file("loop", format!("#!{}\n", path.display()), 0o755);
    let (exit, text) = refusal(&script);
    assert_eq!(exit, 126);
    assert!(text.contains("too many in a row"), "{text}");
}

#[test]
fn hostile_headers_never_panic_or_hang() {
    let folder = Folder::new();
    // Enough of a program that its headers are whole, with each byte of them changed in turn.
    let good = dynamic_program();
    for at in 0..200.min(good.len()) {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = value;
            let path = folder.file("mutant", &bytes, 0o755);
            let _read = locate(&path, None);
            let _read = libraries(Path::new(&path));
        }
    }
}

/// A tiny program with a loader, a library and a search path.
fn dynamic_program() -> Vec<u8> {
    let mut bytes = own_program();
    bytes.truncate(64);
    let put = |bytes: &mut Vec<u8>, at: usize, value: u64, size: usize| {
        bytes.resize(bytes.len().max(at + size), 0);
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    };
    put(&mut bytes, 16, 3, 2); // ET_DYN
    put(&mut bytes, 32, 64, 8); // e_phoff
    put(&mut bytes, 54, 56, 2); // e_phentsize
    put(&mut bytes, 56, 3, 2); // e_phnum
    let loader = fs::canonicalize("/proc/self/exe").unwrap().to_str().unwrap().to_owned();
    let strings = b"\0libone.so\0libtwo.so\0$ORIGIN/libs:relative\0".to_vec();
    let (interp_at, strings_at, dynamic_at) = (0x400, 0x300, 0x200);
    let entries: [(u64, u64); 5] = [(5, strings_at), (1, 1), (1, 11), (29, 21), (0, 0)];
    let segments: [(u64, u64, u64); 3] =
        [(1, 0, 0x1000), (3, interp_at, loader.len() as u64 + 1), (2, dynamic_at, 80)];
    for (index, (kind, offset, size)) in segments.into_iter().enumerate() {
        let at = 64 + index * 56;
        put(&mut bytes, at, kind, 4);
        put(&mut bytes, at + 8, offset, 8);
        put(&mut bytes, at + 16, offset, 8);
        put(&mut bytes, at + 32, size, 8);
    }
    for (index, (tag, value)) in entries.into_iter().enumerate() {
        put(&mut bytes, dynamic_at as usize + index * 16, tag, 8);
        put(&mut bytes, dynamic_at as usize + index * 16 + 8, value, 8);
    }
    bytes.resize(0x1000, 0);
    bytes[strings_at as usize..strings_at as usize + strings.len()].copy_from_slice(&strings);
    bytes[interp_at as usize..interp_at as usize + loader.len()].copy_from_slice(loader.as_bytes());
    bytes
}

#[test]
fn libraries_are_found_beside_the_program_and_what_is_missing_is_said() {
    let folder = Folder::new();
    fs::create_dir(folder.0.path().join("libs")).unwrap();
    let program = folder.file("program", dynamic_program(), 0o755);
    let library = folder.file("libs/libone.so", own_program(), 0o644);
    let found = libraries(Path::new(&program)).unwrap();
    assert_eq!(found.loader.unwrap().asked, fs::canonicalize("/proc/self/exe").unwrap());
    assert_eq!(found.files.iter().map(|file| file.asked.to_str().unwrap()).collect::<Vec<_>>(), [library]);
    assert_eq!(found.missing, ["libtwo.so"]);
}

#[test]
fn a_static_program_needs_nothing() {
    assert_eq!(libraries(&std::env::current_exe().unwrap()).unwrap(), crate::elf::Libraries::default());
}
