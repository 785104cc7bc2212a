//! Two network namespaces and a wire between them: in one the launcher is started, the other one is the internet.
//!
//! The launcher's mount namespace has a resolv.conf of its own, so the release build is tested as it is.

use crate::internet;
use policies::report::Report;
use std::{
    io::Write,
    process::{Command, Stdio},
    sync::OnceLock,
};

/// `$0` = the internet, the rest = what to run outside, in the launcher's place.
const SET_UP: &str = r#"
set -e
echo "nameserver 9.9.9.9" > "$LAB/resolv.conf"
mount --bind "$LAB/resolv.conf" /etc/resolv.conf
ip link set lo up
mkfifo "$LAB/hold"
exec 9<>"$LAB/hold"
unshare -n sleep 60 9>&- & far=$!
while [ "$(readlink /proc/$far/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link add near type veth peer name far netns $far
ip addr add 203.0.114.1/24 dev near
ip link set near up
ip route add default via 203.0.114.2
nsenter -t $far -n sh -c 'ip link set lo up; ip addr add 203.0.114.2/24 dev far; ip link set far up
  for address in $ADDRESSES; do ip addr add $address/32 dev lo; done'
nsenter -t $far -n "$0" --ignored --exact internet --nocapture <"$LAB/hold" >"$LAB/log" 2>&1 9>&- & net=$!
for i in $(seq 200); do grep -q ready "$LAB/log" && break; sleep 0.02; done
set +e
"$@"
code=$?
kill $net $far
wait 2>/dev/null
exit $code
"#;

/// What a run left.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    report: Option<Report>,
}

impl Ran {
    /// Entries of the network, as `+target | reason` or `-target | reason`.
    pub(crate) fn network(&self) -> Vec<String> {
        let entries = self.report.iter().flat_map(|report| &report.audit);
        entries
            .filter(|entry| entry.layer.name() == "network")
            .map(|entry| {
                format!("{}{} | {}", if entry.granted { '+' } else { '-' }, entry.target, entry.reason)
            })
            .collect()
    }

    /// Whether an entry begins and goes on like this.
    pub(crate) fn has(&self, start: &str, part: &str) -> bool {
        self.network().iter().any(|line| line.starts_with(start) && line.contains(part))
    }

    /// Entries that were only counted.
    pub(crate) fn dropped(&self) -> u64 {
        self.report.as_ref().map_or(0, |report| report.audit_dropped)
    }

    /// System calls that the filter refused, each once.
    pub(crate) fn refused_calls(&self) -> Vec<String> {
        let entries = self.report.iter().flat_map(|report| &report.audit);
        let mut calls: Vec<String> = entries
            .filter(|entry| entry.layer.name() == "filter")
            .map(|entry| entry.target.clone())
            .collect();
        calls.dedup();
        calls
    }
}

/// Whether this host lets such namespaces be made; says so once if not.
pub(crate) fn possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let made = Command::new("unshare").args(["-n", "-m", "ip", "link"]).stdout(Stdio::null()).status();
        let possible = made.is_ok_and(|status| status.success());
        if !possible {
            eprintln!("skipped: namespaces of the tests' own take root, unshare(1) and ip(8)");
        }
        possible
    })
}

/// Runs a shell script in the launcher's place. `$TW` is the launcher, `$LAB` a folder.
pub(crate) fn script(text: &str) -> Ran {
    let lab = tempfile::tempdir().unwrap();
    let exe = std::env::current_exe().unwrap();
    let child = Command::new("unshare")
        .args(["-n", "-m", "--propagation", "private", "sh", "-c", SET_UP])
        .arg(exe)
        .args(["sh", "-c", text])
        .env("LAB", lab.path())
        .env("TW", env!("CARGO_BIN_EXE_thirdwall"))
        .env("ADDRESSES", internet::ADDRESSES.join(" "))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ended = child.wait_with_output().unwrap();
    let report = std::fs::read(lab.path().join("report")).unwrap_or_default();
    std::io::stderr().write_all(&ended.stderr).unwrap();
    Ran {
        code: ended.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&ended.stdout).into_owned(),
        report: serde_json::from_slice(&report).ok(),
    }
}

/// Runs a command of the jail, quoted for a shell.
pub(crate) fn run(policy: &str, ceiling: &str, command: &str) -> Ran {
    script(&format!(
        "timeout 40 \"$TW\" exec --policy {policy} --wall 30s --cap-set 'stdout,{ceiling}' --report \"$LAB/report\" -- {command}"
    ))
}

/// The launcher's words up to the policy, for one who is nobody: a copy of the launcher, in a folder that everybody may enter.
pub(crate) fn ordinary_launcher(policy: &str) -> String {
    format!(
        "chmod 777 \"$LAB\"; cp \"$TW\" \"$LAB/tw\"; cd /; \
         setpriv --reuid 4242 --regid 4242 --clear-groups --inh-caps=-all timeout 40 \"$LAB/tw\" exec --policy {policy} --wall 30s"
    )
}

/// Runs a command of the jail as [`run`] does, without root's rights.
pub(crate) fn ordinary(policy: &str, ceiling: &str, command: &str) -> Ran {
    let launcher = ordinary_launcher(policy);
    script(&format!("{launcher} --cap-set 'stdout,{ceiling}' --report \"$LAB/report\" -- {command}"))
}

/// Runs a command that may read the lab's folder, in which the authority's certificate stands.
pub(crate) fn run_with_authority(policy: &str, ceiling: &str, flags: &str, command: &str) -> Ran {
    script(&format!(
        "mkdir \"$LAB/served\"; echo sealed >\"$LAB/served/x\"; chmod 755 \"$LAB\"
        timeout 40 \"$TW\" exec --policy {policy} --wall 30s --cap-set 'stdout,{ceiling},file.read='\"$LAB/ca.pem\" \
            {flags} --report \"$LAB/report\" -- {command}"
    ))
}

/// Runs a Python program in the jail.
pub(crate) fn python(ceiling: &str, program: &str) -> Ran {
    run("python", ceiling, &format!("/usr/bin/python3 -c '{program}'"))
}

/// Runs curl without proxy settings.
pub(crate) fn curl(ceiling: &str, arguments: &str) -> Ran {
    run("sh", ceiling, &format!("/usr/bin/curl --noproxy '*' -sS -m 10 {arguments}"))
}
