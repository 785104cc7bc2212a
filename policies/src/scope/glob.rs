//! Patterns with `*`: any run of characters, `/` included.

/// Whether `pattern` matches all that `text` stands for.
///
/// `text` may itself be a pattern: its stars are matched by stars only, and then everything that `text` matches,
/// `pattern` matches too. That makes one function for a use (plain text) and for a grant (a pattern).
///
/// Time is bounded by the product of the lengths.
#[must_use]
pub fn covers(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on if the rest doesn't fit: behind the last star, one byte of text further each time.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&byte) if byte == text[t] => {
                p += 1;
                t += 1;
            }
            Some(_) | None => match retry {
                Some((behind, from)) => {
                    retry = Some((behind, from + 1));
                    (p, t) = (behind, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// One star for each run of stars.
#[must_use]
pub(crate) fn collapse(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '*' || !out.ends_with('*') {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_run_of_characters() {
        for (pattern, text, hit) in [
            ("/data/*", "/data/a", true),
            ("/data/*", "/data/a/b", true),
            ("/data/*", "/data", false),
            ("/data/*", "/database", false),
            ("a*b*c", "axxbxbyc", true),
            ("a*b*c", "axxbxby", false),
            ("py*", "python3", true),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(covers(pattern, text), hit, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_covers_a_narrower_pattern_only() {
        for (wide, narrow, hit) in [
            ("/data/*", "/data/x/*", true),
            ("/data/*", "/data/*.txt", true),
            ("/data/x/*", "/data/*", false),
            ("a*", "*", false),
            ("*a", "*ba", true),
            ("/d/*.txt", "/d/*", false),
        ] {
            assert_eq!(covers(wide, narrow), hit, "{wide} {narrow}");
        }
    }
}
