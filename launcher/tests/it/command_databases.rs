//! Databases of foreign commands: the file that is named, and what SQLite keeps beside it.

use policies::report::Report;
use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
    process::{Command, Output},
};

fn possible() -> bool {
    let has = Command::new("/usr/bin/python3").args(["-c", "import sqlite3"]).status();
    let possible = has.is_ok_and(|status| status.success());
    if !possible {
        eprintln!("skipped: there is no /usr/bin/python3 with sqlite3");
    }
    possible
}

fn folder() -> tempfile::TempDir {
    // Not below /tmp, which is the jail's own there.
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn thirdwall(word: &str, ceiling: &str, program: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thirdwall"))
        .args(word.split(' '))
        .args(["--policy", "python", "--cap-set", &format!("stdout,{ceiling}")])
        .args(if word == "exec" { &["--wall", "60s", "--report", "-"][..] } else { &[] })
        .args(["--", "/usr/bin/python3", "-c", program])
        .output()
        .unwrap()
}

fn exec(ceiling: &str, program: &str) -> Report {
    let ran = thirdwall("exec", ceiling, program);
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&ran.stderr)))
}

/// Adds a row in a journal mode and tells the rows.
fn adds(file: &Path, mode: &str) -> String {
    format!(
        "import sqlite3\nc = sqlite3.connect('{}', isolation_level=None)\n\
         if '{mode}' != 'wal': c.execute('pragma journal_mode={mode}').fetchall()\n\
         print(c.execute('pragma journal_mode').fetchone()[0])\n\
         c.execute('create table if not exists t (a)'); c.execute('begin'); c.execute('insert into t values (7)'); c.execute('commit')\n\
         print(c.execute('select count(*), sum(a) from t').fetchone()); c.close()",
        file.display()
    )
}

#[test]
fn a_command_keeps_a_granted_database_from_run_to_run_in_every_journal_mode_that_deletes_nothing() {
    if !possible() {
        return;
    }
    for mode in ["persist", "truncate", "wal", "memory"] {
        let folder = folder();
        let file = folder.path().join("app.db");
        let ceiling = format!("db={}", file.display());
        if mode == "wal" {
            // The switch to it deletes a journal, so it is made outside; what is in that mode stays so inside.
            let made = format!(
                "import sqlite3; sqlite3.connect('{}').execute('pragma journal_mode=wal')",
                file.display()
            );
            assert!(Command::new("/usr/bin/python3").args(["-c", &made]).status().unwrap().success());
        }
        for round in 1..=2 {
            let report = exec(&ceiling, &adds(&file, mode));
            assert_eq!(
                report.output,
                [mode, &format!("({round}, {})", round * 7)],
                "{:?} {:?}",
                report.errors,
                report.audit
            );
        }
        let (main, journal) =
            (fs::metadata(&file).unwrap(), fs::metadata(folder.path().join("app.db-journal")));
        let journal = journal.unwrap();
        assert!(main.len() > 0 && main.uid() == journal.uid() && main.mode() == journal.mode(), "{mode}");
    }
}

#[test]
fn nothing_else_in_its_folder_is_there_and_nothing_can_be_made() {
    if !possible() {
        return;
    }
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("secret"), "s").unwrap();
    fs::write(at("other.db"), "").unwrap();
    let program = format!(
        "import os, sqlite3\nos.chdir('{}')\n\
         def no(act):\n    try: act(); return 'done'\n    except (OSError, sqlite3.Error) as e: return type(e).__name__\n\
         print(no(lambda: sqlite3.connect('app.db').execute('select 1 from sqlite_master')), no(lambda: open('secret')), no(lambda: open('new', 'w')), \
         no(lambda: sqlite3.connect('other.db').execute('create table t (a)')), no(lambda: os.remove('app.db')), no(lambda: os.rename('app.db', 'b')), \
         no(lambda: os.symlink('/etc/passwd', 'app.db-journal2')))",
        folder.path().display()
    );
    let report = exec(&format!("db={}", at("app.db").display()), &program);
    let words: Vec<&str> = report.output[0].split(' ').collect();
    assert!(words[0] == "done" && words[1..].iter().all(|word| word.ends_with("Error")), "{words:?}");
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["app.db", "app.db-journal", "app.db-shm", "app.db-wal", "other.db", "secret"]);
    assert_eq!(fs::read(at("other.db")).unwrap(), b"");
    // Without a grant the file isn't there either, and none is made.
    let report = exec("time", &program);
    assert_ne!(report.output.first().map(|line| line.starts_with("done")), Some(true), "{:?}", report.output);
}

#[test]
fn a_database_of_links_is_refused_and_nothing_is_made_where_they_lead() {
    if !possible() {
        return;
    }
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("elsewhere")).unwrap();
    fs::write(at("elsewhere/real.db"), "").unwrap();
    symlink(at("elsewhere/real.db"), at("linked.db")).unwrap();
    symlink(at("elsewhere/new"), at("app.db-wal")).unwrap();
    fs::write(at("elsewhere/shm"), "host").unwrap();
    symlink(at("elsewhere/shm"), at("third.db-shm")).unwrap();
    fs::create_dir(at("folder.db")).unwrap();
    for name in ["linked.db", "app.db", "third.db", "folder.db", "gone/x.db"] {
        let ran = thirdwall("exec", &format!("db={}", at(name).display()), "print(1)");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(125), 0), "{name}: {said}");
        assert!(said.contains(name), "{said}");
    }
    assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 2);
    assert_eq!(fs::read(at("elsewhere/shm")).unwrap(), b"host");
    assert_eq!(exec(&format!("db={}", at("fourth.db").display()), "print(1)").output, ["1"]);
}

#[test]
fn explain_says_what_holds_a_database_and_makes_none() {
    let folder = folder();
    let file = folder.path().join("app.db");
    let page = |ceiling: &str| {
        let ran = thirdwall("explain exec", ceiling, "1");
        format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
    };
    let ceiling = format!("db={}", file.display());
    assert!(page(&ceiling).contains("exec makes what is missing"), "{}", page(&ceiling));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    for ending in ["", "-journal", "-wal", "-shm"] {
        fs::write(format!("{}{ending}", file.display()), "").unwrap();
    }
    assert!(page(&ceiling).contains("its -journal, -wal and -shm"), "{}", page(&ceiling));
    for refused in ["db", "db=*.db", "db=postgres://db.example.com/x"] {
        assert!(page(refused).contains("can't be given to a command"), "{refused}: {}", page(refused));
    }
}
