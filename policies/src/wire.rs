//! What passes between the launcher and the runtime's process: one job in, frames out.
//!
//! Invariant: everything is bounded before it is kept, and the decoder of frames treats the other side as hostile:
//! the runtime may have been taken over. A frame that breaks a rule ends the stream.

use crate::audit::Entry;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap};

/// First bytes of a job: name and version.
pub const MAGIC: [u8; 8] = *b"3wall\0\0\x01";
/// Bytes of a job's header at most.
pub const MAX_HEADER: usize = 1 << 20;
/// Bytes of one source at most.
pub const MAX_SOURCE: usize = 64 << 20;
/// Modules of a program at most.
pub const MAX_MODULES: usize = 1000;
/// Bytes of a program's saved state at most.
pub const MAX_STATE: usize = 64 << 20;
/// Bytes of a frame's payload at most; a longer print is split.
pub const MAX_FRAME: usize = 16 << 20;

/// Bytes of a frame's JSON at most: what is parsed takes many times its length.
pub const MAX_JSON: usize = 2 << 20;
/// Bytes of one text of an error at most: what is longer is cut when it is sent.
const MAX_ERROR: usize = 48 << 10;
/// Likewise, of an audit entry.
const MAX_ENTRY: usize = 8 << 10;
/// Functions of an error's stack at most.
const MAX_STACK: usize = 64;

/// What the runtime does with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Run it.
    Run,
    /// Run its `test` blocks.
    Test,
    /// Only read it.
    Check,
    /// Run it and print one JSON line.
    Conform,
    /// No program: statements come one after another on standard input.
    Repl,
    /// Only read it, and print as JSON what it [`Needs`].
    Needs,
}

/// Which builtins exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// All of them.
    Native,
    /// Those that look at nothing of the local machine.
    Pure,
}

/// Whether errors are told with everything around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Explain {
    /// Only the line.
    No,
    /// For people.
    Text,
    /// As an object.
    Json,
}

/// Which language the source is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// `.syn`
    Synsema,
    /// `.scua`
    Scua,
}

/// What a program asks for in its text, before it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// Its `require` lines and its modules': capability and scope.
    pub requires: Vec<(String, Option<String>)>,
    /// Modules that it uses, or that its modules use, by their names in a job.
    pub modules: Vec<String>,
}

/// A job's header; sources follow it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobHeader {
    /// What to do.
    pub mode: Mode,
    /// In which language.
    pub language: Language,
    /// The program's name in diagnostics.
    pub file: String,
    /// The host's ceiling in the grammar of `--cap-set`; absent: none was given.
    pub ceiling: Option<String>,
    /// Grants of the command line, in the same grammar; only SCUA has some.
    #[serde(default)]
    pub granted: Option<String>,
    /// Which builtins exist.
    pub profile: Profile,
    /// Fuel for the whole run.
    pub fuel: Option<u64>,
    /// Bytes of heap.
    pub heap: Option<u64>,
    /// Words after the program's file.
    pub args: Vec<String>,
    /// Variables that the program may be shown.
    pub env: BTreeMap<String, String>,
    /// No clock and no randomness but what the seed gives.
    pub deterministic: bool,
    /// Colour in diagnostics.
    pub color: bool,
    /// Details of errors (`--explain`).
    pub explain: Explain,
    /// With [`Mode::Conform`]: also the blackboard and the agents.
    #[serde(default)]
    pub swarm: bool,
    /// Captured output of each test (`-v`).
    pub verbose: bool,
    /// `log` goes with the output, in order.
    pub logs_with_output: bool,
    /// A person is at the terminal and can be asked.
    pub interactive: bool,
    /// Unix time at the start, in seconds.
    pub now: f64,
    /// Where relative paths start, absolute; absent: the program has no folder.
    pub workdir: Option<String>,
    /// Where an executable that `build` made writes its audit.
    #[serde(default)]
    pub audit: Option<String>,
    /// What `~` stands for, absolute.
    pub home: Option<String>,
    /// Names of the modules whose sources follow the program's, in order.
    pub modules: Vec<String>,
    /// Waits are jumped over; only SCUA has that.
    #[serde(default)]
    pub virtual_time: bool,
    /// A saved state follows the sources, to be gone on with; only SCUA has some.
    #[serde(default)]
    pub restore: bool,
    /// The program's state is wanted at its end.
    #[serde(default)]
    pub save: bool,
}

impl JobHeader {
    /// A job to run one file with nothing granted beyond a ceiling.
    #[must_use]
    pub fn run(file: &str, ceiling: Option<String>) -> Self {
        Self {
            mode: Mode::Run,
            language: Language::Synsema,
            file: file.to_owned(),
            ceiling,
            granted: None,
            profile: Profile::Native,
            fuel: None,
            heap: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            deterministic: false,
            color: false,
            explain: Explain::No,
            swarm: false,
            verbose: false,
            logs_with_output: false,
            interactive: false,
            now: 0.0,
            workdir: None,
            audit: None,
            home: None,
            modules: Vec::new(),
            virtual_time: false,
            restore: false,
            save: false,
        }
    }
}

/// A job as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What to do and with what.
    pub header: JobHeader,
    /// The program's text; not yet known to be UTF-8.
    pub source: Vec<u8>,
    /// The modules' texts, in the header's order.
    pub modules: Vec<Vec<u8>>,
    /// What was saved of the program.
    pub state: Option<Vec<u8>>,
}

/// Why bytes are no job or no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The first bytes are wrong.
    #[error("read the job: not a job of this version")]
    Magic,
    /// A length is beyond its bound.
    #[error("read {what}: {length} bytes, at most {limit} are allowed")]
    TooLong {
        /// Of what.
        what: &'static str,
        /// The length that was claimed.
        length: u64,
        /// The bound.
        limit: usize,
    },
    /// The bytes end before what they announce.
    #[error("read {what}: the bytes end early")]
    Short {
        /// Of what.
        what: &'static str,
    },
    /// A JSON part isn't what it should be.
    #[error("read {what}: {reason}")]
    Json {
        /// Of what.
        what: &'static str,
        /// The parser's words.
        reason: String,
    },
    /// A kind that doesn't exist.
    #[error("read a frame: no kind {0}")]
    Kind(u8),
    /// A text that isn't UTF-8.
    #[error("read a frame: its text is not UTF-8")]
    Text,
    /// Something after the last frame.
    #[error("read a frame: there is one after the end")]
    AfterEnd,
}

/// Writes a job.
///
/// # Errors
/// [`Broken::TooLong`] for what the reader would refuse.
pub fn encode_job(
    header: &JobHeader,
    source: &[u8],
    modules: &[Vec<u8>],
    state: Option<&[u8]>,
) -> Result<Vec<u8>, Broken> {
    let json =
        serde_json::to_vec(header).map_err(|e| Broken::Json { what: "the header", reason: e.to_string() })?;
    let bound = |what: &'static str, length: usize, limit: usize| {
        if length > limit { Err(Broken::TooLong { what, length: length as u64, limit }) } else { Ok(()) }
    };
    bound("the header", json.len(), MAX_HEADER)?;
    bound("the modules", modules.len().max(header.modules.len()), MAX_MODULES)?;
    let mut out = MAGIC.to_vec();
    out.extend((json.len() as u32).to_le_bytes());
    out.extend(json);
    for text in std::iter::once(source).chain(modules.iter().map(Vec::as_slice)) {
        bound("a source", text.len(), MAX_SOURCE)?;
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text);
    }
    if let Some(state) = state.filter(|_| header.restore) {
        bound("a state", state.len(), MAX_STATE)?;
        out.extend((state.len() as u64).to_le_bytes());
        out.extend(state);
    }
    Ok(out)
}

/// Reads a job.
///
/// # Errors
/// What is wrong with it.
pub fn decode_job(bytes: &[u8]) -> Result<Job, Broken> {
    let mut rest = bytes.strip_prefix(&MAGIC).ok_or(Broken::Magic)?;
    let length = u64::from(u32::from_le_bytes(take(&mut rest, "the header")?));
    let json = part(&mut rest, length, MAX_HEADER, "the header")?;
    let header: JobHeader = serde_json::from_slice(json)
        .map_err(|e| Broken::Json { what: "the header", reason: e.to_string() })?;
    if header.modules.len() > MAX_MODULES {
        let length = header.modules.len() as u64;
        return Err(Broken::TooLong { what: "the modules", length, limit: MAX_MODULES });
    }
    let mut texts = Vec::new();
    for _ in 0..=header.modules.len() {
        let length = u64::from_le_bytes(take(&mut rest, "a source")?);
        texts.push(part(&mut rest, length, MAX_SOURCE, "a source")?.to_vec());
    }
    let state = if header.restore {
        let length = u64::from_le_bytes(take(&mut rest, "a state")?);
        Some(part(&mut rest, length, MAX_STATE, "a state")?.to_vec())
    } else {
        None
    };
    let modules = texts.split_off(1);
    Ok(Job { header, source: texts.pop().unwrap_or_default(), modules, state })
}

fn take<const N: usize>(rest: &mut &[u8], what: &'static str) -> Result<[u8; N], Broken> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(Broken::Short { what })?;
    *rest = tail;
    Ok(*head)
}

fn part<'a>(rest: &mut &'a [u8], length: u64, limit: usize, what: &'static str) -> Result<&'a [u8], Broken> {
    let fits = usize::try_from(length).ok().filter(|n| *n <= limit);
    let Some(n) = fits else { return Err(Broken::TooLong { what, length, limit }) };
    let (head, tail) = rest.split_at_checked(n).ok_or(Broken::Short { what })?;
    *rest = tail;
    Ok(head)
}

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

const PRINT: u8 = 1;
const PRINT_PART: u8 = 2;
const LOG: u8 = 3;
const ERROR: u8 = 4;
const AUDIT: u8 = 5;
const END: u8 = 6;
const WANT: u8 = 7;
const STATE: u8 = 8;

/// Adds a print to bytes that will be sent; a long one in parts.
pub fn encode_print(text: &str, out: &mut Vec<u8>) {
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
    head(PRINT, rest.len(), out);
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

/// Reads frames out of pieces of a stream, whatever the pieces' sizes.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    start: usize,
    ended: bool,
}

impl FrameDecoder {
    /// Nothing read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes in. At most one frame and one piece are kept.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether the last frame was read.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The next whole frame, if there is one.
    ///
    /// # Errors
    /// The peer broke a rule: read nothing more of it.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Broken> {
        let rest = &self.buffer[self.start..];
        let Some((head, body)) = rest.split_first_chunk::<5>() else {
            return if self.ended && !rest.is_empty() { Err(Broken::AfterEnd) } else { Ok(None) };
        };
        if self.ended {
            return Err(Broken::AfterEnd);
        }
        let [kind, a, b, c, d] = *head;
        if !(PRINT..=STATE).contains(&kind) {
            return Err(Broken::Kind(kind));
        }
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let limit = if (ERROR..=WANT).contains(&kind) { MAX_JSON } else { MAX_FRAME };
        if length > limit {
            return Err(Broken::TooLong { what: "a frame", length: length as u64, limit });
        }
        let Some(payload) = body.get(..length) else { return Ok(None) };
        let text = || std::str::from_utf8(payload).map(str::to_owned).map_err(|_| Broken::Text);
        let frame = match kind {
            PRINT => Frame::Print(text()?),
            PRINT_PART => Frame::PrintPart(text()?),
            LOG => Frame::Log(text()?),
            ERROR => Frame::Error(parse(payload, "an error frame")?),
            AUDIT => Frame::Audit(parse(payload, "an audit frame")?),
            WANT => Frame::Want(parse(payload, "a frame that waits for input")?),
            STATE => Frame::State(payload.to_vec()),
            _ => {
                let end = parse(payload, "the end frame")?;
                self.ended = true;
                Frame::End(end)
            }
        };
        self.start += 5 + length;
        Ok(Some(frame))
    }
}

fn parse<T: for<'de> Deserialize<'de>>(payload: &[u8], what: &'static str) -> Result<T, Broken> {
    serde_json::from_slice(payload).map_err(|e| Broken::Json { what, reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let mut header = JobHeader::run("a.syn", Some("stdout".into()));
        header.modules = vec!["b.syn".into()];
        let bytes = encode_job(&header, b"print(1)", &[b"export let x be 1".to_vec()], None).unwrap();
        let job = decode_job(&bytes).unwrap();
        assert_eq!(job.header, header);
        assert_eq!(job.source, b"print(1)");
        assert_eq!(job.modules, [b"export let x be 1".to_vec()]);
        for n in 0..bytes.len() {
            assert!(decode_job(&bytes[..n]).is_err());
        }
    }

    #[test]
    fn a_state_follows_the_sources() {
        let mut header = JobHeader::run("a.scua", None);
        header.restore = true;
        let bytes = encode_job(&header, b"let x = 1", &[], Some(b"state")).unwrap();
        assert_eq!(decode_job(&bytes).unwrap().state, Some(b"state".to_vec()));
        for n in 0..bytes.len() {
            assert!(decode_job(&bytes[..n]).is_err());
        }
        header.restore = false;
        let bytes = encode_job(&header, b"let x = 1", &[], Some(b"state")).unwrap();
        assert_eq!(decode_job(&bytes).unwrap().state, None);
    }

    #[test]
    fn frames_come_out_whole_whatever_the_pieces() {
        let end = EndFrame { exit: 3, fuel: 7, heap_peak: 9, trap: None, llm_tokens: 0 };
        let state = Frame::State(vec![0, 255]);
        let frames = [Frame::Print("hällo".into()), Frame::Log("x".into()), state, Frame::End(end)];
        let mut bytes = Vec::new();
        frames.iter().for_each(|f| encode(f, &mut bytes));
        for size in 1..bytes.len() {
            let mut decoder = FrameDecoder::new();
            let mut seen = Vec::new();
            for piece in bytes.chunks(size) {
                decoder.push(piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    seen.push(frame);
                }
            }
            assert_eq!(seen, frames);
            assert!(decoder.ended());
        }
    }

    #[test]
    fn a_hostile_peer_is_refused() {
        let refuse = |bytes: &[u8]| {
            let mut decoder = FrameDecoder::new();
            decoder.push(bytes);
            loop {
                match decoder.next_frame() {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(e) => return Some(e),
                }
            }
        };
        assert_eq!(refuse(&[9, 0, 0, 0, 0]), Some(Broken::Kind(9)));
        assert!(matches!(refuse(&[PRINT, 255, 255, 255, 255]), Some(Broken::TooLong { .. })));
        assert_eq!(refuse(&[PRINT, 1, 0, 0, 0, 0xff]), Some(Broken::Text));
        assert!(matches!(refuse(&[END, 2, 0, 0, 0, b'{', b'}']), Some(Broken::Json { .. })));
    }

    #[test]
    fn a_long_error_arrives_cut() {
        let long = "\u{1}é".repeat(1 << 20);
        let error = ErrorFrame {
            text: long.clone(),
            message: long.clone(),
            category: "Runtime error".into(),
            file: Some("a.syn".into()),
            line: Some(1),
            column: None,
            source: Some(long.clone()),
            denied: false,
            stack: vec![long; 100],
        };
        let mut bytes = Vec::new();
        encode(&Frame::Error(error), &mut bytes);
        assert!(bytes.len() <= MAX_JSON + 5);
        let mut decoder = FrameDecoder::new();
        decoder.push(&bytes);
        let Some(Frame::Error(read)) = decoder.next_frame().unwrap() else { panic!("no error") };
        assert!(read.text.ends_with('…') && read.text.len() > 40_000 && read.stack.len() == MAX_STACK);
        // What claims to be longer is refused by its head alone.
        let mut decoder = FrameDecoder::new();
        decoder.push(&[ERROR, 1, 0, 0x20, 0]);
        assert!(matches!(decoder.next_frame(), Err(Broken::TooLong { limit: MAX_JSON, .. })));
    }

    #[test]
    fn a_long_print_is_split_at_a_character() {
        let text = "é".repeat(MAX_FRAME / 2 + 3);
        let mut bytes = Vec::new();
        encode_print(&text, &mut bytes);
        let mut decoder = FrameDecoder::new();
        decoder.push(&bytes);
        let mut joined = String::new();
        while let Some(frame) = decoder.next_frame().unwrap() {
            match frame {
                Frame::Print(t) | Frame::PrintPart(t) => joined.push_str(&t),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(joined, text);
    }
}
