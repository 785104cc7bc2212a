//! Keys out of what a terminal sends.
//!
//! Invariant: any bytes are read or passed over, and no more than [`LONGEST`] of them wait for the end of a sequence.
//! Source: ECMA-48 section 5.4 (control sequences); xterm's "Control Sequences", PC-style function keys.

/// Longest sequence that is waited for.
const LONGEST: usize = 32;
const ESCAPE: u8 = 0x1b;

/// A key, and what was held with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Key {
    /// A character, or a name of more than one letter.
    pub(super) name: String,
    pub(super) ctrl: bool,
    pub(super) alt: bool,
    pub(super) shift: bool,
}

/// What the first bytes are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A key of so many bytes.
    Key(Key, usize),
    /// So many bytes that are no key.
    Nothing(usize),
    /// The beginning of something.
    More,
}

/// Whether more bytes may belong to the first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    MayCome,
    NeverComes,
}

impl Key {
    fn of(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// With the number that says what is held: one more than the sum of 1, 2 and 4.
    fn held(self, number: u32) -> Self {
        let held = number.saturating_sub(1);
        Self { shift: held & 1 != 0, alt: held & 2 != 0, ctrl: held & 4 != 0, ..self }
    }
}

/// Reads the first key.
pub(super) fn read(bytes: &[u8], rest: Rest) -> Read {
    let Some((first, behind)) = bytes.split_first() else { return Read::More };
    match *first {
        ESCAPE => escape(behind, rest),
        b'\r' | b'\n' => Read::Key(Key::of("enter"), 1),
        b'\t' => Read::Key(Key::of("tab"), 1),
        0x08 | 0x7f => Read::Key(Key::of("backspace"), 1),
        0 => Read::Key(Key { ctrl: true, ..Key::of(" ") }, 1),
        code @ 1..=26 => Read::Key(Key { ctrl: true, ..Key::of(char::from(code + b'a' - 1)) }, 1),
        code @ 28..=31 => Read::Key(Key { ctrl: true, ..Key::of(char::from(code + b'@')) }, 1),
        _ => character(bytes, rest),
    }
}

fn character(bytes: &[u8], rest: Rest) -> Read {
    let Some(chunk) = bytes.utf8_chunks().next() else { return Read::More };
    match chunk.valid().chars().next() {
        Some(c) => Read::Key(Key::of(c), c.len_utf8()),
        None => {
            let wrong = chunk.invalid();
            let is_begun = std::str::from_utf8(wrong).is_err_and(|error| error.error_len().is_none());
            if is_begun && wrong.len() == bytes.len() && rest == Rest::MayCome {
                return Read::More;
            }
            Read::Nothing(wrong.len().max(1))
        }
    }
}

fn escape(behind: &[u8], rest: Rest) -> Read {
    match behind.first() {
        None if rest == Rest::MayCome => Read::More,
        None | Some(&ESCAPE) => Read::Key(Key::of("escape"), 1),
        Some(b'[') => sequence(behind.get(1..).unwrap_or_default(), rest),
        Some(b'O') => match behind.get(1) {
            None if rest == Rest::MayCome => Read::More,
            None => Read::Key(Key { alt: true, ..Key::of("O") }, 2),
            Some(last) => match letter(*last) {
                Some(name) => Read::Key(Key::of(name), 3),
                None => Read::Nothing(3),
            },
        },
        Some(_) => match read(behind, rest) {
            Read::Key(key, length) => Read::Key(Key { alt: true, ..key }, length + 1),
            Read::Nothing(length) => Read::Nothing(length + 1),
            Read::More => Read::More,
        },
    }
}

/// Behind `ESC [`: numbers, then a letter or `~`.
fn sequence(bytes: &[u8], rest: Rest) -> Read {
    let Some(end) = bytes.iter().take(LONGEST).position(|byte| (0x40..=0x7e).contains(byte)) else {
        let waits = rest == Rest::MayCome && bytes.len() < LONGEST;
        return if waits { Read::More } else { Read::Nothing(bytes.len().min(LONGEST) + 2) };
    };
    let (numbers, last) = (bytes.get(..end).unwrap_or_default(), bytes.get(end).copied().unwrap_or_default());
    let length = end + 3;
    let numbers = std::str::from_utf8(numbers).unwrap_or_default();
    let mut numbers = numbers.split(';').map(|number| number.parse::<u32>().ok());
    let (first, second) = (numbers.next().flatten(), numbers.next().flatten());
    let name = match last {
        b'~' => first.and_then(numbered),
        b'Z' => return Read::Key(Key { shift: true, ..Key::of("tab") }, length),
        letter_of => letter(letter_of),
    };
    match name {
        Some(name) => Read::Key(Key::of(name).held(second.unwrap_or(1)), length),
        None => Read::Nothing(length),
    }
}

const fn letter(last: u8) -> Option<&'static str> {
    Some(match last {
        b'A' => "up",
        b'B' => "down",
        b'C' => "right",
        b'D' => "left",
        b'F' => "end",
        b'H' => "home",
        b'P' => "f1",
        b'Q' => "f2",
        b'R' => "f3",
        b'S' => "f4",
        _ => return None,
    })
}

const fn numbered(number: u32) -> Option<&'static str> {
    Some(match number {
        1 | 7 => "home",
        2 => "insert",
        3 => "delete",
        4 | 8 => "end",
        5 => "page_up",
        6 => "page_down",
        11 => "f1",
        12 => "f2",
        13 => "f3",
        14 => "f4",
        15 => "f5",
        17 => "f6",
        18 => "f7",
        19 => "f8",
        20 => "f9",
        21 => "f10",
        23 => "f11",
        24 => "f12",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8]) -> Vec<String> {
        let (mut at, mut names) = (0, Vec::new());
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match read(rest, Rest::NeverComes) {
                Read::Key(key, length) => {
                    let held = [(key.ctrl, "ctrl-"), (key.alt, "alt-"), (key.shift, "shift-")];
                    let held: String = held.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
                    names.push(format!("{held}{}", key.name));
                    at += length;
                }
                Read::Nothing(length) => at += length,
                Read::More => panic!("{rest:?} waits for what never comes"),
            }
        }
        names
    }

    #[test]
    fn keys_have_names() {
        assert_eq!(all("aé☃\r\t\x7f".as_bytes()), ["a", "é", "☃", "enter", "tab", "backspace"]);
        assert_eq!(all(b"\x01\x1a\x00\x1f"), ["ctrl-a", "ctrl-z", "ctrl- ", "ctrl-_"]);
        assert_eq!(
            all(b"\x1b[A\x1bOB\x1b[1;5C\x1b[1;2D\x1b[H\x1b[F"),
            ["up", "down", "ctrl-right", "shift-left", "home", "end"]
        );
        assert_eq!(
            all(b"\x1b[3~\x1b[5;3~\x1b[24~\x1bOP\x1b[Z"),
            ["delete", "alt-page_up", "f12", "f1", "shift-tab"]
        );
        assert_eq!(all(b"\x1bx\x1b\x1b"), ["alt-x", "escape", "escape"]);
        // What nobody knows, and what is no text, is passed over.
        assert_eq!(all(b"\x1b[99~\x1b[?1;2c\xff\xc3(a"), ["(", "a"]);
    }

    #[test]
    fn what_has_only_begun_is_waited_for() {
        for begun in [&b"\x1b"[..], b"\x1b[", b"\x1b[1;", b"\x1bO", b"\xe2\x98", b""] {
            assert_eq!(read(begun, Rest::MayCome), Read::More, "{begun:?}");
        }
        // But not for ever.
        let endless = [b"\x1b[".to_vec(), vec![b'1'; LONGEST]].concat();
        assert_eq!(read(&endless, Rest::MayCome), Read::Nothing(LONGEST + 2));
    }

    proptest! {
        #[test]
        fn any_bytes_come_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _names = all(&bytes);
        }
    }
}
