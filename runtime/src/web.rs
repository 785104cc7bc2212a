//! Requests of HTTP, for both languages: the gate, then the broker, then the next hop.
//!
//! Redirects are followed here and not outside, so that the gate is asked for each hop as for the first one; the broker
//! asks the ceiling each time as well.
//!
//! Invariant: what was sealed, and what logs in, goes to the origin that it was meant for and to no other one.
//! Source: RFC 9110 section 15.4 (redirects).

use crate::broker::Reply;
use crate::builtins::Ctx;
use crate::vm::trap::{Fault, denied, raised};
use policies::broker::{By, MOST_PIECE, Request};
use policies::capability::Capability;
use policies::fetch::{Aim, Failure, Fetch, MOST_BODY, MOST_FIELD_BYTES, MOST_FIELDS, Outcome, unfit};
use std::io::Read;

/// One field, and whether its value was sealed.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) sealed: bool,
}

/// A request as a program wants it.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) method: String,
    pub(crate) aim: Aim,
    pub(crate) fields: Vec<Field>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) timeout_ms: u64,
    /// Bytes of the answer's body at most.
    pub(crate) most: u64,
    /// Redirects that are followed at most.
    pub(crate) hops: u32,
    pub(crate) naming: Naming,
}

/// How a check names where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The host alone, unless the URL names a port.
    Host,
    /// Host and port.
    HostAndPort,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Got {
    Answered { status: u16, fields: Vec<(String, String)>, body: Vec<u8> },
    Failed { kind: Failure, why: String },
}

/// Makes the request and those that it is sent on to.
///
/// # Errors
/// A denial at any hop, and what can't be a request.
pub(crate) fn follow(ctx: &mut Ctx<'_>, mut wanted: Wanted) -> Result<Got, Fault> {
    let mut left = wanted.hops;
    loop {
        let target = target(ctx, &wanted.aim, wanted.naming);
        ctx.ask(Capability::Net, Some(&target))?;
        check(ctx, &wanted)?;
        let got = once(ctx, &wanted)?;
        let Got::Answered { status, fields, .. } = &got else { return Ok(got) };
        let place = fields.iter().find(|(name, _)| name == "location").map(|(_, place)| place);
        let (301 | 302 | 303 | 307 | 308, Some(place)) = (*status, place) else { return Ok(got) };
        if left == 0 {
            let why = format!("more than {} redirects", wanted.hops);
            return Ok(Got::Failed { kind: Failure::Io, why });
        }
        left -= 1;
        match wanted.aim.join(place) {
            Ok(aim) => wanted = moved(wanted, aim, *status),
            Err(why) => {
                let why = format!("a redirect to what is no place: {why}");
                return Ok(Got::Failed { kind: Failure::Io, why });
            }
        }
    }
}

/// The request at the place that a redirect names.
fn moved(wanted: Wanted, aim: Aim, status: u16) -> Wanted {
    let Wanted { mut method, aim: from, mut fields, mut body, .. } = wanted;
    let turns = status == 303 && method != "HEAD" || matches!(status, 301 | 302) && method == "POST";
    if turns {
        "GET".clone_into(&mut method);
        body = None;
        fields.retain(|field| !field.name.eq_ignore_ascii_case("content-type"));
    }
    if !aim.same_origin(&from) {
        let logs_in =
            |name: &str| ["authorization", "cookie"].iter().any(|one| name.eq_ignore_ascii_case(one));
        fields.retain(|field| !field.sealed && !logs_in(&field.name));
    }
    Wanted { method, aim, fields, body, ..wanted }
}

/// As the check names it. A check without a port stands for that of HTTPS.
pub(crate) fn target(ctx: &Ctx<'_>, aim: &Aim, naming: Naming) -> String {
    let host = aim.target.host.to_string();
    let full = format!("{host}:{}", aim.target.port);
    if naming == Naming::HostAndPort || aim.explicit {
        return full;
    }
    let covers = |target: &str| ctx.core.gate.covers(Capability::Net, Some(target));
    if aim.tls || covers(&host) == covers(&full) { host } else { full }
}

fn check(ctx: &Ctx<'_>, wanted: &Wanted) -> Result<(), Fault> {
    let fields = pairs(&wanted.fields);
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let why = if fields.len() > MOST_FIELDS || bytes > MOST_FIELD_BYTES {
        Some(format!("more than {MOST_FIELDS} headers, or {MOST_FIELD_BYTES} bytes of them"))
    } else if wanted.body.as_ref().is_some_and(|body| body.len() > MOST_BODY) {
        Some("a body of more than 8 MiB".to_owned())
    } else {
        unfit(&wanted.method, &fields)
    };
    match why {
        Some(why) => Err(raised(format!("{}: {why}", ctx.name))),
        None => Ok(()),
    }
}

pub(crate) fn pairs(fields: &[Field]) -> Vec<(String, String)> {
    fields.iter().map(|field| (field.name.clone(), field.value.clone())).collect()
}

/// Sends bytes ahead of a request, in pieces.
pub(crate) fn send_ahead(ctx: &mut Ctx<'_>, body: &[u8]) -> Result<Option<String>, Fault> {
    // An empty one is there as well.
    let empty: &[&[u8]] = &[&[]];
    let pieces: Vec<&[u8]> = body.chunks(MOST_PIECE).collect();
    for piece in if pieces.is_empty() { empty } else { &pieces } {
        ctx.charge(piece.len() as u64 / 32)?;
        match ctx.core.host.broker(&Request::Body {}, piece) {
            Ok(Reply::Done) => {}
            Ok(Reply::Refused(refused)) => return Ok(Some(refused.why)),
            Ok(_) => return Ok(Some("the supervisor's answer makes no sense".to_owned())),
            Err(why) => return Ok(Some(format!("failed to {why}"))),
        }
    }
    Ok(None)
}

fn once(ctx: &mut Ctx<'_>, wanted: &Wanted) -> Result<Got, Fault> {
    let failed = |why: String| Ok(Got::Failed { kind: Failure::Io, why });
    ctx.core.host.flush();
    if let Some(body) = &wanted.body
        && let Some(why) = send_ahead(ctx, body)?
    {
        return failed(why);
    }
    let fetch = Fetch {
        method: wanted.method.clone(),
        url: wanted.aim.url.clone(),
        fields: pairs(&wanted.fields),
        timeout_ms: wanted.timeout_ms,
        most: wanted.most,
    };
    let (outcome, body, bytes) = match ctx.core.host.broker(&Request::Fetch(Box::new(fetch)), &[]) {
        Ok(Reply::Beside { outcome, body, bytes }) => (outcome, body, bytes),
        Ok(Reply::Refused(refused)) if refused.by == By::Ceiling => {
            let word = if wanted.naming == Naming::Host { "Capability" } else { "capability" };
            return Err(denied(format!("{word} not granted: {}", refused.why)));
        }
        Ok(Reply::Refused(refused)) => return failed(refused.why),
        Ok(_) => return failed("the supervisor's answer makes no sense".to_owned()),
        Err(why) => return failed(format!("failed to {why}")),
    };
    match serde_json::from_slice(&outcome) {
        Ok(Outcome::Answered { status, fields }) => {
            let size = usize::try_from(bytes.min(wanted.most)).unwrap_or(usize::MAX);
            ctx.reserve(size.saturating_mul(2))?;
            ctx.charge(size as u64 / 32)?;
            let mut content = Vec::new();
            match body.take(size as u64).read_to_end(&mut content) {
                Ok(_) => Ok(Got::Answered { status, fields, body: content }),
                Err(error) => failed(error.to_string()),
            }
        }
        Ok(Outcome::Failed { kind, why }) => Ok(Got::Failed { kind, why }),
        Ok(Outcome::Said { .. } | Outcome::Offline | Outcome::Spent { .. }) | Err(_) => {
            failed("the supervisor's answer makes no sense".to_owned())
        }
    }
}

/// Fields as programs see them: those of one name joined.
pub(crate) fn joined(fields: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, value) in fields {
        match all.iter_mut().find(|(known, _)| *known == name) {
            // Cookies have commas of their own.
            Some((_, before)) if name == "set-cookie" => before.extend(["\n", &value]),
            Some((_, before)) => before.extend([", ", &value]),
            None => all.push((name, value)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        let field = |name: &str, sealed| Field { name: name.to_owned(), value: "v".to_owned(), sealed };
        Wanted {
            method: "POST".to_owned(),
            aim: Aim::parse("https://a.example/x").unwrap(),
            fields: vec![
                field("X-Key", true),
                field("authorization", false),
                field("Content-Type", false),
                field("X", false),
            ],
            body: Some(vec![1]),
            timeout_ms: 1,
            most: 1,
            hops: 1,
            naming: Naming::Host,
        }
    }

    #[test]
    fn what_was_sealed_stays_with_its_origin() {
        let names = |wanted: &Wanted| {
            wanted.fields.iter().map(|field| field.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let to = |place: &str, status| {
            let before = wanted();
            let aim = before.aim.join(place).unwrap();
            moved(before, aim, status)
        };
        assert_eq!(names(&to("/y", 307)), "X-Key authorization Content-Type X");
        for place in ["https://b.example/", "http://a.example/x", "https://a.example:444/"] {
            assert_eq!(names(&to(place, 308)), "Content-Type X", "{place}");
        }
        let turned = to("/y", 302);
        assert_eq!((turned.method.as_str(), turned.body.is_none()), ("GET", true));
        assert_eq!((to("/y", 307).method.as_str(), to("/y", 307).body), ("POST", Some(vec![1])));
    }

    #[test]
    fn fields_of_one_name_are_one() {
        let of = |list: &[(&str, &str)]| {
            joined(list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect())
        };
        let all = of(&[("a", "1"), ("set-cookie", "x"), ("a", "2"), ("set-cookie", "y")]);
        assert_eq!(all, [("a".to_owned(), "1, 2".to_owned()), ("set-cookie".to_owned(), "x\ny".to_owned())]);
    }
}
