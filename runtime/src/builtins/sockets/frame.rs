//! Frames of a WebSocket, written as a client writes them and read as a server sends them.
//!
//! Invariant: what a server sends is hostile: a message is bounded before it is kept, and each rule of the protocol that is
//! broken ends the connection.
//! No crate for WebSockets is used: those that are kept well own the stream and draw masks from the C library's random numbers,
//! which a static program in a jail doesn't have.
//!
//! Source: RFC 6455 sections 5.2 (framing), 5.4 (fragments), 5.5 (control frames), 7.4.1 (codes).

/// Largest message.
pub(super) const MOST: usize = 16 << 20;
/// Largest content of a control frame.
const MOST_CONTROL: usize = 125;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    More,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn of(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::More,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    const fn bits(self) -> u8 {
        match self {
            Self::More => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// One whole frame, masked.
pub(super) fn written(opcode: Opcode, content: &[u8], mask: [u8; 4]) -> Vec<u8> {
    let mut out = vec![0x80 | opcode.bits()];
    match content.len() {
        short @ 0..=125 => out.push(0x80 | short as u8),
        middle @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask);
    out.extend(content.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// What came of the bytes so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    /// The other side closes: its code, if it gave one, and its reason.
    Close(Option<u16>, String),
}

/// A rule that was broken, and the code that says so to the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) code: u16,
    pub(super) why: &'static str,
}

const fn protocol(why: &'static str) -> Wrong {
    Wrong { code: 1002, why }
}

const fn no_text(why: &'static str) -> Wrong {
    Wrong { code: 1007, why }
}

/// Whether a code may stand in a close frame (section 7.4).
const fn is_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

/// Reads frames from bytes as they come.
#[derive(Debug, Default)]
pub(super) struct Reader {
    held: Vec<u8>,
    /// Bytes of it that were read.
    at: usize,
    /// The message that is still coming, and what it is.
    message: Option<(Opcode, Vec<u8>)>,
}

impl Reader {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.held.drain(..self.at);
        self.at = 0;
        self.held.extend_from_slice(bytes);
    }

    /// Bytes of memory that it takes.
    pub(super) fn size(&self) -> usize {
        self.held.capacity() + self.message.as_ref().map_or(0, |(_, message)| message.capacity())
    }

    /// The next message or control frame; `None`: more bytes are needed.
    ///
    /// # Errors
    /// The rule that was broken.
    pub(super) fn next(&mut self) -> Result<Option<Heard>, Wrong> {
        loop {
            let Some((opcode, last, content)) = self.frame()? else { return Ok(None) };
            match opcode {
                Opcode::Ping => return Ok(Some(Heard::Ping(content))),
                Opcode::Pong => {}
                Opcode::Close => {
                    return match content.as_slice() {
                        [] => Ok(Some(Heard::Close(None, String::new()))),
                        [_] => Err(protocol("a close frame with half a code")),
                        [high, low, reason @ ..] => {
                            let code = u16::from_be_bytes([*high, *low]);
                            if !is_code(code) {
                                return Err(protocol("a close frame with a code that is none"));
                            }
                            let reason = String::from_utf8(reason.to_vec());
                            let reason = reason.map_err(|_| no_text("a reason that is not UTF-8"))?;
                            Ok(Some(Heard::Close(Some(code), reason)))
                        }
                    };
                }
                Opcode::Text | Opcode::Binary if self.message.is_some() => {
                    return Err(protocol("a message inside a message"));
                }
                Opcode::Text | Opcode::Binary => self.message = Some((opcode, content)),
                Opcode::More => match &mut self.message {
                    Some((_, message)) => message.extend_from_slice(&content),
                    None => return Err(protocol("the rest of a message that never began")),
                },
            }
            if last && !opcode.is_control() {
                match self.message.take() {
                    Some((Opcode::Text, message)) => {
                        let text =
                            String::from_utf8(message).map_err(|_| no_text("a text that is not UTF-8"))?;
                        return Ok(Some(Heard::Text(text)));
                    }
                    Some((_, message)) => return Ok(Some(Heard::Binary(message))),
                    None => {}
                }
            }
        }
    }

    /// One frame, if it is whole: what it is, whether its message ends, and its content.
    fn frame(&mut self) -> Result<Option<(Opcode, bool, Vec<u8>)>, Wrong> {
        let held = self.held.get(self.at..).unwrap_or_default();
        let [first, second, rest @ ..] = held else { return Ok(None) };
        let opcode = Opcode::of(first & 0x0f).ok_or(protocol("a frame of an unknown kind"))?;
        let last = first & 0x80 != 0;
        if first & 0x70 != 0 {
            return Err(protocol("a frame with bits that nobody agreed on"));
        }
        if second & 0x80 != 0 {
            return Err(protocol("a masked frame from a server"));
        }
        let (length, head) = match second & 0x7f {
            126 => match rest.first_chunk::<2>() {
                Some(two) => (u64::from(u16::from_be_bytes(*two)), 4),
                None => return Ok(None),
            },
            127 => match rest.first_chunk::<8>() {
                Some(eight) => (u64::from_be_bytes(*eight), 10),
                None => return Ok(None),
            },
            short => (u64::from(short), 2),
        };
        if opcode.is_control() && (!last || length > MOST_CONTROL as u64) {
            return Err(protocol("a control frame that is too long or in parts"));
        }
        let message = self.message.as_ref().filter(|_| !opcode.is_control());
        let before = message.map_or(0, |(_, message)| message.len());
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length.saturating_add(before) > MOST {
            return Err(Wrong { code: 1009, why: "a message of more than 16 MiB" });
        }
        let end = head + length;
        let Some(content) = held.get(head..end) else { return Ok(None) };
        let content = content.to_vec();
        self.at += end;
        Ok(Some((opcode, last, content)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(first: u8, content: &[u8]) -> Vec<u8> {
        let mut frame = written(Opcode::Text, content, [0; 4]);
        let head = frame.len() - content.len() - 4;
        frame.drain(head..head + 4);
        frame[0] = first;
        frame[1] &= 0x7f;
        frame
    }

    fn all(bytes: &[u8], step: usize) -> Result<Vec<Heard>, Wrong> {
        let mut reader = Reader::default();
        let mut heard = Vec::new();
        for piece in bytes.chunks(step) {
            reader.push(piece);
            while let Some(one) = reader.next()? {
                heard.push(one);
            }
        }
        Ok(heard)
    }

    #[test]
    fn a_frame_is_what_the_standard_shows() {
        // RFC 6455 section 5.7.
        let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        assert_eq!(written(Opcode::Text, b"Hello", [0x37, 0xfa, 0x21, 0x3d]), masked);
        let parts = [0x01, 0x03, 0x48, 0x65, 0x6c, 0x80, 0x02, 0x6c, 0x6f];
        assert_eq!(all(&parts, 1), Ok(vec![Heard::Text("Hello".to_owned())]));
        assert_eq!(
            all(&[0x89, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f], 9),
            Ok(vec![Heard::Ping(b"Hello".to_vec())])
        );
        for length in [125, 126, 65_535, 65_536] {
            let content = vec![7; length];
            assert_eq!(all(&server(0x82, &content), 4096), Ok(vec![Heard::Binary(content)]), "{length}");
        }
    }

    #[test]
    fn a_broken_rule_is_an_error() {
        for bytes in [
            &[0xc1, 0x00][..],
            &[0x83, 0x00],
            &[0x81, 0x80, 0, 0, 0, 0],
            &[0x09, 0x00],
            &[0x89, 126, 0, 126],
            &[0x80, 0x00],
            &[0x01, 0x00, 0x01, 0x00],
            &[0x88, 0x01, 0x03],
            &[0x88, 0x02, 0x03, 0xed],
            &[0x88, 0x03, 0x03, 0xe8, 0xff],
            &[0x81, 0x01, 0xff],
            &[0x82, 127, 0, 0, 0, 0, 1, 0, 0, 1],
            &[0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255],
        ] {
            assert!(all(bytes, 64).is_err(), "{bytes:x?}");
        }
        let close = all(&[0x88, 0x02, 0x03, 0xe8], 64);
        assert_eq!(close, Ok(vec![Heard::Close(Some(1000), String::new())]));
    }

    #[test]
    fn no_message_is_kept_that_is_too_long() {
        let piece = vec![0; 1 << 20];
        let mut reader = Reader::default();
        reader.push(&server(0x02, &piece));
        for _ in 0..15 {
            assert_eq!(reader.next(), Ok(None));
            reader.push(&server(0x00, &piece));
        }
        assert_eq!(reader.next(), Ok(None));
        assert!(reader.size() < 3 * MOST, "{}", reader.size());
        // The head alone decides: nothing of the byte beyond is waited for.
        reader.push(&[0x80, 1]);
        assert_eq!(reader.next().map_err(|wrong| wrong.code), Err(1009));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..256), step in 1_usize..40) {
            let _read = all(&bytes, step);
        }

        #[test]
        fn pieces_make_no_difference(parts in prop::collection::vec("\\PC{0,40}", 1..6), step in 1_usize..50) {
            let bytes: Vec<u8> = parts.iter().flat_map(|part| server(0x81, part.as_bytes())).collect();
            let wanted: Vec<Heard> = parts.iter().map(|part| Heard::Text(part.clone())).collect();
            prop_assert_eq!(all(&bytes, step), Ok(wanted));
        }
    }
}
