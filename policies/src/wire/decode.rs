//! Frames read from a runtime that may have been taken over.

use super::frame::{AUDIT, ERROR, LOG, PRINT, PRINT_PART, STATE, WANT};
use super::{Broken, Frame, MAX_FRAME, MAX_JSON};
use serde::Deserialize;

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
