//! `.env`: variables for `env` and `secret`, of which only those that the ceiling names reach the jail.
//!
//! Lines are `KEY=VALUE`, `#` starts a comment line, one pair of quotes around a value is taken off, nothing is
//! interpolated. The process's own environment wins.

use super::{
    args::RunArgs,
    given,
    keys::{self, Keys},
};
use crate::error::Error;
use std::{collections::BTreeMap, env, io};

/// Largest file.
const MOST: u64 = 1 << 20;

/// The variables of a file, and whether the caller named it. One that only lies in the working folder may be anybody's.
pub(super) struct Variables {
    pub(super) of: BTreeMap<String, String>,
    pub(super) named: bool,
    /// Keys of models' providers, which stand in `of` no more.
    pub(super) keys: Keys,
}

/// The variables of the file that the command line, or `SYNSEMA_ENV_FILE`, or the working folder has.
pub(super) fn read(args: &RunArgs) -> Result<Variables, Error> {
    let none = || Variables { of: BTreeMap::new(), named: false, keys: Keys::new() };
    if args.no_env_file {
        return Ok(none());
    }
    let (path, named) = match (&args.env_file, env::var("SYNSEMA_ENV_FILE")) {
        (Some(path), _) => (path.clone(), true),
        (None, Ok(path)) if path.is_empty() => return Ok(none()),
        (None, Ok(path)) => (path, true),
        (None, Err(_)) => (".env".to_owned(), false),
    };
    let too_long = "a file of variables is at most 1 MiB";
    let text =
        if named { given::text(&path, MOST, too_long) } else { given::text_if_there(&path, MOST, too_long) };
    match text {
        Ok(text) => {
            let mut found = Variables { named, ..none() };
            for (name, value) in parse(&text) {
                match keys::keep(name, value)? {
                    Some((name, key)) => drop(found.keys.insert(name, key)),
                    None => drop(found.of.insert(name.to_owned(), value.to_owned())),
                }
            }
            Ok(found)
        }
        Err(source) if !named && source.kind() == io::ErrorKind::NotFound => Ok(none()),
        Err(source) => Err(Error::File { act: "read the variables in", path, source }),
    }
}

fn parse(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
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
        (!name.is_empty()).then_some((name, unquoted))
    })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::collections::BTreeMap;

    #[test]
    fn one_pair_of_quotes_is_taken_off_and_nothing_interpolated() {
        let read: BTreeMap<&str, &str> =
            parse("A=1\n# B=2\n C = \"x y\" \nD='$A'\nE=\nno line\n=x\nF=\"open\n").collect();
        let wanted = [("A", "1"), ("C", "x y"), ("D", "$A"), ("E", ""), ("F", "\"open")];
        assert_eq!(read.len(), wanted.len());
        for (name, value) in wanted {
            assert_eq!(read[name], value, "{name}");
        }
    }
}
