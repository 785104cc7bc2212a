//! The grammar of `--cap-set`: `none | item{,item}`, `item = name | name=scope`.
//!
//! Spaces around items are ignored, the first `=` splits, a name repeated adds a scope.

use super::{Ceiling, Grant};
use crate::{
    capability::{Capability, ScopeKind},
    error::{Malformed, ScopeFault},
    scope::Scope,
};

/// A list may come from an untrusted program that asks for a child of its own: what it costs to read is bounded.
const MOST_BYTES: usize = 64 * 1024;

/// The whole list.
pub(super) fn ceiling(text: &str) -> Result<Ceiling, Malformed> {
    if text.len() > MOST_BYTES {
        return Err(Malformed::CeilingTooLong { length: text.len(), most: MOST_BYTES });
    }
    if text.trim().is_empty() {
        return Err(Malformed::EmptyCeiling);
    }
    if text.trim() == "none" {
        return Ok(Ceiling::none());
    }
    let mut column = 1;
    let mut grants = Vec::new();
    for part in text.split(',') {
        grants.push(item(part, column)?);
        column += part.chars().count() + 1;
    }
    Ok(Ceiling::of(grants))
}

/// One item; `column` is where its text begins.
pub(super) fn item(part: &str, column: usize) -> Result<Grant, Malformed> {
    let column = column + part.chars().take_while(|c| c.is_whitespace()).count();
    let part = part.trim();
    let (name, scope) = match part.split_once('=') {
        Some((name, scope)) => (name, Some(scope)),
        None => (part, None),
    };
    match name.trim() {
        "" => Err(Malformed::EmptyItem { column }),
        "none" => Err(Malformed::NoneMixed { column }),
        known => match Capability::from_name(known) {
            // The column of the scope, where there is one: behind the name and the '='.
            Some(capability) => {
                let skipped = scope.map_or(0, |scope| {
                    name.chars().count() + 1 + scope.chars().take_while(|c| c.is_whitespace()).count()
                });
                grant(capability, scope.map(str::trim), column + skipped)
            }
            None => Err(Malformed::UnknownCapability {
                name: known.to_owned(),
                column,
                nearest: Capability::nearest(known),
            }),
        },
    }
}

/// A capability with its scope's text, which begins at `column`.
pub(super) fn grant(capability: Capability, scope: Option<&str>, column: usize) -> Result<Grant, Malformed> {
    let Some(text) = scope else { return Ok(Grant::whole(capability)) };
    let malformed = |fault| Malformed::Scope { capability, scope: text.to_owned(), column, fault };
    if text.is_empty() {
        return Err(malformed(ScopeFault::Empty));
    }
    if capability.scope_kind() == ScopeKind::None {
        return Err(Malformed::ScopeNotTaken { capability, scope: text.to_owned(), column });
    }
    let scope = Scope::parse(capability.scope_kind(), text).map_err(malformed)?;
    Ok(Grant { capability, scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_printed_in_one_order() {
        for (text, printed) in [
            ("none", "none"),
            (" stdout , time ", "stdout,time"),
            ("time,stdout,time", "stdout,time"),
            ("net=*,file=*", "net,file"),
            ("file.read=./data/**,net=API.example.com:443", "net=api.example.com:443,file.read=data/*"),
            ("env=A=B", "env=A=B"),
            ("serve=8080,serve=9090", "serve=8080,serve=9090"),
        ] {
            let ceiling = Ceiling::parse(text).unwrap();
            assert_eq!(ceiling.to_string(), printed, "{text}");
            assert_eq!(Ceiling::parse(printed).unwrap(), ceiling);
        }
    }

    #[test]
    fn errors_point_at_their_place() {
        for (text, message) in [
            ("", "the list of capabilities is empty"),
            ("stdout,,time", "empty item at column 8"),
            ("stdout,", "empty item at column 8"),
            ("stdout, none", "'none' at column 9 stands beside other capabilities"),
            ("stdout, fil.read=x", "unknown capability 'fil.read' at column 9"),
            ("stdout=x", "'stdout' takes no scope, but has 'x' at column 8"),
            ("time,net=", "malformed scope '' of 'net' at column 10: it is empty"),
            ("serve=0", "malformed scope '0' of 'serve' at column 7: a port is a number from 1 to 65535"),
            ("secret=A*B", "malformed scope 'A*B' of 'secret' at column 8: '*' can't stand there"),
        ] {
            assert_eq!(Ceiling::parse(text).unwrap_err().to_string(), message, "{text}");
        }
        assert_eq!(Ceiling::parse("fil.read").unwrap_err().help(), "did you mean 'file.read'?");
    }
}
