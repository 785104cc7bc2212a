//! One row for each grant, and one for each capability that isn't granted: how exactly the jail says it.

use super::{CapabilityRow, Fit, files::Outcome};
use crate::{
    capability::Capability,
    ceiling::{Ceiling, Grant},
    error::Refusal,
    request::Subject,
    scope::{Host, HostPattern, Scope},
};
use std::collections::BTreeMap;

/// Refuses what means nothing to a foreign command. The runtime's gate asks by itself, so there a row says it.
pub(super) fn refuse_languages_own(ceiling: &Ceiling, subject: &Subject) -> Result<(), Refusal> {
    let Subject::Command { .. } = subject else { return Ok(()) };
    match ceiling.grants().find(|grant| !is_built(grant.capability(), subject)) {
        Some(grant) => Err(Refusal::LanguagesOwn { grant: grant.to_string() }),
        None => Ok(()),
    }
}

/// Whether anything stands behind a capability in this kind of run.
fn is_built(capability: Capability, subject: &Subject) -> bool {
    match capability {
        Capability::Stdout
        | Capability::Stdin
        | Capability::Time
        | Capability::Random
        | Capability::File
        | Capability::FileRead
        | Capability::FileWrite
        | Capability::Env
        | Capability::Secret
        | Capability::Reveal
        | Capability::Exec
        | Capability::Db
        | Capability::Net => true,
        Capability::Serve => matches!(subject, Subject::Command { .. }),
        Capability::SandboxRun | Capability::Memory | Capability::Llm | Capability::Judge => {
            matches!(subject, Subject::Runtime { .. })
        }
        Capability::Attest | Capability::Sign | Capability::Wallet | Capability::Spend => false,
    }
}

/// All rows, in the order of the capability list.
pub(super) fn rows(
    ceiling: &Ceiling,
    subject: &Subject,
    outcomes: &BTreeMap<Grant, Outcome>,
) -> Vec<CapabilityRow> {
    let mut rows = Vec::new();
    for capability in Capability::ALL {
        let grants: Vec<&Grant> = ceiling.grants().filter(|grant| grant.capability() == capability).collect();
        let row = |scope, granted, outcome: Outcome| CapabilityRow {
            capability: capability.name().to_owned(),
            scope,
            granted,
            fit: outcome.fit,
            held_by: outcome.held_by,
        };
        if grants.is_empty() {
            rows.push(row(None, false, held_back(capability, ceiling, subject)));
        }
        for grant in grants {
            let outcome = match outcomes.get(grant) {
                Some(outcome) => outcome.clone(),
                None => given(grant, subject),
            };
            rows.push(row(grant.scope_text(), true, outcome));
        }
    }
    rows
}

const NO_WALL: &str = "no kernel wall can: the processor gives it to every program";

/// What holds a capability back that is not granted.
fn held_back(capability: Capability, ceiling: &Ceiling, subject: &Subject) -> Outcome {
    match capability {
        Capability::File if ceiling.has(Capability::FileRead) || ceiling.has(Capability::FileWrite) => {
            Outcome::exact("nothing beyond what file.read and file.write name")
        }
        Capability::FileRead | Capability::FileWrite if ceiling.has(Capability::File) => {
            Outcome::exact("nothing beyond what file names")
        }
        Capability::Time | Capability::Random => language_only(NO_WALL),
        Capability::Stdout => Outcome::exact("the supervisor drops what is printed"),
        Capability::Stdin => Outcome::exact("its input is empty"),
        Capability::File | Capability::FileRead | Capability::FileWrite => match subject {
            Subject::Runtime { .. } => Outcome::exact("the new root is empty, and the filter opens nothing"),
            Subject::Command { .. } => {
                Outcome::exact("the new root and Landlock: nothing of the host's data is there")
            }
        },
        Capability::Exec => Outcome::exact("the filter: no program but the first"),
        Capability::Env | Capability::Secret | Capability::Reveal => {
            Outcome::exact("the environment is emptied")
        }
        Capability::Net | Capability::Serve => {
            Outcome::exact("an empty network namespace, and the filter: no sockets")
        }
        Capability::Db | Capability::Memory => Outcome::exact("no database file is there"),
        Capability::Llm
        | Capability::Judge
        | Capability::SandboxRun
        | Capability::Attest
        | Capability::Sign
        | Capability::Wallet
        | Capability::Spend => match subject {
            Subject::Runtime { .. } => Outcome::exact("the supervisor does it for nobody in this jail"),
            Subject::Command { .. } => Outcome::exact("a foreign command has no such thing"),
        },
    }
}

/// What holds a granted capability to its scope, where no mount or rule was laid out for it.
fn given(grant: &Grant, subject: &Subject) -> Outcome {
    let capability = grant.capability();
    if !is_built(capability, subject) {
        let held_by = "nothing of it is built yet: refused everywhere".to_owned();
        return Outcome { fit: Fit::NotBuilt, held_by };
    }
    match capability {
        Capability::Time | Capability::Random => language_only(NO_WALL),
        Capability::Stdout => Outcome::exact("through the supervisor, counted and cut at the limit"),
        Capability::SandboxRun => Outcome::exact(
            "a sandbox value runs in this jail and holds nothing; a child program gets a jail of its own, with this one's ceiling at most",
        ),
        Capability::Db => Outcome::exact(
            "the supervisor opens each file of a database itself: the one that is named, its -journal and its -wal",
        ),
        Capability::Memory => {
            Outcome::exact("the supervisor opens the notebook's own file, beside the program")
        }
        Capability::Stdin => Outcome::exact("through the supervisor"),
        Capability::Env | Capability::Secret => {
            Outcome::exact("only granted names are put back into the environment")
        }
        Capability::Reveal => match subject {
            Subject::Runtime { .. } => {
                language_only("the language's own rule about values that it already has")
            }
            Subject::Command { .. } => {
                Outcome::exact("a foreign command sees the plain text of what it is given")
            }
        },
        Capability::Net if names_the_jail_itself(grant) => Outcome::nothing(match subject {
            Subject::Command { .. } => "inside, that name is the jail's own",
            Subject::Runtime { .. } => {
                "that name leads to addresses of the host, which a grant must name as such"
            }
        }),
        Capability::Net => Outcome::exact(match subject {
            Subject::Command { .. } => "the egress: it accepts, resolves, dials and checks names itself",
            Subject::Runtime { .. } => {
                "the supervisor's side makes each request, and asks the ceiling itself"
            }
        }),
        Capability::Llm | Capability::Judge => {
            Outcome::exact("the supervisor's side asks the provider, with a key that isn't here")
        }
        Capability::Serve => {
            Outcome::exact("the host's port is the supervisor's, and only connections go in")
        }
        Capability::Exec if matches!(subject, Subject::Runtime { .. }) => Outcome::exact(
            "the supervisor starts what is named, in a jail of its own with this one's ceiling at most",
        ),
        Capability::File
        | Capability::FileRead
        | Capability::FileWrite
        | Capability::Exec
        | Capability::Attest
        | Capability::Sign
        | Capability::Wallet
        | Capability::Spend => Outcome::exact("mounts and Landlock rules"),
    }
}

/// Whether a grant of `net` is for `localhost`, which is nobody's but the jail's.
fn names_the_jail_itself(grant: &Grant) -> bool {
    let Scope::Host(scope) = grant.scope() else { return false };
    matches!(scope.hosts(), HostPattern::One(Host::Name(name)) if name == "localhost")
}

fn language_only(held_by: &str) -> Outcome {
    Outcome { fit: Fit::LanguageOnly, held_by: held_by.to_owned() }
}
