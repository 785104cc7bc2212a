//! The ceiling: what may be done, as a set of grants.
//!
//! Invariant: ceilings are combined by [`clip`] alone. There is no union, no merge and no default on what grants;
//! a program's own set ([`Grants`]) takes in only what a ceiling covers.

mod parse;

use crate::{
    capability::{Capability, ScopeKind},
    error::{Malformed, ScopeFault},
    scope::{Base, Scope, Target},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt, str::FromStr};

/// A capability and what it reaches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Grant {
    capability: Capability,
    scope: Scope,
}

impl Grant {
    /// A grant of everything that the capability can reach.
    #[must_use]
    pub const fn whole(capability: Capability) -> Self {
        Self { capability, scope: Scope::Any }
    }

    /// From a capability and its scope's text, as a `require` line has them. A comma in the text is part of it.
    ///
    /// # Errors
    /// [`Malformed::Scope`] or [`Malformed::ScopeNotTaken`].
    pub fn new(capability: Capability, scope: Option<&str>) -> Result<Self, Malformed> {
        parse::grant(capability, scope, 1)
    }

    /// Which capability.
    #[must_use]
    pub const fn capability(&self) -> Capability {
        self.capability
    }

    /// What it reaches.
    #[must_use]
    pub const fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Whether a use is inside.
    #[must_use]
    pub fn covers(&self, capability: Capability, target: Target<'_>) -> bool {
        self.capability.includes(capability) && self.scope.covers(target)
    }

    /// Whether every use that `other` allows is inside.
    #[must_use]
    pub fn covers_grant(&self, other: &Self) -> bool {
        self.capability.includes(other.capability) && self.scope.covers_scope(&other.scope)
    }

    /// The form in errors and audit entries: `file_read("a.txt")`, `serve(8080)`, `stdout`.
    #[must_use]
    pub fn check(&self) -> String {
        call_form(self.capability, self.capability.check_name(), self.scope_text().as_deref())
    }

    /// The form in a program: `file.read("a.txt")`.
    #[must_use]
    pub fn require(&self) -> String {
        call_form(self.capability, self.capability.name(), self.scope_text().as_deref())
    }

    /// The scope's text; `None` = everything.
    #[must_use]
    pub fn scope_text(&self) -> Option<String> {
        (self.scope != Scope::Any).then(|| self.scope.to_string())
    }
}

/// A use's form in errors and audit entries, `target` as it is to be shown: `net("api.x.com")`.
#[must_use]
pub fn check_form(capability: Capability, target: Option<&str>) -> String {
    call_form(capability, capability.check_name(), target)
}

fn call_form(capability: Capability, name: &str, scope: Option<&str>) -> String {
    match scope {
        None => name.to_owned(),
        Some(port) if capability.scope_kind() == ScopeKind::Port => format!("{name}({port})"),
        Some(scope) => format!("{name}(\"{scope}\")"),
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Scope::Any => f.write_str(self.capability.name()),
            scope => write!(f, "{}={scope}", self.capability),
        }
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

impl TryFrom<String> for Grant {
    type Error = Malformed;

    fn try_from(text: String) -> Result<Self, Malformed> {
        parse::item(&text, 1)
    }
}

/// What a program may do at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ceiling {
    grants: BTreeSet<Grant>,
}

impl Ceiling {
    /// From `none`, or `name` and `name=scope` with commas between.
    ///
    /// # Errors
    /// [`Malformed`], with the column and the nearest valid name.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        parse::ceiling(text)
    }

    /// Exactly these grants. Where they come from two trust levels, [`clip`] is what is wanted instead.
    #[must_use]
    pub fn of(grants: impl IntoIterator<Item = Grant>) -> Self {
        Self { grants: grants.into_iter().collect() }
    }

    /// Nothing at all.
    #[must_use]
    pub const fn none() -> Self {
        Self { grants: BTreeSet::new() }
    }

    /// What `--sandbox` means: `stdout,time`.
    #[must_use]
    pub fn sandbox() -> Self {
        Self::of([Capability::Stdout, Capability::Time].map(Grant::whole))
    }

    /// Everything: no ceiling at all. For trusted code, where the host gave none.
    #[must_use]
    pub fn everything() -> Self {
        Self::of(Capability::ALL.map(Grant::whole))
    }

    /// The grants in the order of the capability list.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter()
    }

    /// Whether nothing is granted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.grants.is_empty()
    }

    /// Whether the capability is granted with any scope.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.grants.iter().any(|grant| grant.capability.includes(capability))
    }

    /// Whether a use is inside.
    #[must_use]
    pub fn covers(&self, capability: Capability, target: Target<'_>) -> bool {
        self.grants.iter().any(|grant| grant.covers(capability, target))
    }

    /// Whether one of the grants covers all of `other`.
    #[must_use]
    pub fn covers_grant(&self, other: &Grant) -> bool {
        self.grants.iter().any(|grant| grant.covers_grant(other))
    }

    /// The same ceiling with all paths from the root.
    ///
    /// # Errors
    /// The grant that has no absolute form, and why.
    pub fn absolute(&self, base: &Base) -> Result<Self, (Grant, ScopeFault)> {
        let mut grants = BTreeSet::new();
        for grant in &self.grants {
            let scopes = grant.scope.absolute(base).map_err(|fault| (grant.clone(), fault))?;
            grants.extend(scopes.into_iter().map(|scope| Grant { capability: grant.capability, scope }));
        }
        Ok(Self { grants })
    }
}

impl fmt::Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.grants.is_empty() {
            return f.write_str("none");
        }
        for (i, grant) in self.grants.iter().enumerate() {
            write!(f, "{}{grant}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Ceiling {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        Self::parse(text)
    }
}

/// What [`clip`] kept and what it dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Clipped {
    /// The requested grants that the held ceiling covers whole.
    pub kept: Ceiling,
    /// The others.
    pub dropped: Vec<Grant>,
}

/// The only way to combine two ceilings: each requested grant that `held` covers whole is kept, each other dropped.
///
/// `net=*` under `net=a.com` gives nothing. Idempotent; more in `held` never keeps less.
pub fn clip(requested: &Ceiling, held: &Ceiling) -> Clipped {
    let (kept, dropped): (BTreeSet<_>, BTreeSet<_>) =
        requested.grants.iter().cloned().partition(|grant| held.covers_grant(grant));
    Clipped { kept: Ceiling { grants: kept }, dropped: dropped.into_iter().collect() }
}

/// A program's own grants, which grow as its `require` lines are executed, never above the ceiling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    held: Vec<Grant>,
}

/// Whether a grant was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// It is in force.
    InForce,
    /// The ceiling doesn't cover it whole: nothing of it is in force.
    AboveCeiling,
}

impl Grants {
    /// No grant.
    #[must_use]
    pub const fn none() -> Self {
        Self { held: Vec::new() }
    }

    /// Takes a grant in, if the ceiling covers it whole.
    pub fn take(&mut self, grant: Grant, ceiling: &Ceiling) -> Taken {
        if !ceiling.covers_grant(&grant) {
            return Taken::AboveCeiling;
        }
        if !self.held.contains(&grant) {
            self.held.push(grant);
        }
        Taken::InForce
    }

    /// Whether a use is inside.
    #[must_use]
    pub fn covers(&self, capability: Capability, target: Target<'_>) -> bool {
        self.held.iter().any(|grant| grant.covers(capability, target))
    }

    /// What is lent on: these grants as the ceiling of a child.
    #[must_use]
    pub fn as_ceiling(&self) -> Ceiling {
        Ceiling::of(self.held.iter().cloned())
    }
}
