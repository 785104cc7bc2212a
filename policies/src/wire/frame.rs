//! Frames, and how they are written: what is longer than the other side takes is cut here.

use super::{MAX_ENTRY, MAX_ERROR, MAX_FRAME, MAX_JSON, MAX_STACK};
use crate::audit::Entry;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// An error of the program, as data and as the line that people read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorFrame {
    /// The whole message as the command line prints it: `Runtime error: a.syn:1:5: …`.
    pub text: String,
    /// The message alone.
    pub message: String,
    /// `Lexer error`, `Parse error`, `Runtime error`, `Agent error`, `Internal error`.
    pub category: String,
    /// The file, if there is a place.
    pub file: Option<String>,
    /// Line from 1.
    pub line: Option<u32>,
    /// Column from 1, in characters.
    pub column: Option<u32>,
    /// The line's text, for showing with the place marked.
    pub source: Option<String>,
    /// Whether the gate denied it.
    pub denied: bool,
    /// Functions that were running, innermost first: `name (file:line)`.
    pub stack: Vec<String>,
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndFrame {
    /// The program's exit code.
    pub exit: i32,
    /// Fuel used.
    pub fuel: u64,
    /// The most bytes of heap that were live at once.
    pub heap_peak: u64,
    /// `fuel` or `memory`, if a limit ended it.
    pub trap: Option<String>,
    /// Tokens of model calls.
    pub llm_tokens: u64,
}

/// One message of the runtime's process.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// One print, or the last part of a long one: text without its newline.
    Print(String),
    /// A part of a long print; more follows.
    PrintPart(String),
    /// Text for standard error, without its newline.
    Log(String),
    /// An error of the program.
    Error(ErrorFrame),
    /// A decision of the gate.
    Audit(Entry),
    /// The runtime waits for a line of standard input that a person types.
    Want(WantFrame),
    /// A part of the program's saved state.
    State(Vec<u8>),
    /// The last frame.
    End(EndFrame),
}

/// A line that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantFrame {
    /// What it will be.
    pub what: Wanted,
    /// Columns that it is likely to be indented.
    pub indent: u8,
}

/// What a line is waited for as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// The first line of an entry.
    Entry,
    /// A further line of it.
    More,
    /// Input of the program.
    Line,
}

pub(super) const PRINT: u8 = 1;
pub(super) const PRINT_PART: u8 = 2;
pub(super) const LOG: u8 = 3;
pub(super) const ERROR: u8 = 4;
pub(super) const AUDIT: u8 = 5;
pub(super) const END: u8 = 6;
pub(super) const WANT: u8 = 7;
pub(super) const STATE: u8 = 8;

/// Adds a print to bytes that will be sent; a long one in parts.
pub fn encode_print(text: &str, out: &mut Vec<u8>) {
    print_last(PRINT, text, out);
}

/// The same without the end of its line.
pub fn encode_print_part(text: &str, out: &mut Vec<u8>) {
    print_last(PRINT_PART, text, out);
}

fn print_last(last: u8, text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while rest.len() > MAX_FRAME {
        let mut cut = MAX_FRAME;
        while !rest.is_char_boundary(cut) {
            cut -= 1;
        }
        head(PRINT_PART, cut, out);
        out.extend_from_slice(&rest.as_bytes()[..cut]);
        rest = &rest[cut..];
    }
    head(last, rest.len(), out);
    out.extend_from_slice(rest.as_bytes());
}

/// Adds a frame to bytes that will be sent. A text beyond the bound is cut; so are an error's texts.
pub fn encode(frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::Print(text) => encode_print(text, out),
        Frame::PrintPart(text) => plain(PRINT_PART, text, out),
        Frame::Log(text) => plain(LOG, text, out),
        Frame::Error(error) if is_short(error) => json(ERROR, error, out),
        Frame::Error(error) => json(ERROR, &shortened(error), out),
        Frame::Audit(entry) => json(AUDIT, &shortened_entry(entry), out),
        Frame::Want(want) => json(WANT, want, out),
        Frame::State(part) => {
            let part = part.get(..MAX_FRAME).unwrap_or(part);
            head(STATE, part.len(), out);
            out.extend_from_slice(part);
        }
        Frame::End(end) => json(END, end, out),
    }
}

/// Whether it fits, even if each byte of it takes six in JSON.
fn is_short(error: &ErrorFrame) -> bool {
    let lines = [&error.file, &error.source].into_iter().flatten();
    let texts = [&error.text, &error.message, &error.category];
    texts.into_iter().chain(lines).all(|text| text.len() <= MAX_ERROR)
        && error.stack.len() <= MAX_STACK
        && error.stack.iter().map(String::len).sum::<usize>() <= MAX_ERROR
}

fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} …", &text[..end])
}

/// An entry whose texts fit: a denial is never left out for the length of what was asked for.
fn shortened_entry(entry: &Entry) -> Cow<'_, Entry> {
    let texts = [&entry.context, &entry.capability, &entry.source, &entry.reason, &entry.target];
    if texts.into_iter().chain(&entry.file).all(|text| text.len() <= MAX_ENTRY) {
        return Cow::Borrowed(entry);
    }
    let of = |text: &str| cut(text, MAX_ENTRY);
    Cow::Owned(Entry {
        context: of(&entry.context),
        capability: of(&entry.capability),
        source: of(&entry.source),
        reason: of(&entry.reason),
        target: of(&entry.target),
        file: entry.file.as_deref().map(of),
        ..entry.clone()
    })
}

fn shortened(error: &ErrorFrame) -> ErrorFrame {
    ErrorFrame {
        text: cut(&error.text, MAX_ERROR),
        message: cut(&error.message, MAX_ERROR),
        category: cut(&error.category, 64),
        file: error.file.as_ref().map(|text| cut(text, 4096)),
        line: error.line,
        column: error.column,
        source: error.source.as_ref().map(|text| cut(text, MAX_ERROR)),
        denied: error.denied,
        stack: error.stack.iter().take(MAX_STACK).map(|text| cut(text, MAX_ERROR / MAX_STACK)).collect(),
    }
}

fn head(kind: u8, length: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend((length as u32).to_le_bytes());
}

fn plain(kind: u8, text: &str, out: &mut Vec<u8>) {
    let mut end = text.len().min(MAX_FRAME);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    head(kind, end, out);
    out.extend_from_slice(&text.as_bytes()[..end]);
}

fn json(kind: u8, value: &impl Serialize, out: &mut Vec<u8>) {
    if let Ok(bytes) = serde_json::to_vec(value)
        && bytes.len() <= MAX_JSON
    {
        head(kind, bytes.len(), out);
        out.extend(bytes);
    }
}
