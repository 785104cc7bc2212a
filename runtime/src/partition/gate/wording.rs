//! How a denial tells what would grant the use.

use super::{ABOVE_CEILING, Denial, Gate, Kind, Wording};
use policies::capability::Capability;
use policies::ceiling::check_form;

impl Gate {
    pub(super) fn message(
        &self,
        capability: Capability,
        target: Option<&str>,
        check: &str,
        denial: &Denial,
    ) -> String {
        if self.wording == Wording::Flags {
            return flags(capability, target, denial);
        }
        let inside = match denial.layer {
            Some(Kind::Sandbox | Kind::Under) => " (inside a sandbox block)",
            Some(Kind::Tool) => " (the tool's own `require` lines don't grant it)",
            None => "",
        };
        let above = "declared but above the host ceiling — the program cannot fix this; the host must widen the \
                     ceiling (--sandbox/--cap-set)";
        let worded = matches!(
            capability,
            Capability::Secret
                | Capability::Env
                | Capability::Serve
                | Capability::Sign
                | Capability::Spend
                | Capability::Wallet
                | Capability::Reveal
        );
        if denial.declared && denial.layer.is_none() {
            return if worded {
                format!("{check} not permitted: {above}")
            } else {
                format!("Capability not granted: {check} — {above}")
            };
        }
        let line = match target {
            Some(t) if capability == Capability::Serve => format!("{}({t})", capability.name()),
            Some(t) => format!("{}(\"{t}\")", capability.name()),
            None => capability.name().to_owned(),
        };
        if worded {
            let prefix = match (capability, target.and_then(|t| t.split_once('_'))) {
                (Capability::Secret | Capability::Env, Some((head, _))) => {
                    format!(" (or a prefix: `require {}(\"{head}_*\")`)", capability.name())
                }
                _ => String::new(),
            };
            return format!(
                "{check} not permitted: missing capability — add `require {line}`{prefix}{inside}"
            );
        }
        if capability == Capability::Memory {
            return format!(
                "Capability not granted: memory. missing capability — add `require {line}` to the program (this is a \
                 permission, not a bug){inside}"
            );
        }
        format!(
            "Capability not granted: {check} — missing capability — add `require {line}` to the program (this is a \
             permission, not a bug){inside}"
        )
    }

    /// The denial of a path that is granted itself and leads out of what is granted: the supervisor has seen that, which
    /// follows links, and the gate has agreed, which knows names alone.
    pub(crate) fn leads_out(&self, capability: Capability, target: &str) -> String {
        let check = check_form(capability, Some(target));
        if self.wording == Wording::Flags {
            return format!(
                "capability not granted: {check} — it leads out through a link; only the host can grant what is there \
                 (--cap-set, --allow-fs-read, --allow-fs-write)"
            );
        }
        if self.ceiling.is_some() {
            return format!(
                "Capability not granted: {check} — declared but above the host ceiling — it leads out through a link: the \
                 program cannot fix this; the host must widen the ceiling (--sandbox/--cap-set)"
            );
        }
        let name = capability.name();
        format!(
            "Capability not granted: {check} — missing capability — it leads out through a link: add `require {name}(…)` \
             with the place it leads to to the program (this is a permission, not a bug)"
        )
    }
}

/// A denial where flags grant.
fn flags(capability: Capability, target: Option<&str>, denial: &Denial) -> String {
    let name = capability.name().replace('.', "_");
    let shown = target.map_or_else(|| name.clone(), |target| format!("{name}(\"{target}\")"));
    if denial.declared || denial.reason == ABOVE_CEILING {
        return format!(
            "capability not granted: {shown} — above the host ceiling; only the host can widen it (--cap-set)"
        );
    }
    let flag = match capability {
        Capability::Stdout => return format!("capability not granted: {shown} — run without --no-stdout"),
        Capability::SandboxRun => "--allow-sandbox",
        Capability::FileRead => "--allow-fs-read",
        Capability::FileWrite => "--allow-fs-write",
        Capability::Net => "--allow-net",
        Capability::Env => "--allow-env",
        Capability::Time => "--allow-clock",
        Capability::Random => "--allow-random",
        _ => return format!("capability not granted: {shown} — no flag grants it"),
    };
    match target {
        Some(target) => format!("capability not granted: {shown} — run with {flag}={target}"),
        None => format!("capability not granted: {shown} — run with {flag}"),
    }
}
