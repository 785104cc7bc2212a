//! `fetch`, `http*` and SCUA's `net`: each refusal beside the request that is granted.

use crate::{
    program::{scua, synsema},
    server::{Identity, Server, answer, raw, silent},
};

fn echo() -> Server {
    Server::plain(|asked| {
        let all: Vec<String> = asked.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let body = format!("{} {} {} [{}]", asked.method, asked.path, asked.body, all.join(";"));
        answer("200 OK", "X-One: 1\r\nx-one: 2\r\n", &body)
    })
}

#[test]
fn a_granted_host_answers_and_another_one_is_denied() {
    let server = Server::plain(|_| answer("200 OK", "Content-Type: application/json\r\n", r#"{"a": [1]}"#));
    let at = format!("127.0.0.1:{}", server.port);
    let program = format!(
        r#"require net("{at}")
let r be fetch("http://{at}/x?y=1#z")
print(r.status, r.ok, r.json.a, r.body, r.headers["content-type"])
print(http_bytes("get", "http://{at}/").bytes)
"#
    );
    let left = synsema(&program).ceiling(&format!("net={at}")).run();
    let first = left.out();
    assert!(first.starts_with("200 true [1] {\"a\": [1]} application/json\n"), "{first}");
    assert_eq!(server.asked()[0].path, "/x?y=1");
    let entries = left.audit("network");
    assert_eq!(entries.len(), 2, "one entry a connection: {entries:?}");
    assert!(
        entries[0].starts_with(&format!("+{at} | to {at}: ")) && entries[0].contains("status 200"),
        "{entries:?}"
    );
    // The gate: required, but above the ceiling; and not required at all.
    let left = synsema(&program).ceiling("net=127.0.0.1:1").run();
    assert!(
        left.error().contains(&format!("net(\"{at}\") — declared but above the host ceiling")),
        "{}",
        left.error()
    );
    assert!(left.audit("network").is_empty());
    let left = synsema(&format!("fetch(\"http://{at}/\")")).ceiling(&format!("net={at}")).run();
    assert!(left.error().contains("missing capability"), "{}", left.error());
}

#[test]
fn a_program_that_was_looked_at_first_reaches_the_same() {
    let server = Server::plain(|_| answer("200 OK", "", "x"));
    let at = format!("127.0.0.1:{}", server.port);
    // Without a ceiling what it requires has to be read before it runs, in a jail of its own.
    let program = |host: &str| format!("require net(\"{host}\")\nprint(fetch(\"http://{at}/\").status)");
    assert_eq!(synsema(&program(&at)).run().out(), "200");
    let left = synsema(&program("127.0.0.1:1")).run();
    assert!(left.error().contains("Capability not granted: net"), "{}", left.error());
    let below = program(&at).replace('"', "\\\"").replace('\n', "\\n");
    let text = format!(
        "require sandbox_run\nrequire net(\"{at}\")\n\
         print(run_program(\"{below}\", {{\"ceiling\": \"stdout,net={at}\"}}).output)"
    );
    assert_eq!(synsema(&text).run().out(), "[\"200\"]");
}

#[test]
fn a_grant_without_a_port_opens_every_port_for_the_language() {
    let server = echo();
    let url = format!("http://127.0.0.1:{}/", server.port);
    let program = |scope: &str| {
        synsema(&format!("require net(\"{scope}\")\nprint(fetch(\"{url}\").status)")).ceiling("net=127.0.0.1")
    };
    assert_eq!(program("127.0.0.1").run().out(), "200");
    assert!(program("127.0.0.1:80").run().error().contains("Capability not granted: net"));
}

#[test]
fn names_lead_to_public_addresses_only() {
    let server = echo();
    let url = format!("http://localhost:{}/", server.port);
    let program =
        synsema(&format!("require net(\"localhost\")\nlet r be fetch(\"{url}\")\nprint(r.status, r.error)"));
    let left = program.ceiling("net=localhost").run();
    assert!(left.out().contains("0 refused: ") && left.out().contains("is not public"), "{}", left.out());
    assert!(left.audit("network")[0].starts_with("-localhost:"), "{:?}", left.audit("network"));
    assert!(server.asked().is_empty());
    // Its twin: the address is named as well.
    let program = synsema(&format!("require net(\"localhost\")\nprint(fetch(\"{url}\").status)"));
    assert_eq!(program.ceiling("net=localhost,net=127.0.0.1").run().out(), "200");
}

#[test]
fn what_is_sent_is_what_was_said() {
    let server = echo();
    let at = format!("127.0.0.1:{}", server.port);
    let program = format!(
        r#"require net("127.0.0.1")
print(http_post("http://{at}/p", {{"a": 1}}, {{"X-Key": 7}}).body)
print(http("put", "http://{at}/q?z=1", nothing, {{"k": ["a b", "&"]}}, "text").body)
print(http_delete("http://{at}/d").body)
print(http_get("http://{at}/g", timeout = 5).headers["x-one"])
"#
    );
    let left = synsema(&program).ceiling("net=127.0.0.1").run();
    let host = format!("host={at};user-agent=thirdwall;accept=*/*");
    assert_eq!(
        left.out(),
        format!(
            "POST /p {{\"a\": 1}} [{host};x-key=7;content-type=application/json;content-length=8;connection=close]\n\
             PUT /q?z=1&k=a+b&k=%26 text [{host};content-type=text/plain; charset=utf-8;content-length=4;connection=close]\n\
             DELETE /d  [{host};content-length=0;connection=close]\n\
             1, 2"
        )
    );
}

#[test]
fn redirects_are_checked_at_each_hop() {
    let other = echo();
    let elsewhere = format!("http://127.0.0.1:{}/there", other.port);
    let place = elsewhere.clone();
    let server = Server::plain(move |asked| match asked.path.as_str() {
        "/away" => answer("302 Found", &format!("Location: {place}\r\n"), ""),
        "/loop" => answer("302 Found", "Location: /loop\r\n", ""),
        "/odd" => answer("302 Found", "Location: gopher://x/\r\n", ""),
        "/near" => answer("307 Temporary", "Location: /here\r\n", ""),
        _ => {
            answer("200 OK", "", &format!("{} {}", asked.method, asked.field("authorization").unwrap_or("-")))
        }
    });
    let at = format!("127.0.0.1:{}", server.port);
    let program = format!(
        r#"require net("127.0.0.1")
let key be as_secret("k-secret", "K")
print(http_post("http://{at}/near", "x", {{"Authorization": bearer(key)}}).body)
print(http_post("http://{at}/away", "x", {{"Authorization": "Basic x", "X-Key": key, "X": 1}}).body)
print(fetch("http://{at}/loop").error)
print(fetch("http://{at}/odd").error)
"#
    );
    let left = synsema(&program).ceiling("net=127.0.0.1").run();
    let out = left.out();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "POST Bearer k-secret");
    // Another origin: a GET, without what was sealed and without what logs in.
    assert!(lines[1].starts_with("GET /there ") && lines[1].contains(";x=1;"), "{}", lines[1]);
    assert!(!lines[1].contains("authorization") && !lines[1].contains("k-secret"), "{}", lines[1]);
    assert_eq!(lines[2], "io: more than 10 redirects");
    assert!(lines[3].starts_with("io: a redirect to what is no place"), "{}", lines[3]);
    let program = format!("require net(\"{at}\")\nfetch(\"http://{at}/away\")");
    let left = synsema(&program).ceiling("net=127.0.0.1").run();
    assert!(left.error().contains("Capability not granted: net"), "{}", left.error());
    let seen = other.asked().len();
    // The gate lets it pass, the ceiling doesn't: the broker's side says no as well.
    let program = format!("require net(\"127.0.0.1\")\nfetch(\"http://{at}/away\")");
    let left = synsema(&program).ceiling(&format!("net={at}")).run();
    assert!(left.error().contains("Capability not granted: net"), "{}", left.error());
    assert_eq!(other.asked().len(), seen);
}

#[test]
fn certificates_are_checked_against_the_hosts_own_authorities() {
    let identity = Identity::of(&["127.0.0.1"]);
    let server = Server::tls(&identity, |_| answer("200 OK", "", "sealed"));
    let stranger = Identity::of(&["other.example"]);
    let misnamed = Server::tls(&stranger, |_| answer("200 OK", "", "no"));
    let program = |port: u16, roots: &str| {
        let at = format!("127.0.0.1:{port}");
        let text = format!(
            "require net(\"{at}\")\nlet r be fetch(\"https://{at}/\")\nprint(r.status, r.body)\nprint(r)"
        );
        synsema(&text).ceiling(&format!("net={at}")).variable("SSL_CERT_FILE", roots).run()
    };
    assert!(program(server.port, identity.roots()).out().starts_with("200 sealed\n"));
    for (port, roots) in [
        (server.port, stranger.roots()),
        (misnamed.port, stranger.roots()),
        (server.port, "/dev/null"),
        (server.port, "/there/is/none"),
    ] {
        let left = program(port, roots);
        assert!(left.out().contains("tls: "), "{roots}: {}", left.out());
    }
    // TLS where there is none, and none where there is TLS.
    let plain = echo();
    assert!(program(plain.port, identity.roots()).out().contains("0 "));
    let at = format!("127.0.0.1:{}", server.port);
    let text = format!("require net(\"{at}\")\nprint(fetch(\"http://{at}/\").status)");
    assert_eq!(synsema(&text).ceiling(&format!("net={at}")).run().out(), "0");
}

#[test]
fn a_secret_stands_in_a_header_and_nowhere_else() {
    let server = echo();
    let at = format!("127.0.0.1:{}", server.port);
    let program = |call: &str| {
        let text = format!(
            "require net(\"{at}\")\nrequire secret(\"API_KEY\")\nlet key be secret(\"API_KEY\")\n{call}"
        );
        synsema(&text)
            .ceiling(&format!("net={at},secret=API_KEY"))
            .variable("API_KEY", "sk-very-secret")
            .run()
    };
    let left = program(&format!("print(fetch(\"http://{at}/\", headers = {{\"X-Key\": key}}).status)"));
    assert_eq!(left.out(), "200");
    assert_eq!(server.asked()[0].field("x-key"), Some("sk-very-secret"));
    assert!(!left.text.contains("sk-very-secret"), "{}", left.text);
    for call in [
        format!("fetch(\"http://{at}/\" + key)"),
        format!("fetch(\"http://{at}/\", body = key)"),
        format!("http_get(\"http://{at}/\", query = {{\"k\": key}})"),
        format!("fetch(\"http://{at}/\", headers = {{\"X-Key\": as_secret(\"a\\nb\")}})"),
    ] {
        let left = program(&call);
        assert!(!left.error().is_empty() && !left.text.contains("sk-very-secret"), "{call}: {}", left.text);
    }
    let left = program(&format!("fetch(\"http://{at}/\", body = {{\"k\": key}})"));
    assert!(left.report.ok && server.asked()[1].body == "{\"k\": \"[redacted]\"}", "{:?}", server.asked());
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn nothing_smuggles_a_second_request_or_header() {
    let server = echo();
    let at = format!("127.0.0.1:{}", server.port);
    for call in [
        format!("fetch(\"http://{at}/\\r\\nHost: b\")"),
        format!("fetch(\"http://{at}/ HTTP/1.1\\nX: y\")"),
        format!("fetch(\"http://{at}/\", \"GET / HTTP/1.1\\r\\nX\")"),
        format!("fetch(\"http://{at}/\", \"CONNECT\")"),
        format!("fetch(\"http://{at}/\", headers = {{\"X\": \"a\\r\\nHost: b\"}})"),
        format!("fetch(\"http://{at}/\", headers = {{\"X\\r\\nHost\": \"b\"}})"),
        format!("fetch(\"http://{at}/\", headers = {{\"Host\": \"other.example\"}})"),
        format!("fetch(\"http://{at}/\", headers = {{\"Transfer-Encoding\": \"chunked\"}})"),
        format!("fetch(\"http://u:p@{at}/\")"),
        "fetch(\"file:///etc/passwd\")".to_owned(),
    ] {
        let left = synsema(&format!("require net(\"{at}\")\n{call}")).ceiling(&format!("net={at}")).run();
        assert!(left.error().contains("fetch: "), "{call}: {}", left.error());
    }
    assert!(server.asked().is_empty());
    // A query is written so that it stays one.
    let text = format!(
        "require net(\"{at}\")\nprint(http_get(\"http://{at}/\", query = {{\"a\": \"1\\r\\nHost: b\"}}).status)"
    );
    assert_eq!(synsema(&text).ceiling(&format!("net={at}")).run().out(), "200");
    assert_eq!(server.asked()[0].path, "/?a=1%0D%0AHost%3A+b");
}

#[test]
fn servers_that_do_not_end_or_make_no_sense_are_failures() {
    let (quiet, _listener) = silent();
    let large = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n");
    let short = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort");
    let twice = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    let noise = raw(b"SSH-2.0-OpenSSH\r\n\r\n");
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let text = format!(
        r#"require net("127.0.0.1")
each port in [{quiet}, {large}, {short}, {twice}, {noise}, {closed}]
    print(fetch("http://127.0.0.1:" + text(port) + "/", timeout = 0.5).error)
"#
    );
    let left = synsema(&text).ceiling("net=127.0.0.1").run();
    let out = left.out();
    let kinds: Vec<&str> = out.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(kinds, ["timeout", "too_large", "io", "io", "io", "refused"], "{out}");
    assert_eq!(left.audit("network").len(), 6, "{:?}", left.audit("network"));
}

#[test]
fn scua_asks_by_the_same_gate() {
    let server = Server::plain(|asked| match asked.path.as_str() {
        "/away" => answer("302 Found", "Location: http://localhost:1/\r\n", ""),
        "/loop" => answer("302 Found", "Location: /loop\r\n", ""),
        "/big" => "HTTP/1.1 200 OK\r\nContent-Length: 8388609\r\n\r\n".to_owned(),
        _ => answer("200 OK", "X-A: b\r\n", &format!("{} {}", asked.method, asked.body)),
    });
    let at = format!("127.0.0.1:{}", server.port);
    let run = |program: &str| {
        scua(&program.replace("AT", &format!("http://{at}")))
            .flag("--allow-net=127.0.0.1")
            .ceiling("net=127.0.0.1")
            .run()
    };
    let left = run(r#"import net
import record
fn kind(answer)
  return match answer ; Ok(r) -> r.status ; Error(e) -> e.kind ; end
end
match net.request({ method = "POST", url = "AT/x", headers = { Z = "1" }, body = "hi" })
  Ok(r) -> print(r.status, record.get(r.headers, "x-a", ""), r.body)
  Error(e) -> print(e)
end
print(kind(net.get("AT/loop")), kind(net.get("AT/big")), kind(net.get("http://127.0.0.1:1/")))
"#);
    assert_eq!(left.out(), "200 b POST hi\nio too_large refused");
    assert_eq!(server.asked()[0].field("z"), Some("1"));
    let left = run("import net\nnet.get(\"AT/away\")\n");
    assert!(left.error().contains("capability not granted: net(\"localhost:1\")"), "{}", left.error());
    let left = scua(&format!("import net\nnet.get(\"http://{at}/\")\n")).ceiling("net").run();
    assert!(left.error().contains(&format!("run with --allow-net={at}")), "{}", left.error());
}
