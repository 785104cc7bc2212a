//! The jailed process's entry point, with plain files in place of the launcher.

use policies::wire::{self, Frame, FrameDecoder, JobHeader, Mode};
use std::io::{Read, Seek, SeekFrom, Write};

fn run(header: &JobHeader, source: &str) -> (i32, Vec<Frame>) {
    let mut job = tempfile::tempfile().expect("a file");
    job.write_all(&wire::encode_job(header, source.as_bytes(), &[], None).expect("a job")).expect("written");
    job.seek(SeekFrom::Start(0)).expect("rewound");
    let mut frames = tempfile::tempfile().expect("a file");
    let exit = runtime::worker::run(job, frames.try_clone().expect("a handle"));
    frames.seek(SeekFrom::Start(0)).expect("rewound");
    let mut bytes = Vec::new();
    frames.read_to_end(&mut bytes).expect("read");
    let mut decoder = FrameDecoder::new();
    decoder.push(&bytes);
    let mut all = Vec::new();
    while let Some(frame) = decoder.next_frame().expect("a frame") {
        all.push(frame);
    }
    assert!(decoder.ended());
    (exit, all)
}

#[test]
fn prints_errors_and_the_end_are_frames() {
    let (exit, frames) = run(&JobHeader::run("a.syn", None), "print(\"hello\")\nprint(1 / 0)\n");
    assert_eq!(exit, 1);
    assert_eq!(frames[0], Frame::Print("hello".into()));
    assert!(matches!(&frames[1], Frame::Error(e) if e.text == "Runtime error: a.syn:2:9: Division by zero"));
    assert!(matches!(&frames[2], Frame::End(e) if e.exit == 1));
}

#[test]
fn a_ceiling_is_in_force_and_audited() {
    let (exit, frames) = run(&JobHeader::run("a.syn", Some("time".into())), "print(1)\n");
    assert_eq!(exit, 1);
    let denied =
        frames.iter().any(|f| matches!(f, Frame::Audit(e) if e.capability == "stdout" && !e.granted));
    assert!(denied, "{frames:?}");
    let (exit, frames) = run(&JobHeader::run("a.syn", Some("stdout".into())), "print(1)\n");
    assert_eq!(exit, 0);
    assert!(frames.contains(&Frame::Print("1".into())));
}

#[test]
fn tests_print_their_report() {
    let mut header = JobHeader::run("a.syn", None);
    header.mode = Mode::Test;
    let (exit, frames) = run(&header, "test \"a\"\n    assert_eq(1, 1)\ntest \"b\"\n    assert_eq(1, 2)\n");
    assert_eq!(exit, 1);
    let prints: Vec<&str> = frames
        .iter()
        .filter_map(|f| match f {
            Frame::Print(t) => Some(t.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(prints, ["✓ a", "✗ b: expected 2, got 1", "1 passed, 1 failed (2 total)"]);
}

#[test]
fn conform_sends_what_its_line_is_made_of() {
    let mut header = JobHeader::run("a.syn", Some("stdout".into()));
    header.mode = Mode::Conform;
    header.swarm = true;
    let (exit, frames) = run(&header, "print(1)\nprint(now())\n");
    assert_eq!(exit, 1);
    let prints: Vec<&str> = frames
        .iter()
        .filter_map(|f| match f {
            Frame::Print(t) => Some(t.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(prints, ["1", "{\"agents\":[],\"blackboard\":{}}"]);
    let errors = frames
        .iter()
        .filter(|f| matches!(f, Frame::Error(error) if error.text.contains("Capability not granted: time")));
    assert_eq!(errors.count(), 1);
}

#[test]
fn a_broken_job_is_refused() {
    let job = tempfile::tempfile().expect("a file");
    let frames = tempfile::tempfile().expect("a file");
    assert_eq!(runtime::worker::run(job, frames), 1);
}

#[test]
fn check_warns_of_what_can_not_be_meant() {
    let mut header = JobHeader::run("a.syn", None);
    header.mode = Mode::Check;
    let source = "task f(xs)\n    set xs[0] to 1\neach x in [1]\n    set x to 2\nfind_all(\"a\", \"b\")\ntask g(xs)\n    set xs[0] to 1\n    give xs\n";
    let (exit, frames) = run(&header, source);
    assert_eq!(exit, 0);
    let logs: Vec<&str> = frames
        .iter()
        .filter_map(|f| match f {
            Frame::Log(t) => Some(t.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        logs,
        [
            "warning: a.syn:2:9: 'xs' is a copy of the caller's value: what is written to it here is lost — give it back",
            "warning: a.syn:4:9: 'x' is the loop's own copy: what is written to it here is lost — give it back",
            "warning: a.syn:5:1: 'find_all' is an old name, write regex_find_all",
        ]
    );
}

/// Frames go to a descriptor that can't be written: the entry would be lost, so the secret stays sealed.
#[test]
fn nothing_is_revealed_where_its_entry_can_t_be_written() {
    let source = "require secret(\"K\")\nrequire reveal(\"K\")\nlet s be secret(\"K\")\nlet code be 3\ntry\n    let plain be reveal(s)\n    \
                  set code to 4\nrecover e\n    set code to 5\nexit(code)\n";
    let mut header = JobHeader::run("a.syn", Some("stdout,secret=K,reveal=K".into()));
    header.env.insert("K".into(), "hush".into());
    let (exit, _frames) = run(&header, source);
    assert_eq!(exit, 4);
    let bytes = policies::wire::encode_job(&header, source.as_bytes(), &[], None).expect("a job");
    let mut job = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut job, &bytes).expect("written");
    std::io::Seek::rewind(&mut job).expect("a file");
    // Open for reading only.
    let nowhere = std::fs::File::open("/dev/null").expect("a device");
    assert_eq!(runtime::worker::run(job, nowhere), 5);
}
