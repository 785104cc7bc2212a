//! `run_program`: another program in a jail of its own, never above this one.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::other::Other;
use crate::vm::render::{display, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Map, Value};
use policies::capability::Capability;
use policies::ceiling::{Ceiling, clip};

pub(super) const TABLE: &[Builtin] = &[Builtin::new("run_program", &["source", "options"], 1, run_program)
    .cost(Cost::Linear)
    .needs(Capability::SandboxRun)];

const KEYS: [&str; 6] = ["ceiling", "profile", "env", "timeout", "cwd", "filename"];

/// Variables that would steer the loader or the engine.
fn dangerous(name: &str) -> bool {
    name.starts_with("LD_")
        || name.starts_with("DYLD_")
        || (name.starts_with("SYNSEMA_") && name != "SYNSEMA_LLM_PROVIDER" && name != "SYNSEMA_LLM_MODEL")
}

fn run_program(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let source = args.text(0)?.to_owned();
    let empty = Map::new(crate::vm::value::Entries::default());
    let options = if args.optional(1).is_some() { args.map(1)? } else { &empty };
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
    let env = environment(options.get("env"))?;
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
    let clipped = clip(&wanted, &ctx.core.gate.lendable());
    for dropped in &clipped.dropped {
        let core = &mut *ctx.core;
        core.gate.note(
            core.host.as_mut(),
            dropped.check(),
            false,
            "run_program()",
            "above parent ceiling",
            &site,
        );
    }
    let pure_parent = ctx.core.settings.profile == crate::partition::Profile::Pure;
    if pure_parent && profile == "native" {
        let core = &mut *ctx.core;
        let check = "profile(native)".to_owned();
        core.gate.note(core.host.as_mut(), check, false, "run_program()", "above parent profile", &site);
    }
    let request = serde_json::json!({
        "source": source,
        "ceiling": clipped.kept.to_string(),
        "profile": if pure_parent { "pure" } else { profile },
        "env": env,
        "timeout": timeout,
        "cwd": cwd,
        "filename": filename,
    });
    ctx.core.host.flush();
    let answer =
        ctx.core.host.request("run_program", request).map_err(|e| raised(format!("run_program: {e}")))?;
    Ok(super::json::from_host(&answer))
}

fn environment(option: Option<&Value>) -> Result<serde_json::Map<String, serde_json::Value>, Fault> {
    let mut env = serde_json::Map::new();
    match option {
        None | Some(Value::Nothing) => {}
        Some(Value::Map(map)) => {
            for (key, value) in map.entries() {
                let name = key.as_str();
                if matches!(value.as_other(), Some(Other::Secret(_))) {
                    return Err(raised(format!(
                        "run_program: env '{name}' is a secret — reveal() it on purpose"
                    )));
                }
                if dangerous(name) || name.is_empty() || name.contains(['=', '\0']) {
                    return Err(raised(format!("run_program: env may not set '{name}'")));
                }
                match value {
                    Value::Short(_) | Value::Text(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_) => {
                        env.insert(name.to_owned(), display(value).into());
                    }
                    other => {
                        return Err(raised(format!(
                            "run_program: env '{name}' must be text, a number or a bool, got {}",
                            type_name(other)
                        )));
                    }
                }
            }
        }
        Some(other) => {
            return Err(raised(format!("run_program: env must be a map, got {}", type_name(other))));
        }
    }
    Ok(env)
}
