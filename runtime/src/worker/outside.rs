//! The outside of a program in the jail: its streams, clock and chance, and the broker.

use super::frames::Frames;
use super::repl;
use crate::broker::{Broker, Reply};
use crate::partition::host::{Host, Scene};
use policies::audit::Entry;
use policies::broker::Request;
use policies::wire::{self, Explain, Frame, Mode, WantFrame, Wanted};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::rand::GetRandomFlags;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a wait goes on before it is asked whether it still should.
const MOST_ASLEEP: Duration = Duration::from_millis(20);

enum Clock {
    System,
    Fixed(f64),
}

/// The outside of a program in the jail.
pub(super) struct Outside {
    out: Rc<RefCell<Frames>>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    interactive: bool,
    mode: Mode,
    clock: Clock,
    /// Prints under `test`.
    pub(super) captured: Vec<String>,
    pub(super) verbose: bool,
    broker: Option<Broker>,
    /// Whether errors are explained, and what could be seen at the last one.
    explains: bool,
    pub(super) scene: Scene,
    /// Somebody wants what runs to end; only a conversation can go on afterwards.
    pub(super) interrupt: Option<Arc<AtomicBool>>,
    /// Files that are a part of the program, by their paths.
    assets: BTreeMap<String, Rc<[u8]>>,
}

impl Outside {
    pub(super) fn new(header: wire::JobHeader, out: &Rc<RefCell<Frames>>, broker: Option<Broker>) -> Self {
        Self {
            out: out.clone(),
            args: header.args,
            env: header.env,
            interactive: header.interactive,
            mode: header.mode,
            clock: if header.deterministic { Clock::Fixed(header.now) } else { Clock::System },
            captured: Vec::new(),
            verbose: header.verbose,
            broker,
            explains: header.explain != Explain::No,
            scene: Scene::default(),
            interrupt: None,
            assets: BTreeMap::new(),
        }
    }

    /// With files that are a part of the program.
    pub(super) fn with_assets(self, assets: BTreeMap<String, Rc<[u8]>>) -> Self {
        Self { assets, ..self }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

impl Host for Outside {
    fn print(&mut self, text: &str) {
        match self.mode {
            Mode::Run | Mode::Check | Mode::Needs | Mode::Repl | Mode::Conform => {
                self.out.borrow_mut().print(text);
            }
            Mode::Test if !self.verbose => {}
            Mode::Test => self.captured.push(text.to_owned()),
        }
    }

    fn print_part(&mut self, text: &str) {
        if self.mode == Mode::Run {
            self.out.borrow_mut().print_part(text);
        } else {
            self.print(text);
        }
    }

    fn eprint(&mut self, text: &str) {
        self.out.borrow_mut().send(&Frame::Log(text.to_owned()));
    }

    fn audit(&mut self, mut entry: Entry) {
        entry.ts = self.now();
        self.out.borrow_mut().send(&Frame::Audit(entry));
    }

    fn read_line(&mut self) -> Option<String> {
        if let Some(flag) = &self.interrupt {
            // A person types it, where the launcher shows the prompt.
            self.out.borrow_mut().send(&Frame::Want(WantFrame { what: Wanted::Line, indent: 0 }));
            self.out.borrow_mut().flush();
            let line = line_of_input();
            if line.as_deref() == Some(repl::GIVEN_UP) {
                flag.store(true, Ordering::Relaxed);
                return None;
            }
            return line;
        }
        self.out.borrow_mut().flush();
        line_of_input()
    }

    fn now(&mut self) -> f64 {
        match self.clock {
            Clock::System => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64()),
            Clock::Fixed(now) => now,
        }
    }

    fn sleep(&mut self, seconds: f64) {
        self.out.borrow_mut().flush();
        match &mut self.clock {
            // A fixed clock moves by what is waited for, and by nothing else.
            Clock::Fixed(now) => *now += seconds,
            Clock::System => {
                let Some(mut left) = asleep(seconds) else { return };
                while self.interrupt.is_some() && left > MOST_ASLEEP && !self.is_interrupted() {
                    std::thread::sleep(MOST_ASLEEP);
                    left -= MOST_ASLEEP;
                }
                if !self.is_interrupted() {
                    std::thread::sleep(left);
                }
            }
        }
    }

    fn random(&mut self, into: &mut [u8]) {
        // The system call itself: the jail has no device to fall back on, and the C library's symbol isn't looked up in a
        // static program. A kernel that gives no random numbers gives no program either: nothing weaker stands in.
        let mut filled = 0;
        while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::rand::getrandom(rest, GetRandomFlags::empty()) {
                Ok(more) if more > 0 => filled += more,
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => std::process::abort(),
            }
        }
    }

    fn tick(&mut self) {
        // A print is seen at once by whoever reads along, but not every slice costs a system call.
        let mut out = self.out.borrow_mut();
        if !out.waiting.is_empty() {
            let now = Instant::now();
            if out.last.is_none_or(|t| now.duration_since(t) > Duration::from_millis(5)) {
                out.flush();
                out.last = Some(now);
            }
        }
    }

    fn flush(&mut self) {
        self.out.borrow_mut().flush();
    }

    fn delivers(&self) -> bool {
        !self.out.borrow().broken
    }

    fn args(&self) -> Vec<String> {
        self.args.clone()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn env_names(&self) -> Vec<String> {
        self.env.keys().cloned().collect()
    }

    fn interactive(&self) -> bool {
        self.interactive
    }

    fn takes_keys(&self) -> bool {
        self.interactive && self.mode == Mode::Run
    }

    fn keys(&mut self, seconds: f64) -> Option<Vec<u8>> {
        self.out.borrow_mut().flush();
        let input = std::io::stdin();
        // Rounded up, so that the last part of a millisecond is no busy loop.
        let milliseconds = (seconds * 1000.0).ceil().clamp(0.0, 1e6) as i64;
        let timeout = Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 };
        match rustix::event::poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Some(Vec::new()),
            Ok(_) => {}
            Err(_) => return None,
        }
        let mut input = input.lock();
        let bytes = input.fill_buf().ok()?.to_vec();
        input.consume(bytes.len());
        if bytes.is_empty() { None } else { Some(bytes) }
    }

    fn explains(&self) -> bool {
        self.explains
    }

    fn scene(&mut self, scene: Scene) {
        self.scene = scene;
    }

    fn asset(&self, path: &str) -> Option<Rc<[u8]>> {
        self.assets.get(path).cloned()
    }

    fn interrupted(&mut self) -> bool {
        self.interrupt.as_ref().is_some_and(|flag| flag.swap(false, Ordering::Relaxed))
    }

    fn broker(&mut self, request: &Request, raw: &[u8]) -> Result<Reply, String> {
        // What the gate said of this request stands before what the broker says of it.
        self.out.borrow_mut().flush();
        match &mut self.broker {
            Some(broker) => broker.ask(request, raw),
            None => Err("ask the supervisor: this run has none".to_owned()),
        }
    }
}

/// One line of standard input without its end; `None` at the end of the input.
pub(super) fn line_of_input() -> Option<String> {
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => {
            let cut = line.trim_end_matches(['\n', '\r']).len();
            line.truncate(cut);
            Some(line)
        }
    }
}
/// How long a sleep is: what is beyond a duration is the longest one; `None` below 0.
fn asleep(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_beyond_all_durations_is_the_longest_one() {
        assert_eq!(asleep(2f64.powi(70)), Some(Duration::MAX));
        assert_eq!(asleep(f64::INFINITY), Some(Duration::MAX));
        assert_eq!(asleep(0.5), Some(Duration::from_millis(500)));
        assert_eq!((asleep(-1.0), asleep(f64::NAN)), (None, None));
    }
}
