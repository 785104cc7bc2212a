//! `run_program`: another program in a jail of its own, never above this one.

use super::{Args, Builtin, Cost, Ctx};
use crate::broker::Reply;
use crate::partition::gate::Elsewhere;
use crate::vm::other::Other;
use crate::vm::render::{display, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Map, Value};
use policies::broker::{
    Child, MOST_HEAD, MOST_PATH, MOST_PIECE, MOST_VARIABLES, MOST_WORDS, Profile, Ran, Request, is_variable,
    steers,
};
use policies::capability::Capability;
use policies::ceiling::{Ceiling, clip};
use policies::layer::Layer;
use std::collections::BTreeMap;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("run_program", &["source", "options"], 1, run_program)
        .cost(Cost::Linear)
        .needs(Capability::SandboxRun),
    Builtin::new("cwd", &[], 0, cwd).cost(Cost::Flat).native("this run has no filesystem"),
];

/// The folder that relative paths start from.
fn cwd(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    ctx.ask(Capability::FileRead, Some("."))?;
    match ctx.core.gate.base() {
        Some(base) => Ok(Value::text(&base.workdir)),
        None => Err(raised("cwd: this run has no folder")),
    }
}

const KEYS: [&str; 6] = ["ceiling", "profile", "env", "timeout", "cwd", "filename"];

fn run_program(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let Some(source) = args.at(0).as_text().map(str::to_owned) else {
        return Err(raised(format!("run_program: source must be text, got {}", type_name(args.at(0)))));
    };
    let empty = Map::new(crate::vm::value::Entries::default());
    let options = match args.optional(1) {
        None => &empty,
        Some(Value::Map(map)) => map,
        Some(other) => {
            return Err(raised(format!("run_program: options must be a map, got {}", type_name(other))));
        }
    };
    for (key, _) in options.entries() {
        if !KEYS.contains(&key.as_str()) {
            return Err(raised(format!(
                "run_program: unknown option '{}', one of {}",
                key.as_str(),
                KEYS.join(", ")
            )));
        }
    }
    let wanted = match options.get("ceiling") {
        None | Some(Value::Nothing) => Ceiling::sandbox(),
        Some(Value::Map(map)) => crate::vm::ceiling_of(map)?,
        Some(v) => match v.as_text() {
            Some("sandbox") => Ceiling::sandbox(),
            Some("none") => Ceiling::none(),
            Some(text) => Ceiling::parse(text).map_err(|e| raised(format!("run_program: ceiling: {e}")))?,
            None => {
                return Err(raised(format!(
                    "run_program: ceiling must be text or a map, got {}",
                    type_name(v)
                )));
            }
        },
    };
    let profile = match options.get("profile").map(|v| (v.as_text(), v)) {
        None | Some((_, Value::Nothing)) => "pure",
        Some((Some("pure"), _)) => "pure",
        Some((Some("native"), _)) => "native",
        Some((_, v)) => {
            return Err(raised(format!(
                "run_program: profile must be \"pure\" or \"native\", got {}",
                display(v)
            )));
        }
    };
    let timeout = match options.get("timeout") {
        None | Some(Value::Nothing) => 30.0,
        Some(Value::Int(n)) if *n > 0 => *n as f64,
        Some(Value::Float(f)) if *f > 0.0 && f.is_finite() => *f,
        Some(v) => {
            return Err(raised(format!("run_program: timeout must be a number above 0, got {}", display(v))));
        }
    };
    let env = environment("run_program", options.get("env"))?;
    let text_option = |key: &str| match options.get(key) {
        None | Some(Value::Nothing) => Ok(None),
        Some(v) => match v.as_text() {
            Some(t) => Ok(Some(t.to_owned())),
            None => Err(raised(format!("run_program: {key} must be text, got {}", type_name(v)))),
        },
    };
    let filename = text_option("filename")?.unwrap_or_else(|| "<program>".to_owned());
    let cwd = text_option("cwd")?;

    let site = ctx.core.site(ctx.place);
    let clipped = clip(&ctx.core.gate.rooted(wanted), &ctx.core.gate.lendable());
    let cut = |ctx: &mut Ctx<'_>, check: String, target: &str, reason: &str| {
        let core = &mut *ctx.core;
        let denial = Elsewhere { check, target, source: "run_program()", reason, layer: Layer::Gate };
        core.gate.note(core.host.as_mut(), &denial, &site);
    };
    for dropped in &clipped.dropped {
        let target = dropped.scope_text().unwrap_or_default();
        cut(ctx, dropped.check(), &target, "above parent ceiling");
    }
    let pure_parent = ctx.core.settings.profile == crate::partition::Profile::Pure;
    if pure_parent && profile == "native" {
        cut(ctx, "profile(native)".to_owned(), "native", "above parent profile");
    }
    // An eighth stays for telling of it, as with processor time.
    let fuel = ctx.core.settings.fuel.map(|_limit| ctx.core.fuel_left().max(0) as u64 / 8 * 7);
    let child = Child {
        ceiling: clipped.kept,
        profile: if pure_parent || profile == "pure" { Profile::Pure } else { Profile::Native },
        env,
        timeout_ms: (timeout * 1000.0).ceil().min(1e12) as u64,
        fuel,
        cwd,
        filename,
    };
    let request = Request::RunProgram(Box::new(child));
    fits("run_program", &request)?;
    ctx.core.host.flush();
    let ran = start(ctx, &source, &request).map_err(|e| raised(format!("run_program: {e}")))?;
    if fuel.is_some() {
        ctx.charge(ran.fuel)?;
    }
    let mut json = serde_json::to_value(&ran).unwrap_or_default();
    if let Some(fields) = json.as_object_mut() {
        // The language's result has the page's fields.
        fields.remove("fuel");
    }
    Ok(super::json::from_host(&json))
}

/// Sends the source in pieces, then the child; waits for its end.
fn start(ctx: &mut Ctx<'_>, source: &str, request: &Request) -> Result<Ran, String> {
    let host = &mut ctx.core.host;
    for piece in source.as_bytes().chunks(MOST_PIECE) {
        if let Reply::Refused(refused) = host.broker(&Request::Source {}, piece)? {
            return Err(refused.why);
        }
    }
    match host.broker(request, &[])? {
        Reply::Json(json) => {
            serde_json::from_slice(&json).map_err(|e| format!("failed to read the result: {e}"))
        }
        Reply::Refused(refused) => Err(refused.why),
        _ => Err("the supervisor gave no result".to_owned()),
    }
}

/// Whether a program or a command fits in the one message that it is asked for with: else an error that names the key, and
/// nothing was sent.
pub(super) fn fits(name: &str, request: &Request) -> Result<(), Fault> {
    let no_words = Vec::new();
    let (argv, env, ceiling, cwd, filename) = match request {
        Request::RunProgram(of) => (&no_words, &of.env, &of.ceiling, &of.cwd, of.filename.as_str()),
        Request::RunCommand(of) => (&of.argv, &of.env, &of.ceiling, &of.cwd, ""),
        Request::Spawn(spawn) => {
            let of = &spawn.command;
            (&of.argv, &of.env, &of.ceiling, &of.cwd, "")
        }
        _ => return Ok(()),
    };
    let cwd = cwd.as_deref().unwrap_or_default();
    for (key, path) in [("filename", filename), ("cwd", cwd)] {
        if path.len() > MOST_PATH {
            let bytes = path.len();
            return Err(raised(format!("{name}: {key} has {bytes} bytes, of {MOST_PATH} at most")));
        }
    }
    if env.len() > MOST_VARIABLES {
        let count = env.len();
        return Err(raised(format!("{name}: env has {count} variables, of {MOST_VARIABLES} at most")));
    }
    if argv.len() > MOST_WORDS {
        let (count, most) = (argv.len() - 1, MOST_WORDS - 1);
        return Err(raised(format!("{name}: args has {count} arguments, of {most} at most")));
    }
    if policies::broker::encode(0, request, &[]).is_ok() {
        return Ok(());
    }
    // The largest one is to blame, as it is written on the wire.
    let (cmd, args) = argv.split_at(argv.len().min(1));
    let sizes = [
        ("cmd", written(&cmd)),
        ("args", written(&args)),
        ("env", written(env)),
        ("ceiling", written(ceiling)),
        ("cwd", written(cwd)),
        ("filename", written(filename)),
    ];
    let (key, bytes) = sizes.into_iter().max_by_key(|(_, bytes)| *bytes).unwrap_or(("options", 0));
    Err(raised(format!(
        "{name}: {key} has {bytes} bytes, and all that is asked for with it {MOST_HEAD} at most — give data in a file or as \
         input"
    )))
}

/// How many bytes it has in a message.
fn written<T: serde::Serialize + ?Sized>(part: &T) -> usize {
    serde_json::to_vec(part).map_or(0, |json| json.len())
}

pub(super) fn environment(name: &str, option: Option<&Value>) -> Result<BTreeMap<String, String>, Fault> {
    let mut env = BTreeMap::new();
    match option {
        None | Some(Value::Nothing) => {}
        Some(Value::Map(map)) => {
            for (key, value) in map.entries() {
                let variable = key.as_str();
                if matches!(value.as_other(), Some(Other::Secret(_))) {
                    return Err(raised(format!(
                        "{name}: env '{variable}' is a secret — reveal() it on purpose"
                    )));
                }
                if steers(variable) || !is_variable(variable) {
                    return Err(raised(format!("{name}: env may not set '{variable}'")));
                }
                match value {
                    Value::Short(_) | Value::Text(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_) => {
                        env.insert(variable.to_owned(), display(value));
                    }
                    other => {
                        return Err(raised(format!(
                            "{name}: env '{variable}' must be text, a number or a bool, got {}",
                            type_name(other)
                        )));
                    }
                }
            }
        }
        Some(other) => {
            return Err(raised(format!("{name}: env must be a map, got {}", type_name(other))));
        }
    }
    Ok(env)
}
