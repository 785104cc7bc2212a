//! `net`: requests of HTTP. The gate first, for each hop, then the broker.

use super::{error, ok, text};
use crate::builtins::{Args, Ctx};
use crate::partition::boundary::Data;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use crate::web::{self, Field, Got, Naming, Wanted};
use policies::fetch::Aim;
use std::rc::Rc;

/// Bytes of an answer's body.
const MOST: u64 = 8 << 20;
/// Redirects.
const HOPS: u32 = 5;
/// Milliseconds until the whole answer is there.
const TIMEOUT: u64 = 30_000;

/// `net.get(url)` and `net.request(form)`.
pub(super) fn act(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let name = args.name;
    let aim = |url: &str| Aim::parse(url).map_err(|why| raised(format!("`{name}` can't use the URL: {why}")));
    let wanted = if name == "net.get" {
        plain(aim(text(ctx, args, 0)?)?)
    } else {
        let form = ctx.core.export(args.at(0), "the request", 8)?;
        let Data::Record(parts) = form else { return Err(raised("`net.request` needs a record with `url`")) };
        let Some((_, Data::Text(url))) = parts.iter().find(|(part, _)| &**part == "url") else {
            return Err(raised("`net.request` needs a record with `url`"));
        };
        ctx.charge(url.len() as u64 / 32)?;
        let mut wanted = plain(aim(url)?);
        for (part, value) in &parts {
            match (&**part, value) {
                ("url", _) | (_, Data::Nil) => {}
                ("method", Data::Text(method)) => wanted.method = method.to_string(),
                ("body", Data::Text(body)) => wanted.body = Some(body.as_bytes().to_vec()),
                ("headers", Data::Record(fields)) => {
                    for (name, value) in fields {
                        let Data::Text(value) = value else {
                            return Err(raised("`net.request` needs strings in `headers`"));
                        };
                        wanted.fields.push(Field {
                            name: name.to_string(),
                            value: value.to_string(),
                            sealed: false,
                        });
                    }
                }
                ("method" | "body", _) => {
                    return Err(raised(format!("`net.request` needs a string as `{part}`")));
                }
                ("headers", _) => return Err(raised("`net.request` needs a record as `headers`")),
                _ => {
                    let why = format!("`net.request` knows no `{part}`: it takes method, url, headers, body");
                    return Err(raised(why));
                }
            }
        }
        wanted
    };
    let host = wanted.aim.authority();
    match web::follow(ctx, wanted)? {
        Got::Failed { kind, why } => error(ctx, kind.name(), &host, 0, &why),
        Got::Answered { status, fields, body } => {
            let Ok(body) = String::from_utf8(body) else {
                return error(ctx, "io", &host, 0, "the body is not UTF-8");
            };
            let fields = web::joined(fields).into_iter();
            let answer = Data::Record(vec![
                ("status".into(), Data::Int(i64::from(status))),
                (
                    "headers".into(),
                    Data::Record(fields.map(|(n, v)| (n.into(), Data::Text(v.into()))).collect()),
                ),
                ("body".into(), Data::Text(Rc::from(body))),
            ]);
            let answer = ctx.core.import(&answer)?;
            ok(ctx, answer)
        }
    }
}

fn plain(aim: Aim) -> Wanted {
    Wanted {
        method: "GET".to_owned(),
        aim,
        fields: Vec::new(),
        body: None,
        timeout_ms: TIMEOUT,
        most: MOST,
        hops: HOPS,
        naming: Naming::HostAndPort,
    }
}
