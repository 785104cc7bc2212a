//! `fs`: the gate first, then the broker, which opens files outside the jail and hands them in.

use super::{error, ok, text};
use crate::broker::Reply;
use crate::builtins::files::wanted;
use crate::builtins::{Args, Ctx};
use crate::vm::trap::{Fault, denied};
use crate::vm::value::Value;
use policies::broker::{By, How, Refused, Request, What};
use policies::capability::Capability;
use std::fs::File;
use std::io::{Read, Write};

/// Bytes of a file that is read.
const MOST: u64 = 16 << 20;

/// A file stands where a folder is needed: `exists` for who makes one, `io` for the others.
const NO_FOLDER: &str = "no_folder";

/// Why an operation failed: the kind and the message of its `Error`, or a refusal.
enum Failed {
    Error(&'static str, String),
    Fault(Fault),
}

type Done<T> = Result<T, Failed>;

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Failed::Fault(fault)
    }
}

impl From<std::io::Error> for Failed {
    fn from(e: std::io::Error) -> Self {
        Failed::Error("io", e.to_string())
    }
}

fn refused(refused: Refused, leads_out: impl FnOnce() -> String) -> Failed {
    match refused.by {
        By::Ceiling => Failed::Fault(denied(leads_out())),
        By::Kernel(2) => Failed::Error("not_found", "no such file or folder".into()),
        By::Kernel(17) => Failed::Error("exists", "it exists already".into()),
        By::Kernel(20) => Failed::Error(NO_FOLDER, refused.why),
        By::Kernel(21) => Failed::Error("is_directory", "it is a folder".into()),
        By::Kernel(_) | By::Limit | By::Misuse => Failed::Error("io", refused.why),
    }
}

/// What making a folder says where a file is.
fn in_its_place(failed: Failed) -> Failed {
    match failed {
        Failed::Error(NO_FOLDER, _) => Failed::Error("exists", "a file is in its place or above it".into()),
        other => other,
    }
}

fn request(ctx: &mut Ctx<'_>, request: &Request) -> Done<Reply> {
    ctx.core.host.flush();
    match ctx.core.host.broker(request, &[]) {
        // The gate has agreed before.
        Ok(Reply::Refused(no)) => {
            let (right, path) = wanted(request);
            Err(refused(no, || ctx.core.gate.leads_out(right, path)))
        }
        Ok(reply) => Ok(reply),
        Err(reason) => Err(Failed::Error("io", reason)),
    }
}

fn open(ctx: &mut Ctx<'_>, of: &Request) -> Done<File> {
    match request(ctx, of)? {
        Reply::File(file) => Ok(file),
        _ => Err(Failed::Error("io", "the supervisor gave no file".into())),
    }
}

fn read(ctx: &mut Ctx<'_>, path: String) -> Done<Value> {
    let file = open(ctx, &Request::Open { path, how: How::Read })?;
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(Failed::Error("too_large", "a file that is read has at most 16 MiB".into()));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(ctx.core.string(text)?),
        Err(_) => Err(Failed::Error("not_text", "it is not UTF-8".into())),
    }
}

fn list(ctx: &mut Ctx<'_>, path: String) -> Done<Value> {
    let Reply::Json(json) = request(ctx, &Request::List { path })? else {
        return Ok(ctx.core.array(Vec::new())?);
    };
    let listed: Vec<policies::broker::Listed> =
        serde_json::from_slice(&json).map_err(|e| Failed::Error("io", e.to_string()))?;
    let mut names: Vec<String> = listed.into_iter().map(|one| one.name).collect();
    names.sort();
    let mut items = Vec::with_capacity(names.len());
    for name in names {
        items.push(ctx.core.string(name)?);
    }
    Ok(ctx.core.array(items)?)
}

fn write(ctx: &mut Ctx<'_>, path: String, content: &str, how: Option<How>) -> Done<Value> {
    match how {
        Some(how) => open(ctx, &Request::Open { path, how })?.write_all(content.as_bytes())?,
        None => {
            let mut file = open(ctx, &Request::Replace { path })?;
            file.write_all(content.as_bytes())?;
            drop(file);
            request(ctx, &Request::Commit {})?;
        }
    }
    Ok(Value::Nothing)
}

/// One of the functions, by the last part of its name.
pub(super) fn act(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let act = args.name.strip_prefix("fs.").unwrap_or("");
    let path = crate::builtins::shown_path(text(ctx, args, 0)?);
    let content = if args.len() > 1 { text(ctx, args, 1)?.to_owned() } else { String::new() };
    let right = match act {
        "read" | "list" | "exists" => Capability::FileRead,
        _ => Capability::FileWrite,
    };
    ctx.ask(right, Some(&path))?;
    let name = path.clone();
    let done = match act {
        "read" => read(ctx, path),
        "list" => list(ctx, path),
        "exists" => match request(ctx, &Request::Look { path }) {
            Ok(Reply::Seen(seen)) => return Ok(Value::Bool(seen.exists)),
            Ok(_) | Err(Failed::Error(..)) => return Ok(Value::Bool(false)),
            Err(Failed::Fault(fault)) => return Err(fault),
        },
        "write" => write(ctx, path, &content, None),
        "append" => write(ctx, path, &content, Some(How::Append)),
        "remove" => match request(ctx, &Request::Remove { path: path.clone(), what: What::File }) {
            Err(Failed::Error("is_directory", _)) => {
                request(ctx, &Request::Remove { path, what: What::Folder })
            }
            other => other,
        }
        .map(|_| Value::Nothing),
        _ => request(ctx, &Request::MakeFolder { path }).map(|_| Value::Nothing).map_err(in_its_place),
    };
    match done {
        Ok(value) => ok(ctx, value),
        Err(Failed::Error(NO_FOLDER, message)) => error(ctx, "io", &name, 0, &message),
        Err(Failed::Error(kind, message)) => error(ctx, kind, &name, 0, &message),
        Err(Failed::Fault(fault)) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_a_folders_place_exists() {
        let kind = |number| {
            let why = String::new();
            match in_its_place(refused(Refused { by: By::Kernel(number), why }, String::new)) {
                Failed::Error(kind, _) => kind,
                Failed::Fault(_) => "fault",
            }
        };
        assert_eq!([20, 17, 13, 2].map(kind), ["exists", "exists", "io", "not_found"]);
    }
}
