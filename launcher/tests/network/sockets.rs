//! `tcp_*` and `ws_*`: each refusal beside the connection that is granted, and peers that mean harm.

use crate::{
    program::{Left, synsema},
    server::{Identity, silent},
};
use rustls::{ServerConnection, StreamOwned};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

/// A server that gives each connection to a function.
pub(crate) fn server(serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    port
}

/// One that sends back each line with a word before it, until there are no more.
fn echo() -> u16 {
    server(|stream| {
        let mut to = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            // In one piece: what comes in two may be received so.
            if to.write_all(format!("got {line}\n").as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn under(ceiling: &str, program: &str) -> Left {
    synsema(program).ceiling(ceiling).run()
}

#[test]
fn a_granted_connection_carries_bytes_and_another_one_is_denied() {
    let port = echo();
    let at = format!("127.0.0.1:{port}");
    let program = format!(
        r#"require net("{at}")
let c be tcp_connect("127.0.0.1", {port})
print(type_of(c), c, c.peer == "{at}", c == c)
print(tcp_send(c, "one\n"), tcp_recv(c))
print(tcp_send(c, bytes("two\n")), decode(tcp_recv(c, 4)), decode(tcp_recv(c)))
tcp_close_send(c)
print(tcp_recv(c), tcp_recv(c))
try
    tcp_send(c, "x")
recover e
    print(e)
print(tcp_close(c), tcp_close(c))
try
    tcp_recv(c)
recover e
    print(e)
"#
    );
    let left = under(&format!("net={at}"), &program);
    assert_eq!(
        left.out(),
        format!(
            "connection connection({at}) true true\n4 bytes(676f74206f6e650a)\n4 got  two\n\nnothing nothing\n\
             tcp_send: {at}: no more can be sent on it\ntrue false\ntcp_recv: this connection is closed"
        )
    );
    let entries = left.audit("network");
    assert_eq!(entries.len(), 2, "its beginning and its end: {entries:?}");
    assert_eq!(entries[0], format!("+{at} | connected to {at}"));
    assert!(entries[1].contains("8 bytes there, 16 back") && entries[1].ends_with("closed"), "{entries:?}");
    // The gate: required, but above the ceiling; and not required at all.
    let left = under("net=127.0.0.1:1", &program);
    let denied = format!("net(\"{at}\") — declared but above the host ceiling");
    assert!(left.error().contains(&denied), "{}", left.error());
    assert!(left.audit("network").is_empty());
    let left = under(&format!("net={at}"), &format!("tcp_connect(\"127.0.0.1\", {port})"));
    assert!(left.error().contains("missing capability"), "{}", left.error());
    let left = synsema(&program).flag("--profile").flag("pure").run();
    assert!(
        left.error().contains("tcp_connect: not available in the pure profile — this run has no sockets")
    );
}

#[test]
fn a_handle_gives_no_right_where_the_program_has_none() {
    let port = echo();
    let program = format!(
        r#"require net("127.0.0.1:{port}")
agent Other
    try
        tcp_send(c, "x\n")
    recover err
        share err as "told"
let c be tcp_connect("127.0.0.1", {port})
each use in [() => tcp_send(c, "x\n"), () => tcp_recv(c, timeout = 0), () => select([c], 0), () => tcp_close_send(c), () => tcp_close(c), () => tcp_connect("127.0.0.1", {port})]
    try
        sandbox use()
        print("used")
    recover err
        print(contains(err, "Capability not granted: net"))
spawn Other
wait_for "never" timeout 0.2
observe "told" as told
print(contains(told, "Capability not granted: net"))
tcp_send(c, "mine\n")
print(decode(tcp_recv(c)))
"#
    );
    let left = under(&format!("net=127.0.0.1:{port}"), &program);
    assert_eq!(left.out(), format!("{}got mine\n", "true\n".repeat(7)));
}

#[test]
fn a_name_leads_to_no_private_address() {
    let port = echo();
    let program = |host: &str| {
        format!(
            "require net(\"{host}\")\ntry\n    tcp_close(tcp_connect(\"{host}\", {port}))\n    print(\"reached\")\n\
             recover e\n    print(e)\n"
        )
    };
    let left = under("net=localhost", &program("localhost"));
    assert!(left.out().contains("refused: ") && left.out().contains("is not public"), "{}", left.out());
    let entries = left.audit("network");
    assert!(entries.len() == 1 && entries[0].starts_with("-localhost:"), "{entries:?}");
    // Its twin: the address is named as well.
    assert_eq!(under("net=localhost,net=127.0.0.1", &program("localhost")).out(), "reached");
    // Nobody listens: that is no refusal of ours.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = program("127.0.0.1").replace(&port.to_string(), &closed.to_string());
    let left = under("net=127.0.0.1", &text);
    assert!(left.out().contains("refused: ") && left.out().contains("connection refused"), "{}", left.out());
    assert!(left.audit("network")[0].starts_with("+127.0.0.1:"), "{:?}", left.audit("network"));
}

#[test]
fn waits_end_by_the_clock_and_nothing_is_lost() {
    let (quiet, listener) = silent();
    let port = echo();
    let program = format!(
        r#"require net("127.0.0.1")
let c be tcp_connect("127.0.0.1", {port})
let q be tcp_connect("127.0.0.1", {quiet})
print(tcp_recv(c, timeout = 0.1), select([c, q], 0), select([q], 0.1))
tcp_send(c, "late\n")
print(select([q, c]) == [c], decode(tcp_recv(c)), select([c], 0))
let big be "line\n"
while length(big) < 1000000
    set big to big + big
let sent be length(big)
while sent == length(big)
    set sent to tcp_send(q, big, 0.3)
print("full")
"#
    );
    let left = under("net=127.0.0.1", &program);
    assert_eq!(left.out(), "bytes() [] []\ntrue got late\n []\nfull");
    drop(listener);
}

#[test]
fn others_go_on_while_one_waits() {
    let port = echo();
    let program = format!(
        r#"require net("127.0.0.1:{port}")
agent Asker
    require net("127.0.0.1:{port}")
    print(decode(tcp_recv(c, timeout = 20)))
let c be tcp_connect("127.0.0.1", {port})
spawn Asker
wait_for "never" timeout 0.1
print("goes on")
tcp_send(c, "x\n")
"#
    );
    let left = under(&format!("net=127.0.0.1:{port}"), &program);
    assert_eq!(left.out(), "goes on\n[Asker] got x\n");
}

#[test]
fn what_was_sent_last_arrives_and_what_ends_is_told() {
    let (ours, theirs) = std::sync::mpsc::channel();
    let port = server(move |mut stream| {
        let mut all = Vec::new();
        let _read = stream.read_to_end(&mut all);
        let _told = ours.send(all.len());
    });
    // The program ends at once, without closing anything.
    let program = format!(
        "require net(\"127.0.0.1\")\nlet c be tcp_connect(\"127.0.0.1\", {port})\nlet s be \"0123456789\\n\"\n\
         each i in range(13)\n    set s to s + s\nprint(tcp_send(c, s))\n"
    );
    let left = under("net=127.0.0.1", &program);
    assert_eq!(left.out(), (11 << 13).to_string());
    assert_eq!(theirs.recv().unwrap(), 11 << 13);
    assert!(
        left.audit("network")[1].contains(&format!("{} bytes there", 11 << 13)),
        "{:?}",
        left.audit("network")
    );
    // The other side sends and goes.
    let port = server(|mut stream| {
        let _sent = stream.write_all(b"bye");
    });
    let program = format!(
        "require net(\"127.0.0.1\")\nlet c be tcp_connect(\"127.0.0.1\", {port})\nprint(decode(tcp_recv(c)), tcp_recv(c), tcp_recv(c))\n"
    );
    assert_eq!(under("net=127.0.0.1", &program).out(), "bye nothing nothing");
}

#[test]
fn a_program_that_is_killed_leaves_no_connection() {
    let (ours, theirs) = std::sync::mpsc::channel();
    let port = server(move |mut stream| {
        let _ended = stream.read_to_end(&mut Vec::new());
        let _told = ours.send(());
    });
    let program = format!(
        "require net(\"127.0.0.1\")\nlet c be tcp_connect(\"127.0.0.1\", {port})\nprint(tcp_recv(c, timeout = 600))\n"
    );
    let left = synsema(&program).ceiling("net=127.0.0.1").wall("1s").run();
    assert!(!left.report.ok);
    theirs.recv().unwrap();
    assert_eq!(left.audit("network").len(), 2, "{:?}", left.audit("network"));
}

#[test]
fn what_is_said_first_is_looked_at_as_for_foreign_programs() {
    let port = echo();
    let at = format!("127.0.0.1:{port}");
    let program = |said: &str| {
        format!(
            "require net(\"{at}\")\nlet c be tcp_connect(\"127.0.0.1\", {port})\ntcp_send(c, {said})\ntry\n    \
             print(decode(tcp_recv(c)))\nrecover e\n    print(e)\n"
        )
    };
    let request = |host: &str| format!("\"GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n\"");
    assert!(under(&format!("net={at}"), &program(&request(&at))).out().starts_with("got GET"));
    let left = under(&format!("net={at}"), &program(&request("other.example.org")));
    assert!(left.out().contains("for other.example.org, which the grant doesn't cover"), "{}", left.out());
    let entries = left.audit("network");
    assert!(entries[1].starts_with('-') && entries[1].contains("other.example.org"), "{entries:?}");
}

#[test]
fn a_flood_of_connections_meets_its_bound() {
    let (port, listener) = silent();
    let program = format!(
        r#"require net("127.0.0.1")
let all be []
try
    while true
        set all to append(all, tcp_connect("127.0.0.1", {port}))
recover e
    print(length(all), e)
each c in all
    tcp_close(c)
each i in range(40)
    tcp_close(tcp_connect("127.0.0.1", {port}))
print("more")
"#
    );
    let left = under("net=127.0.0.1", &program);
    let at = format!("127.0.0.1:{port}");
    assert_eq!(left.out(), format!("32 tcp_connect: {at}: 32 connections are open already: close one\nmore"));
    drop(listener);
}

#[test]
fn tls_is_checked_as_for_requests() {
    let identity = Identity::of(&["127.0.0.1"]);
    let config = identity.config();
    let port = server(move |stream| {
        let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
        let mut five = [0; 5];
        if stream.read_exact(&mut five).is_ok() {
            let _sent = stream.write_all(&five);
            if five != *b"cut!\n" {
                stream.conn.send_close_notify();
            }
            let _flushed = stream.flush();
        }
    });
    let program = |said: &str| {
        format!(
            "require net(\"127.0.0.1\")\nlet c be tcp_connect(\"127.0.0.1\", {port}, tls = true)\n\
             print(tcp_send(c, \"{said}\\n\"), decode(tcp_recv(c)))\ntry\n    print(tcp_recv(c))\nrecover e\n    print(e)\n"
        )
    };
    let given = |program: &str| synsema(program).ceiling("net=127.0.0.1");
    let left = given(&program("ping")).variable("SSL_CERT_FILE", identity.roots()).run();
    assert_eq!(left.out(), "5 ping\n\nnothing");
    let left = given(&program("cut!")).variable("SSL_CERT_FILE", identity.roots()).run();
    assert!(left.out().contains("without an end of its TLS"), "{}", left.out());
    let other = Identity::of(&["127.0.0.1"]);
    let left = given(&program("ping")).variable("SSL_CERT_FILE", other.roots()).run();
    assert!(left.error().contains("tls: "), "{}", left.error());
}

/// Reads a greeting; its key.
fn greeting(from: &mut impl BufRead) -> Option<(String, String)> {
    let (mut key, mut all) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.strip_prefix("Sec-WebSocket-Key: ") {
            value.trim().clone_into(&mut key);
        }
        if line.trim().is_empty() {
            return Some((key, all));
        }
        all.push_str(&line);
    }
}

fn accepted(key: &str) -> String {
    use sha1::{Digest, Sha1};
    let hash = Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes());
    data_encoding::BASE64.encode(&hash)
}

/// The content of one frame of a client's, and its first byte.
fn frame(from: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    from.read_exact(&mut head).ok()?;
    assert!(head[1] & 0x80 != 0, "a client masks");
    let length = match head[1] & 0x7f {
        126 => {
            let mut two = [0; 2];
            from.read_exact(&mut two).ok()?;
            usize::from(u16::from_be_bytes(two))
        }
        127 => {
            let mut eight = [0; 8];
            from.read_exact(&mut eight).ok()?;
            usize::try_from(u64::from_be_bytes(eight)).unwrap()
        }
        short => usize::from(short),
    };
    let mut mask = [0; 4];
    from.read_exact(&mut mask).ok()?;
    let mut content = vec![0; length];
    from.read_exact(&mut content).ok()?;
    content.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Some((head[0], content))
}

/// Speaks WebSocket as a server, far enough for a test: greets with these fields, then does as it is told.
fn websockets(
    fields: &'static str,
    then: impl Fn(&mut BufReader<TcpStream>, &mut TcpStream) + Send + Sync + Clone + 'static,
) -> u16 {
    server(move |stream| {
        let mut to = stream.try_clone().unwrap();
        let mut from = BufReader::new(stream);
        let Some((key, _)) = greeting(&mut from) else { return };
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
        let accept = accepted(&key);
        if write!(to, "{head}{fields}Sec-WebSocket-Accept: {accept}\r\n\r\n").is_ok() {
            then(&mut from, &mut to);
        }
    })
}

#[test]
fn a_websocket_greets_speaks_and_closes() {
    let port = websockets("Sec-WebSocket-Protocol: chat\r\n", |from, to| {
        while let Some((first, content)) = frame(from) {
            match (first, content.as_slice()) {
                (0x81, b"close") => {
                    // In one piece with the last message, a ping between the parts of it.
                    let _sent =
                        to.write_all(b"\x01\x02he\x89\x01?\x80\x03llo\x82\x02\x00\xff\x88\x06\x0b\xb8done");
                }
                (0x81 | 0x82, _) => {
                    let length = u64::try_from(content.len()).unwrap();
                    let _sent = to
                        .write_all(&[first, 127])
                        .and_then(|()| to.write_all(&length.to_be_bytes()))
                        .and_then(|()| to.write_all(&content));
                }
                (0x8a, b"?") | (0x88, b"\x0b\xb8") => {}
                other => panic!("{other:?}"),
            }
        }
    });
    let at = format!("127.0.0.1:{port}");
    let program = format!(
        r#"require net("{at}")
let w be ws_connect("ws://{at}/chat?x=1", {{"X-Key": as_secret("k-very-sealed"), "Sec-WebSocket-Protocol": "a, chat"}})
print(type_of(w), w, w.protocol, ws_status(w).state)
print(ws_send(w, "héllo"), ws_recv(w))
print(ws_send(w, bytes([0, 1])), ws_recv(w).data, ws_recv(w, 0.1))
let big be "0123456789abcdef"
while length(big) < 2000000
    set big to big + big
print(ws_send(w, big), ws_recv(w).data == big)
ws_send(w, "close")
print(select([w]) == [w], ws_recv(w), ws_recv(w), ws_recv(w), ws_recv(w), ws_status(w))
try
    ws_send(w, "x")
recover e
    print(e)
print(ws_close(w), ws_close(w), ws_status(w).state)
"#
    );
    let left = under(&format!("net={at}"), &program);
    assert_eq!(
        left.out(),
        format!(
            "websocket websocket({at}) chat open\n6 {{kind: \"text\", data: \"héllo\"}}\n2 bytes(0001) {{kind: nothing, data: \"\"}}\n\
             2097152 true\ntrue {{kind: \"text\", data: \"hello\"}} {{kind: \"binary\", data: bytes(00ff)}} nothing nothing \
             {{state: \"ended\", code: 3000, reason: \"done\"}}\n\
             ws_send: {at}: the other side has closed it\ntrue false closed"
        )
    );
    assert!(!left.text.contains("k-very-sealed"), "{}", left.text);
    let left = under("net=127.0.0.1:1", &program);
    assert!(left.error().contains("above the host ceiling"), "{}", left.error());
    let left = synsema(&program).flag("--profile").flag("pure").run();
    assert!(left.error().contains("ws_connect: not available in the pure profile"), "{}", left.error());
}

#[test]
fn a_greeting_that_is_wrong_is_no_websocket() {
    let answers = |text: &'static str| {
        server(move |stream| {
            let mut to = stream.try_clone().unwrap();
            if greeting(&mut BufReader::new(stream)).is_some() {
                let _sent = to.write_all(text.as_bytes());
            }
        })
    };
    let (quiet, _listener) = silent();
    let long = server(|stream| {
        let mut to = stream.try_clone().unwrap();
        let _greeted = greeting(&mut BufReader::new(stream));
        let _sent = to.write_all(b"HTTP/1.1 101 x\r\n");
        while to.write_all(b"X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").is_ok() {}
    });
    for (port, why) in [
        (answers("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), "status 200"),
        (answers("HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\n\r\n"), "redirects are not followed"),
        (
            answers(
                "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n",
            ),
            "doesn't fit to ours",
        ),
        (websockets("Sec-WebSocket-Extensions: permessage-deflate\r\n", |_, _| ()), "an extension"),
        (websockets("Sec-WebSocket-Protocol: x\r\n", |_, _| ()), "a protocol that nobody asked for"),
        (answers("SSH-2.0-x\r\n"), "no HTTP"),
        (answers(""), "closed the connection in place of a greeting"),
        (long, "the answer is no HTTP"),
        (quiet, "timeout"),
    ] {
        let program =
            format!("require net(\"127.0.0.1\")\nws_connect(\"ws://127.0.0.1:{port}/\", timeout = 1)");
        let left = under("net=127.0.0.1", &program);
        assert!(left.error().contains(why), "{why}: {}", left.error());
        assert_eq!(left.audit("network").len(), 2, "{why}: {:?}", left.audit("network"));
    }
}

#[test]
fn a_websocket_asks_the_gate_for_its_host_and_sends_no_line_of_its_own() {
    let port = websockets("", |_, _| ());
    let at = format!("127.0.0.1:{port}");
    for (call, why) in [
        (format!("ws_connect(\"http://{at}/\")"), "it starts with ws:// or wss://"),
        (format!("ws_connect(\"ws://{at}/\\r\\nX: y\")"), "the URL can't be used"),
        (format!("ws_connect(\"ws://u:p@{at}/\")"), "credentials"),
        (format!("ws_connect(\"ws://{at}/\", {{\"Host\": \"b\"}})"), "can't be set"),
        (format!("ws_connect(\"ws://{at}/\", {{\"Sec-WebSocket-Key\": \"b\"}})"), "part of the greeting"),
        (format!("ws_connect(\"ws://{at}/\", {{\"X\": \"a\\nb\"}})"), "line break"),
        (
            "ws_connect(\"ws://other.example.org/\")".to_owned(),
            "Capability not granted: net(\"other.example.org\")",
        ),
    ] {
        let left = under(&format!("net={at}"), &format!("require net(\"{at}\")\n{call}\n"));
        assert!(left.error().contains(why), "{call}: {}", left.error());
    }
}

#[test]
fn peers_that_mean_harm_end_or_wait_and_cost_nothing() {
    let endless = websockets("", |_, to| {
        // The head of a frame of 2^62 bytes, then bytes without end.
        let _sent = to.write_all(b"\x82\x7f\x40\x00\x00\x00\x00\x00\x00\x00");
        while to.write_all(&[0; 65536]).is_ok() {}
    });
    let large = websockets("", |_, to| {
        let mut first = 2;
        while to.write_all(&[first, 0x7e, 0xff, 0xff]).and_then(|()| to.write_all(&[0; 65535])).is_ok() {
            first = 0;
        }
    });
    let parts = websockets("", |_, to| {
        let _sent = to.write_all(&[0x01, 0]);
        while to.write_all(&[0, 0].repeat(4096)).is_ok() {}
    });
    let pings = websockets("", |_, to| while to.write_all(&[0x89, 0].repeat(4096)).is_ok() {});
    let midway = websockets("", |_, to| drop(to.write_all(b"\x81\x05he")));
    let masked = websockets("", |_, to| drop(to.write_all(b"\x81\x80\x00\x00\x00\x00")));
    let noise = websockets("", |_, to| drop(to.write_all(b"\x81\x02\xff\xff")));
    let program = format!(
        r#"require net("127.0.0.1")
each one in [[{endless}, 60], [{large}, 60], [{parts}, 0.5], [{pings}, 0.5], [{midway}, 60], [{masked}, 60], [{noise}, 60]]
    let w be ws_connect("ws://127.0.0.1:" + text(one[0]) + "/")
    try
        print(ws_recv(w, one[1]))
    recover e
        print(e)
    ws_close(w)
"#
    );
    let left = synsema(&program).ceiling("net=127.0.0.1").flag("--memory").flag("256M").run();
    let out = left.out();
    let lines: Vec<&str> = out.lines().collect();
    let ends = [
        "16 MiB",
        "16 MiB",
        "kind: nothing",
        "kind: nothing",
        "without a close frame",
        "masked",
        "not UTF-8",
    ];
    assert_eq!(lines.len(), ends.len(), "{out}");
    for (line, end) in lines.iter().zip(ends) {
        assert!(line.contains(end), "{end}: {out}");
    }
    // What it costs is counted: fuel ends a flood as well.
    let program = format!(
        "require net(\"127.0.0.1\")\nlet w be ws_connect(\"ws://127.0.0.1:{pings}/\")\nprint(ws_recv(w, 60))\n"
    );
    let left = synsema(&program).ceiling("net=127.0.0.1").flag("--fuel").flag("1000000").run();
    assert!(left.error().contains("fuel limit reached"), "{}", left.error());
}
