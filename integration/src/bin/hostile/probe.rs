//! What a program can learn of where it is.

use super::raw::{call, leak_words, say, tell, word};
use nix::{
    errno::Errno,
    unistd::{getegid, geteuid, getgid, getgroups, getpid, getppid, getsid, getuid},
};

pub(crate) fn look(what: &[&str]) {
    for what in what {
        match *what {
            "ids" => {
                say("uid", format!("{} {}", getuid(), geteuid()));
                say("gid", format!("{} {}", getgid(), getegid()));
                say("groups", getgroups().map_or("unknown".into(), |groups| groups.len().to_string()));
                for (name, number) in [
                    ("setuid-0", libc::SYS_setuid),
                    ("setgid-0", libc::SYS_setgid),
                    ("setuid-1", libc::SYS_setuid),
                ] {
                    let wanted = usize::from(name.ends_with('1'));
                    tell(name, &call(number, [wanted, 0, 0, 0, 0, 0]));
                }
                tell("setgroups", &call(libc::SYS_setgroups, [1, leak_words(&[0]), 0, 0, 0, 0]));
            }
            "linux-caps" => linux_caps(),
            "no-new-privs" => say("no-new-privs", prctl(39, 0)),
            "dumpable" => say("dumpable", prctl(3, 0)),
            "session" => {
                say(
                    "session",
                    getsid(None).map_or_else(word, |sid| {
                        if sid == getpid() { "own".into() } else { sid.to_string() }
                    }),
                );
                say("parent", getppid());
                say(
                    "terminal",
                    std::fs::File::open("/dev/tty").map_or_else(
                        |error| error.raw_os_error().map_or("?".into(), |raw| word(Errno::from_raw(raw))),
                        |_| "ok".into(),
                    ),
                );
            }
            "host-name" => say(
                "host-name",
                nix::unistd::gethostname().map_or_else(word, |name| name.to_string_lossy().into_owned()),
            ),
            "environment" => {
                std::env::vars().for_each(|(name, value)| say("variable", format!("{name}={value}")))
            }
            // A key in a session keyring of this process's own, which goes with it.
            "make-key" => {
                tell("join", &call(libc::SYS_keyctl, [1, 0, 0, 0, 0, 0]));
                let (kind, description) = (super::raw::leak(b"user"), super::raw::leak(b"thirdwall-secret"));
                let ring = super::raw::int(-3);
                tell(
                    "add",
                    &call(libc::SYS_add_key, [kind, description, super::raw::leak(b"x"), 1, ring, 0]),
                );
            }
            "key" => {
                // KEYCTL_SEARCH in the session keyring, then in the user's.
                for (name, ring) in [("session-key", -3_i32), ("user-session-key", -5), ("user-key", -4)] {
                    let (kind, description) =
                        (super::raw::leak(b"user"), super::raw::leak(b"thirdwall-secret"));
                    tell(name, &call(libc::SYS_keyctl, [10, super::raw::int(ring), kind, description, 0, 0]));
                }
                tell(
                    "request-key",
                    &call(
                        libc::SYS_request_key,
                        [super::raw::leak(b"user"), super::raw::leak(b"thirdwall-secret"), 0, 0, 0, 0],
                    ),
                );
            }
            "limits" => {
                for (name, which) in [("core", libc::RLIMIT_CORE), ("nofile", libc::RLIMIT_NOFILE)] {
                    let limit = leak_words(&[0, 0]);
                    let asked = call(libc::SYS_prlimit64, [0, which as usize, 0, limit, 0, 0]);
                    // SAFETY: the two leaked words, which the call has filled.
                    let value = unsafe { *std::ptr::with_exposed_provenance::<[u64; 2]>(limit) };
                    say(name, asked.map_or_else(word, |_| format!("{} {}", value[0], value[1])));
                }
            }
            unknown => say("unknown-probe", unknown),
        }
    }
}

fn linux_caps() {
    let header = leak_words(&[0x2008_0522]);
    let sets = leak_words(&[0; 3]);
    let asked = call(libc::SYS_capget, [header, sets, 0, 0, 0, 0]);
    // SAFETY: the three leaked words, which the call has filled.
    let sets = unsafe { *std::ptr::with_exposed_provenance::<[u64; 3]>(sets) };
    say(
        "sets",
        asked.map_or_else(word, |_| if sets == [0; 3] { "empty".into() } else { format!("{sets:x?}") }),
    );
    let bounding = (0..64).filter(|capability| prctl(23, *capability) == "1").count();
    say("bounding", bounding);
    // PR_CAP_AMBIENT_IS_SET
    let ambient =
        (0..64).filter(|&capability| call(libc::SYS_prctl, [47, 1, capability, 0, 0, 0]) == Ok(1)).count();
    say("ambient", ambient);
    // Both words of each set asked for.
    let wanted = leak_words(&[u64::MAX; 3]);
    tell("capset", &call(libc::SYS_capset, [header, wanted, 0, 0, 0, 0]));
}

fn prctl(option: usize, argument: usize) -> String {
    call(libc::SYS_prctl, [option, argument, 0, 0, 0, 0]).map_or_else(word, |value| value.to_string())
}
