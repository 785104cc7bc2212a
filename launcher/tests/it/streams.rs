//! Standard streams pass through whole, and nobody waits for anybody.

use crate::run::script;
use policies::report::Verdict;
use std::{
    io::{Read, Write},
    process::Stdio,
    time::{Duration, Instant},
};

#[test]
fn all_three_streams_pass_through() {
    let outcome = script("read line; echo \"got $line\"; echo oops >&2").input(b"this\nunread").go();
    assert_eq!((outcome.text(), outcome.stderr.as_slice()), ("got this\n", &b"oops\n"[..]));
    assert_eq!(
        (outcome.report.output, outcome.report.errors),
        (vec!["got this".to_owned()], vec!["oops".to_owned()])
    );
}

#[test]
fn megabytes_go_in_and_out_unchanged() {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let outcome = script("cat").with("--output none").input(&bytes).go();
    assert_eq!(outcome.report.status, Verdict::Ok);
    assert!(outcome.stdout == bytes);
}

#[test]
fn input_can_be_a_file_and_ends() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"from a file").unwrap();
    let option = format!("--stdin {}", file.path().display());
    assert_eq!(script("cat").with(&option).go().text(), "from a file");
    assert_eq!(script("cat").with("--stdin /dev/null").go().text(), "");
}

#[test]
fn bytes_that_are_not_text_are_replaced_in_the_report_only() {
    let outcome = script("printf 'a\\377b\\n'").go();
    assert_eq!(outcome.stdout, b"a\xffb\n");
    assert_eq!(
        (outcome.report.output.as_slice(), outcome.report.output_replaced),
        (&["a\u{fffd}b".to_owned()][..], true)
    );
}

#[test]
fn a_reader_that_has_gone_ends_the_program_as_without_a_jail() {
    let run = script("yes; exit 7");
    let mut child = run.spawn();
    drop(child.stdin.take());
    let mut line = [0; 2];
    child.stdout.take().unwrap().read_exact(&mut line).unwrap();
    let outcome = run.outcome(child.wait_with_output().unwrap());
    assert_eq!(&line, b"y\n");
    // yes dies of SIGPIPE, and the shell goes on.
    assert_eq!((outcome.report.status, outcome.code), (Verdict::Nonzero, Some(7)));
}

#[test]
fn output_that_is_lost_is_no_success() {
    let run = script("echo hello");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = run.command().stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).output().unwrap();
    let outcome = run.outcome(output);
    assert_eq!((outcome.report.status, outcome.code), (Verdict::JailFailed, Some(125)));
    assert!(outcome.report.errors[0].contains("No space left"), "{:?}", outcome.report.errors);
}

#[test]
fn a_slow_reader_does_not_stop_the_clock() {
    let run = script("yes").with("--wall 500ms --output none");
    let mut child = run.spawn();
    let started = Instant::now();
    std::thread::sleep(Duration::from_millis(1500));
    let mut all = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut all).unwrap();
    let outcome = run.outcome(child.wait_with_output().unwrap());
    assert_eq!(outcome.report.status, Verdict::WallTime);
    assert!(outcome.report.usage.wall.unwrap().0 < 1400, "{:?}", started.elapsed());
    assert_eq!(outcome.report.usage.output.unwrap().0, all.len() as u64);
}

#[test]
fn output_to_a_file_is_whole() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"before ").unwrap();
    let run = script("seq 1 50000");
    let status = run
        .command()
        .stdin(Stdio::null())
        .stdout(
            file.reopen()
                .map(|mut file| {
                    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
                    file
                })
                .unwrap(),
        )
        .status()
        .unwrap();
    assert!(status.success());
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert!(text.starts_with("before 1\n2\n") && text.ends_with("\n50000\n"));
}

#[test]
fn the_callers_files_keep_their_flags() {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let (read, write) = std::io::pipe().unwrap();
    let run = script("echo hello");
    let status = run.command().stdin(Stdio::null()).stdout(write.try_clone().unwrap()).status().unwrap();
    assert!(status.success());
    let flags = OFlag::from_bits_retain(fcntl(&write, FcntlArg::F_GETFL).unwrap());
    assert!(!flags.contains(OFlag::O_NONBLOCK));
    drop((read, write));
}

#[test]
fn an_idle_jail_costs_no_time() {
    let run = script("sleep 60").with("--wall none --cpu 10s --memory 64M");
    let mut child = run.spawn();
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    std::thread::sleep(Duration::from_millis(500));
    let before = ticks();
    std::thread::sleep(Duration::from_secs(3));
    // One may meet it by chance where other tests keep the machine busy: it looks at the jail's CPU time now and then.
    assert!(ticks() - before <= 1);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    child.wait().unwrap();
}

#[test]
fn a_trusted_program_reads_the_callers_input_and_a_ceiling_takes_it_away() {
    let said = |options: &[&str], text: &str| {
        let given = crate::program::program(text);
        let mut command = given.command();
        // Options stand in front of the file's name.
        let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut again = std::process::Command::new(command.get_program());
        again.arg(&words[0]).args(options).args(&words[1..]).current_dir(given.at(""));
        command = again;
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // The program may end without reading it.
        let _written = child.stdin.take().unwrap().write_all(b"first\nsecond\n");
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    let text = "print(read_line(), read_line(), read_line())\n";
    assert_eq!(said(&[], text), "first second nothing\n");
    assert_eq!(said(&["--cap-set", "stdout"], text), "");
    let asked = format!("require stdin\n{text}");
    assert_eq!(said(&["--cap-set", "stdout,stdin"], &asked), "first second nothing\n");
}
