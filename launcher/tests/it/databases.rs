//! Databases of the languages: each file through the broker, within the ceiling, locked against others.

use crate::program::{denials, program};
use policies::report::Verdict;
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

const MAKE: &str = "sql_exec(\"create table t(x)\")\nsql_batch(\"insert into t values (?)\", [[1], [2]])\n";
const COUNT: &str = "print(sql(\"select count(*) as n from t\")[0][\"n\"])\n";

/// Runs a script of python3 with its sqlite3 module; `None` where there is none.
fn python(script: &str, folder: &str) -> Option<String> {
    let output = Command::new("python3").args(["-c", script]).current_dir(folder).output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if errors.contains("No module named") {
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

macro_rules! python {
    ($script:expr, $folder:expr) => {
        match python($script, $folder) {
            Some(said) => said,
            None => {
                println!("skipped: no python3 with sqlite3 here");
                return;
            }
        }
    };
}

#[test]
fn a_granted_database_is_kept_and_nothing_is_left_beside_it() {
    let given = program(&format!("require db(\"a.db\")\ndb_open(\"a.db\")\n{MAKE}{COUNT}"));
    let report = given.go();
    assert_eq!(report.output, ["2"], "{:?}", report.errors);
    let mut names: Vec<_> =
        fs::read_dir(given.at("")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["a.db", "p.syn", "report.json"]);
    let said = python!(
        "import sqlite3; print(sqlite3.connect('a.db').execute('select x from t').fetchall())",
        &given.at("")
    );
    assert_eq!(said, "[(1,), (2,)]");
}

#[test]
fn a_database_that_is_not_granted_is_denied_and_its_granted_twin_opens() {
    let text = "require db(\"b.db\")\ndb_open(\"b.db\")\nprint(sql_tables())\n";
    let report = program(text).with("--cap-set", "stdout,db=a.db").go();
    assert_eq!(report.status, Verdict::Nonzero);
    assert_eq!(denials(&report, "db(\"b.db\")").len(), 2, "{:?}", report.audit);
    assert_eq!(program(text).with("--cap-set", "stdout,db=b.db").go().output, ["[]"]);
}

#[test]
fn a_link_in_the_place_of_a_database_or_of_what_stands_beside_it_leads_nowhere() {
    let text = format!("require db(\"data/*\")\ndb_open(\"data/a.db\")\n{MAKE}{COUNT}");
    let given = program(&text).file("other.db", "");
    fs::create_dir(given.at("data")).unwrap();
    symlink("../other.db", given.at("data/a.db")).unwrap();
    let report = given.go();
    assert_eq!((report.status, report.output.len()), (Verdict::Nonzero, 0), "{:?}", report.output);
    assert!(report.audit.iter().any(|entry| !entry.granted && entry.source == "broker"));

    let given = program(&text).file("victim", "");
    fs::create_dir(given.at("data")).unwrap();
    symlink("../victim", given.at("data/a.db-journal")).unwrap();
    let report = given.go();
    assert_eq!((report.status, report.output.len()), (Verdict::Nonzero, 0), "{:?}", report.output);
    assert_eq!(fs::read(given.at("victim")).unwrap(), b"");

    let given = program(&text);
    fs::create_dir(given.at("data")).unwrap();
    assert_eq!(given.go().output, ["2"]);
}

#[test]
fn two_runs_with_one_database_keep_out_of_each_others_way() {
    // A busy disk makes waiting long, and locks are asked here, not the disk.
    let writer = "require db(\"a.db\")\ndb_open(\"a.db\")\nsql_exec(\"pragma synchronous = off\")\n\
                  sql_exec(\"create table if not exists t(x)\")\n\
                  each i in range(20)\n    sql_exec(\"insert into t values (1)\")\n";
    let given = program(writer);
    let mut runs: Vec<_> = (0..3)
        .map(|_| {
            let mut command = given.command();
            command.args(["--", "x"]).stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for run in runs.drain(..) {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let said = python!(
        "import sqlite3; c = sqlite3.connect('a.db')\n\
         print(c.execute('select count(*) from t').fetchone(), c.execute('pragma integrity_check').fetchone())",
        &given.at("")
    );
    assert_eq!(said, "(60,) ('ok',)");
}

#[test]
fn a_database_that_another_program_has_locked_is_told_to_be() {
    let given = program(
        "require db(\"a.db\")\ndb_open(\"a.db\")\nprint(sql(\"select 1 as x\"))\nsql_exec(\"create table t(x)\")\n",
    );
    let holding = Command::new("python3")
        .args([
            "-c",
            "import sqlite3, sys\nc = sqlite3.connect('a.db', isolation_level=None)\nc.execute('create table o(x)')\n\
             c.execute('begin exclusive')\nprint('ready', flush=True)\nsys.stdin.read()",
        ])
        .current_dir(given.at(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut holding) = holding else {
        println!("skipped: no python3 here");
        return;
    };
    let mut line = String::new();
    let out = holding.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    if line.trim() != "ready" {
        println!("skipped: no sqlite3 in python3 here");
        return;
    }
    let report = given.go();
    holding.stdin.take().unwrap().flush().unwrap();
    holding.wait().unwrap();
    assert!(report.errors[0].contains("'a.db' is locked"), "{:?}", report.errors);
    assert_eq!(given.go().output, ["[{x: 1}]"]);
}

#[test]
fn what_a_killed_run_left_half_done_is_undone_by_the_next() {
    // Enough pages that the change has spilled into the file before it is committed.
    let half = "require db(\"a.db\")\ndb_open(\"a.db\")\nsql_exec(\"create table t(x)\")\nsql_exec(\"insert into t values (1)\")\n\
                sql_exec(\"begin\")\nsql_exec(\"with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000) \
                insert into t select hex(zeroblob(2000)) from n\")\nprint(\"half\")\nwhile true\n    sleep(1)\n";
    let given = program(half);
    let mut run = given.command().args(["--", "x"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut said).unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(said, "half\n");
    assert!(fs::metadata(given.at("a.db-journal")).unwrap().len() > 0);
    fs::write(given.at("p.syn"), format!("require db(\"a.db\")\ndb_open(\"a.db\")\n{COUNT}")).unwrap();
    assert_eq!(given.go().output, ["1"]);
    assert!(fs::metadata(given.at("a.db-journal")).is_err());
}

#[test]
fn a_database_with_a_log_is_read_and_written_alone() {
    let given = program(&format!(
        "require db(\"a.db\")\ndb_open(\"a.db\")\nsql_exec(\"insert into t values (2)\")\n{COUNT}"
    ));
    python!(
        "import sqlite3; c = sqlite3.connect('a.db')\nc.execute('pragma journal_mode=wal')\n\
         c.execute('create table t(x)')\nc.execute('insert into t values (1)')\nc.commit()",
        &given.at("")
    );
    let report = given.go();
    assert_eq!(report.output, ["2"], "{:?}", report.errors);
    let said = python!(
        "import sqlite3; print(sqlite3.connect('a.db').execute('select sum(x) from t').fetchone())",
        &given.at("")
    );
    assert_eq!(said, "(3,)");
}

#[test]
fn a_damaged_or_hostile_database_is_an_error_and_never_a_crash() {
    let text = "require db(\"a.db\")\ntry\n    db_open(\"a.db\")\n    print(length(sql_tables()))\n    each t in sql_tables()\n        \
                try\n            print(length(sql(\"select * from \\\"{t}\\\"\")))\n        recover e\n            print(\"bad\")\nrecover err\n    print(\"bad: \" + err)\nprint(\"end\")\n";
    let given = program(&format!("require db(\"a.db\")\ndb_open(\"a.db\")\n{MAKE}"));
    assert!(given.go().ok);
    let good = fs::read(given.at("a.db")).unwrap();
    fs::write(given.at("p.syn"), text).unwrap();
    // A number that is the same on each run stands for chance.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..12 {
        let mut bad = good.clone();
        if round == 0 {
            bad = b"this is no database, and it is long enough to be one".repeat(40);
        } else if round == 1 {
            bad.truncate(good.len() / 2 + 7);
        } else {
            for _ in 0..40 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let at = 18 + (state as usize) % (bad.len() - 18);
                bad[at] = (state >> 40) as u8;
            }
        }
        fs::write(given.at("a.db"), &bad).unwrap();
        let report = given.go();
        assert_eq!(report.output.last().map(String::as_str), Some("end"), "{round}: {:?}", report.errors);
        assert_eq!(report.status, Verdict::Ok);
    }
}

#[test]
fn a_schema_that_calls_what_it_should_not_gets_no_further_than_a_statement() {
    let given = program(
        "require db(\"a.db\")\ndb_open(\"a.db\")\neach q in [\"select * from v\", \"select * from w\"]\n    try\n        \
         print(sql(q))\n    recover err\n        print(err)\n",
    );
    python!(
        "import sqlite3; c = sqlite3.connect('a.db')\n\
         c.execute('''create view v as select load_extension('/tmp/x.so')''')\n\
         c.execute('create view w as select * from pragma_module_list')\nc.commit()",
        &given.at("")
    );
    let report = given.go();
    assert_eq!(report.output.len(), 2, "{:?}", report.errors);
    assert!(report.output[0].contains("load_extension"), "{:?}", report.output);
    assert!(!report.output[1].starts_with('['), "{:?}", report.output);
}

#[test]
fn endless_sql_ends_with_the_fuel_and_greedy_sql_with_an_error() {
    let text = "require db(\":memory:\")\ndb_open(\":memory:\")\n\
                sql(\"with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n\")\n";
    let report = program(text).with("--fuel", "3000000").go();
    assert_eq!(report.status, Verdict::Fuel, "{:?}", report.errors);

    let text = "require db(\":memory:\")\ndb_open(\":memory:\")\ntry\n    \
                sql(\"with recursive n(i) as (select 1 union all select i + 1 from n where i < 40) select group_concat(hex(zeroblob(8000000))) from n\")\n\
                recover err\n    print(err)\n";
    let report = program(text).go();
    assert_eq!(report.status, Verdict::Ok, "{:?}", report.errors);
    assert!(
        report.output[0].contains("too long") || report.output[0].contains("memory"),
        "{:?}",
        report.output
    );
}

#[test]
fn a_database_knows_what_time_it_is() {
    let text = "require db(\"a.db\")\nrequire db(\":memory:\")\nrequire time\n\
                each name in [\"a.db\", \":memory:\"]\n    db_open(name)\n    \
                sql_exec(\"create table t(x, at default current_timestamp)\")\n    sql_exec(\"insert into t(x) values (1)\")\n    \
                let all be sql(\"select unixepoch('now') as a, unixepoch(datetime('now')) as b, unixepoch(at) as c, \
                unixepoch(current_timestamp) as d, cast(strftime('%s', julianday('now')) as int) as e from t\")[0]\n    \
                let since be now()\n    \
                print(apply([all.a, all.b, all.c, all.d, all.e], (t) => abs(since - t) < 60))\n";
    let report = program(text).go();
    let right = "[true, true, true, true, true]";
    assert_eq!(report.output, [right, right], "{:?}", report.errors);
    // Neither has a clock for a program that has none.
    for name in ["a.db", ":memory:"] {
        let text =
            format!("require db(\"{name}\")\ndb_open(\"{name}\")\nprint(sql(\"select datetime('now')\"))\n");
        let report = program(&text).with("--cap-set", "stdout,db=a.db,db=:memory:").go();
        assert_eq!((report.status, report.output.len()), (Verdict::Nonzero, 0), "{:?}", report.errors);
        assert_eq!(denials(&report, "time").len(), 2, "{name}: {:?}", report.audit);
    }
}
