//! Files: the gate first, then the broker, which opens them outside the jail and hands in the open file.

use super::{Args, Builtin, Ctx};
use crate::broker::Reply;
use crate::vm::render::display;
use crate::vm::trap::{Fault, denied, raised};
use crate::vm::value::Value;
use policies::broker::{By, How, Refused, Request, Seen, What};
use policies::capability::Capability;
use std::fs::File;
use std::io::{Read, Write};
use std::rc::Rc;

pub(super) const WHY: &str = "this run has no filesystem";

/// Those that read what `build` packed as well.
const READING: [&str; 4] = ["read_file", "read_file_bytes", "file_exists", "file_info"];

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("read_file", &["path", "line", "n"], 1, read_file).native(WHY),
    Builtin::new("read_file_bytes", &["path"], 1, read_file_bytes).native(WHY),
    Builtin::new("file_exists", &["path"], 1, file_exists).native(WHY),
    Builtin::new("file_info", &["path"], 1, file_info).native(WHY),
    Builtin::new("list_dir", &["path"], 1, list_dir).native(WHY),
    Builtin::new("grep", &["target", "pattern", "options"], 2, grep).native(WHY),
    Builtin::new("write_file", &["path", "value"], 2, write_file).native(WHY),
    Builtin::new("append_file", &["path", "value"], 2, append_file).native(WHY),
    Builtin::new("edit_file", &["path", "old", "new", "all"], 3, edit_file).native(WHY),
    Builtin::new("delete_file", &["path"], 1, delete_file).native(WHY),
    Builtin::new("delete_dir", &["path", "options"], 1, delete_dir).native(WHY),
];

/// The path as it is shown and compared: without `./` in front.
pub(super) fn path_of(args: &Args<'_>, i: usize) -> Result<String, Fault> {
    let text = args.text(i)?;
    if text.is_empty() || text.contains('\0') {
        return Err(raised(format!(
            "{} expects a path, got {}",
            args.name,
            crate::vm::render::inside(args.at(i))
        )));
    }
    Ok(shown(text))
}

/// A path in the form that is shown and compared.
pub(crate) fn shown(text: &str) -> String {
    policies::scope::NormalPath::parse(text).map_or_else(|_| text.to_owned(), |path| path.to_string())
}

fn refusal(ctx: &Ctx<'_>, path: &str, request: &Request, refused: Refused) -> Fault {
    const ENOENT: i32 = 2;
    let name = ctx.name;
    match refused.by {
        By::Kernel(ENOENT) => raised(format!("File not found: {path}")),
        // The gate has agreed before.
        By::Ceiling => denied(ctx.core.gate.leads_out(wanted(request).0, path)),
        By::Kernel(_) | By::Limit | By::Misuse => raised(format!("{name}: {path}: {}", refused.why)),
    }
}

/// What a request about a file needs, and its path.
pub(crate) fn wanted(request: &Request) -> (Capability, &str) {
    match request {
        Request::Open { path, how: How::Read } | Request::Look { path } | Request::List { path } => {
            (Capability::FileRead, path)
        }
        Request::Open { path, how: How::Append }
        | Request::Replace { path }
        | Request::MakeFolder { path }
        | Request::Remove { path, .. } => (Capability::FileWrite, path),
        _ => (Capability::FileWrite, ""),
    }
}

pub(super) fn ask(ctx: &mut Ctx<'_>, path: &str, request: &Request) -> Result<Reply, Fault> {
    let name = ctx.name;
    ctx.core.host.flush();
    match ctx.core.host.broker(request, &[]) {
        Ok(Reply::Refused(refused)) => Err(refusal(ctx, path, request, refused)),
        Ok(reply) => Ok(reply),
        Err(reason) => Err(raised(format!("{name}: failed to {reason}"))),
    }
}

pub(super) fn open(ctx: &mut Ctx<'_>, path: &str, request: &Request) -> Result<File, Fault> {
    match ask(ctx, path, request)? {
        Reply::File(file) => Ok(file),
        _ => Err(raised(format!("{}: the supervisor gave no file", ctx.name))),
    }
}

/// A file that `build` packed with the program: it is the program, not the filesystem.
fn asset(ctx: &mut Ctx<'_>, path: &str) -> Result<Option<Rc<[u8]>>, Fault> {
    let Some(bytes) = ctx.core.host.asset(path) else { return Ok(None) };
    let site = ctx.core.site(ctx.place);
    let source = format!("{}()", ctx.name);
    ctx.core.gate.of_itself(path, &source, &site, ctx.core.host.as_mut());
    Ok(Some(bytes))
}

/// Whether a call is about such a file, and looks only.
pub(crate) fn is_of_asset(ctx: &Ctx<'_>, args: &Args<'_>) -> bool {
    READING.contains(&args.name)
        && args.at(0).as_text().is_some_and(|path| ctx.core.host.asset(&shown(path)).is_some())
}

/// The content of an asset or of a file.
fn content_or_asset(ctx: &mut Ctx<'_>, path: &str) -> Result<Vec<u8>, Fault> {
    let Some(bytes) = asset(ctx, path)? else { return content(ctx, path) };
    ctx.charge(bytes.len() as u64 / 32)?;
    ctx.reserve(bytes.len())?;
    Ok(bytes.to_vec())
}

/// The whole content, within what the heap has room for.
pub(super) fn content(ctx: &mut Ctx<'_>, path: &str) -> Result<Vec<u8>, Fault> {
    ctx.ask(Capability::FileRead, Some(path))?;
    let mut file = open(ctx, path, &Request::Open { path: path.to_owned(), how: How::Read })?;
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => {
                bytes.extend_from_slice(&piece[..n]);
                ctx.reserve(bytes.len() + (64 << 10))?;
                ctx.charge(n as u64 / 32)?;
            }
            Err(e) => return Err(raised(format!("{}: {path}: {e}", ctx.name))),
        }
    }
    Ok(bytes)
}

fn read_file(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let path = path_of(args, 0)?;
    let bytes = content_or_asset(ctx, &path)?;
    let text =
        String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
    if args.optional(1).is_none() {
        return Ok(Value::string(text));
    }
    let first = args.int(1, "the line")?;
    let count = if args.optional(2).is_some() { args.int(2, "the number of lines")? } else { i64::MAX };
    if first < 1 || count < 0 {
        return Err(raised("read_file: lines are counted from 1"));
    }
    let lines: Vec<&str> =
        text.lines().skip(first as usize - 1).take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
    Ok(Value::string(lines.join("\n")))
}

fn read_file_bytes(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let path = path_of(args, 0)?;
    Ok(Value::bytes(content_or_asset(ctx, &path)?))
}

fn look(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<Seen, Fault> {
    let path = path_of(args, 0)?;
    if let Some(bytes) = asset(ctx, &path)? {
        return Ok(Seen { exists: true, size: bytes.len() as u64, ..Seen::NOTHING });
    }
    ctx.ask(Capability::FileRead, Some(&path))?;
    look_at(ctx, &path)
}

/// What stands at a path. The gate has been asked.
pub(super) fn look_at(ctx: &mut Ctx<'_>, path: &str) -> Result<Seen, Fault> {
    match ask(ctx, path, &Request::Look { path: path.to_owned() })? {
        Reply::Seen(seen) => Ok(seen),
        _ => Ok(Seen::NOTHING),
    }
}

fn file_exists(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(look(ctx, args)?.exists.into())
}

fn file_info(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let seen = look(ctx, args)?;
    Ok(Value::record([
        ("exists", seen.exists.into()),
        ("is_dir", seen.is_dir.into()),
        ("size", Value::Int(seen.size as i64)),
        ("modified", Value::Float(seen.modified)),
    ]))
}

pub(super) fn entries(ctx: &mut Ctx<'_>, path: &str) -> Result<Vec<policies::broker::Listed>, Fault> {
    ctx.ask(Capability::FileRead, Some(path))?;
    listed(ctx, path)
}

/// What is in a folder. The gate has been asked.
pub(super) fn listed(ctx: &mut Ctx<'_>, path: &str) -> Result<Vec<policies::broker::Listed>, Fault> {
    match ask(ctx, path, &Request::List { path: path.to_owned() })? {
        Reply::Json(json) => {
            let mut all: Vec<policies::broker::Listed> =
                serde_json::from_slice(&json).map_err(|e| raised(format!("{}: {path}: {e}", ctx.name)))?;
            all.sort();
            Ok(all)
        }
        _ => Ok(Vec::new()),
    }
}

fn list_dir(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let path = path_of(args, 0)?;
    let all = entries(ctx, &path)?;
    ctx.charge(all.len() as u64)?;
    Ok(Value::list(
        all.into_iter()
            .map(|e| {
                Value::record([
                    ("name", Value::text(&e.name)),
                    ("is_dir", e.is_dir.into()),
                    ("size", Value::Int(e.size as i64)),
                ])
            })
            .collect(),
    ))
}

/// Matches that `grep` gives at most.
const MOST_MATCHES: usize = 10_000;

fn grep(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let target = path_of(args, 0)?;
    let pattern = args.text(1)?;
    let options = args.options(2, &["regex", "ignore_case"])?;
    let option = |name| options.and_then(|map| map.get(name)).is_some_and(crate::vm::ops::truthy);
    let literal = if option("regex") { pattern.to_owned() } else { regex::escape(pattern) };
    let re = regex::RegexBuilder::new(&literal)
        .case_insensitive(option("ignore_case"))
        .size_limit(1 << 20)
        .build()
        .map_err(|e| super::text::invalid(&e))?;
    ctx.ask(Capability::FileRead, Some(&target))?;
    let mut waiting = vec![target.clone()];
    let mut files = Vec::new();
    while let Some(path) = waiting.pop() {
        let seen = match ask(ctx, &path, &Request::Look { path: path.clone() })? {
            Reply::Seen(seen) => seen,
            _ => Seen::NOTHING,
        };
        if seen.is_dir {
            for entry in entries(ctx, &path)?.into_iter().rev() {
                waiting.push(format!("{}/{}", path.trim_end_matches('/'), entry.name));
            }
        } else if seen.exists {
            files.push(path);
        }
        ctx.charge(1)?;
    }
    let mut found = Vec::new();
    let mut truncated = false;
    'files: for path in files {
        let bytes = content(ctx, &path)?;
        let text = String::from_utf8_lossy(&bytes);
        for (n, line) in text.lines().enumerate() {
            if let Some(m) = re.find(line) {
                if found.len() >= MOST_MATCHES {
                    truncated = true;
                    break 'files;
                }
                found.push(Value::record([
                    ("file", Value::text(&path)),
                    ("line", Value::from(n + 1)),
                    ("col", Value::from(line[..m.start()].chars().count() + 1)),
                    ("text", Value::text(line)),
                ]));
            }
        }
    }
    Ok(Value::record([("matches", Value::list(found)), ("truncated", truncated.into())]))
}

fn data(value: &Value) -> Vec<u8> {
    match value.as_bytes() {
        Some(bytes) => bytes.to_vec(),
        None => display(value).into_bytes(),
    }
}

fn replace(ctx: &mut Ctx<'_>, path: &str, bytes: &[u8]) -> Result<(), Fault> {
    ctx.charge(bytes.len() as u64 / 32)?;
    let mut file = open(ctx, path, &Request::Replace { path: path.to_owned() })?;
    file.write_all(bytes).map_err(|e| raised(format!("{}: {path}: {e}", ctx.name)))?;
    drop(file);
    ask(ctx, path, &Request::Commit {}).map(|_| ())
}

fn write_file(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let path = path_of(args, 0)?;
    ctx.ask(Capability::FileWrite, Some(&path))?;
    replace(ctx, &path, &data(args.at(1)))?;
    Ok(Value::Bool(true))
}

fn append_file(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let path = path_of(args, 0)?;
    ctx.ask(Capability::FileWrite, Some(&path))?;
    let bytes = data(args.at(1));
    ctx.charge(bytes.len() as u64 / 32)?;
    let mut file = open(ctx, &path, &Request::Open { path: path.clone(), how: How::Append })?;
    file.write_all(&bytes).map_err(|e| raised(format!("append_file: {path}: {e}")))?;
    Ok(Value::Bool(true))
}

fn edit_file(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let path = path_of(args, 0)?;
    let (old, new) = (args.text(1)?.to_owned(), args.text(2)?.to_owned());
    ctx.ask(Capability::FileWrite, Some(&path))?;
    let text = String::from_utf8(content(ctx, &path)?)
        .map_err(|_| raised(format!("edit_file: {path} is not UTF-8 text")))?;
    let count = if old.is_empty() { 0 } else { text.matches(&old).count() };
    if count == 0 {
        return Err(raised(format!("edit_file: {path}: pattern not found")));
    }
    if count > 1 && !args.flag(3) {
        return Err(raised(format!("edit_file: {path}: ambiguous, {count} occurrences")));
    }
    ctx.reserve(text.len() + count * new.len())?;
    replace(ctx, &path, text.replace(&old, &new).as_bytes())?;
    Ok(Value::record([("replaced", Value::from(count))]))
}

fn delete_file(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let path = path_of(args, 0)?;
    ctx.ask(Capability::FileWrite, Some(&path))?;
    ask(ctx, &path, &Request::Remove { path: path.clone(), what: What::File })?;
    Ok(Value::Bool(true))
}

fn delete_dir(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let root = path_of(args, 0)?;
    let options = args.options(1, &["recursive"])?;
    let recursive = options.and_then(|map| map.get("recursive")).is_some_and(crate::vm::ops::truthy);
    ctx.ask(Capability::FileWrite, Some(&root))?;
    // Folders in the order of discovery; removed the other way round, so that each is empty when its turn comes.
    let mut folders = vec![root];
    let mut next = 0;
    while recursive && next < folders.len() {
        let folder = folders[next].clone();
        next += 1;
        let listed = match ask(ctx, &folder, &Request::List { path: folder.clone() })? {
            Reply::Json(json) => serde_json::from_slice::<Vec<policies::broker::Listed>>(&json)
                .map_err(|e| raised(format!("delete_dir: {folder}: {e}")))?,
            _ => Vec::new(),
        };
        for entry in listed {
            let path = format!("{}/{}", folder.trim_end_matches('/'), entry.name);
            ctx.ask(Capability::FileWrite, Some(&path))?;
            ctx.charge(1)?;
            if entry.is_dir {
                folders.push(path);
            } else {
                ask(ctx, &path, &Request::Remove { path: path.clone(), what: What::File })?;
            }
        }
    }
    for folder in folders.into_iter().rev() {
        ask(ctx, &folder, &Request::Remove { path: folder.clone(), what: What::Folder })?;
    }
    Ok(Value::Bool(true))
}
