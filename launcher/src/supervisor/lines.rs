//! Output as lines for the report.
//!
//! Invariant: bounded by the bytes that the caller wants to keep, whatever the program prints, and by [`MOST_LINES`]: a
//! line costs some 50 bytes besides its own, which output made of line breaks would multiply.

/// Most lines that are kept.
const MOST_LINES: usize = 1 << 19;

/// Splits bytes into lines.
#[derive(Debug)]
pub(super) struct Lines {
    lines: Vec<String>,
    partial: Vec<u8>,
    left: usize,
    ends: Ends,
    replaced: Replaced,
    cut: Cut,
}

/// How lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// As the program wrote them.
    Plain,
    /// A terminal puts a carriage return before each line feed.
    Terminal,
}

/// Whether bytes that are not UTF-8 were replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replaced {
    /// No.
    Nothing,
    /// Some.
    Some,
}

/// Whether there was more than could be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// No.
    Whole,
    /// Yes.
    Short,
}

impl Lines {
    /// Keeps the first `bytes`.
    pub(super) fn new(bytes: usize, ends: Ends) -> Self {
        Self {
            ends,
            lines: Vec::new(),
            partial: Vec::new(),
            left: bytes,
            replaced: Replaced::Nothing,
            cut: Cut::Whole,
        }
    }

    /// Takes more bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let kept = bytes.get(..self.left).unwrap_or(bytes);
        if kept.len() < bytes.len() {
            self.cut = Cut::Short;
        }
        self.left = self.left.saturating_sub(kept.len());
        for piece in kept.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.partial.pop();
                if self.ends == Ends::Terminal && self.partial.ends_with(b"\r") {
                    self.partial.pop();
                }
                self.end_line();
            }
        }
    }

    /// Takes a part of a line, line breaks and all (a long print of a language).
    pub(super) fn push_part(&mut self, text: &[u8]) {
        let kept = text.get(..self.left).unwrap_or(text);
        if kept.len() < text.len() {
            self.cut = Cut::Short;
        }
        self.left = self.left.saturating_sub(kept.len());
        self.partial.extend_from_slice(kept);
    }

    /// Takes the rest of a line.
    pub(super) fn push_whole(&mut self, text: &[u8]) {
        if self.left == 0 && self.partial.is_empty() {
            self.cut = Cut::Short;
            return;
        }
        self.push_part(text);
        // The line break counts too, or endless empty lines would be kept.
        self.left = self.left.saturating_sub(1);
        self.end_line();
    }

    /// The lines, the unfinished last one included.
    pub(super) fn finish(mut self) -> (Vec<String>, Replaced, Cut) {
        if !self.partial.is_empty() {
            self.end_line();
        }
        (self.lines, self.replaced, self.cut)
    }

    fn end_line(&mut self) {
        let bytes = std::mem::take(&mut self.partial);
        if self.lines.len() >= MOST_LINES {
            self.cut = Cut::Short;
            self.left = 0;
            return;
        }
        let line = String::from_utf8(bytes).unwrap_or_else(|error| {
            self.replaced = Replaced::Some;
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        self.lines.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]], keep: usize) -> (Vec<String>, Replaced, Cut) {
        let mut lines = Lines::new(keep, Ends::Plain);
        pieces.iter().for_each(|piece| lines.push(piece));
        lines.finish()
    }

    #[test]
    fn lines_are_split_wherever_the_pieces_end() {
        let (lines, replaced, cut) = split(&[b"a\nb", b"c\n\nd"], 100);
        assert_eq!(lines, ["a", "bc", "", "d"]);
        assert_eq!((replaced, cut), (Replaced::Nothing, Cut::Whole));
    }

    #[test]
    fn a_character_cut_by_a_piece_is_whole_again() {
        assert_eq!(split(&["é".as_bytes().split_at(1).0, "é".as_bytes().split_at(1).1], 9).0, ["é"]);
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced_and_flagged() {
        let (lines, replaced, _) = split(&[b"a\xffb\n"], 100);
        assert_eq!((lines, replaced), (vec!["a\u{fffd}b".to_owned()], Replaced::Some));
    }

    #[test]
    fn endless_line_breaks_cost_little() {
        let breaks = vec![b'\n'; MOST_LINES];
        let (lines, _, cut) = split(&[&breaks], 1 << 30);
        assert_eq!((lines.len(), cut), (MOST_LINES, Cut::Whole));
        let (lines, _, cut) = split(&[&breaks, &breaks, b"more"], 1 << 30);
        assert_eq!((lines.len(), cut), (MOST_LINES, Cut::Short));
    }

    #[test]
    fn no_more_is_kept_than_is_wanted() {
        let (lines, _, cut) = split(&[b"ab\ncd\n", b"ef\n"], 4);
        assert_eq!((lines, cut), (vec!["ab".to_owned(), "c".to_owned()], Cut::Short));
        assert_eq!(split(&[b"abcd"], 4).2, Cut::Whole);
    }

    #[test]
    fn a_terminal_s_carriage_returns_are_no_part_of_a_line() {
        let mut lines = Lines::new(100, Ends::Terminal);
        lines.push(b"a\r\nb\r");
        lines.push(b"\n");
        assert_eq!(lines.finish().0, ["a", "b"]);
        assert_eq!(split(&[b"a\r\n"], 100).0, ["a\r"]);
    }

    #[test]
    fn a_print_is_one_line_whatever_is_in_it() {
        let mut lines = Lines::new(100, Ends::Plain);
        lines.push_part(b"a\nb");
        lines.push_whole(b"c");
        lines.push_whole(b"");
        assert_eq!(lines.finish().0, ["a\nbc", ""]);
    }

    #[test]
    fn empty_prints_are_bounded() {
        let mut lines = Lines::new(3, Ends::Plain);
        (0..100).for_each(|_| lines.push_whole(b""));
        assert_eq!((lines.finish().0.len()), 3);
    }
}
