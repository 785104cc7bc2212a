use super::*;
use crate::{ceiling::Ceiling, connection, fetch::LONGEST_MS, process};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn open(path: &str) -> Request {
    Request::Open { path: path.to_owned(), how: How::Read }
}

fn framed(head: &str, raw: &[u8]) -> Vec<u8> {
    let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(head.as_bytes());
    bytes.extend_from_slice(raw);
    bytes
}

#[test]
fn a_request_has_this_form() {
    let bytes = encode(7, &open("/a"), b"").unwrap();
    assert_eq!(&bytes[4..], br#"{"id":7,"is":{"open":{"path":"/a","how":"read"}}}"#);
    assert_eq!(request(&bytes).unwrap().what, open("/a"));
}

#[test]
fn what_is_no_message_is_a_breach() {
    for (bytes, breach) in [
        (vec![], Breach::Head),
        (vec![1, 0, 0], Breach::Head),
        (vec![255; 8], Breach::Head),
        (framed("", b"").into_iter().chain([0]).collect(), Breach::Unreadable(String::new())),
        (vec![b'x'; MOST_MESSAGE + 1], Breach::TooLong),
        (framed(r#"{"id":1,"is":{"commit":{}}}"#, b"x"), Breach::Bound("raw bytes")),
        (framed(r#"{"id":1,"is":{"commit":{"x":1}}}"#, b""), Breach::Unreadable(String::new())),
        (framed(r#"{"id":1,"is":{"commit":{}},"more":1}"#, b""), Breach::Unreadable(String::new())),
        (framed(r#"{"id":4294967296,"is":{"commit":{}}}"#, b""), Breach::Unreadable(String::new())),
        (framed(&"[".repeat(40_000), b""), Breach::Unreadable(String::new())),
    ] {
        let got = request(&bytes).unwrap_err();
        assert_eq!(std::mem::discriminant(&got), std::mem::discriminant(&breach), "{got}");
    }
}

#[test]
fn bounds_are_exact() {
    let path = |length: usize| encode(1, &open(&"a".repeat(length)), b"").unwrap();
    assert!(request(&path(MOST_PATH)).is_ok());
    assert_eq!(request(&path(MOST_PATH + 1)), Err(Breach::Bound("a path")));
    let piece = |length| encode(1, &Request::Source {}, &vec![0; length]);
    assert!(request(&piece(MOST_PIECE).unwrap()).is_ok());
    assert_eq!(piece(MOST_MESSAGE), Err(Breach::TooLong));
}

#[test]
fn what_is_asked_of_processes_is_bounded() {
    let process = |act| encode(1, &Request::Process { number: 1, act }, b"x").unwrap();
    assert!(request(&process(process::Act::Feed)).is_ok());
    assert_eq!(request(&process(process::Act::Look)), Err(Breach::Bound("raw bytes")));
    let wait = |count| {
        let all = vec![process::Awaited { number: 1, what: process::What::End }; count];
        encode(1, &Request::Await { all, timeout_ms: 1 }, b"").unwrap()
    };
    assert!(request(&wait(process::MOST_AWAITED)).is_ok());
    assert_eq!(request(&wait(process::MOST_AWAITED + 1)), Err(Breach::Bound("the number of handles")));
    let spawn = |words: usize| {
        let command = Command {
            argv: vec!["x".to_owned(); words],
            ceiling: Ceiling::sandbox(),
            env: BTreeMap::new(),
            timeout_ms: 1,
            cwd: None,
            most_output: 0,
        };
        let spawn = process::Spawn { command, terminal: None };
        encode(1, &Request::Spawn(Box::new(spawn)), b"").unwrap()
    };
    assert!(request(&spawn(MOST_WORDS)).is_ok());
    assert_eq!(request(&spawn(MOST_WORDS + 1)), Err(Breach::Bound("the number of words")));
}

#[test]
fn what_is_asked_of_connections_is_bounded() {
    let of = |act| encode(1, &Request::Connection { number: 1, act }, b"x").unwrap();
    assert!(request(&of(connection::Act::Send)).is_ok());
    for act in [connection::Act::Close, connection::Act::EndSending, connection::Act::Receive { most: 1 }] {
        assert_eq!(request(&of(act)), Err(Breach::Bound("raw bytes")));
    }
    let connect = |length: usize, timeout_ms| {
        let security = connection::Security::Plain;
        let connect = connection::Connect { host: "a".repeat(length), port: 1, security, timeout_ms };
        encode(1, &Request::Connect(Box::new(connect)), b"").unwrap()
    };
    assert!(request(&connect(512, LONGEST_MS)).is_ok());
    assert_eq!(request(&connect(513, 1)), Err(Breach::Bound("a host")));
    assert_eq!(request(&connect(1, LONGEST_MS + 1)), Err(Breach::Bound("the time of a connection")));
}

#[test]
fn steering_names_are_known() {
    for (name, steering) in [
        ("LD_PRELOAD", true),
        ("DYLD_X", true),
        ("SYNSEMA_AUDIT", true),
        ("SYNSEMA_LLM_MODEL", false),
        ("LDX", false),
    ] {
        assert_eq!(steers(name), steering, "{name}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _read = request(&bytes);
        let _read = answer(&bytes);
    }

    #[test]
    fn changed_messages_are_read_or_refused(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let child = Child {
            ceiling: Ceiling::sandbox(),
            profile: Profile::Pure,
            env: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
            timeout_ms: 1000,
            fuel: Some(7),
            cwd: None,
            filename: "<program>".to_owned(),
        };
        let mut bytes = encode(3, &Request::RunProgram(Box::new(child)), b"").unwrap();
        let length = bytes.len();
        bytes[at.index(length)] = byte;
        let _read = request(&bytes);
        let _read = request(&bytes[..cut.index(length)]);
    }

    #[test]
    fn messages_come_back(id in any::<u32>(), path in "\\PC{1,200}", raw in prop::collection::vec(any::<u8>(), 0..100)) {
        let asked = Request::Remove { path, what: What::Folder };
        let bytes = encode(id, &asked, b"").unwrap();
        prop_assert_eq!(request(&bytes).unwrap(), Message { id, what: asked, raw: &[] });
        let told = Answer::Refused(Refused { by: By::Kernel(13), why: "x".to_owned() });
        let bytes = encode(id, &told, &raw).unwrap();
        prop_assert_eq!(answer(&bytes).unwrap(), Message { id, what: told, raw: &raw });
    }
}
