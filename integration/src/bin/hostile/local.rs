//! Honest work that needs no network: it must go on working in every jail.

use super::raw::{call, leak_words, say, tell_io};
use nix::sys::{
    epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout},
    eventfd::EventFd,
    socket::{AddressFamily, SockFlag, SockType, socketpair},
};
use std::{
    fs::OpenOptions,
    io::{Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    process::Command,
    thread,
};

pub(crate) fn work(what: &[&str]) {
    let all = ["pairs", "poll", "threads", "fork", "shm", "signals"];
    for what in if what.is_empty() { &all[..] } else { what } {
        match *what {
            "pairs" => {
                tell_io("stream", &exchange());
                let kinds = [("seqpacket", SockType::SeqPacket), ("stream-cloexec", SockType::Stream)];
                for (name, kind) in kinds {
                    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
                    super::raw::tell(name, &socketpair(AddressFamily::Unix, kind, None, flags));
                }
            }
            "poll" => {
                let polled = || -> nix::Result<usize> {
                    let (epoll, event) = (Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?, EventFd::new()?);
                    epoll.add(event.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 1))?;
                    event.write(1)?;
                    epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::from(1000_u16))
                };
                super::raw::tell("poll", &polled());
            }
            "threads" => {
                let sum: u64 =
                    (0..16_u64).map(|n| thread::spawn(move || n)).map(|t| t.join().unwrap_or(0)).sum();
                say("threads", if sum == 120 { "ok" } else { "wrong" });
            }
            "fork" => {
                let child = super::processes::fork();
                if child == Ok(0) {
                    let _never = call(libc::SYS_exit_group, [7, 0, 0, 0, 0, 0]);
                }
                let ended = nix::sys::wait::wait();
                say(
                    "fork",
                    if matches!(ended, Ok(nix::sys::wait::WaitStatus::Exited(_, 7))) {
                        "ok"
                    } else {
                        "wrong"
                    },
                );
            }
            "shm" => {
                let written = || -> std::io::Result<()> {
                    let path = format!("/dev/shm/thirdwall-local-{}", std::process::id());
                    let mut file = OpenOptions::new().create_new(true).read(true).write(true).open(&path)?;
                    file.write_all(b"shared")?;
                    file.set_len(1 << 16)?;
                    std::fs::remove_file(&path)
                };
                tell_io("shm", &written());
            }
            "signals" => {
                let own = nix::unistd::getpid().as_raw() as usize;
                // A group of one's own: nobody else is in it.
                let _group = call(libc::SYS_setpgid, [0, 0, 0, 0, 0, 0]);
                super::raw::tell("signals", &call(libc::SYS_kill, [own, libc::SIGCONT as usize, 0, 0, 0, 0]));
                let _mask = leak_words(&[0]);
            }
            "spawn" => tell_io("spawn", &Command::new("/proc/self/exe").arg("executed").status()),
            unknown => say("unknown-work", unknown),
        }
    }
}

fn exchange() -> std::io::Result<()> {
    let (mut here, mut there) = UnixStream::pair()?;
    let reader = thread::spawn(move || -> std::io::Result<[u8; 4]> {
        let mut got = [0; 4];
        there.read_exact(&mut got)?;
        Ok(got)
    });
    here.write_all(b"ping")?;
    match reader.join() {
        Ok(Ok(got)) if got == *b"ping" => Ok(()),
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) | Err(_) => Err(std::io::ErrorKind::InvalidData.into()),
    }
}
