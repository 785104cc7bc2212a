//! What the peer does, act by act. It ends with 0 if all was as the act says.

use crate::peer::{Peer, frames, job, send_with_descriptor};
use policies::{
    broker::{self, Act, Answer, By, How, MOST_MESSAGE, Part, Request, What},
    fetch::{Fetch, Form, Outcome, Prompt, Purpose},
    process::{self, Awaited, Signal, Spawn, Stream, Window},
    wire::{self, EndFrame, Frame},
};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    process::ExitCode,
};

const ENOENT: By = By::Kernel(2);

/// Runs in the jail, and ends as a runtime does: with a last frame.
pub(crate) fn main() -> ExitCode {
    let done = std::panic::catch_unwind(act);
    let exit = i32::from(done.is_err());
    tell(&Frame::End(EndFrame { exit, fuel: 0, heap_peak: 0, trap: None, llm_tokens: 0 }));
    ExitCode::from(u8::from(done.is_err()))
}

fn tell(frame: &Frame) {
    let mut bytes = Vec::new();
    wire::encode(frame, &mut bytes);
    frames().write_all(&bytes).unwrap();
}

fn act() {
    let job = job();
    let words: Vec<&str> = job.iter().map(String::as_str).collect();
    let mut peer = Peer::new();
    match words[..] {
        ["everyday", top] => everyday(&mut peer, top),
        ["escapes", top, outside] => escapes(&mut peer, top, outside),
        ["patterns", top] => patterns(&mut peer, top),
        ["kinds", top] => kinds(&mut peer, top),
        ["kernel"] => kernel(&mut peer),
        ["write only", top] => write_only(&mut peer, top),
        ["nothing", top] => nothing(&mut peer, top),
        ["databases", top] => databases(&mut peer, top),
        ["child", top] => child(&mut peer, top),
        ["child and more"] => {
            peer.send(&Request::RunProgram(Box::new(everything("slow"))));
            peer.send(&Request::Look { path: "/x".into() });
            std::thread::sleep(std::time::Duration::from_secs(20));
        }
        ["processes"] => processes(&mut peer),
        ["a wait and more"] => {
            peer.send(&Request::Await { all: Vec::new(), timeout_ms: 60_000 });
            peer.send(&Request::Look { path: "/x".into() });
            std::thread::sleep(std::time::Duration::from_secs(20));
        }
        ["many entries", top] => many_entries(&mut peer, top),
        ["race", top] => race(&mut peer, top),
        ["breach", how] => breach(&mut peer, how),
        ["flood", top] => {
            for _ in 0..3000 {
                assert_eq!(peer.read(&format!("{top}/../x")), Err(By::Ceiling));
            }
        }
        ["flood of sources"] => loop {
            // Beyond the bound the collected is thrown away, and it begins anew.
            let _told = peer.source(&vec![b'x'; broker::MOST_PIECE]);
        },
        ["flood of files", top] => loop {
            let reply = peer.ask(&Request::Replace { path: format!("{top}/flood") });
            assert!(reply.file.is_some());
        },
        ["flood of frames", what] => flood_of_frames(what),
        ["goodbye"] => {
            // An empty message is the end of the conversation, as an empty read is; nobody is harmed by it.
            assert_eq!(Peer::send_bytes(b"", &[]).unwrap(), 0);
            assert!(Peer::receive().is_none(), "an answer to nothing");
        }
        ["flood without reading"] => loop {
            peer.send(&Request::Look { path: "/x".into() });
        },
        ["speed", top] => speed(&mut peer, top),
        ["fetch", port] => fetch(&mut peer, port),
        ["fetch and more", port] => {
            peer.send(&request(&format!("http://127.0.0.1:{port}/")));
            peer.send(&Request::Look { path: "/x".into() });
            std::thread::sleep(std::time::Duration::from_secs(20));
        }
        _ => panic!("no such act: {words:?}"),
    }
}

fn request(url: &str) -> Request {
    Request::Fetch(Box::new(Fetch {
        method: "GET".into(),
        url: url.into(),
        fields: Vec::new(),
        timeout_ms: 5000,
        most: 100,
    }))
}

/// What a taken-over runtime asks for: its own gate has said nothing.
fn fetch(peer: &mut Peer, port: &str) {
    let granted = format!("http://127.0.0.1:{port}/");
    let by = |peer: &mut Peer, what: &Request| match peer.ask(what).answer {
        Answer::Refused(refused) => refused.by,
        other => panic!("{other:?}"),
    };
    for url in ["http://127.0.0.1:1/", "http://localhost/", "https://other.example/", "http://[::1]/"] {
        assert_eq!(by(peer, &request(url)), By::Ceiling, "{url}");
    }
    for url in ["file:///etc/passwd", "http://127.0.0.1/\r\nHost: b", "http://u@127.0.0.1/", ""] {
        assert_eq!(by(peer, &request(url)), By::Misuse, "{url}");
    }
    for (method, name, value) in [
        ("CONNECT", "X", "y"),
        ("GET / HTTP/1.1\r\n", "X", "y"),
        ("GET", "X", "y\r\nHost: b"),
        ("GET", "Host", "other.example"),
        ("POST", "Content-Length", "0"),
    ] {
        let Request::Fetch(mut fetch) = request(&granted) else { unreachable!() };
        fetch.method = method.into();
        fetch.fields = vec![(name.into(), value.into())];
        assert_eq!(by(peer, &Request::Fetch(fetch)), By::Misuse, "{method} {name}");
    }
    for purpose in [Purpose::Operation, Purpose::Judgement] {
        let prompt = Prompt { system: String::new(), most_tokens: 1, purpose, form: Form::Text };
        assert_eq!(by(peer, &Request::Prompt(Box::new(prompt))), By::Ceiling);
    }
    let reply = peer.ask(&request(&granted));
    assert_eq!(reply.answer, Answer::Beside { bytes: 2 });
    let outcome: Outcome = serde_json::from_slice(&reply.raw).unwrap();
    assert_eq!(outcome, Outcome::Answered { status: 200, fields: Vec::new() });
    let mut body = reply.file.unwrap();
    let mut text = String::new();
    body.read_to_string(&mut text).unwrap();
    assert_eq!(text, "ok");
    assert!(body.write_all(b"x").is_err(), "what was handed in is nobody's to change");
}

fn everyday(peer: &mut Peer, top: &str) {
    let at = |name: &str| format!("{top}/{name}");
    assert_eq!(peer.read(&at("a.txt")).unwrap(), "inside");
    assert_eq!(peer.read("a.txt").unwrap(), "inside", "relative to the caller's folder");
    assert_eq!(peer.read(&at("deep/../a.txt")).unwrap(), "inside");
    assert_eq!(peer.read(&at("none.txt")), Err(ENOENT));
    peer.replace(&at("new.txt"), "one").unwrap();
    peer.replace(&at("new.txt"), "two").unwrap();
    peer.append(&at("new.txt"), "+").unwrap();
    peer.append(&at("made/by/append.txt"), "x").unwrap();
    assert_eq!(peer.read(&at("new.txt")).unwrap(), "two+");
    peer.make_folder(&at("m/n")).unwrap();
    peer.make_folder(&at("m/n")).unwrap();
    assert!(peer.look(&at("m")).unwrap().is_dir);
    assert!(!peer.look(&at("m/none/none")).unwrap().exists);
    assert_eq!(peer.look(&at("a.txt")).unwrap().size, 6);
    let names: Vec<String> = peer.list(&at("made")).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["by"]);
    assert_eq!(peer.remove(&at("m"), What::File), Err(By::Kernel(21)));
    assert_eq!(peer.remove(&at("m"), What::Folder), Err(By::Kernel(39)));
    peer.remove(&at("m/n"), What::Folder).unwrap();
    peer.remove(&at("new.txt"), What::File).unwrap();
    assert_eq!(peer.read(&at("new.txt")), Err(ENOENT));
    assert_eq!(peer.done(&Request::Commit {}), Err(By::Misuse));
    // Begun and left: nothing of it may stay.
    assert!(matches!(peer.ask(&Request::Replace { path: at("left.txt") }).answer, broker::Answer::Opened));
}

/// Granted: `one.db` and the notebook `n`.
fn databases(peer: &mut Peer, top: &str) {
    let mut act = |path: &str, part: Part, act: Act| {
        let path = format!("{top}/{path}");
        match peer.ask(&Request::Database { path, part, act }).answer {
            broker::Answer::Refused(refused) => Err(refused.by),
            other => Ok(other),
        }
    };
    assert_eq!(act("one.db", Part::Main, Act::Write), Err(ENOENT));
    assert_eq!(
        act("one.db", Part::Journal, Act::Make),
        Err(ENOENT),
        "nothing stands beside what isn't there"
    );
    assert_eq!(act("one.db", Part::Main, Act::Make), Ok(broker::Answer::Opened));
    assert_eq!(act("one.db", Part::Journal, Act::Make), Ok(broker::Answer::Opened));
    assert_eq!(act("one.db", Part::Log, Act::Read), Err(ENOENT));
    assert_eq!(act("one.db", Part::Journal, Act::Remove), Ok(broker::Answer::Done));
    assert_eq!(act("one.db", Part::Main, Act::Remove), Err(By::Misuse));
    for (path, part) in [
        ("two.db", Part::Main),
        ("a.txt", Part::Main),
        ("one", Part::Journal),
        ("one.db-journal", Part::Main),
        ("one.db-journal", Part::Journal),
        ("../outside/secret", Part::Main),
        ("one.db/../a.txt", Part::Main),
    ] {
        for how in [Act::Read, Act::Write, Act::Make, Act::Look, Act::Remove] {
            let wanted = if (how, part) == (Act::Remove, Part::Main) { By::Misuse } else { By::Ceiling };
            let got = act(path, part, how);
            assert!(got == Err(By::Ceiling) || got == Err(wanted), "{path}: {got:?}");
        }
    }
    let mut note = |name: &str, part: Part, act: Act| match peer
        .ask(&Request::Notebook { name: name.into(), part, act })
        .answer
    {
        broker::Answer::Refused(refused) => Err(refused.by),
        other => Ok(other),
    };
    assert_eq!(note("n", Part::Main, Act::Make), Ok(broker::Answer::Opened));
    assert_eq!(note("n", Part::Main, Act::Remove), Err(By::Misuse));
    for name in ["m", "../n", "n/../m", "", ".."] {
        assert_eq!(note(name, Part::Main, Act::Make), Err(By::Ceiling), "{name}");
    }
}

fn escapes(peer: &mut Peer, top: &str, outside: &str) {
    let at = |name: &str| format!("{top}/{name}");
    for path in [
        outside.to_owned(),
        at("../outside/secret"),
        at("x/../../outside/secret"),
        "/etc/passwd".into(),
        "../../../../../../etc/passwd".into(),
        at("relative-out"),
        at("absolute-out"),
        at("folder-out/secret"),
        at("folder-out/none"),
        at("out-and-in/a.txt"),
        at("dangling"),
        at("circle"),
        at("magic/etc/passwd"),
    ] {
        assert_eq!(peer.read(&path), Err(By::Ceiling), "{path}");
        assert_eq!(peer.append(&path, "x"), Err(By::Ceiling), "{path}");
        assert_eq!(peer.replace(&path, "x"), Err(By::Ceiling), "{path}");
        assert_eq!(peer.look(&path).map(|_| ()), Err(By::Ceiling), "{path}");
        assert_eq!(peer.list(&path).map(|_| ()), Err(By::Ceiling), "{path}");
        assert_eq!(peer.make_folder(&path), Err(By::Ceiling), "{path}");
    }
    for path in [at("folder-out/secret"), at("../outside/secret")] {
        assert_eq!(peer.remove(&path, What::File), Err(By::Ceiling), "{path}");
    }
    for path in [at("relative-in"), at("absolute-in"), at("folder-in/a.txt"), at("twice")] {
        assert_eq!(peer.read(&path).unwrap(), "inside", "{path}");
    }
    // Written through a link that stays inside: what it leads to is replaced, not the link.
    peer.replace(&at("relative-in"), "changed").unwrap();
    assert_eq!(peer.read(&at("a.txt")).unwrap(), "changed");
    peer.append(&at("folder-in/new.txt"), "n").unwrap();
    assert_eq!(peer.read(&at("deep/new.txt")).unwrap(), "n");
    // A link is an entry of its own: removing it touches nothing else.
    peer.remove(&at("relative-out"), What::File).unwrap();
    assert_eq!(peer.read(&at("nul\u{1}")), Err(By::Misuse));
}

fn patterns(peer: &mut Peer, top: &str) {
    let at = |name: &str| format!("{top}/{name}");
    assert_eq!(peer.read(&at("pub_a.txt")).unwrap(), "a");
    assert_eq!(peer.read(&at("private.txt")), Err(By::Ceiling));
    assert_eq!(peer.read(&at("pub_link")), Err(By::Ceiling), "a link out of the pattern, in the same folder");
    assert_eq!(peer.read(&at("pub_fine")).unwrap(), "a", "a link within the pattern");
    assert_eq!(peer.list(&at("")), Err(By::Ceiling));
    assert_eq!(peer.read(&at("one/exact.txt")).unwrap(), "e");
    assert_eq!(peer.read(&at("one/other.txt")), Err(By::Ceiling));
    peer.replace(&at("later/file.txt"), "made").unwrap();
    assert_eq!(peer.read(&at("later/file.txt")).unwrap(), "made");
    assert_eq!(peer.replace(&at("later/other.txt"), "made"), Err(By::Ceiling));
    assert_eq!(peer.read(&at("named-link")).unwrap(), "n", "the host named the link itself");
}

fn kinds(peer: &mut Peer, top: &str) {
    for name in ["fifo", "socket", "null", "folder"] {
        let path = format!("{top}/{name}");
        assert_eq!(peer.read(&path), Err(By::Misuse), "{name}");
        assert_eq!(peer.append(&path, "x"), Err(By::Misuse), "{name}");
        assert_eq!(peer.replace(&path, "x"), Err(By::Misuse), "{name}");
        peer.look(&path).unwrap();
    }
    assert_eq!(peer.list(&format!("{top}/a.txt")), Err(By::Kernel(20)));
    assert_eq!(peer.read(&format!("{top}/a.txt/b")), Err(By::Kernel(20)));
}

fn kernel(peer: &mut Peer) {
    for path in
        ["/proc/self/mem", "/proc/1/environ", "/proc/self/root/etc/passwd", "/sys/kernel/notes", "/dev/null"]
    {
        assert_eq!(peer.read(path), Err(By::Ceiling), "{path}");
        assert_eq!(peer.append(path, "x"), Err(By::Ceiling), "{path}");
        assert_eq!(peer.remove(path, What::File), Err(By::Ceiling), "{path}");
    }
    assert!(peer.read("/etc/passwd").is_ok(), "all else is granted");
}

fn write_only(peer: &mut Peer, top: &str) {
    let path = format!("{top}/a.txt");
    assert_eq!(peer.read(&path), Err(By::Ceiling));
    assert_eq!(peer.look(&path).map(|_| ()), Err(By::Ceiling));
    peer.append(&path, "x").unwrap();
    let reply = peer.ask(&Request::Open { path, how: How::Append });
    let mut byte = [0];
    assert!(
        std::io::Read::read(&mut reply.file.unwrap(), &mut byte).is_err(),
        "the descriptor can't be read"
    );
}

fn nothing(peer: &mut Peer, top: &str) {
    let path = format!("{top}/a.txt");
    assert_eq!(peer.read(&path), Err(By::Ceiling));
    assert_eq!(peer.replace(&path, "x"), Err(By::Ceiling));
    assert_eq!(peer.remove(&path, What::File), Err(By::Ceiling));
    assert_eq!(peer.done(&Request::RunProgram(Box::new(everything("x")))), Err(By::Ceiling));
}

/// A process is started where `exec` is granted and not elsewhere, and nobody has one that nobody started.
fn processes(peer: &mut Peer) {
    let spawn = |word: &str| {
        let command = broker::Command {
            argv: vec![word.to_owned()],
            ceiling: policies::ceiling::Ceiling::everything(),
            env: BTreeMap::new(),
            timeout_ms: u64::MAX,
            cwd: None,
            most_output: u64::MAX,
        };
        Request::Spawn(Box::new(Spawn { command, terminal: None }))
    };
    assert_eq!(peer.done(&spawn("other")), Err(By::Ceiling));
    // The one in the launcher's place says what it was told, and starts nothing.
    for _ in 0..200 {
        assert_eq!(peer.done(&spawn("granted")), Err(By::Misuse));
    }
    for number in [0, 1, 7, u32::MAX] {
        for act in [
            process::Act::EndInput,
            process::Act::Read(Stream::Output),
            process::Act::Look,
            process::Act::Signal(Signal::Kill),
            process::Act::Resize(Window { columns: 0, rows: 0 }),
            process::Act::Forget,
        ] {
            assert_eq!(peer.done(&Request::Process { number, act }), Err(By::Misuse), "{act:?}");
        }
    }
    // What nobody knows is there at once, and a wait for nothing ends with its time.
    let all = vec![Awaited { number: 7, what: process::What::End }; 256];
    let reply = peer.ask(&Request::Await { all, timeout_ms: u64::MAX });
    let places: Vec<usize> = serde_json::from_slice(&reply.raw).unwrap();
    assert_eq!(places.len(), 256);
    let reply = peer.ask(&Request::Await { all: Vec::new(), timeout_ms: 1 });
    assert_eq!(reply.raw, b"[]");
}

/// A child that may do all that there is.
fn everything(filename: &str) -> broker::Child {
    broker::Child {
        ceiling: policies::ceiling::Ceiling::everything(),
        profile: broker::Profile::Native,
        env: BTreeMap::new(),
        timeout_ms: 60_000,
        fuel: None,
        cwd: None,
        filename: filename.to_owned(),
    }
}

fn child(peer: &mut Peer, top: &str) {
    let run = |peer: &mut Peer, child: broker::Child| {
        let reply = peer.ask(&Request::RunProgram(Box::new(child)));
        match reply.answer {
            broker::Answer::Inline => Ok(serde_json::from_slice::<broker::Ran>(&reply.raw).unwrap().output),
            broker::Answer::Refused(refused) => Err(refused.by),
            other => panic!("not an answer to this: {other:?}"),
        }
    };
    let told = run(peer, everything("x")).unwrap();
    assert_eq!(&told[..4], ["stdout,sandbox_run", "Pure", "1", "0"].map(str::to_owned));
    let grant = |scope: &str| {
        let grants = policies::ceiling::Ceiling::parse(&format!("file.read={scope}")).unwrap();
        broker::Child { ceiling: grants, ..everything("x") }
    };
    let inside = format!("file.read={top}/deep/*");
    assert_eq!(run(peer, grant("deep/*")).unwrap()[0], inside, "from the caller's folder");
    assert_eq!(run(peer, grant(&format!("{top}/../*"))).unwrap()[0], "none");
    let elsewhere = broker::Child { cwd: Some("..".into()), ..grant("deep/*") };
    let told = run(peer, elsewhere).unwrap();
    assert_eq!((told[0].as_str(), told[5].as_str()), (inside.as_str(), top.rsplit_once('/').unwrap().0));
    for (name, value) in [("LD_PRELOAD", "x"), ("A=B", "x"), ("", "x"), ("A", "nul\0")] {
        let env = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert_eq!(run(peer, broker::Child { env, ..everything("x") }), Err(By::Misuse), "{name}");
    }
    assert_eq!(run(peer, broker::Child { cwd: Some("none".into()), ..everything("x") }), Err(By::Misuse));
    let piece = vec![b' '; broker::MOST_PIECE];
    let mut sent = 0;
    while sent + piece.len() <= broker::MOST_SOURCE {
        assert_eq!(peer.source(&piece), Ok(()));
        sent += piece.len();
    }
    assert_eq!(peer.source(&piece), Err(By::Limit));
    assert_eq!(peer.source(b"print(1)"), Ok(()), "what was too long is gone");
    assert_eq!(run(peer, everything("x")).unwrap()[3], "8");
}

fn many_entries(peer: &mut Peer, top: &str) {
    assert_eq!(peer.list(&format!("{top}/many")).unwrap().len(), 5000);
    assert_eq!(peer.list(&format!("{top}/more")), Err(By::Limit));
}

/// Opens while the folder is swapped for a link that leads out, until the swapper is done.
fn race(peer: &mut Peer, top: &str) {
    let (mut inside, mut denied, mut rounds) = (0_u32, 0_u32, 0_u32);
    loop {
        match peer.read(&format!("{top}/x/secret")) {
            Ok(text) if text == "inside" => inside += 1,
            Ok(text) => panic!("read from outside: {text}"),
            Err(_) => denied += 1,
        }
        let _made = peer.append(&format!("{top}/x/made"), "m");
        let _made = peer.replace(&format!("{top}/x/replaced"), "m");
        let _made = peer.make_folder(&format!("{top}/x/folder"));
        let _gone = peer.remove(&format!("{top}/x/victim"), What::File);
        rounds += 1;
        if rounds % 16 == 0 && peer.look(&format!("{top}/done")).unwrap().exists {
            break;
        }
    }
    assert!(inside > 0 && denied > 0, "{inside} inside, {denied} denied");
}

fn breach(peer: &mut Peer, how: &str) {
    // Something right first, so that the breach is all that is wrong.
    let look = Request::Look { path: "/x".into() };
    assert_eq!(peer.look("/x").map(|_| ()), Err(By::Ceiling));
    let right = |id| broker::encode(id, &look, b"").unwrap();
    match how {
        "malformed" => sent(Peer::send_bytes(b"\x05\0\0\0hello", &[])),
        "short" => sent(Peer::send_bytes(b"\x05", &[])),
        "length" => sent(Peer::send_bytes(b"\xff\xff\xff\xffx", &[])),
        "oversized" => sent(Peer::send_bytes(&vec![b' '; MOST_MESSAGE + 1], &[])),
        "much oversized" => sent(Peer::send_bytes(&vec![b' '; MOST_MESSAGE * 2], &[])),
        "again" => sent(Peer::send_bytes(&right(1), &[])),
        "ahead" => sent(Peer::send_bytes(&right(9), &[])),
        "path" => {
            let path = "a".repeat(broker::MOST_PATH + 1);
            let long = broker::encode(2, &Request::Look { path }, b"").unwrap();
            let _sent = Peer::send_bytes(&long, &[]);
        }
        "deep" => {
            let head = "[".repeat(20_000);
            let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
            bytes.extend(head.bytes());
            let _sent = Peer::send_bytes(&bytes, &[]);
        }
        "answer" => {
            let answer = broker::encode(2, &broker::Answer::Done, b"").unwrap();
            let _sent = Peer::send_bytes(&answer, &[]);
        }
        "descriptor" => send_with_descriptor(&right(2)),
        // The channel's own end, so that it would keep itself alive; and as many as a message can carry.
        "own end" => sent(Peer::send_bytes(&right(2), &[broker::DESCRIPTOR])),
        "many descriptors" => sent(Peer::send_bytes(&right(2), &[1; 253])),
        "descriptor beside nothing" => sent(Peer::send_bytes(b"", &[1])),
        "later child" => {
            let source = broker::encode(3, &Request::Source {}, b"x").unwrap();
            sent(Peer::send_bytes(&source, &[]));
        }
        "tail" => sent(Peer::send_bytes(&broker::encode(2, &look, b"tail").unwrap(), &[])),
        _ => panic!("no such breach: {how}"),
    }
    // It is ended here, whatever it does.
    std::thread::sleep(std::time::Duration::from_secs(20));
}

/// Frames without an end: what they say is bounded, and what they claim is never set aside.
fn flood_of_frames(what: &str) {
    let long = "x".repeat(900_000);
    let entry = |target: String| {
        Frame::Audit(policies::audit::Entry {
            ts: 0.0,
            context: String::new(),
            capability: String::new(),
            granted: true,
            source: String::new(),
            reason: String::new(),
            origin: policies::audit::Origin::Program,
            file: None,
            line: None,
            seq: 0,
            layer: policies::layer::Layer::Gate,
            target,
        })
    };
    loop {
        match what {
            "entries" => tell(&entry(String::new())),
            "long entries" => tell(&entry(long.clone())),
            // Kinds 4 and 5 with as many bytes as their head may claim, of which the parser makes the most.
            "lists" => {
                let list = "\"\",".repeat((wire::MAX_JSON - 400) / 3);
                let head = r#"{"text":"","message":"","category":"","file":null,"line":null,"column":null,"source":null,"denied":false,"stack":["#;
                let json = format!("{head}{list}\"\"]}}");
                let mut bytes = vec![4];
                bytes.extend((json.len() as u32).to_le_bytes());
                bytes.extend(json.bytes());
                frames().write_all(&bytes).unwrap();
            }
            _ => panic!("no such flood: {what}"),
        }
    }
}

/// The supervisor may be faster than the call's return: then there is nobody left to send to.
fn sent(_sent: nix::Result<usize>) {}

fn speed(peer: &mut Peer, top: &str) {
    let path = format!("{top}/a.txt");
    let mut times: Vec<std::time::Duration> = (0..2000)
        .map(|_| {
            let start = std::time::Instant::now();
            let reply = peer.ask(&Request::Open { path: path.clone(), how: How::Read });
            let time = start.elapsed();
            assert!(reply.file.is_some());
            time
        })
        .collect();
    times.sort();
    tell(&Frame::Print(times[times.len() / 2].as_nanos().to_string()));
}
