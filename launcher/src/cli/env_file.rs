//! `.env`: variables for `env` and `secret`, of which only those that the ceiling names reach the jail.
//!
//! Lines are `KEY=VALUE`, `#` starts a comment line, one pair of quotes around a value is taken off, nothing is
//! interpolated. The process's own environment wins.

use super::args::RunArgs;
use crate::error::Error;
use std::{collections::BTreeMap, env, fs, io};

/// Largest file.
const MOST: u64 = 1 << 20;

/// The variables of the file that the command line, or `SYNSEMA_ENV_FILE`, or the working folder has.
pub(super) fn read(args: &RunArgs) -> Result<BTreeMap<String, String>, Error> {
    if args.no_env_file {
        return Ok(BTreeMap::new());
    }
    let (path, must) = match (&args.env_file, env::var("SYNSEMA_ENV_FILE")) {
        (Some(path), _) => (path.clone(), true),
        (None, Ok(path)) if path.is_empty() => return Ok(BTreeMap::new()),
        (None, Ok(path)) => (path, true),
        (None, Err(_)) => (".env".to_owned(), false),
    };
    match text(&path) {
        Ok(text) => Ok(parse(&text)),
        Err(source) if !must && source.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(source) => Err(Error::File { act: "read the variables in", path, source }),
    }
}

fn text(path: &str) -> io::Result<String> {
    if fs::metadata(path)?.len() > MOST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a file of variables is at most 1 MiB"));
    }
    fs::read_to_string(path)
}

fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim();
            if line.starts_with('#') {
                return None;
            }
            let (name, value) = line.split_once('=')?;
            let (name, value) = (name.trim(), value.trim());
            let unquoted = ['"', '\'']
                .into_iter()
                .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
                .unwrap_or(value);
            (!name.is_empty()).then(|| (name.to_owned(), unquoted.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn one_pair_of_quotes_is_taken_off_and_nothing_interpolated() {
        let read = parse("A=1\n# B=2\n C = \"x y\" \nD='$A'\nE=\nno line\n=x\nF=\"open\n");
        let wanted = [("A", "1"), ("C", "x y"), ("D", "$A"), ("E", ""), ("F", "\"open")];
        assert_eq!(read.len(), wanted.len());
        for (name, value) in wanted {
            assert_eq!(read[name], value, "{name}");
        }
    }
}
