//! In the runtime's place, with a job: `hostile run …` is the launcher's own command line, and what it executes in the jail
//! as its runtime is this file again. So the plan, the job, the broker and the children are exactly the runtime's.
//!
//! The program's text isn't read as one: each line is an act. Its answer goes out as an error frame, `ACT -> ANSWER`, which
//! the report keeps whatever the ceiling says of output.

use super::{
    calls,
    raw::{call, int, leak, own, word},
    runtime as alone,
};
use nix::errno::Errno;
use policies::{
    broker::{Act, Child, DESCRIPTOR, How, MOST_PIECE, Part, Profile, Ran, Request, What},
    ceiling::Ceiling,
    connection::{Act as OfConnection, Connect, Connected, Security},
    fetch::{Fetch, Form, Outcome, Prompt, Purpose},
    wire::{self, EndFrame, ErrorFrame, Frame, Job, JobHeader, Mode, Needs},
};
use runtime::broker::{Broker, Reply};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    mem::ManuallyDrop,
    process::ExitCode,
};

const FRAMES: i32 = 4;

/// Does what the job says, or everything where there is none.
pub(crate) fn take() -> ExitCode {
    let mut bytes = Vec::new();
    let read = own(3).read_to_end(&mut bytes);
    match read.map(|_| wire::decode_job(&bytes)) {
        Ok(Ok(job)) => {
            work(&job);
            ExitCode::SUCCESS
        }
        Ok(Err(_)) | Err(_) => alone::attack(),
    }
}

fn send(frame: &Frame) {
    let mut bytes = Vec::new();
    wire::encode(frame, &mut bytes);
    // Kept open: it is the supervisor's sign that this process lives.
    let _sent = ManuallyDrop::new(own(FRAMES)).write_all(&bytes);
}

fn work(job: &Job) {
    if job.header.mode == Mode::Needs {
        send(&Frame::Print(serde_json::to_string(&Needs::default()).unwrap_or_default()));
    } else {
        let mut broker = Broker::new(own(DESCRIPTOR).into());
        for line in String::from_utf8_lossy(&job.source).lines() {
            let answer = act(line, &job.header, &mut broker);
            send(&Frame::Error(error(format!("{line} -> {answer}"))));
        }
    }
    send(&Frame::End(EndFrame { exit: 0, fuel: 0, heap_peak: 0, trap: None, llm_tokens: 0 }));
}

fn error(text: String) -> ErrorFrame {
    ErrorFrame {
        message: text.clone(),
        text,
        category: "Runtime error".to_owned(),
        file: None,
        line: None,
        column: None,
        source: None,
        denied: false,
        stack: Vec::new(),
    }
}

fn act(line: &str, header: &JobHeader, broker: &mut Broker) -> String {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let path = || rest.to_owned();
    match name {
        // A frame that is printed wherever output is granted.
        "say" => {
            send(&Frame::Print(rest.to_owned()));
            "sent".to_owned()
        }
        "input" => {
            let mut text = String::new();
            match std::io::stdin().read_to_string(&mut text) {
                Ok(_) => text.trim_end().to_owned(),
                Err(error) => error.kind().to_string(),
            }
        }
        "clock" => told(&call(libc::SYS_clock_gettime, [0, super::raw::leak_words(&[0, 0]), 0, 0, 0, 0])),
        "random" => told(&call(libc::SYS_getrandom, [leak(&[0; 8]), 8, 0, 0, 0, 0])),
        // In its own environment, or in what the job brought along.
        "variable" => match std::env::var(rest).ok().or_else(|| header.env.get(rest).cloned()) {
            Some(value) => value,
            None => "absent".to_owned(),
        },
        "call" => calls::one(rest).map_or_else(|| "no such call".to_owned(), |answer| told(&answer)),
        "system-open" => opened(rest, libc::O_RDONLY),
        "system-write" => opened(rest, libc::O_RDWR | libc::O_CREAT),
        "open" => asked(broker, &Request::Open { path: path(), how: How::Read }),
        "append" => asked(broker, &Request::Open { path: path(), how: How::Append }),
        "write" => match broker.ask(&Request::Replace { path: path() }, &[]) {
            Ok(Reply::File(mut file)) => match file.write_all(b"reached") {
                Ok(()) => asked(broker, &Request::Commit {}),
                Err(error) => error.kind().to_string(),
            },
            other => answer(other),
        },
        "database" => asked(broker, &Request::Database { path: path(), part: Part::Main, act: Act::Read }),
        "journal" => asked(broker, &Request::Database { path: path(), part: Part::Journal, act: Act::Make }),
        "notebook" => asked(broker, &Request::Notebook { name: path(), part: Part::Main, act: Act::Make }),
        "look" => asked(broker, &Request::Look { path: path() }),
        "list" => asked(broker, &Request::List { path: path() }),
        "folder" => asked(broker, &Request::MakeFolder { path: path() }),
        "remove" => asked(broker, &Request::Remove { path: path(), what: What::File }),
        "fetch" => asked(
            broker,
            &Request::Fetch(Box::new(Fetch {
                method: "GET".to_owned(),
                url: rest.to_owned(),
                fields: Vec::new(),
                timeout_ms: 5000,
                most: 1000,
            })),
        ),
        // Host and port, and one that it was never given.
        "connect" => connected(broker, rest),
        "hear" => asked(
            broker,
            &Request::Connection {
                number: rest.parse().unwrap_or(0),
                act: OfConnection::Receive { most: 1000 },
            },
        ),
        "prompt" => asked(broker, &prompt(Purpose::Operation)),
        "judge" => asked(broker, &prompt(Purpose::Judgement)),
        // A child that may do everything, whose one act is the rest of the line.
        "child" => child(broker, rest),
        _unknown => "no such act".to_owned(),
    }
}

fn told(answer: &Result<usize, Errno>) -> String {
    answer.map_or_else(word, |_| "ok".to_owned())
}

fn opened(path: &str, flags: i32) -> String {
    told(&call(libc::SYS_openat, [int(libc::AT_FDCWD), leak(path.as_bytes()), flags as usize, 0o600, 0, 0]))
}

fn connected(broker: &mut Broker, place: &str) -> String {
    let Some((host, port)) = place.rsplit_once(':') else { return "no such place".to_owned() };
    let connect = Connect {
        host: host.to_owned(),
        port: port.parse().unwrap_or(0),
        security: Security::Plain,
        timeout_ms: 5000,
    };
    match broker.ask(&Request::Connect(Box::new(connect)), &[]) {
        Ok(Reply::Json(json)) => match serde_json::from_slice(&json) {
            Ok(Connected::Open { .. }) => "open".to_owned(),
            Ok(Connected::Failed { kind, .. }) => kind.name().to_owned(),
            Err(error) => error.to_string(),
        },
        other => answer(other),
    }
}

/// A prompt that says nothing.
fn prompt(purpose: Purpose) -> Request {
    let prompt = Prompt { system: String::new(), most_tokens: 1, purpose, form: Form::Text };
    Request::Prompt(Box::new(prompt))
}

fn asked(broker: &mut Broker, request: &Request) -> String {
    answer(broker.ask(request, &[]))
}

fn answer(reply: Result<Reply, String>) -> String {
    match reply {
        Ok(Reply::Done) => "done".to_owned(),
        Ok(Reply::File(mut file)) => {
            let mut text = String::new();
            file.read_to_string(&mut text).map_or("opened".to_owned(), |_| text.trim_end().to_owned())
        }
        Ok(Reply::Seen(seen)) => if seen.exists { "exists" } else { "nothing" }.to_owned(),
        Ok(Reply::Json(json)) => String::from_utf8_lossy(&json).into_owned(),
        Ok(Reply::Beside { outcome, .. }) => match serde_json::from_slice(&outcome) {
            Ok(Outcome::Answered { .. } | Outcome::Said { .. }) => "answered".to_owned(),
            Ok(Outcome::Offline) => "offline".to_owned(),
            Ok(Outcome::Spent { .. }) => "spent".to_owned(),
            Ok(Outcome::Failed { kind, .. }) => kind.name().to_owned(),
            Err(error) => error.to_string(),
        },
        Ok(Reply::Piece { bytes, .. }) => String::from_utf8_lossy(&bytes).into_owned(),
        Ok(Reply::Refused(refused)) => format!("{:?}", refused.by),
        Err(lost) => lost,
    }
}

fn child(broker: &mut Broker, act: &str) -> String {
    for piece in act.as_bytes().chunks(MOST_PIECE) {
        if let Err(lost) = broker.ask(&Request::Source {}, piece) {
            return lost;
        }
    }
    let child = Child {
        ceiling: Ceiling::everything(),
        profile: Profile::Native,
        env: BTreeMap::new(),
        timeout_ms: 10_000,
        fuel: None,
        cwd: None,
        filename: "child".to_owned(),
    };
    match broker.ask(&Request::RunProgram(Box::new(child)), &[]) {
        Ok(Reply::Json(json)) => match serde_json::from_slice::<Ran>(&json) {
            Ok(ran) => [ran.output, ran.errors].concat().join("; "),
            Err(error) => error.to_string(),
        },
        other => answer(other),
    }
}
