//! What finds nobody in the jail's network, and every port without the kernel's redirect.

use crate::lab::{curl, possible, python, script};

#[test]
fn connects_and_datagrams_that_find_nobody_are_entries() {
    if !possible() {
        return;
    }
    let program = r#"
import socket
def to(family, address):
    s = socket.socket(family)
    try: s.connect(address); s.sendall(b"ping\n"); return s.recv(9)
    except OSError as e: return type(e).__name__
private = socket.gethostbyname("api.example.com")
print(to(2, (private, 9000)), to(2, (private, 8443)) != b"", to(2, ("93.184.216.34", 9000)), to(10, ("::ffff:93.184.216.35", 9000)), to(10, ("2001:db8::9", 9000)))
print(to(2, ("127.0.0.1", 9)))
u = socket.socket(2, 2)
for address in (("93.184.216.34", 53), (private, 9000), ("127.0.0.1", 7)):
    try: u.sendto(b"x", address)
    except OSError as e: pass
for i in range(3):
    try: socket.socket(2, 2).sendmsg([b"x"], [], 0, (private, 9000))
    except OSError as e: pass
own = socket.socket(2, 2); own.bind(("127.0.0.1", 0)); u.sendto(b"own", own.getsockname()); print(own.recv(9))
"#;
    let ran = python("net=api.example.com:9000", program);
    let (answers, rest) = ran.out.split_once('\n').unwrap();
    assert!(answers.starts_with("b'ping\\n' True OSError OSError OSError"), "{answers} {:?}", ran.network());
    assert!(rest.ends_with("Error\nb'own'\n"), "{rest}");
    for (target, why) in [
        ("api.example.com:8443", "grants that port for no host"),
        ("93.184.216.34:9000", "doesn't grant that address"),
        ("93.184.216.35:9000", "doesn't grant that address"),
        ("[2001:db8::9]:9000", "doesn't grant that address"),
        ("127.0.0.1:9 ", "nobody listens there in the jail"),
        ("93.184.216.34:53", "doesn't grant that address"),
        ("api.example.com:9000", "of datagrams only questions"),
        ("127.0.0.1:7 ", "nobody listens there in the jail"),
        ("* ", "3 datagrams found nobody"),
    ] {
        assert!(ran.has(&format!("-{target}"), why), "{target} {:?}", ran.network());
    }
    // What reached somebody has the egress's entry and no other.
    assert!(ran.has("+api.example.com:9000", "5 bytes there, 5 back"), "{:?}", ran.network());
    assert_eq!(ran.network().len(), 10, "{:?}", ran.network());
}

#[test]
fn a_program_that_tries_every_port_fills_no_log_and_is_counted() {
    if !possible() {
        return;
    }
    let program = r#"
import socket
for port in range(1000, 1300): socket.socket().connect_ex(("93.184.216.34", port))
s = socket.create_connection(("api.example.com", 9000)); s.sendall(b"ping\n"); print(s.recv(9))
"#;
    let ran = python("net=api.example.com:9000", program);
    assert_eq!(ran.out, "b'ping\\n'\n");
    assert_eq!((ran.network().len(), ran.dropped()), (101, 200));
    assert!(
        ran.has("-93.184.216.34:1099", "") && ran.has("+api.example.com:9000", ""),
        "{:?}",
        ran.network()
    );
}

#[test]
fn an_address_that_is_not_granted_is_an_entry_however_it_is_spelled() {
    if !possible() {
        return;
    }
    for spelled in
        ["93.184.216.34", "0x5db8d822", "1572395042", "0135.0270.0330.042", "[::ffff:93.184.216.34]"]
    {
        for ceiling in ["net=api.example.com", "net=93.184.216.35"] {
            let ran = curl(ceiling, &format!("http://{spelled}/"));
            assert!(ran.code == 7 && ran.out.is_empty(), "{spelled} {ceiling} {}", ran.code);
            assert!(ran.has("-93.184.216.34:80", "doesn't grant that address"), "{:?}", ran.network());
        }
        let ran = curl("net=93.184.216.34", &format!("http://{spelled}/"));
        assert!(ran.out.starts_with("93.184.216.34:80"), "{spelled} {}", ran.out);
    }
}

/// What a program under a bare `net` meets, with sockets that are in an epoll set before they are connected.
const EVERY_PORT: &str = r#"
import select, socket
def go(address):
    try: return met(address)
    except OSError: return "refused"
def met(address):
    s = socket.socket(); s.setblocking(False); poll = select.epoll(); poll.register(s, select.EPOLLOUT | select.EPOLLIN | select.EPOLLET)
    s.connect_ex(address); sent = False
    for i in range(9):
        for _, events in poll.poll(9):
            if events & (select.EPOLLERR | select.EPOLLHUP): return s.getsockopt(1, 4) != 0 and "refused"
            if events & select.EPOLLIN: return s.recv(99), s.getpeername() == address
            if events & select.EPOLLOUT and not sent: s.sendall(b"ping\n"); sent = True
for address in (("93.184.216.34", 9000), ("93.184.216.35", 8443), ("93.184.216.36", 9000), ("10.0.0.1", 9000), ("203.0.114.1", 8443), ("169.254.169.254", 9001), ("127.0.0.1", 9000), ("224.0.0.1", 9002)): print(go(address))
print(go((socket.gethostbyname("other.example.org"), 9000))[0])
"#;

#[test]
fn every_port_is_reached_with_the_kernels_redirect_and_without() {
    if !possible() {
        return;
    }
    let run = |inject: &str| {
        script(&format!(
            "{inject} timeout 40 \"$TW\" exec --policy python --wall 30s --cap-set stdout,net --report \"$LAB/report\" \
             -- /usr/bin/python3 -c '{EVERY_PORT}'"
        ))
    };
    let mut ways = vec!["env"];
    if cfg!(debug_assertions) {
        ways.push("env THIRDWALL_TEST_FAIL_STEP=redirect");
    } else {
        eprintln!("skipped: without the redirect, which only a debug build can be made to lack");
    }
    for way in ways {
        let ran = run(way);
        let reached = "(b'ping\\n', True)\n".repeat(3);
        let lines: Vec<&str> = ran.out.lines().collect();
        assert!(ran.out.starts_with(&reached), "{way}: {} {:?}", ran.out, ran.network());
        assert!(lines[3..8].iter().all(|line| !line.contains("ping")), "{way}: {}", ran.out);
        assert_eq!(lines[8..], ["b'ping\\n'"], "{way}: {}", ran.out);
        assert!(ran.has("+93.184.216.35:8443", "to 93.184.216.35:8443"), "{way}: {:?}", ran.network());
        assert!(ran.has("+other.example.org:9000", "to 93.184.216.36:9000"), "{way}: {:?}", ran.network());
        for (target, why) in [
            ("10.0.0.1:9000", "not public"),
            ("203.0.114.1:8443", "host's own"),
            ("169.254.169.254:9001", "not public"),
        ] {
            assert!(ran.has(&format!("-{target}"), why), "{way} {target}: {:?}", ran.network());
        }
    }
}

#[test]
fn an_address_that_changes_while_it_is_looked_at_gains_nothing() {
    if !possible() || !cfg!(debug_assertions) {
        eprintln!("skipped: a release build can't be made to lack the redirect");
        return;
    }
    // One thread swaps the address between a public one and two that aren't, while the other connects with it.
    let program = r#"
import ctypes, socket, struct, threading
libc = ctypes.CDLL(None)
places = [struct.pack(">H4s8x", port, socket.inet_aton(ip)) for ip, port in (("93.184.216.34", 9000), ("10.0.0.1", 8443), ("203.0.114.1", 9001))]
address = ctypes.create_string_buffer(struct.pack("=H", 2) + places[0], 16)
at = ctypes.addressof(address) + 2
going = True
def swap():
    while going:
        for place in places: ctypes.memmove(at, place, 14)
thread = threading.Thread(target=swap); thread.start()
seen = set()
for i in range(150):
    s = socket.socket(); s.settimeout(None)
    if libc.connect(s.fileno(), address, 16) == 0:
        try: s.sendall(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"); got = s.recv(999); seen.add(got.split(b"\r\n\r\n")[-1].split(b" ")[0].decode())
        except OSError: pass
    s.close()
going = False; thread.join()
ctypes.memmove(at, places[0], 14); s = socket.socket(); print(libc.connect(s.fileno(), address, 16), s.getpeername())
print([place for place in seen if place and not place.startswith("93.184.216.34:")])
"#;
    let ran = script(&format!(
        "THIRDWALL_TEST_FAIL_STEP=redirect timeout 40 \"$TW\" exec --policy python --wall 30s --cap-set stdout,net \
         --report \"$LAB/report\" -- /usr/bin/python3 -c '{program}'"
    ));
    assert_eq!(ran.out, "0 ('93.184.216.34', 9000)\n[]\n", "{:?}", ran.network());
    assert!(ran.has("-10.0.0.1:8443", "not public"), "{:?}", ran.network());
}

#[test]
fn ports_beyond_those_that_a_run_may_open_are_refused_and_told() {
    if !possible() || !cfg!(debug_assertions) {
        eprintln!("skipped: a release build can't be made to lack the redirect");
        return;
    }
    let program = r#"
import socket
for port in range(20000, 20258):
    s = socket.socket(); s.connect_ex(("93.184.216.34", port)); s.close()
s = socket.create_connection(("93.184.216.34", 20001)); s.close()
print(socket.socket().connect_ex(("93.184.216.34", 9000)))
s = socket.create_connection(("api.example.com", 80)); s.sendall(b"GET /x HTTP/1.1\r\nHost: api.example.com\r\n\r\n"); print(b" /x" in s.recv(999))
"#;
    let ran = script(&format!(
        "THIRDWALL_TEST_FAIL_STEP=redirect timeout 40 \"$TW\" exec --policy python --wall 30s --cap-set stdout,net \
         --report \"$LAB/report\" -- /usr/bin/python3 -c '{program}'"
    ));
    assert_eq!(ran.out, "111\nTrue\n", "{:?}", ran.network());
    assert!(ran.has("-93.184.216.34:9000", "as many different ports"), "{:?}", ran.network());
}
