//! Processes: to reach others, to be many, to stop the clock, to outlive the run.

use super::raw::{call, int, say, tell};
use nix::{
    errno::Errno,
    sys::wait::waitpid,
    time::ClockId,
    unistd::{Pid, getpid},
};
use std::time::Duration;

pub(crate) fn attack(arguments: &[&str]) {
    let Some((way, rest)) = arguments.split_first() else { return };
    let number = |place: usize| rest.get(place).and_then(|word| word.parse::<i64>().ok()).unwrap_or(0);
    match *way {
        // The launcher's group would stop, and its clock with it.
        "stop-group" => {
            say("stopping", "yes");
            tell("stopped", &kill(0, libc::SIGSTOP));
            sleep_for(60);
        }
        "stop-everybody" => {
            if fork() == Ok(0) {
                tell("all", &kill(-1, libc::SIGSTOP));
                sleep_for(60);
            }
            sleep_for(60);
        }
        "kill-everybody" => tell("all", &kill(-1, libc::SIGKILL)),
        "signal" => {
            for pid in rest.iter().filter_map(|word| word.parse().ok()) {
                tell(&format!("signal-{pid}"), &kill(pid, 0));
                tell(&format!("kill-{pid}"), &kill(pid, libc::SIGUSR1));
            }
        }
        "kill-init" => {
            for signal in [libc::SIGKILL, libc::SIGSTOP, libc::SIGTERM, libc::SIGSEGV, libc::SIGCHLD] {
                let _sent = kill(1, signal);
            }
            std::thread::sleep(Duration::from_millis(200));
            say("alive", "yes");
        }
        // All that lives on in the background when the first process has ended.
        "leave-behind" => {
            for _child in 0..number(0).max(1) {
                if fork() == Ok(0) {
                    let _own = call(libc::SYS_setsid, [0; 6]);
                    ignore_signals();
                    if fork() == Ok(0) {
                        sleep_for(60);
                    }
                    sleep_for(60);
                }
            }
            say("left", "behind");
        }
        // Likewise, but the first process stays too.
        "outlive" => {
            for _child in 0..number(0).max(1) {
                if fork() == Ok(0) {
                    let _own = call(libc::SYS_setsid, [0; 6]);
                    // PR_SET_PDEATHSIG, none.
                    let _cleared = call(libc::SYS_prctl, [1, 0, 0, 0, 0, 0]);
                    ignore_signals();
                    sleep_for(60);
                }
            }
            ignore_signals();
            say("ready", "yes");
            sleep_for(60);
        }
        "bomb" => {
            let mut made = 0;
            loop {
                match fork() {
                    Ok(0) => sleep_for(60),
                    Ok(_child) => made += 1,
                    Err(errno) => {
                        say("forked", made);
                        tell::<()>("then", &Err(errno));
                        std::process::exit(1);
                    }
                }
                if made > 5_000 {
                    say("forked", made);
                    let _all = kill(-1, libc::SIGKILL);
                    std::process::exit(0);
                }
            }
        }
        // Processor time by many, none of which uses much.
        "burn" => {
            let children: Vec<Pid> = (0..number(0))
                .map_while(|_| match fork() {
                    Ok(0) => {
                        spin(Duration::from_millis(u64::try_from(number(1)).unwrap_or(0)));
                        exit(0)
                    }
                    Ok(child) => Some(Pid::from_raw(child as i32)),
                    Err(_) => None,
                })
                .collect();
            for child in &children {
                let _ended = waitpid(*child, None);
            }
            say("burnt", children.len());
        }
        // One after the other, each collected by nobody, since the parent ignores their ends.
        "burn-in-turn" => {
            let _ignored = call(
                libc::SYS_rt_sigaction,
                [libc::SIGCHLD as usize, super::raw::leak_words(&[1, 0, 0, 0]), 0, 8, 0, 0],
            );
            for _child in 0..number(0) {
                match fork() {
                    Ok(0) => {
                        spin(Duration::from_millis(u64::try_from(number(1)).unwrap_or(0)));
                        exit(0)
                    }
                    Ok(child) => {
                        let _ended = waitpid(Pid::from_raw(child as i32), None);
                    }
                    Err(_) => {}
                }
            }
            say("burnt", "all");
        }
        // Output for ever.
        "chatter" => {
            let line = "x".repeat(1023);
            loop {
                say("chatter", &line);
            }
        }
        // Refused calls for ever.
        "flood" => {
            for _ in 0..number(0) {
                let _refused = call(libc::SYS_ptrace, [0; 6]);
            }
            say("flooded", number(0));
        }
        "refused-by-many" => {
            for _ in 0..number(0) {
                if fork() == Ok(0) {
                    loop {
                        let _refused = call(libc::SYS_ptrace, [0; 6]);
                    }
                }
            }
            sleep_for(60);
        }
        "exit" => exit(number(0) as i32),
        "abort" => {
            // SIGABRT's default action, whatever was inherited.
            let _sent = kill(i64::from(getpid().as_raw()), libc::SIGABRT);
        }
        "sleep" => sleep_for(number(0)),
        _unknown => say("unknown-way", way),
    }
}

fn kill(pid: i64, signal: i32) -> Result<usize, Errno> {
    call(libc::SYS_kill, [pid as usize, int(signal), 0, 0, 0, 0])
}

/// A fork without the C library's handlers.
pub(crate) fn fork() -> Result<usize, Errno> {
    call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0])
}

fn exit(code: i32) -> ! {
    loop {
        let _never = call(libc::SYS_exit_group, [int(code), 0, 0, 0, 0, 0]);
    }
}

fn ignore_signals() {
    for signal in (1..65).filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal)) {
        // struct sigaction of the kernel: SIG_IGN first.
        let action = super::raw::leak_words(&[1, 0, 0, 0]);
        let _ignored = call(libc::SYS_rt_sigaction, [int(signal), action, 0, 8, 0, 0]);
    }
}

fn sleep_for(seconds: i64) {
    std::thread::sleep(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
    exit(0)
}

/// Uses so much processor time.
fn spin(time: Duration) {
    let used = || ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map_or(Duration::MAX, Duration::from);
    while used() < time {
        std::hint::spin_loop();
    }
}
