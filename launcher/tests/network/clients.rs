//! Clients as people have them, over TLS, each at a granted host and at one that isn't.

use crate::lab::{possible, run_with_authority, script};
use std::process::Command;

const GRANT: &str = "net=api.example.com:4443";

fn has(program: &str, arguments: &[&str]) -> bool {
    let runs = Command::new(program).args(arguments).output().is_ok_and(|ran| ran.status.success());
    if !runs {
        eprintln!("skipped: there is no {program} {}", arguments.join(" "));
    }
    runs
}

#[test]
fn python_with_urllib_and_requests() {
    if !possible() || !has("/usr/bin/python3", &["-c", "import requests"]) {
        return;
    }
    let program = r#"
import os, ssl, urllib.request, requests
for name in ("no_proxy", "NO_PROXY"): os.environ[name] = "*"
ca = os.environ["CA"]
def urllib_get(url): return urllib.request.urlopen(url, context=ssl.create_default_context(cafile=ca)).read().decode().strip()
def requests_get(url): return requests.get(url, verify=ca).text.strip()
for get in (urllib_get, requests_get):
    print(get("https://api.example.com:4443/x"))
    for host in ("other.example.org", "www.example.com"):
        try: print(get(f"https://{host}:4443/x"))
        except OSError as e: print("no")
"#;
    let command = format!("/usr/bin/python3 -c '{program}'");
    let ran = run_with_authority("python", GRANT, "--env CA=\"$LAB/ca.pem\"", &command);
    assert_eq!(ran.out, "sealed\nno\nno\n".repeat(2), "{:?}", ran.network());
    assert!(ran.has("+api.example.com:4443", "to 93.184.216.34:4443"), "{:?}", ran.network());
    assert!(ran.has("-www.example.com", "isn't granted"), "{:?}", ran.network());
}

#[test]
fn node_with_fetch() {
    if !possible() || !has("/usr/bin/node", &["--version"]) {
        return;
    }
    let program = r#"
(async () => {
  for (const host of ["api.example.com", "other.example.org"])
    try { console.log((await (await fetch(`https://${host}:4443/x`)).text()).trim()) } catch (e) { console.log("no") }
})()
"#;
    let command = format!("/usr/bin/node -e '{program}'");
    let ran = run_with_authority("node", GRANT, "--env NODE_EXTRA_CA_CERTS=\"$LAB/ca.pem\"", &command);
    assert_eq!(ran.out, "sealed\nno\n", "{:?}", ran.network());
    assert!(ran.has("+api.example.com:4443", ""), "{:?}", ran.network());
}

#[test]
fn openssl_s_client_and_what_its_hello_names() {
    if !possible() || !has("/usr/bin/openssl", &["version"]) {
        return;
    }
    let ask = |name: &str| {
        let command = format!(
            "/bin/sh -c \"printf 'GET /x HTTP/1.1\\r\\n\\r\\n' | /usr/bin/openssl s_client -quiet -verify_quiet \
             -verify_return_error -CAfile $LAB/ca.pem -connect api.example.com:4443 -servername {name} 2>/dev/null\""
        );
        run_with_authority("sh", &format!("exec=/usr/bin/*,exec=/bin/*,{GRANT}"), "", &command)
    };
    let ran = ask("api.example.com");
    assert!(ran.out.ends_with("sealed\n"), "{} {:?}", ran.out, ran.network());
    // The certificate is for both names: only the grant tells them apart.
    let ran = ask("www.example.com");
    assert!(
        ran.out.is_empty() && ran.has("-api.example.com:4443", "TLS for www.example.com"),
        "{:?}",
        ran.network()
    );
}

#[test]
fn curl_with_a_tunnel_to_one_name_and_a_hello_for_another() {
    if !possible() {
        return;
    }
    let fetch = |more: &str| {
        let command = format!(
            "/usr/bin/curl --noproxy '' -sS -m 10 --cacert \"$LAB/ca.pem\" -x http://127.0.0.1:3128 {more}"
        );
        run_with_authority("sh", GRANT, "", &command)
    };
    assert_eq!(fetch("https://api.example.com:4443/x").out, "sealed\n");
    let ran = fetch("--connect-to www.example.com:4443:api.example.com:4443 https://www.example.com:4443/x");
    assert!(
        ran.out.is_empty() && ran.has("-api.example.com:4443", "TLS for www.example.com"),
        "{:?}",
        ran.network()
    );
    let ran = fetch("https://www.example.com:4443/x");
    assert!(ran.out.is_empty() && ran.has("-www.example.com:4443", "doesn't grant"), "{:?}", ran.network());
}

#[test]
fn git_over_https() {
    if !possible() || !has("/usr/bin/git", &["--version"]) {
        return;
    }
    let ran = script(
        r#"
cd "$LAB"; mkdir served; chmod 755 .; export HOME=$LAB GIT_CONFIG_NOSYSTEM=1
git="/usr/bin/git -c user.name=a -c user.email=a@example.com -c init.defaultBranch=main"
$git init -q work; echo sealed >work/file; (cd work; $git add file; $git commit -qm one)
$git clone -q --bare work served/repo; (cd served/repo; $git update-server-info)
clone() {
  timeout 40 "$TW" exec --policy sh --wall 30s --env GIT_SSL_CAINFO="$LAB/ca.pem" --env GIT_CONFIG_NOSYSTEM=1 --env NO_PROXY='*' \
    --cap-set "stdout,exec=/usr/bin/*,exec=/bin/*,exec=/usr/lib/git-core/*,net=api.example.com:4443,file.read=$LAB/ca.pem" --report "$LAB/report" \
    -- /bin/sh -c "/usr/bin/git clone -q $1 copy && cat copy/file"
}
clone https://www.example.com:4443/repo && echo reached
clone https://api.example.com:4443/repo
"#,
    );
    assert_eq!(ran.out, "sealed\n", "{:?}", ran.network());
    assert!(ran.has("+api.example.com:4443", "to 93.184.216.34:4443"), "{:?}", ran.network());
}

/// Neither a resolver nor a library: numbers and system calls.
const RAW: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static void go(int type, const char *ip, int port) {
  int s = socket(AF_INET, type, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, ip, &a.sin_addr);
  char b[16] = "";
  int done = s >= 0 && connect(s, (void *)&a, sizeof a) == 0 && send(s, "ping\n", 5, MSG_NOSIGNAL) == 5 && recv(s, b, 15, 0) == 5;
  printf("%s\n", done ? "pong" : "no");
  if (s >= 0) close(s);
}
int main() {
  go(SOCK_STREAM, "93.184.216.34", 9000);
  go(SOCK_STREAM, "93.184.216.35", 9000);
  go(SOCK_STREAM, "93.184.216.34", 8443);
  go(SOCK_RAW, "93.184.216.34", 0);
  // The supervisor's own sockets: none is inherited, and none can be connected to.
  for (int fd = 3; fd < 1024; fd++) { struct sockaddr_storage x; socklen_t n = sizeof x; if (getsockname(fd, (void *)&x, &n) == 0) printf("socket %d\n", fd); }
  int s = socket(AF_UNIX, SOCK_STREAM, 0); printf("%s\n", s < 0 && errno == EPERM ? "no" : "unix");
  int p[2]; printf("%s\n", socketpair(AF_UNIX, SOCK_DGRAM, 0, p) < 0 && errno == EPERM ? "no" : "pair");
  return 0;
}
"#;

#[test]
fn a_raw_client_in_c() {
    if !possible() || !has("cc", &["--version"]) {
        return;
    }
    let ran = script(&format!(
        "cat >\"$LAB/raw.c\" <<'END'\n{RAW}\nEND\ncc -static -o \"$LAB/raw\" \"$LAB/raw.c\" && chmod 755 \"$LAB\" \
         && timeout 40 \"$TW\" exec --policy static --wall 30s --cap-set stdout,net=93.184.216.34:9000 \
         --report \"$LAB/report\" -- \"$LAB/raw\""
    ));
    assert_eq!(ran.out, "pong\nno\nno\nno\nno\nno\n", "{:?}", ran.network());
    assert!(ran.has("+93.184.216.34:9000", "5 bytes there, 5 back"), "{:?}", ran.network());
    assert_eq!(ran.refused_calls(), ["socket", "socketpair"]);
}

#[test]
fn names_that_carry_data_never_leave() {
    if !possible() {
        return;
    }
    let ran = script(
        r#"
timeout 40 "$TW" exec --policy python --wall 30s --cap-set 'stdout,net=*.example.com' --report "$LAB/report" -- /usr/bin/python3 -c '
import socket
for name in ("secret-data.tunnel.example", "a\r\nb.example.com", "x" * 64 + ".example.com"):
    try: print(socket.getaddrinfo(name, 80))
    except (OSError, UnicodeError): print("no")
print(len(socket.getaddrinfo("www.example.com", 80)) > 0)
'
grep -c "asked secret-data" "$LAB/log"
"#,
    );
    assert_eq!(ran.out, "no\nno\nno\nTrue\n0\n", "{:?}", ran.network());
    assert!(ran.has("-secret-data.tunnel.example", "isn't granted"), "{:?}", ran.network());
}
