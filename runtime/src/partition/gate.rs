//! The only door to an effect: require ∩ ceiling, narrowed by every open sandbox.
//!
//! Invariant: a layer only removes. Denials are ordinary, catchable errors; each decision is an audit entry.

mod parsed;
mod passed;
mod wording;

use crate::partition::host::Host;
use parsed::Parsed;
use passed::PassedUses;
use policies::audit::{Entry, Origin};
use policies::capability::Capability;
use policies::ceiling::{Ceiling, Grant, Grants, Taken, check_form};
use policies::layer::Layer as Wall;
use policies::scope::{Base, Target};

/// What narrows the gate for a while.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// For the audit: `sandbox:`, `tool:name`.
    context: String,
    /// `None`: nothing at all but `print`.
    allowed: Option<Ceiling>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sandbox,
    Under,
    Tool,
}

/// A denial that the gate only records.
pub(crate) struct Elsewhere<'a> {
    /// The capability in its check form.
    pub(crate) check: String,
    /// What was wanted.
    pub(crate) target: &'a str,
    /// The builtin, with parentheses.
    pub(crate) source: &'a str,
    /// Why not.
    pub(crate) reason: &'a str,
    /// Who says so.
    pub(crate) layer: Wall,
}

/// Where a call stands, for the audit.
#[derive(Debug, Clone, Default)]
pub struct Site {
    /// File as diagnostics name it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

/// A partition's capabilities.
#[derive(Debug, Clone)]
pub struct Gate {
    /// `None`: the host gave no ceiling; output isn't checked.
    ceiling: Option<Ceiling>,
    /// The ceiling, or everything.
    bound: Ceiling,
    declared: Vec<Grant>,
    held: Grants,
    ambient: Grants,
    layers: Vec<Layer>,
    context: String,
    /// Where relative paths start: all that is compared is made absolute by it. `None`: letters are compared as they are.
    base: Option<Base>,
    wording: Wording,
    /// Whether output has been audited: granted, denied.
    stdout_seen: [bool; 2],
    passed: PassedUses,
}

/// How a denial tells what would grant the use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wording {
    /// A `require` line.
    Require,
    /// A flag of the command line.
    Flags,
}

/// What a program gets without asking.
const AMBIENT: [Capability; 3] = [Capability::Stdout, Capability::Time, Capability::Llm];

impl Gate {
    /// A gate under a ceiling; grants that the host tries by itself are filtered by it.
    pub fn new(ceiling: Option<Ceiling>, base: Option<Base>, context: &str, host: &mut dyn Host) -> Self {
        let (gate, refused) = Self::ambient(ceiling, base, context);
        for capability in refused {
            let verdict = Verdict { granted: false, source: "ambient", reason: ABOVE_CEILING };
            gate.audit(host, capability.name().to_owned(), "", &verdict, Origin::Runtime, None);
        }
        gate
    }

    /// One with what a program gets without asking, and what of that is above the ceiling.
    fn ambient(ceiling: Option<Ceiling>, base: Option<Base>, context: &str) -> (Self, Vec<Capability>) {
        let ceiling = ceiling.map(|ceiling| rooted(base.as_ref(), ceiling));
        let bound = ceiling.clone().unwrap_or_else(Ceiling::everything);
        let mut gate = Self {
            ceiling,
            bound,
            declared: Vec::new(),
            held: Grants::none(),
            ambient: Grants::none(),
            layers: Vec::new(),
            context: context.to_owned(),
            base,
            wording: Wording::Require,
            stdout_seen: [false; 2],
            passed: PassedUses::default(),
        };
        let above = |&capability: &Capability| {
            gate.ambient.take(Grant::whole(capability), &gate.bound) == Taken::AboveCeiling
        };
        let refused = AMBIENT.into_iter().filter(above).collect();
        (gate, refused)
    }

    /// A gate whose grants come from the command line or the host, output besides. A use is allowed where both a grant and the
    /// ceiling allow it: a grant wider than the ceiling is held whole, and each use is decided by both.
    pub fn granted(
        ceiling: Option<Ceiling>,
        granted: Ceiling,
        base: Option<Base>,
        host: &mut dyn Host,
    ) -> Self {
        let ceiling = ceiling.map(|ceiling| rooted(base.as_ref(), ceiling));
        let granted = rooted(base.as_ref(), granted);
        let bound = ceiling.clone().unwrap_or_else(Ceiling::everything);
        let mut gate = Self { ceiling, bound, base, context: "program".to_owned(), ..Self::closed() };
        for grant in granted.grants().cloned().collect::<Vec<_>>() {
            let above = |part: &Grant| !grant.covers_grant(part) && !part.covers_grant(&grant);
            if gate.bound.grants().all(above) {
                let verdict = Verdict { granted: false, source: "ceiling", reason: ABOVE_CEILING };
                let target = grant.scope_text().unwrap_or_default();
                gate.audit(host, grant.check(), &target, &verdict, Origin::Runtime, None);
            }
            let ambient = grant.capability() == Capability::Stdout;
            let grants = if ambient { &mut gate.ambient } else { &mut gate.held };
            let _whole = grants.take(grant.clone(), &Ceiling::everything());
            gate.declared.push(grant);
        }
        gate
    }

    /// Whether a use would be granted; nothing is recorded.
    pub(crate) fn covers(&self, capability: Capability, target: Option<&str>) -> bool {
        self.decide(capability, target).is_ok()
    }

    /// The check of a use, without its entry: what [`ask`](Self::ask) begins with.
    pub fn check(&mut self, capability: Capability, target: Option<&str>) -> bool {
        self.decided(capability, target).is_ok()
    }

    fn decided(&mut self, capability: Capability, target: Option<&str>) -> Result<&'static str, Denial> {
        if let Some(reason) = self.passed.get(capability, target) {
            return Ok(reason);
        }
        let reason = self.decide(capability, target)?;
        self.passed.add(capability, target, reason);
        Ok(reason)
    }

    /// A gate that grants nothing, ever: for partitions that only compute.
    #[must_use]
    pub fn closed() -> Self {
        Self {
            ceiling: Some(Ceiling::none()),
            bound: Ceiling::none(),
            declared: Vec::new(),
            held: Grants::none(),
            ambient: Grants::none(),
            layers: Vec::new(),
            context: "sandbox:".to_owned(),
            base: None,
            wording: Wording::Flags,
            stdout_seen: [false; 2],
            passed: PassedUses::default(),
        }
    }

    /// A fresh gate for an agent under the same ceiling, and inside what its maker was inside of when it was made. What the
    /// ceiling refuses of what everybody gets has its entry from the program: agents may be many.
    pub(crate) fn agent(&self) -> Self {
        let (fresh, _told_once) = Self::ambient(self.ceiling.clone(), self.base.clone(), "agent");
        Self { layers: self.layers.clone(), ..fresh }
    }

    /// The same grants for a worker that runs on another machine.
    pub(crate) fn worker(&self) -> Self {
        Self { context: "worker".to_owned(), ..self.clone() }
    }

    /// Executes a `require`.
    ///
    /// # Errors
    /// The capability doesn't exist, or its scope is malformed.
    pub(crate) fn require(
        &mut self,
        name: &str,
        scopes: &[std::rc::Rc<str>],
        site: &Site,
        host: &mut dyn Host,
    ) -> Result<(), String> {
        let Some(capability) = Capability::from_name(name) else {
            let hint = Capability::nearest(name).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
            return Err(format!("unknown capability '{name}'{hint}"));
        };
        if !self.layers.is_empty() {
            return Ok(());
        }
        self.passed.clear();
        let mut grants = Vec::new();
        if scopes.is_empty() {
            let all = Grant::whole(capability);
            if let Some(warning) = too_wide(capability)
                && !self.declared.contains(&all)
            {
                host.eprint(&format!("warning: {}:{}: {warning}", site.file, site.line));
            }
            grants.push(all);
        }
        for scope in scopes {
            grants.push(Grant::new(capability, Some(scope)).map_err(|e| e.to_string())?);
        }
        if capability == Capability::Memory {
            let other =
                self.declared.iter().any(|g| g.capability() == Capability::Memory && !grants.contains(g));
            if other || grants.len() > 1 {
                return Err("Multiple memory declarations: a program has one notebook".into());
            }
        }
        for grant in grants {
            let rooted = rooted(self.base.as_ref(), Ceiling::of([grant.clone()]));
            let taken = rooted.grants().map(|part| self.held.take(part.clone(), &self.bound));
            if taken.fold(Taken::InForce, |all, one| if one == Taken::InForce { all } else { one })
                == Taken::AboveCeiling
            {
                let verdict = Verdict { granted: false, source: "ceiling", reason: ABOVE_CEILING };
                let target = grant.scope_text().unwrap_or_default();
                self.audit(host, grant.check(), &target, &verdict, Origin::Program, Some(site));
            }
            for part in rooted.grants() {
                if !self.declared.contains(part) {
                    self.declared.push(part.clone());
                }
            }
        }
        Ok(())
    }

    /// The name of the notebook that the program declared.
    pub(crate) fn notebook(&self) -> Option<String> {
        self.declared.iter().find(|g| g.capability() == Capability::Memory)?.scope_text()
    }

    /// Asks for a use; `source` is the builtin with parentheses.
    ///
    /// # Errors
    /// The denial's message.
    pub(crate) fn ask(
        &mut self,
        capability: Capability,
        target: Option<&str>,
        source: &str,
        site: &Site,
        host: &mut dyn Host,
    ) -> Result<(), String> {
        let decision = self.decided(capability, target);
        self.told(capability, target, source, decision, site, host)
    }

    /// Notes that the program read a part of itself, which nothing can deny.
    pub(crate) fn of_itself(&mut self, target: &str, source: &str, site: &Site, host: &mut dyn Host) {
        let decision = Ok("bundled asset (part of the program)");
        let _granted = self.told(Capability::FileRead, Some(target), source, decision, site, host);
    }

    /// Asks for a use that reaches only what is granted anyway, such as a list of the granted names: any scope will do.
    ///
    /// # Errors
    /// The denial's message.
    pub(crate) fn ask_any(
        &mut self,
        capability: Capability,
        source: &str,
        site: &Site,
        host: &mut dyn Host,
    ) -> Result<(), String> {
        let held = self.held.as_ceiling().has(capability);
        let decision = if held && self.bound.has(capability) && self.layers.is_empty() {
            Ok("Granted by require")
        } else {
            let reason = if held { ABOVE_CEILING } else { "No matching grant found" };
            Err(Denial { reason, declared: held, layer: self.layers.last().map(|layer| layer.kind) })
        };
        self.told(capability, None, source, decision, site, host)
    }

    /// A decision's entry, and what the program is told.
    fn told(
        &mut self,
        capability: Capability,
        target: Option<&str>,
        source: &str,
        decision: Result<&'static str, Denial>,
        site: &Site,
        host: &mut dyn Host,
    ) -> Result<(), String> {
        let check = check_form(capability, target);
        let context = self.layers.last().map(|l| l.context.clone());
        let verdict = match &decision {
            Ok(reason) => Verdict { granted: true, source, reason },
            Err(denial) => Verdict { granted: false, source, reason: denial.reason },
        };
        let seen = capability == Capability::Stdout && {
            let index = usize::from(!verdict.granted);
            std::mem::replace(&mut self.stdout_seen[index], true)
        };
        let denied = decision.as_ref().err().map(|denial| self.message(capability, target, &check, denial));
        if !seen {
            let target = target.unwrap_or("");
            host.audit(self.entry(check, target, &verdict, Origin::Program, Some(site), context));
        }
        denied.map_or(Ok(()), Err)
    }

    /// Whether input is looked at here at all: a program without a ceiling may read it, and nothing inside a `sandbox` may.
    pub(crate) fn checks_input(&self) -> bool {
        self.ceiling.is_some() || !self.layers.is_empty()
    }

    /// Whether output is looked at here at all.
    pub(crate) fn checks_output(&self) -> bool {
        self.ceiling.is_some()
    }

    /// Fast answer for output: granted and audited already.
    pub(crate) fn output_is_open(&self) -> bool {
        (self.ceiling.is_none() && self.wording == Wording::Require)
            || (self.stdout_seen[0]
                && self.layers.is_empty()
                && self.ambient.covers(Capability::Stdout, Target::Whole))
    }

    fn decide(&self, capability: Capability, target: Option<&str>) -> Result<&'static str, Denial> {
        let parsed = Parsed::new(capability, target, self.base.as_ref());
        let covers =
            |grants: &dyn Fn(Target<'_>) -> bool| parsed.as_ref().is_some_and(|p| grants(p.target()));
        // What a program requires is held only below the ceiling; what flags grant may be wider.
        let below = self.wording == Wording::Require || covers(&|t| self.bound.covers(capability, t));
        let ambient = below && covers(&|t| self.ambient.covers(capability, t));
        for layer in self.layers.iter().rev() {
            let inside = match &layer.allowed {
                None => capability == Capability::Stdout,
                Some(ceiling) => {
                    capability == Capability::Stdout || covers(&|t| ceiling.covers(capability, t))
                }
            };
            if !inside {
                let reason = match layer.kind {
                    Kind::Sandbox | Kind::Tool => "No matching grant found",
                    Kind::Under => "above sandbox ceiling (sandbox under)",
                };
                return Err(Denial { reason, declared: false, layer: Some(layer.kind) });
            }
        }
        if ambient {
            return Ok("auto-granted by the runtime");
        }
        if below && covers(&|t| self.held.covers(capability, t)) {
            return Ok("Granted by require");
        }
        let given = self.wording == Wording::Require && AMBIENT.contains(&capability);
        let declared = covers(&|t| self.declared.iter().any(|g| g.covers(capability, t)))
            || (given && self.declared.iter().any(|g| g.capability() == capability));
        let reason = if declared { ABOVE_CEILING } else { "No matching grant found" };
        Err(Denial { reason, declared, layer: None })
    }

    // ---- layers ----

    pub(crate) fn depth(&self) -> usize {
        self.layers.len()
    }

    pub(crate) fn truncate(&mut self, depth: usize) {
        self.passed.clear();
        self.layers.truncate(depth);
    }

    /// Nothing but `print` from here on.
    pub(crate) fn enter_sandbox(&mut self) {
        self.passed.clear();
        self.layers.push(Layer { context: "sandbox:".to_owned(), allowed: None, kind: Kind::Sandbox });
    }

    /// At most the given capabilities from here on.
    pub(crate) fn enter_under(&mut self, allowed: Ceiling) {
        self.passed.clear();
        self.layers.push(Layer {
            context: "sandbox:under".to_owned(),
            allowed: Some(rooted(self.base.as_ref(), allowed)),
            kind: Kind::Under,
        });
    }

    /// At most what a tool's own `require` lines say, and what the program gets without asking.
    pub(crate) fn enter_tool(&mut self, name: &str, requires: &[(std::rc::Rc<str>, Vec<std::rc::Rc<str>>)]) {
        let mut grants = Vec::new();
        for (capability, scopes) in requires {
            if let Some(capability) = Capability::from_name(capability) {
                if scopes.is_empty() {
                    grants.push(Grant::whole(capability));
                }
                grants.extend(scopes.iter().filter_map(|s| Grant::new(capability, Some(s)).ok()));
            }
        }
        self.passed.clear();
        self.layers.push(Layer {
            context: format!("tool:{name}"),
            allowed: Some(rooted(self.base.as_ref(), Ceiling::of(grants))),
            kind: Kind::Tool,
        });
    }

    pub(crate) fn leave(&mut self) {
        self.passed.clear();
        self.layers.pop();
    }

    /// A child's ceiling with its relative paths as this program means them.
    pub(crate) fn rooted(&self, ceiling: Ceiling) -> Ceiling {
        rooted(self.base.as_ref(), ceiling)
    }

    /// Where relative paths start.
    pub(crate) fn base(&self) -> Option<&Base> {
        self.base.as_ref()
    }

    /// What could be lent to a child from here: grants in force, inside every open layer.
    pub(crate) fn lendable(&self) -> Ceiling {
        let all = self
            .held
            .as_ceiling()
            .grants()
            .chain(self.ambient.as_ceiling().grants())
            .cloned()
            .collect::<Vec<_>>();
        let inside = |grant: &Grant| {
            self.bound.covers_grant(grant)
                && self.layers.iter().all(|layer| match &layer.allowed {
                    None => grant.capability() == Capability::Stdout,
                    Some(ceiling) => ceiling.covers_grant(grant),
                })
        };
        Ceiling::of(all.into_iter().filter(inside))
    }

    // ---- audit ----

    /// Records a denial that was decided elsewhere: a dropped item of a child's ceiling, a builtin that the profile hasn't.
    pub(crate) fn note(&self, host: &mut dyn Host, denial: &Elsewhere<'_>, site: &Site) {
        let verdict = Verdict { granted: false, source: denial.source, reason: denial.reason };
        let context = self.layers.last().map(|l| l.context.clone());
        let check = denial.check.clone();
        let entry = self.entry(check, denial.target, &verdict, Origin::Program, Some(site), context);
        host.audit(Entry { layer: denial.layer, ..entry });
    }

    fn audit(
        &self,
        host: &mut dyn Host,
        check: String,
        target: &str,
        verdict: &Verdict<'_>,
        origin: Origin,
        site: Option<&Site>,
    ) {
        let context = self.layers.last().map(|l| l.context.clone());
        host.audit(self.entry(check, target, verdict, origin, site, context));
    }

    fn entry(
        &self,
        capability: String,
        target: &str,
        verdict: &Verdict<'_>,
        origin: Origin,
        site: Option<&Site>,
        context: Option<String>,
    ) -> Entry {
        Entry {
            ts: 0.0,
            context: context.unwrap_or_else(|| self.context.clone()),
            capability,
            granted: verdict.granted,
            source: verdict.source.to_owned(),
            reason: verdict.reason.to_owned(),
            origin,
            file: site.map(|s| s.file.clone()),
            line: site.map(|s| s.line),
            seq: 0,
            layer: Wall::Gate,
            target: target.to_owned(),
        }
    }
}

/// What is said of a `require` line that grants everything by having no name, where hardly anybody means that.
pub(crate) fn too_wide(capability: Capability) -> Option<String> {
    let name = match capability {
        Capability::Reveal | Capability::Sign | Capability::Wallet | Capability::Spend => capability.name(),
        _ => return None,
    };
    Some(format!("`require {name}` without a name asks for all of them: write `require {name}(\"NAME\")`"))
}

/// With absolute paths. What has no absolute form (`~` without a home) stays as it is, and covers nothing absolute.
fn rooted(base: Option<&Base>, ceiling: Ceiling) -> Ceiling {
    let Some(base) = base else { return ceiling };
    match ceiling.absolute(base) {
        Ok(absolute) => absolute,
        Err(_) => Ceiling::of(ceiling.grants().flat_map(|grant| {
            let one = Ceiling::of([grant.clone()]);
            one.absolute(base).unwrap_or(one).grants().cloned().collect::<Vec<_>>()
        })),
    }
}

const ABOVE_CEILING: &str = "above host ceiling (--sandbox/--cap-set)";

struct Verdict<'a> {
    granted: bool,
    source: &'a str,
    reason: &'a str,
}

struct Denial {
    reason: &'static str,
    declared: bool,
    layer: Option<Kind>,
}
