//! The caller's terminal while the jail has one of its own.
//!
//! The caller's is raw, so that ^C, ^Z and the rest go as bytes to the jail's terminal, whose line discipline makes the
//! signals there; the jail's output needs no second treatment either. The size of the window is copied.
//!
//! A program of a language has no terminal in its jail. When it asks for keys, the caller's gives them one by one and echoes
//! nothing; interrupts and stops stay signals to the launcher, so that whoever sits there can always end the program.
//!
//! A shell inside suspends its jobs as ever. A program that is alone in the jail isn't suspended by ^Z: it leads the session,
//! and the kernel stops no orphaned group. Stopping the launcher in its place would be a way for hostile code to switch
//! the clock off.
//!
//! Invariant: the settings are given back on every path out: the end of the run, a stop by job control, a panic.
//! Invariant: a supervisor in the background of its terminal leaves the settings alone.
//! Source: termios(3), credentials(7), tty_ioctl(4).

use crate::sys::winsize;
use nix::{
    errno::Errno,
    sys::{
        signal::{Signal, raise},
        termios::{
            InputFlags, LocalFlags, SetArg,
            SpecialCharacterIndices::{VMIN, VTIME},
            Termios, cfmakeraw, tcgetattr, tcsetattr,
        },
    },
    unistd::{getpgrp, isatty, tcgetpgrp},
};
use policies::process::Window;
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Mutex, MutexGuard, Once, PoisonError},
};

/// The settings to give back, where a panic finds them too.
static BEFORE: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// Copies the size of the window `from` one terminal `to` another.
///
/// # Errors
/// `ENOTTY` if one of them is none.
pub fn copy_size(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
    winsize::set(to, winsize::get(from)?)
}

/// What the terminal is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Every byte goes to a terminal in the jail.
    Raw,
    /// Keys go to a program; interrupts and stops don't, and what is printed is treated as ever.
    Keys,
}

/// The caller's terminal.
#[derive(Debug)]
pub(super) struct CallerTerminal {
    file: OwnedFd,
    manner: Manner,
}

impl CallerTerminal {
    /// The terminal behind `input`; `None` if it is none.
    pub(super) fn of(input: BorrowedFd<'_>, manner: Manner) -> Option<Self> {
        if isatty(input) != Ok(true) {
            return None;
        }
        let file = input.try_clone_to_owned().ok()?;
        Some(Self { file, manner })
    }

    /// Its size; `None`: this process isn't in its foreground.
    pub(super) fn window(&self) -> Option<Window> {
        let size = winsize::get(self.file.as_fd()).ok()?;
        lock().as_ref().map(|_| Window { columns: size.ws_col, rows: size.ws_row })
    }

    /// Makes it raw, if this process is in the foreground and it isn't yet.
    pub(super) fn enter(&self) {
        let mut before = lock();
        if before.is_some() || tcgetpgrp(&self.file) != Ok(getpgrp()) {
            return;
        }
        let Ok(found) = tcgetattr(&self.file) else { return };
        let Ok(file) = self.file.try_clone() else { return };
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let next = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                give_back();
                next(info);
            }));
        });
        let mut raw = found.clone();
        match self.manner {
            Manner::Raw => cfmakeraw(&mut raw),
            Manner::Keys => {
                raw.input_flags
                    .remove(InputFlags::ICRNL | InputFlags::INLCR | InputFlags::IGNCR | InputFlags::IXON);
                raw.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::IEXTEN);
                (raw.control_chars[VMIN as usize], raw.control_chars[VTIME as usize]) = (1, 0);
            }
        }
        // Kept first: between the two nothing can be lost.
        *before = Some((file, found));
        let _ = tcsetattr(&self.file, SetArg::TCSANOW, &raw);
    }

    /// Tells the jail's terminal its size.
    pub(super) fn tell_size(&self, jail: BorrowedFd<'_>) {
        // A terminal that has just gone needs no size.
        let _ = copy_size(self.file.as_fd(), jail);
    }
}

impl Drop for CallerTerminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Stands still until somebody continues this process. The settings are the caller's meanwhile.
pub(super) fn suspend(terminal: Option<&CallerTerminal>) {
    give_back();
    // It can't fail for this signal and this process.
    let _ = raise(Signal::SIGSTOP);
    if let Some(terminal) = terminal {
        terminal.enter();
    }
}

fn give_back() {
    if let Some((file, found)) = lock().take() {
        let _ = tcsetattr(&file, SetArg::TCSANOW, &found);
    }
}

fn lock() -> MutexGuard<'static, Option<(OwnedFd, Termios)>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}
