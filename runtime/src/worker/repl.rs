//! `repl` in the jail: lines in, answers out.
//!
//! Whoever reads a person's keys is outside (`policies::wire::WantFrame` tells it what is waited for); without a person the
//! lines just come. There an empty line ends nothing: a block ends with the first line that can't belong to it.

use super::{Frames, Outside, finish, line_of_input, settings};
use crate::broker::Broker;
use crate::diagnostic;
use crate::synsema::repl::{Answer, Entry, Session, goes_on, look};
use policies::capability::Capability;
use policies::ceiling::Ceiling;
use policies::wire::{Frame, JobHeader, MAX_SOURCE, WantFrame, Wanted};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The line of a person who doesn't want to write it: what was begun is forgotten.
pub(super) const GIVEN_UP: &str = "\u{3}";
/// SIGINT, which the launcher passes on: what runs is to end, and the conversation goes on.
const INTERRUPT: i32 = 2;

/// One conversation, to its end.
pub(super) fn talk(
    header: JobHeader,
    ceiling: Option<Ceiling>,
    out: &Rc<RefCell<Frames>>,
    broker: Option<Broker>,
) -> i32 {
    let shows = ceiling.as_ref().is_none_or(|ceiling| ceiling.has(Capability::Stdout));
    let settings = settings(&header, ceiling);
    let (person, colour) = (header.interactive, header.color);
    let mut outside = Outside::new(header, out, broker);
    let flag = Arc::new(AtomicBool::new(false));
    if person {
        if let Err(error) = signal_hook::flag::register(INTERRUPT, flag.clone()) {
            return super::fail(out, &format!("failed to take interrupts: {error}"));
        }
        outside.interrupt = Some(flag.clone());
    }
    let host = Rc::new(RefCell::new(outside));
    let mut talk = Talk { session: Session::new(settings, Box::new(host)), out, shows, colour, person, flag };
    talk.go_on();
    let (end, errors) = talk.session.finish();
    let mut out = out.borrow_mut();
    errors.into_iter().for_each(|error| out.send(&Frame::Error(error)));
    finish(&mut out, &end)
}

struct Talk<'o> {
    session: Session,
    out: &'o Rc<RefCell<Frames>>,
    /// Whether values are shown: where nothing may be printed, they aren't either.
    shows: bool,
    colour: bool,
    person: bool,
    flag: Arc<AtomicBool>,
}

impl Talk<'_> {
    fn go_on(&mut self) {
        // What was written of an entry that isn't whole yet.
        let mut begun = String::new();
        let mut state = Entry::Whole;
        while let Some(line) = self.line(state, begun.is_empty()) {
            if self.person && line == GIVEN_UP {
                begun.clear();
                state = Entry::Whole;
                continue;
            }
            // A header without a body is no bracket: an empty line of a person gives it up, any other may follow.
            let open = matches!(state, Entry::Open(_)) && !begun.is_empty();
            let block = matches!(state, Entry::Block(_));
            let ends = if self.person { line.trim().is_empty() } else { block && !goes_on(&line) };
            if !begun.is_empty() && ends && (block || self.person && open) {
                if self.answer(&std::mem::take(&mut begun)) {
                    return;
                }
                state = Entry::Whole;
                if self.person {
                    continue;
                }
            }
            if begun.is_empty() && line.trim().is_empty() {
                continue;
            }
            if begun.len() + line.len() > MAX_SOURCE {
                self.tell("an entry has at most 64 MiB");
                begun.clear();
                state = Entry::Whole;
                continue;
            }
            begun.push_str(&line);
            begun.push('\n');
            state = match look(&begun) {
                // An empty line or a comment doesn't end it.
                Entry::Whole if block && !self.person => Entry::Block(0),
                state => state,
            };
            if state == Entry::Whole && self.answer(&std::mem::take(&mut begun)) {
                return;
            }
        }
        if !begun.is_empty() {
            self.answer(&begun);
        }
    }

    fn line(&mut self, state: Entry, first: bool) -> Option<String> {
        if self.person {
            let want = match state {
                Entry::Open(indent) | Entry::Block(indent) if !first => {
                    WantFrame { what: Wanted::More, indent }
                }
                _ => WantFrame { what: Wanted::Entry, indent: 0 },
            };
            self.out.borrow_mut().send(&Frame::Want(want));
        }
        self.out.borrow_mut().flush();
        line_of_input()
    }

    /// Evaluates an entry and tells what came of it; `true`: it was the last one.
    fn answer(&mut self, text: &str) -> bool {
        // An interrupt of the last entry that came too late isn't one of this.
        self.flag.store(false, Ordering::Relaxed);
        let Answer { value, errors, over } = self.session.evaluate(text);
        let mut out = self.out.borrow_mut();
        if let Some(value) = value.filter(|_| self.shows) {
            let shown = if self.colour { format!("\u{1b}[36m{value}\u{1b}[0m") } else { value };
            out.send(&Frame::Print(shown));
        }
        errors.into_iter().for_each(|error| out.send(&Frame::Error(error)));
        over.is_some()
    }

    fn tell(&self, message: &str) {
        self.out.borrow_mut().send(&Frame::Error(diagnostic::plain("Lexer error", message)));
    }
}
