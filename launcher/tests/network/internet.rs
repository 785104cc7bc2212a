//! The internet of these tests: a name server and plain servers, in a network namespace of their own.

use crate::server::{Identity, Server, answer as answer_with};
use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

/// Addresses of this namespace; all look public but the last.
pub(crate) const ADDRESSES: [&str; 5] =
    ["9.9.9.9", "93.184.216.34", "93.184.216.35", "93.184.216.36", "10.0.0.1"];
/// Ports with a server on each address.
const PORTS: [u16; 4] = [80, 443, 8443, 9000];
/// The port of the servers with TLS.
pub(crate) const SEALED: u16 = 4443;

enum Record {
    A(&'static str),
    /// As hexadecimal digits of 16 bytes.
    Aaaa([u8; 16]),
    Alias(&'static str),
}

fn zone(name: &str, asked_before: u32) -> Option<Vec<Record>> {
    use Record::{A, Aaaa, Alias};
    let mapped = |last: [u8; 4], front: [u8; 12]| {
        let mut bytes = [0; 16];
        bytes[..12].copy_from_slice(&front);
        bytes[12..].copy_from_slice(&last);
        Aaaa(bytes)
    };
    Some(match name {
        "api.example.com" | "xn--bcher-kva.example.com" => vec![A("93.184.216.34")],
        "www.example.com" | "a.b.example.com" => vec![A("93.184.216.35")],
        "other.example.org" => vec![A("93.184.216.36")],
        "alias.example.com" => vec![Alias("one.example.net"), Alias("api.example.com"), A("93.184.216.34")],
        "bad-alias.example.com" => vec![Alias("one.example.net"), A("10.0.0.1")],
        "mixed.example.com" => vec![A("127.0.0.1"), A("93.184.216.34")],
        "loop.example.com" => vec![A("127.0.0.1")],
        "meta.example.com" => vec![A("169.254.169.254")],
        "ten.example.com" => vec![A("10.0.0.1")],
        "mapped.example.com" => {
            vec![mapped([93, 184, 216, 34], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])]
        }
        "nat64.example.com" => vec![mapped([127, 0, 0, 1], [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0])],
        "six.example.com" => vec![mapped([0, 0, 0, 1], [0; 12])],
        "turning.example.com" if asked_before == 0 => vec![A("93.184.216.34")],
        "turning.example.com" => vec![A("10.0.0.1")],
        _ => return None,
    })
}

/// Files below the folder, over TLS, with a certificate whose authority is left beside them.
fn sealed(folder: &Path) {
    let identity = Identity::of(&["api.example.com", "www.example.com", "93.184.216.34"]);
    fs::copy(identity.roots(), folder.join("ca.pem")).unwrap();
    for address in &ADDRESSES[1..4] {
        let listener = TcpListener::bind(format!("{address}:{SEALED}")).unwrap();
        let top = folder.to_path_buf();
        let _serves = Server::at(listener, &identity, move |asked| {
            let path = asked.path.split('?').next().unwrap_or_default();
            match fs::read(top.join("served").join(path.trim_start_matches('/'))) {
                Ok(bytes) => {
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
                    [head.as_bytes(), &bytes].concat()
                }
                Err(_) => answer_with("404 Not Found", "", "none").into_bytes(),
            }
        });
    }
}

/// Serves until standard input ends.
pub(crate) fn run() {
    sealed(Path::new(&std::env::var("LAB").unwrap()));
    let asked = Arc::new(Mutex::new(HashMap::new()));
    let socket = UdpSocket::bind("9.9.9.9:53").unwrap();
    thread::spawn(move || {
        let mut message = [0; 1500];
        loop {
            let (length, from) = socket.recv_from(&mut message).unwrap();
            let answer = answer(&message[..length], &asked);
            socket.send_to(&answer, from).unwrap();
        }
    });
    for address in ADDRESSES {
        for port in PORTS {
            let ip: Ipv4Addr = address.parse().unwrap();
            let listener = TcpListener::bind((ip, port)).unwrap();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    thread::spawn(move || serve(stream.unwrap(), ip, port));
                }
            });
        }
    }
    let mut out = std::io::stdout();
    out.write_all(b"ready\n").and_then(|()| out.flush()).unwrap();
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest).unwrap();
}

/// Answers one HTTP request after the other with where it arrived; other lines come back as they are.
fn serve(stream: TcpStream, ip: Ipv4Addr, port: u16) {
    let mut out = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    // A hello: whoever sees this answer has had his hello passed on.
    if reader.fill_buf().is_ok_and(|bytes| bytes.first() == Some(&22)) {
        let _answered = out.write_all(b"no TLS here\n");
        return;
    }
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line).unwrap_or(0) == 0 {
            return;
        }
        if !line.ends_with(b" HTTP/1.1\r\n") {
            let _echoed = out.write_all(&line);
            continue;
        }
        let target = String::from_utf8_lossy(&line).split(' ').nth(1).unwrap_or_default().to_owned();
        let mut host = String::new();
        loop {
            let mut field = String::new();
            if reader.read_line(&mut field).unwrap_or(0) <= 2 {
                break;
            }
            if let Some(value) = field.to_ascii_lowercase().strip_prefix("host:") {
                value.trim().clone_into(&mut host);
            }
        }
        let body = format!("{ip}:{port} {host} {target}\n");
        let redirect = if target == "/redirect" { "Location: http://other.example.org/\r\n" } else { "" };
        let status = if redirect.is_empty() { "200 OK" } else { "302 Found" };
        let head = format!("HTTP/1.1 {status}\r\n{redirect}Content-Length: {}\r\n\r\n", body.len());
        if out.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(message: &[u8], asked: &Mutex<HashMap<String, u32>>) -> Vec<u8> {
    let mut at = 12;
    let mut labels = Vec::new();
    while message[at] != 0 {
        let end = at + 1 + usize::from(message[at]);
        labels.push(String::from_utf8_lossy(&message[at + 1..end]).into_owned());
        at = end;
    }
    let (name, kind, question) = (labels.join("."), message[at + 2], &message[12..at + 5]);
    // What left the host is in the lab's log.
    let _told = writeln!(std::io::stdout(), "asked {name}");
    let before = if kind == 1 {
        let mut asked = asked.lock().unwrap();
        let count = asked.entry(name.clone()).or_insert(0);
        *count += 1;
        *count - 1
    } else {
        0
    };
    let records = zone(&name, before);
    let mut answers = Vec::new();
    let mut count = 0;
    let mut owner = vec![0xc0, 12];
    for record in records.iter().flatten() {
        let (code, data): (u8, Vec<u8>) = match record {
            Record::A(text) if kind == 1 => (1, text.parse::<Ipv4Addr>().unwrap().octets().to_vec()),
            Record::Aaaa(bytes) if kind == 28 => (28, bytes.to_vec()),
            Record::A(_) | Record::Aaaa(_) => continue,
            Record::Alias(to) => (5, wire(to)),
        };
        answers.extend(&owner);
        // Time to live 0: what is remembered is not what is tested.
        answers.extend([0, code, 0, 1, 0, 0, 0, 0, 0, data.len() as u8]);
        answers.extend(&data);
        if code == 5 {
            owner = data;
        }
        count += 1;
    }
    let code = if records.is_some() { 0x80 } else { 0x83 };
    let mut out = vec![message[0], message[1], 0x81, code, 0, 1, 0, count, 0, 0, 0, 0];
    out.extend(question);
    out.extend(answers);
    out
}

fn wire(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    bytes
}
