//! The nearest valid name to a wrong one, for error messages.

/// The candidate that is the fewest edits away, if it is near enough to be what was meant.
#[must_use]
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    candidates
        .into_iter()
        .map(|name| (distance(&wrong, name), name))
        .min()
        .filter(|&(edits, name)| edits <= (name.len().max(3) / 3).max(1) || close_kin(&wrong, name))
        .map(|(_, name)| name)
}

/// `file_read` for `file.read`, `files` for `file`, `network` for `net`.
fn close_kin(wrong: &str, name: &str) -> bool {
    name.len() >= 3 && wrong.starts_with(name)
}

/// Edits (insert, remove, replace, swap of neighbours) between two words. Input is bounded to 64 characters.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().take(64).collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_their_name() {
        let names = ["stdout", "stdin", "file", "file.read", "file.write", "net", "time"];
        for (wrong, right) in [
            ("stdotu", Some("stdout")),
            ("file_read", Some("file.read")),
            ("FILE.READ", Some("file.read")),
            ("network", Some("net")),
            ("tme", Some("time")),
            ("zebra", None),
        ] {
            assert_eq!(nearest(wrong, names), right, "{wrong}");
        }
    }
}
