//! Texts in texts: how often, where, and replaced. In time that is linear in what is read and what is made, whatever the
//! texts are, because that is what builtins charge for.
//!
//! Invariant: occurrences don't overlap and are met from left to right; `part` is never empty.

use memchr::{memchr_iter, memmem};

/// How often `part` occurs.
pub(crate) fn count(text: &str, part: &str) -> usize {
    match part.as_bytes() {
        [byte] => memchr_iter(*byte, text.as_bytes()).count(),
        bytes => memmem::find_iter(text.as_bytes(), bytes).count(),
    }
}

/// The byte where `part` first occurs.
pub(crate) fn find(text: &str, part: &str) -> Option<usize> {
    memmem::find(text.as_bytes(), part.as_bytes())
}

/// The text with `new` for each of the occurrences of `old`, which have been counted.
pub(crate) fn replace(text: &str, old: &str, new: &str, count: usize) -> String {
    if count == 0 {
        return text.to_owned();
    }
    if let ([from], [to]) = (old.as_bytes(), new.as_bytes()) {
        let bytes = text.bytes().map(|b| if b == *from { *to } else { b }).collect();
        // One ASCII character for another: a text stays one.
        return String::from_utf8(bytes).unwrap_or_default();
    }
    let mut out = String::with_capacity(text.len() - count * old.len() + count * new.len());
    let mut from = 0;
    let mut put = |at: usize| {
        out.push_str(&text[from..at]);
        out.push_str(new);
        from = at + old.len();
    };
    match old.as_bytes() {
        [byte] => memchr_iter(*byte, text.as_bytes()).for_each(&mut put),
        bytes => memmem::find_iter(text.as_bytes(), bytes).for_each(&mut put),
    }
    out.push_str(&text[from..]);
    out
}

/// The parts of a text between the occurrences of `separator`.
pub(crate) fn split<'t>(text: &'t str, separator: &'t str) -> impl Iterator<Item = &'t str> {
    let places = memmem::find_iter(text.as_bytes(), separator.as_bytes());
    let mut from = 0;
    // Behind the last occurrence stands one more part.
    places.map(Some).chain(std::iter::once(None)).map(move |at| {
        let start = from;
        from = at.map_or(text.len(), |at| at + separator.len());
        &text[start..at.unwrap_or(text.len())]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_what_std_finds() {
        let texts = ["", "a", "aaaa", "a,b,,c,", "ab,ab,", "größe ß größe", "xyzxyzxyzxy", ",,,"];
        for text in texts {
            for part in ["a", ",", "aa", "ab", "ß", "xyz", "größe", "z"] {
                assert_eq!(count(text, part), text.matches(part).count(), "{text} {part}");
                assert_eq!(find(text, part), text.find(part), "{text} {part}");
                assert!(split(text, part).eq(text.split(part)), "{text} {part}");
                for new in ["", "-", "--", "ß"] {
                    let made = replace(text, part, new, count(text, part));
                    assert_eq!(made, text.replace(part, new), "{text} {part} {new}");
                }
            }
        }
    }
}
