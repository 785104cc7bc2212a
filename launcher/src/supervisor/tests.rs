//! The loop around plain processes: a shell in init's place tells how its child ended. No wall stands around them.

use super::*;
use crate::{
    jail::{ExitRecord, Running, Streams},
    sys::pidfd,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, pipe2},
};
use policies::{
    audit::Entry,
    layer::Layer,
    plan::{
        FilterName, HostPath, Identity, JailPath, LandlockPlan, Limit, Limits, Means, Network, Outside,
        Payload, Plan, Stream,
    },
    report::{LimitName, Report, Verdict},
    units::{Bytes, Millis},
    wire::{self, EndFrame, ErrorFrame, Frame},
};
use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    os::fd::{AsRawFd, OwnedFd},
    process::{Command, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Children of tests that run beside this one must not hold our ends.
fn pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    pipe2(nix::fcntl::OFlag::O_CLOEXEC)
}

fn plan() -> Plan {
    fn none<T>(means: Means) -> Limit<T> {
        Limit { value: None, means }
    }
    Plan {
        payload: Payload::Command {
            program: JailPath("/bin/sh".into()),
            source: HostPath("/bin/sh".into()),
            argv: vec!["sh".into()],
        },
        root: Vec::new(),
        workdir: JailPath("/".into()),
        landlock: LandlockPlan { abi: 0, rules: Vec::new() },
        filter: Some(FilterName::Command),
        network: Network::SharedEmpty,
        identity: Identity { uid: 1, gid: 1, outside: Outside::Caller },
        hostname: "jail".into(),
        limits: Limits {
            wall: none(Means::Supervisor),
            cpu: none(Means::Polling),
            memory: none(Means::Polling),
            pids: none(Means::Polling),
            nofile: 64,
            output: none(Means::Supervisor),
            disk: Bytes(0),
            grace: Millis(100),
        },
        environment: std::collections::BTreeMap::new(),
        stdin: Stream::Relayed,
        stdout: Stream::Relayed,
        capabilities: Vec::new(),
        layers: Vec::new(),
        notes: Vec::new(),
    }
}

fn wants() -> Wants {
    Wants {
        stdin: Source::Empty,
        stdout: Sink::Nowhere,
        stderr: Sink::Nowhere,
        keep: Keep::AtMost(Bytes(1 << 20)),
        signals: None,
        lent: None,
        quiet: false,
        egress: None,
        person: None,
        state: None,
    }
}

/// A process in the payload's place, and the thread that stands for the rest of init.
struct Fake {
    running: Running,
    payload: Pid,
    rest: JoinHandle<()>,
}

#[expect(clippy::zombie_processes, reason = "the supervisor collects it, as it does a jail's init")]
/// Runs `script` in a shell beneath another one, which tells of its end.
fn fake(script: &str) -> Fake {
    let (frames_read, frames_write) = pipe().unwrap();
    let (in_read, in_write) = pipe().unwrap();
    let (out_read, out_write) = pipe().unwrap();
    let (err_read, err_write) = pipe().unwrap();
    let (exit_read, exit_write) = pipe().unwrap();
    let (lifeline, _) = pipe().unwrap();
    let here = std::process::id();
    let end = |file: &OwnedFd| format!("/proc/{here}/fd/{}", file.as_raw_fd());
    let init = format!(
        "exec 8<&0; setsid sh -c 'echo $$ >&9; read go <&8; exec 8<&- 9>&-; eval \"$1\"' sh \"$1\" \
         9>&1 <{} >{} 2>{} 7>{} & wait $!; echo $?",
        end(&in_read),
        end(&out_write),
        end(&err_write),
        end(&frames_write)
    );
    let mut child = Command::new("sh")
        .args(["-c", &init, "sh", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let payload = Pid::from_raw(lines.next().unwrap().unwrap().parse().unwrap());
    let running = Running {
        init: Pid::from_raw(i32::try_from(child.id()).unwrap()),
        init_pidfd: pidfd::open(Pid::from_raw(i32::try_from(child.id()).unwrap())).unwrap(),
        payload_pidfd: pidfd::open(payload).unwrap(),
        exit_pipe: exit_read,
        lifeline,
        listener: None,
        scratch: None,
        network: Vec::new(),
        streams: Streams {
            stdin: Some(in_write),
            stdout: Some(out_read),
            stderr: Some(err_read),
            terminal: None,
            frames: Some(frames_read),
            broker: None,
        },
    };
    // It waits for this, so that its descriptor could be opened.
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let rest = std::thread::spawn(move || {
        // In a real jail the kernel does this when init has ended.
        let end_all = || kill(Pid::from_raw(-payload.as_raw()), Signal::SIGKILL).is_ok();
        let Some(Ok(line)) = lines.next() else {
            end_all();
            return;
        };
        let code: i32 = line.parse().unwrap();
        let status = if code > 128 && code != 137 { code - 128 } else { code << 8 };
        let record = ExitRecord { status, cpu_us: 0, max_rss_kib: 0 };
        end_all();
        File::from(exit_write).write_all(&record.encode()).unwrap();
    });
    Fake { running, payload, rest }
}

fn run(script: &str, plan: &Plan, wants: Wants) -> Report {
    let mut fake = fake(script);
    if plan.payload != Payload::Runtime {
        fake.running.streams.frames = None;
    }
    let report = supervise(fake.running, plan, None, wants);
    fake.rest.join().unwrap();
    report
}

fn limited(change: impl FnOnce(&mut Limits)) -> Plan {
    let mut plan = plan();
    change(&mut plan.limits);
    plan
}

#[test]
fn a_program_s_end_and_lines_are_told() {
    let report = run("echo one; echo two >&2; printf three; exit 3", &plan(), wants());
    assert_eq!((report.status, report.exit, report.signal), (Verdict::Nonzero, Some(3), None));
    assert_eq!(
        (report.output, report.errors),
        (vec!["one".to_owned(), "three".into()], vec!["two".to_owned()])
    );
    assert_eq!(report.usage.output, Some(Bytes(13)));
}

#[test]
fn a_listener_without_a_caller_is_let_go() {
    use nix::time::{ClockId, clock_gettime};
    let (without_writer, _) = pipe().unwrap();
    let mut fake = fake("sleep 1; exit 4");
    fake.running.listener = Some(without_writer);
    let before = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    let report = supervise(fake.running, &plan(), None, wants());
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap() - before;
    fake.rest.join().unwrap();
    assert_eq!(report.exit, Some(4));
    assert!(Duration::from(used) < Duration::from_millis(300), "it spun for {used:?}");
}

#[test]
fn a_deadly_signal_is_told() {
    let report = run("kill -ABRT $$", &plan(), wants());
    assert_eq!((report.status, report.exit, report.signal), (Verdict::Signal, None, Some(6)));
}

#[test]
fn exactly_the_limit_of_output_passes_over_both_streams() {
    let with = limited(|limits| limits.output.value = Some(Bytes(10)));
    let report = run("printf 12345; printf 67890 >&2", &with, wants());
    assert_eq!((report.status, report.usage.output), (Verdict::Ok, Some(Bytes(10))));
}

#[test]
fn one_byte_more_is_cut_and_ends_the_run() {
    let with = limited(|limits| limits.output.value = Some(Bytes(10)));
    let (read, write) = pipe().unwrap();
    let report = run("printf 12345678901; sleep 30", &with, Wants { stdout: Sink::File(write), ..wants() });
    let mut delivered = String::new();
    File::from(read).read_to_string(&mut delivered).unwrap();
    assert_eq!((report.status, delivered.as_str()), (Verdict::Output, "1234567890"));
    assert_eq!(report.output, ["1234567890"]);
    assert_eq!(report.usage.output, Some(Bytes(10)));
    assert_eq!(report.audit.last().unwrap().target, "output");
}

#[test]
fn output_beyond_the_limit_counts_even_if_the_program_has_ended() {
    let with = limited(|limits| limits.output.value = Some(Bytes(3)));
    assert_eq!(run("printf 1234", &with, wants()).status, Verdict::Output);
}

#[test]
fn the_wall_clock_ends_a_run_and_another_is_in_time() {
    let with = limited(|limits| limits.wall.value = Some(Millis(300)));
    let report = run("sleep 30", &with, wants());
    assert_eq!((report.status, report.timed_out), (Verdict::WallTime, true));
    assert!(report.usage.wall.unwrap() >= Millis(300));
    assert_eq!(run("true", &with, wants()).status, Verdict::Ok);
}

#[test]
fn processor_time_of_the_tree_ends_a_run() {
    let with = limited(|limits| limits.cpu.value = Some(Millis(200)));
    let report = run("(while :; do :; done) & (while :; do :; done) & sleep 30", &with, wants());
    Command::new("true").status().unwrap();
    assert_eq!((report.status, report.timed_out), (Verdict::CpuTime, true));
    assert_eq!(run("sleep 0.3", &with, wants()).status, Verdict::Ok);
}

#[test]
fn memory_of_the_tree_ends_a_run() {
    let with = limited(|limits| limits.memory.value = Some(Bytes(40 << 20)));
    let report = run("(head -c 200m /dev/zero; sleep 30) | tail -c 200m >/dev/null", &with, wants());
    assert_eq!(report.status, Verdict::Memory);
    assert_eq!(
        run("head -c 2m /dev/zero | tail -c 2m >/dev/null; sleep 0.1", &with, wants()).status,
        Verdict::Ok
    );
}

#[test]
fn input_is_passed_on_to_its_end() {
    let (read, write) = pipe().unwrap();
    let feeder = std::thread::spawn(move || {
        let mut file = File::from(write);
        (0..100_000).for_each(|number| writeln!(file, "{number}").unwrap());
    });
    let report = run("tail -n 1", &plan(), Wants { stdin: Source::File(read), ..wants() });
    feeder.join().unwrap();
    assert_eq!((report.status, report.output), (Verdict::Ok, vec!["99999".to_owned()]));
}

#[test]
fn a_file_is_input_too_and_empty_input_ends_at_once() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"from a file\n").unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let report = run("cat", &plan(), Wants { stdin: Source::File(file.into()), ..wants() });
    assert_eq!(report.output, ["from a file"]);
    assert_eq!(run("cat", &plan(), wants()).output, [""; 0]);
}

#[test]
fn a_reader_that_is_gone_ends_the_program_by_its_own_sigpipe() {
    let (read, write) = pipe().unwrap();
    drop(read);
    let report = run("trap - PIPE; yes", &plan(), Wants { stdout: Sink::File(write), ..wants() });
    // Ignored by this test process and so by its children: then yes fails by itself.
    assert!(matches!(report.status, Verdict::Nonzero | Verdict::Signal), "{report:?}");
}

#[test]
fn a_slow_reader_stops_neither_the_clock_nor_the_other_stream() {
    let (read, write) = pipe().unwrap();
    let with = limited(|limits| limits.wall.value = Some(Millis(400)));
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(900));
        let mut all = Vec::new();
        File::from(read).read_to_end(&mut all).unwrap();
        all.len()
    });
    let script = "(sleep 0.2; echo through >&2) & exec yes";
    let report = run(script, &with, Wants { stdout: Sink::File(write), ..wants() });
    assert_eq!(report.status, Verdict::WallTime);
    assert_eq!(report.errors, ["through"]);
    // What the program could write before the clock struck is delivered whole.
    assert_eq!(reader.join().unwrap() as u64 + 8, report.usage.output.unwrap().0);
}

#[test]
fn a_killed_init_is_a_failed_jail() {
    let mut fake = fake("sleep 30");
    fake.running.streams.frames = None;
    let init = fake.running.init;
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        kill(init, Signal::SIGKILL).unwrap();
    });
    let report = supervise(fake.running, &plan(), None, wants());
    killer.join().unwrap();
    fake.rest.join().unwrap();
    assert_eq!(report.status, Verdict::JailFailed);
    assert!(kill(fake.payload, None).is_err() || report.errors.len() == 1);
}

#[test]
fn output_that_is_not_granted_is_dropped_and_audited_once() {
    let mut with = plan();
    with.stdout = Stream::Closed;
    let report = run("echo one; echo two", &with, wants());
    assert_eq!((report.status, report.output.len(), report.audit.len()), (Verdict::Ok, 0, 1));
}

#[test]
fn every_limit_has_a_row_with_its_means() {
    let with = limited(|limits| limits.wall.value = Some(Millis(100)));
    let report = run("sleep 30", &with, wants());
    let row = |name| report.limits.iter().find(|row| row.limit == name).unwrap();
    assert_eq!(report.limits.len(), 7);
    assert!(row(LimitName::Wall).met && !row(LimitName::Cpu).met);
    assert_eq!(row(LimitName::Wall).means, "supervisor's clock");
}

#[test]
fn an_idle_run_costs_nothing() {
    let with = limited(|limits| {
        limits.cpu.value = Some(Millis(60_000));
        limits.memory.value = Some(Bytes(64 << 20));
    });
    let thread_time = || {
        let id = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
        Duration::from(nix::time::clock_gettime(id).unwrap())
    };
    let before = (thread_time(), Instant::now());
    run("sleep 2", &with, wants());
    let (used, passed) = (thread_time() - before.0, before.1.elapsed());
    assert!(used < passed / 100, "{used:?} of {passed:?}");
}

fn encoded(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| wire::encode(frame, &mut bytes));
    bytes
}

fn ended(exit: i32, trap: Option<&str>) -> Frame {
    Frame::End(EndFrame { exit, fuel: 77, heap_peak: 0, trap: trap.map(str::to_owned), llm_tokens: 5 })
}

/// Runs a "runtime" that sends these bytes and then does what `then` says.
fn speak(bytes: &[u8], then: &str, limit: Option<u64>) -> (Report, String) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let mut with = limited(|limits| limits.output.value = limit.map(Bytes));
    with.payload = Payload::Runtime;
    let (read, write) = pipe().unwrap();
    let script = format!("cat {} >&7; {then}", file.path().display());
    let report = run(&script, &with, Wants { stdout: Sink::File(write), ..wants() });
    let mut delivered = String::new();
    File::from(read).read_to_string(&mut delivered).unwrap();
    (report, delivered)
}

fn entry(layer: Layer) -> Frame {
    let mut audit = super::audit::Audit::new("program");
    audit.refused_output();
    Frame::Audit(Entry { layer, ..audit.finish().0.remove(0) })
}

fn failure() -> Frame {
    Frame::Error(ErrorFrame {
        text: "Runtime error: a.syn:1:1: no".into(),
        message: "no".into(),
        category: "Runtime error".into(),
        file: None,
        line: None,
        column: None,
        source: None,
        denied: false,
        stack: Vec::new(),
    })
}

#[test]
fn prints_are_one_line_each_and_the_end_is_told() {
    let frames = [
        Frame::Print("one".into()),
        Frame::PrintPart("two\n".into()),
        Frame::Print("three".into()),
        Frame::Log("aside".into()),
        failure(),
        entry(Layer::Gate),
        ended(1, None),
    ];
    let (report, delivered) = speak(&encoded(&frames), "exit 1", None);
    assert_eq!(
        (report.status, report.exit, delivered.as_str()),
        (Verdict::Nonzero, Some(1), "one\ntwo\nthree\n")
    );
    assert_eq!(report.output, ["one", "two\nthree"]);
    assert_eq!(report.errors, ["Runtime error: a.syn:1:1: no"]);
    assert_eq!((report.audit.len(), report.audit[0].seq), (1, 1));
    // Tokens are counted by the broker, whatever the runtime says of them.
    assert_eq!((report.usage.fuel, report.llm_tokens), (Some(77), 0));
}

#[test]
fn errors_alone_are_told_where_nothing_may_be_printed() {
    let frames = [Frame::Print("one".into()), Frame::Log("aside".into()), failure(), ended(1, None)];
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&encoded(&frames)).unwrap();
    let script = format!("echo raw; echo raw >&2; cat {} >&7; exit 1", file.path().display());
    let told = |stdout: Stream| {
        let with = Plan { payload: Payload::Runtime, stdout, ..plan() };
        let (read, write) = pipe().unwrap();
        let report = run(&script, &with, Wants { stderr: Sink::File(write), ..wants() });
        let mut told = String::new();
        File::from(read).read_to_string(&mut told).unwrap();
        (told, report.audit.len())
    };
    let error = "Runtime error: a.syn:1:1: no\n";
    assert_eq!(told(Stream::Closed), (error.to_owned(), 1));
    let (open, entries) = told(Stream::Relayed);
    assert!(open.contains("raw\n") && open.contains(&format!("aside\n{error}")), "{open}");
    assert_eq!(entries, 0);
}

#[test]
fn prints_are_cut_at_exactly_the_limit() {
    let frames = encoded(&[Frame::Print("12345".into()), Frame::Print("6789".into()), ended(0, None)]);
    let (passes, _) = speak(&frames, "exit 0", Some(11));
    assert_eq!(passes.status, Verdict::Ok);
    let (cut, delivered) = speak(&frames, "exit 0", Some(8));
    assert_eq!(
        (cut.status, delivered.as_str(), cut.usage.output),
        (Verdict::Output, "12345\n67", Some(Bytes(8)))
    );
    assert_eq!(cut.output, ["12345", "67"]);
}

#[test]
fn limits_of_the_machine_are_verdicts() {
    let (fuel, _) = speak(&encoded(&[ended(1, Some("fuel"))]), "exit 1", None);
    assert_eq!(fuel.status, Verdict::Fuel);
    let (memory, _) = speak(&encoded(&[ended(1, Some("memory"))]), "exit 1", None);
    assert_eq!(memory.status, Verdict::Memory);
}

#[test]
fn a_runtime_that_breaks_the_protocol_is_killed() {
    for bytes in [
        vec![9; 64],
        encoded(&[ended(0, None), Frame::Print("more".into())]),
        encoded(&[entry(Layer::Filter)]),
    ] {
        let (report, _) = speak(&bytes, "sleep 30", None);
        assert_eq!((report.status, report.errors.len()), (Verdict::JailFailed, 1), "{report:?}");
    }
}

#[test]
fn a_runtime_that_goes_without_a_word_is_no_success() {
    let (silent, _) = speak(b"", "exit 0", None);
    assert_eq!(silent.status, Verdict::JailFailed);
    let (killed, _) = speak(b"", "kill -SEGV $$", None);
    assert_eq!((killed.status, killed.signal), (Verdict::Signal, Some(11)));
}
