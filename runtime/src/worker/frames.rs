//! Frames on their way to the supervisor: collected, sent in pieces.

use policies::wire::{self, EndFrame, Frame};
use std::fs::File;
use std::io::Write;
use std::time::Instant;

/// Bytes of frames that wait at most.
const BUFFER: usize = 64 << 10;

/// Frames on their way out.
pub(super) struct Frames {
    file: File,
    pub(super) waiting: Vec<u8>,
    pub(super) broken: bool,
    pub(super) last: Option<Instant>,
}

impl Frames {
    pub(super) fn new(file: File) -> Self {
        Self { file, waiting: Vec::with_capacity(4096), broken: false, last: None }
    }

    pub(super) fn send(&mut self, frame: &Frame) {
        wire::encode(frame, &mut self.waiting);
        self.full();
    }

    pub(super) fn print(&mut self, text: &str) {
        wire::encode_print(text, &mut self.waiting);
        self.full();
    }

    pub(super) fn print_part(&mut self, text: &str) {
        wire::encode_print_part(text, &mut self.waiting);
        self.full();
    }

    fn full(&mut self) {
        if self.waiting.len() >= BUFFER {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        if !self.waiting.is_empty() {
            if !self.broken {
                // A reader that went away is no error of the program: nothing more is sent.
                self.broken = self.file.write_all(&self.waiting).is_err();
            }
            self.waiting.clear();
        }
    }

    pub(super) fn end(&mut self, exit: i32, fuel: u64, heap_peak: u64, trap: Option<String>) {
        self.send(&Frame::End(EndFrame { exit, fuel, heap_peak, trap, llm_tokens: 0 }));
        self.flush();
    }
}
