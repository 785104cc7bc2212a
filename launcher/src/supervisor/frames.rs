//! The language runtime's frames: prints, logs, errors, audit entries, and the end.
//!
//! Invariant: the other side is hostile. What it says of its own end counts only where it makes the verdict worse (a limit
//! of its machine); its exit code is the kernel's word. It can speak for the language's own layers and no others.
//! Invariant: no more is read while what was read isn't delivered, so that a slow reader slows the program.

use super::{
    audit::Audit,
    lines::Lines,
    reap::FuelLeft,
    relay::{Allowance, Filled, Outlet},
    wants::Sink,
};
use nix::errno::Errno;
use policies::{
    layer::Layer,
    wire::{Broken, EndFrame, Frame, FrameDecoder, MAX_STATE, WantFrame},
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes that are read at once.
const PIECE: usize = 64 * 1024;

/// What a read of frames brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// Frames, or none just now.
    Frames,
    /// More output than was allowed.
    Over,
    /// The stream broke a rule, and how.
    Broken(String),
}

/// The limit of the language's machine that ended the program, as the runtime says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trap {
    /// None.
    None,
    /// Fuel.
    Fuel,
    /// The heap's bytes.
    Memory,
}

/// Where frames go.
pub(super) struct To<'a> {
    pub(super) out: &'a mut Outlet,
    pub(super) err: &'a mut Outlet,
    pub(super) prints: Option<&'a mut Lines>,
    pub(super) errors: &'a mut Lines,
    /// Whether errors are kept alone.
    pub(super) quiet: bool,
    pub(super) allowance: &'a mut Allowance,
    pub(super) audit: &'a mut Audit,
    /// The line that is waited for.
    pub(super) want: &'a mut Option<WantFrame>,
}

/// The stream of frames.
#[derive(Debug)]
pub(super) struct Frames {
    file: Option<OwnedFd>,
    decoder: FrameDecoder,
    end: Option<EndFrame>,
    /// A runtime whose gate holds sends no print that isn't granted.
    printed: bool,
    /// Where a saved state goes, if one is wanted, and how much of it has gone there.
    state: Option<OwnedFd>,
    saved: usize,
    /// What the last read brought; made with the first one.
    piece: Vec<u8>,
}

impl Frames {
    pub(super) fn new(file: OwnedFd, state: Option<OwnedFd>) -> Self {
        Self {
            file: Some(file),
            decoder: FrameDecoder::new(),
            end: None,
            printed: false,
            state,
            saved: 0,
            piece: Vec::new(),
        }
    }

    /// The runtime's end, while it is open.
    pub(super) fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Takes nothing more.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Takes what the runtime has written.
    pub(super) fn take(&mut self, to: &mut To<'_>) -> Heard {
        let Some(file) = &self.file else { return Heard::Frames };
        self.piece.resize(PIECE, 0);
        match nix::unistd::read(file, &mut self.piece) {
            Ok(0) => self.close(),
            Ok(count) => self.decoder.push(self.piece.get(..count).unwrap_or_default()),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => self.close(),
        }
        loop {
            match self.decoder.next_frame() {
                Ok(Some(frame)) => match self.handle(frame, to) {
                    Heard::Frames => {}
                    other => return other,
                },
                Ok(None) => return Heard::Frames,
                Err(broken) => return self.broken(&broken),
            }
        }
    }

    /// Whether the runtime told of its end.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Whether there was any print.
    pub(super) fn has_printed(&self) -> bool {
        self.printed
    }

    /// Which limit of the machine ended the program.
    pub(super) fn trap(&self) -> Trap {
        match self.end.as_ref().and_then(|end| end.trap.as_deref()) {
            Some("fuel") => Trap::Fuel,
            Some("memory") => Trap::Memory,
            Some(_) | None => Trap::None,
        }
    }

    /// Fuel used, as the runtime says.
    pub(super) fn fuel(&self) -> Option<u64> {
        self.end.as_ref().map(|end| end.fuel)
    }

    fn handle(&mut self, frame: Frame, to: &mut To<'_>) -> Heard {
        self.printed |= matches!(frame, Frame::Print(_) | Frame::PrintPart(_));
        match frame {
            Frame::Print(text) => {
                let filled = deliver(to.out, to.allowance, &text, Break::After, to.prints.as_deref_mut());
                heard(filled)
            }
            Frame::PrintPart(text) => {
                let filled = deliver(to.out, to.allowance, &text, Break::None, to.prints.as_deref_mut());
                heard(filled)
            }
            // A log is the program's own word, as a print is; an error is what is said of the program.
            Frame::Log(text) if to.err.is_deaf() => {
                let mut nowhere = Outlet::new(None, Sink::Nowhere);
                heard(deliver(&mut nowhere, to.allowance, &text, Break::After, None))
            }
            Frame::Log(text) => heard(deliver(to.err, to.allowance, &text, Break::After, None)),
            Frame::Error(error) if to.quiet => heard(deliver(
                &mut Outlet::new(None, Sink::Nowhere),
                to.allowance,
                &error.text,
                Break::After,
                Some(to.errors),
            )),
            Frame::Error(error) => {
                // The report has the message; whoever reads along also sees the line that it is about.
                let told = deliver(to.err, to.allowance, &error.text, Break::After, Some(to.errors));
                match (told, runtime::diagnostic::excerpt(&error)) {
                    (Filled::Bytes, excerpt) if !excerpt.is_empty() => {
                        heard(deliver(to.err, to.allowance, &excerpt, Break::After, None))
                    }
                    (told, _) => heard(told),
                }
            }
            Frame::Audit(entry) => match entry.layer {
                Layer::Gate | Layer::Profile => {
                    to.audit.add(entry);
                    Heard::Frames
                }
                Layer::Namespaces
                | Layer::Root
                | Layer::Landlock
                | Layer::Filter
                | Layer::Network
                | Layer::Broker
                | Layer::Limits => {
                    self.close();
                    Heard::Broken("the runtime sent an audit entry of a layer that isn't its own".to_owned())
                }
            },
            Frame::Want(want) => {
                *to.want = Some(want);
                Heard::Frames
            }
            Frame::State(part) => self.save(&part),
            Frame::End(end) => {
                self.end = Some(end);
                Heard::Frames
            }
        }
    }

    /// Keeps a part of the program's state: bytes that nobody here looks into.
    fn save(&mut self, part: &[u8]) -> Heard {
        self.saved = self.saved.saturating_add(part.len());
        let Some(state) = self.state.as_ref().filter(|_| self.saved <= MAX_STATE) else {
            self.close();
            return Heard::Broken(
                "the runtime sent a state that nobody wanted, or too much of one".to_owned(),
            );
        };
        let mut rest = part;
        while !rest.is_empty() {
            match nix::unistd::write(state, rest) {
                Ok(count) if count > 0 => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::EINTR) => {}
                Ok(_) | Err(_) => {
                    self.close();
                    return Heard::Broken("the program's state can't be kept".to_owned());
                }
            }
        }
        Heard::Frames
    }

    fn broken(&mut self, broken: &Broken) -> Heard {
        self.close();
        Heard::Broken(format!("the runtime's frames make no sense: failed to {broken}"))
    }
}

/// Whether a line break follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Break {
    None,
    After,
}

/// Queues text for the caller and keeps it for the report; what isn't allowed is left out.
fn deliver(
    to: &mut Outlet,
    allowance: &mut Allowance,
    text: &str,
    end: Break,
    kept: Option<&mut Lines>,
) -> Filled {
    let line_break: &[u8] = match end {
        Break::None => b"",
        Break::After => b"\n",
    };
    let wanted = text.len() + line_break.len();
    let granted = allowance.take(wanted);
    let allowed = text.as_bytes().get(..granted).unwrap_or(text.as_bytes());
    to.queue(allowed);
    if granted == wanted {
        to.queue(line_break);
    }
    if let Some(kept) = kept {
        match end {
            Break::None => kept.push_part(allowed),
            Break::After => kept.push_whole(allowed),
        }
    }
    if granted < wanted { Filled::Over } else { Filled::Bytes }
}

fn heard(filled: Filled) -> Heard {
    match filled {
        Filled::Over => Heard::Over,
        Filled::Bytes | Filled::End => Heard::Frames,
    }
}

impl From<Trap> for FuelLeft {
    fn from(trap: Trap) -> Self {
        match trap {
            Trap::Fuel => Self::None,
            Trap::None | Trap::Memory => Self::Enough,
        }
    }
}
