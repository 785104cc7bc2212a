//! `proc_*`: commands that go on beside their program, each in a jail of its own within the program's.

use crate::program::{denials, program};
use policies::report::Verdict;
use std::{
    fs,
    time::{Duration, Instant},
};

/// Reads a process to its end.
const ALL: &str = "task all(p)\n    let out be \"\"\n    let open be true\n    while open\n        let piece be proc_recv(p)\n        \
                   when piece == nothing\n            set open to false\n        otherwise\n            \
                   set out to out + piece.data\n    give out\n";

/// Whether a process runs somewhere that was started with this word.
fn runs(word: &str) -> bool {
    let Ok(all) = fs::read_dir("/proc") else { return false };
    all.filter_map(Result::ok).any(|entry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|&byte| byte == 0).any(|one| one == word.as_bytes())
    })
}

/// Nothing of it is left, at once or after a moment: the launcher has ended, and what it killed goes by itself.
fn goes(word: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    while runs(word) {
        assert!(Instant::now() < until, "{word} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_process_is_talked_to_and_waited_for() {
    let text = format!(
        "require exec(\"sh\")\nrequire exec(\"cat\")\n{ALL}\
         let p be proc_spawn(\"cat\")\nprint(type_of(p), proc_status(p))\n\
         print(proc_send(p, \"one \"))\nprint(proc_recv(p))\nproc_send(p, bytes([206, 187, 206]))\nprint(proc_recv(p))\n\
         proc_send(p, bytes([187]))\nprint(proc_recv(p))\nproc_close_stdin(p)\nprint(proc_recv(p), proc_wait(p), proc_status(p))\n\
         let s be proc_stats(p)\nprint(s.command, s.sent, s.stdout, s.stderr)\nprint(proc_close(p), proc_close(p), proc_status(p))\n\
         let q be proc_spawn(\"sh\", [\"-c\", \"echo err >&2; exit 3\"])\nprint(all(q), proc_wait(q).exit_code)\n\
         try\n    proc_send(q, \"x\")\nrecover err\n    print(err)\n"
    );
    let report = program(&text).go();
    assert_eq!(
        report.output,
        [
            "process {state: \"running\", exit_code: nothing}",
            "4",
            "{stream: \"stdout\", data: \"one \"}",
            "{stream: \"stdout\", data: \"λ\"}",
            "{stream: \"stdout\", data: \"λ\"}",
            "nothing {exit_code: 0, timed_out: false, ended: nothing} {state: \"exited\", exit_code: 0}",
            "cat 8 8 0",
            "true false {state: \"closed\", exit_code: nothing}",
            "err\n 3",
            "proc_send: it takes no more input",
        ],
        "{:?}",
        report.errors
    );
    assert!(report.audit.iter().any(|entry| entry.granted && entry.capability == "exec(\"cat\")"));
}

#[test]
fn what_a_process_did_is_told_though_its_program_has_ended() {
    let text = "require exec(\"sh\")\nrequire exec(\"unshare\")\nrequire exec(\"sleep\")\n\
                let p be proc_spawn(\"sh\", [\"-c\", \"unshare -U true; echo done; exec sleep 3599\"])\nlet said be \"\"\n\
                while not contains(said, \"done\")\n    set said to said + proc_recv(p).data\nprint(\"over\")\n";
    let report = program(text).go();
    assert_eq!((report.status, report.output), (Verdict::Ok, vec!["over".to_owned()]), "{:?}", report.errors);
    let told: Vec<_> = report.audit.iter().filter(|entry| entry.target == "unshare").collect();
    assert_eq!(told.len(), 1, "{:?}", report.audit);
    assert!(!told[0].granted);
    goes("3599");
}

#[test]
fn a_process_that_is_not_granted_is_denied_wherever_it_is_not() {
    let text = format!("require exec(\"sh\")\n{ALL}print(all(proc_spawn(\"sh\", [\"-c\", \"echo ran\"])))\n");
    let report = program(&text).with("--cap-set", "stdout,exec=true").go();
    assert_eq!((report.status, report.output.len()), (Verdict::Nonzero, 0));
    assert_eq!(denials(&report, "exec(\"sh\")").len(), 2, "{:?}", report.audit);
    assert_eq!(program(&text).with("--cap-set", "stdout,exec=sh").go().output, ["ran\n"]);
    let report = program(&text).with("--profile", "pure").go();
    assert!(report.errors[0].contains("this run has no child processes"), "{:?}", report.errors);
}

#[test]
fn a_handle_gives_no_right_where_the_program_has_none() {
    let text = "require exec(\"cat\")\nagent Other\n    try\n        proc_send(p, \"x\")\n    recover err\n        share err as \"told\"\n\
                let p be proc_spawn(\"cat\")\n\
                each use in [() => proc_send(p, \"x\"), () => proc_recv(p, 0), () => proc_wait(p, 0), () => proc_kill(p), () => select([p], 0), () => proc_close(p)]\n    \
                    try\n        sandbox use()\n        print(\"used\")\n    recover err\n        print(contains(err, \"Capability not granted: exec\"))\n\
                spawn Other\nwait_for \"never\" timeout 0.2\nobserve \"told\" as told\nprint(contains(told, \"Capability not granted: exec\"))\n\
                print(proc_send(p, \"x\"), proc_status(p).state)\n";
    let report = program(text).go();
    let denied = vec!["true".to_owned(); 7];
    assert_eq!(report.output.get(..7), Some(&denied[..]), "{:?} {:?}", report.output, report.errors);
    assert_eq!(report.output[7], "1 running", "{:?}", report.errors);
}

#[test]
fn a_process_has_what_a_command_has_and_no_more() {
    let text = format!(
        "require exec(\"*\")\nrequire secret(\"KEY\")\nrequire file.read(\"data/*\")\n{ALL}let at be args()[0]\n\
         print(all(proc_spawn(\"sh\", [\"-c\", \"echo $KEY-$MINE\"], {{\"env\": {{\"MINE\": 1}}}})))\n\
         print(all(proc_spawn(\"cat\", [at + \"/data/a\"])), length(all(proc_spawn(\"cat\", [at + \"/secret\"]))) > 0)\n\
         print(all(proc_spawn(\"cat\", [\"a\"], {{\"cwd\": \"data\"}})))\n\
         each bad in [{{\"env\": {{\"PATH\": \"/tmp\"}}}}, {{\"env\": {{\"LD_PRELOAD\": \"x\"}}}}, {{\"cwd\": \"/etc\"}}, {{\"cwd\": \"/no/such\"}}]\n    \
             try\n        proc_spawn(\"sh\", [], bad)\n        print(\"ran\")\n    recover err\n        print(\"refused\")\n\
         try\n    proc_spawn(\"no-such-program\")\nrecover err\n    print(\"missing\")\n"
    );
    let given = program(&text).file("data/a", "granted").file("secret", "s").env("KEY", "k");
    let mut command = given.command();
    let at = given.at("").trim_end_matches('/').to_owned();
    let output = command.args(["--", &at]).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        out,
        "-1\n\ngranted true\ngranted\nrefused\nrefused\nrefused\nrefused\nmissing\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_flood_of_processes_meets_its_bound_and_leaves_nothing() {
    let word = format!("7{}", std::process::id());
    let text = format!(
        "require exec(\"sleep\")\nlet n be 0\ntry\n    while true\n        proc_spawn(\"sleep\", [{word}])\n        set n to n + 1\n\
         recover err\n    print(err)\nprint(n)\n"
    );
    let report = program(&text).with("--pids", "4096").with("--memory", "4G").go();
    assert_eq!(report.output.len(), 2, "{:?}", report.errors);
    let n: u32 = report.output[1].parse().unwrap();
    // Where no group counts them, each is given its own part of what is left, and that may be used up before.
    assert!((1..=16).contains(&n), "{:?}", report.output);
    let bound = if n == 16 { "16 processes run already" } else { "too little" };
    assert!(report.output[0].contains(bound), "{:?}", report.output);
    goes(&word);
}

#[test]
fn one_that_writes_without_end_waits_for_its_reader_and_can_be_ended() {
    let text = "require exec(\"yes\")\nlet p be proc_spawn(\"yes\")\nlet n be 0\nwhile n < 1000000\n    \
                set n to n + length(proc_recv(p).data)\nprint(n < 1100000)\n\
                print(proc_kill(p), proc_wait(p, 20).ended != nothing, proc_status(p), proc_kill(p))\n\
                let rest be 0\nlet open be true\nwhile open\n    let piece be proc_recv(p)\n    when piece == nothing\n        set open to false\n    \
                otherwise\n        set rest to rest + length(piece.data)\nprint(rest < 1000000)\n";
    let report = program(text).with("--output", "1K").go();
    assert_eq!(
        report.output,
        ["true", "true true {state: \"killed\", exit_code: 137} false", "true"],
        "{:?}",
        report.errors
    );
}

#[test]
fn one_that_reads_nothing_takes_so_much_and_no_more() {
    let text = "require exec(\"sleep\")\nlet p be proc_spawn(\"sleep\", [600])\nlet big be \"0123456789abcdef\"\n\
                while length(big) < 2000000\n    set big to big + big\nlet sent be proc_send(p, big, 0.3)\n\
                print(sent > 0, sent < 1000000, select([p], 0))\n";
    let report = program(text).go();
    assert_eq!(report.output, ["true true []"], "{:?}", report.errors);
}

#[test]
fn one_that_ignores_term_is_ended_after_a_grace() {
    let text = "require exec(\"sh\")\nrequire exec(\"sleep\")\n\
                let p be proc_spawn(\"sh\", [\"-c\", \"trap '' TERM; echo ready; while :; do sleep 0.1; done\"])\nprint(proc_recv(p).data)\n\
                print(proc_kill(p, \"term\"), proc_status(p).state)\nlet end be proc_wait(p, 60)\nprint(end.ended, proc_status(p))\n\
                let q be proc_spawn(\"sh\", [\"-c\", \"trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.1; done\"])\nproc_recv(q)\n\
                proc_kill(q, \"term\")\nprint(proc_recv(q).data, proc_wait(q, 60).exit_code)\n\
                try\n    proc_kill(q, \"stop\")\nrecover err\n    print(err)\n";
    let report = program(text).with("--wall", "60s").go();
    assert_eq!(
        report.output,
        [
            "ready\n",
            "true running",
            "stopped {state: \"killed\", exit_code: 143}",
            "bye\n 7",
            "proc_kill: no signal \"stop\", one of kill, term, int, hup, usr1, usr2"
        ],
        "{:?}",
        report.errors
    );
}

#[test]
fn time_is_bounded_and_the_run_s_end_is_theirs() {
    let word = format!("8{}", std::process::id());
    let text = format!(
        "require exec(\"sleep\")\nlet p be proc_spawn(\"sleep\", [600], {{\"timeout\": 0.3}})\n\
         print(proc_wait(p, 30).timed_out, proc_wait(proc_spawn(\"sleep\", [{word}]), 0.1))\n"
    );
    let report = program(&text).go();
    assert_eq!((report.status, report.output), (Verdict::Ok, vec!["true nothing".to_owned()]));
    goes(&word);
    // However it ends.
    let text = format!(
        "require exec(\"sleep\")\nproc_spawn(\"sleep\", [{word}])\nprint(\"up\")\nwhile true\n    sleep(0.05)\n"
    );
    let report = program(&text).with("--wall", "1s").go();
    assert_eq!((report.status, report.output), (Verdict::WallTime, vec!["up".to_owned()]));
    goes(&word);
    let given = program(&text);
    let mut launcher = given.command().stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut up = [0; 2];
    std::io::Read::read_exact(launcher.stdout.as_mut().unwrap(), &mut up).unwrap();
    assert!(runs(&word));
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    goes(&word);
}

#[test]
fn a_terminal_has_a_size_and_can_be_resized() {
    let text = format!(
        "require exec(\"sh\")\nrequire exec(\"stty\")\n{ALL}\
         let p be proc_spawn(\"sh\", [\"-c\", \"stty -echo; stty size; read x; stty size; test -t 0 && echo typed $x\"], {{\"terminal\": {{\"columns\": 100, \"rows\": 30}}}})\n\
         print(trim(proc_recv(p).data))\nproc_resize(p, 132, 43)\nproc_send(p, \"hi\\n\")\nprint(replace(all(p), \"\\r\\n\", \"/\"))\n\
         try\n    proc_resize(proc_spawn(\"sh\"), 80, 24)\nrecover err\n    print(err)\n"
    );
    let report = program(&text).go();
    let no_terminal = |error: &String| error.contains("this host gives no terminal");
    if report.errors.iter().any(no_terminal) {
        println!("skipped: {:?}", report.errors);
        return;
    }
    assert_eq!(
        report.output,
        ["30 100", "43 132/typed hi/", "proc_resize: it has no terminal"],
        "{:?}",
        report.errors
    );
}

#[test]
fn one_wait_is_for_all_that_can_come() {
    let text = "require exec(\"cat\")\nlet a be proc_spawn(\"cat\")\nlet b be proc_spawn(\"cat\")\nlet p be pipe()\n\
                print(select([a, b, p.reader], 0.05))\nproc_send(b, \"x\")\nprint(select([a, b, p.reader]) == [b], proc_select([a, b]) == [b])\n\
                print(proc_recv(b).data, proc_recv(b, 0))\npipe_send(p.writer, \"y\")\nprint(select([a, p.reader]) == [p.reader])\n\
                agent Late\n    sleep(0.2)\n    pipe_send(out, \"z\")\npipe_recv(p.reader)\nspawn Late with out = p.writer\n\
                print(select([a, p.reader], 30) == [p.reader])\nproc_close_stdin(a)\nprint(proc_select([a, b], 30) == [a], proc_recv(a))\n\
                try\n    proc_select([p.reader])\nrecover err\n    print(err)\n";
    let report = program(text).go();
    assert_eq!(
        report.output,
        [
            "[]",
            "true true",
            "x {stream: nothing, data: \"\"}",
            "true",
            "true",
            "true nothing",
            "proc_select expects processes, got pipe"
        ],
        "{:?}",
        report.errors
    );
}

#[test]
fn commands_and_programs_run_beside_processes() {
    let text = "require exec(\"*\")\nrequire sandbox_run\nlet p be proc_spawn(\"cat\")\nprint(run(\"echo\", [\"beside\"]).stdout)\n\
                print(run_program(\"print(1)\", {\"ceiling\": \"stdout\"}).output)\nproc_send(p, \"still\")\nprint(proc_recv(p).data)\n";
    let report = program(text).with("--memory", "1G").with("--pids", "256").go();
    assert_eq!(report.output, ["beside\n", "[\"1\"]", "still"], "{:?}", report.errors);
}

#[test]
fn a_watch_sees_what_comes_changes_and_goes() {
    let text = "require file(\"data\")\nrequire file(\"data/*\")\nlet w be watch(\"data\", {\"interval\": 0.05})\nprint(watch_recv(w, 0.1))\n\
                write_file(\"data/new\", \"1\")\nprint(watch_recv(w))\nwrite_file(\"data/a\", \"longer\")\nprint(watch_recv(w))\n\
                delete_file(\"data/new\")\nprint(select([w]) == [w], watch_recv(w))\nlet s be watch_stats(w)\nprint(s.entries, s.changes)\n\
                print(sandbox watch_close(w), watch_close(w))\ntry\n    watch_recv(w)\nrecover err\n    print(err)\n\
                try\n    watch(\"p.syn\")\nrecover err\n    print(contains(err, \"Capability not granted: file_read(\\\"p.syn\\\")\"))\n";
    let report = program(text).file("data/a", "x").go();
    assert_eq!(
        report.output,
        [
            "[]",
            "[{kind: \"created\", path: \"data/new\"}]",
            "[{kind: \"modified\", path: \"data/a\"}]",
            "true [{kind: \"deleted\", path: \"data/new\"}]",
            "1 3",
            "true false",
            "watch_recv: this watch is closed",
            "true"
        ],
        "{:?}",
        report.errors
    );
}

#[test]
fn what_is_scheduled_keeps_the_run_going_within_its_limits() {
    let text = "cron_after(0.1, () => print(\"once\"))\nlet id be cron_every(0.05, () => bus_publish(\"tick\", 1), {\"times\": 3})\nprint(\"last line\")\n";
    let report = program(text).go();
    assert_eq!(
        (report.status, report.output),
        (Verdict::Ok, vec!["last line".to_owned(), "once".to_owned()])
    );
    let report = program("cron_every(0.05, () => 1)\nprint(\"up\")\n").with("--wall", "700ms").go();
    assert_eq!((report.status, report.output), (Verdict::WallTime, vec!["up".to_owned()]));
}
