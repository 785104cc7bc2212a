//! The knock-out matrix: each wall alone against each capability of the closed list, and all of them together.
//!
//! | row | who tries | what stands |
//! |---|---|---|
//! | (a) | native code in the runtime's place | the jail, with the runtime's own plan |
//! | (b) | the real runtime, no jail, a broker that lends everything | the ceiling |
//! | (c) | the same without a ceiling | the pure profile |
//! | (d) | the real runtime as it is started | everything |
//!
//! Refused means this errno or this message and, where the layer can tell, one audit entry; and each refusal has its twin, in
//! which the same act is granted and works. A capability whose builtins aren't built has a row that says so, and that breaks
//! when they are.

mod rows;
mod table;

use crate::host::Who;
use policies::{
    audit::Entry,
    capability::{Capability, Wall},
    layer::Layer,
};
use rows::{Scene, Tried};
use table::{Built, Language, Native, Pure, Refused, Twin, rows};

const EVERYTHING: &str = "stdout,stdin,time,random,llm,judge,sandbox_run,attest,net,file,exec,env,secret,reveal,sign,wallet,\
                          spend,memory,db,serve={port}";

/// Entries about a target of a layer that is no grant.
fn denials<'a>(tried: &'a Tried, layer: Layer, target: &str) -> Vec<&'a Entry> {
    let about = |entry: &&Entry| !entry.granted && entry.layer == layer && entry.target == target;
    tried.audit.iter().filter(about).collect()
}

#[test]
fn a_the_jail_alone_holds_native_code_in_the_runtimes_place() {
    for who in Who::all() {
        for capability in Capability::ALL {
            let scene = Scene::new(*who);
            let held = capability.walls().contains(&Wall::Jail);
            match rows(capability).native {
                Native::Held { without, refused, twin } => {
                    assert!(held, "{capability}: the list of walls says otherwise");
                    native(&scene, capability, without, refused);
                    if let Twin::Works(ceiling, acts) = twin {
                        let names: Vec<&str> = acts.iter().map(|(act, _)| *act).collect();
                        let tried = scene.native(ceiling, &names);
                        for (act, answer) in acts {
                            assert_eq!(
                                tried.answer(&scene.fill(act)),
                                *answer,
                                "{capability} granted: {tried:?}"
                            );
                        }
                        let said = names.contains(&"say reached");
                        assert!(!said || tried.reached(), "{capability} granted: {tried:?}");
                    }
                }
                Native::LanguageOnly { act } => {
                    assert!(!held, "{capability}: the list of walls says otherwise");
                    assert_eq!(scene.native("none", &[act]).answer(act), "ok", "{capability}");
                }
            }
        }
    }
}

fn native(scene: &Scene, capability: Capability, without: &str, refused: &[Refused]) {
    let acts: Vec<&str> = refused.iter().map(|Refused(act, ..)| *act).collect();
    let tried = scene.native(without, &acts);
    assert!(!tried.reached(), "{capability}: {tried:?}");
    let mut expected: Vec<(Layer, String)> = Vec::new();
    for Refused(act, answer, entry) in refused {
        assert_eq!(tried.answer(&scene.fill(act)), *answer, "{capability}: {act}: {tried:?}");
        expected.extend(entry.map(|(layer, target)| (layer, scene.fill(target))));
    }
    // Each once, and nothing besides.
    let told = tried.audit.iter().filter(|entry| !entry.granted);
    let told: Vec<(Layer, String)> = told.map(|entry| (entry.layer, entry.target.clone())).collect();
    let (mut sorted_told, mut sorted_expected) = (told, expected);
    sorted_told.sort();
    sorted_expected.sort();
    assert_eq!(sorted_told, sorted_expected, "{capability}: {tried:?}");
}

/// The program without the `require` lines.
fn undeclared(program: &str) -> String {
    let kept: Vec<&str> = program.lines().filter(|line| !line.starts_with("require ")).collect();
    kept.join("\n")
}

#[test]
fn b_the_ceiling_alone_holds_the_language() {
    let scene = Scene::new(Who::ordinary());
    for capability in Capability::ALL {
        match rows(capability).language {
            Language::Built(built) => {
                let tried = scene.unjailed(Some(built.beside), "native", built.program);
                refused_by_ceiling(&scene, capability, &built, &tried, "declared but above the host ceiling");
                // Reveal needs its secret declared on the way.
                if capability != Capability::Reveal {
                    let tried = scene.unjailed(Some(built.beside), "native", &undeclared(built.program));
                    refused_by_ceiling(&scene, capability, &built, &tried, "missing capability");
                }
                let tried = scene.unjailed(Some(&both(&built)), "native", built.program);
                assert!(tried.reached(), "{capability} granted: {tried:?}");
            }
            Language::NotBuilt { program, says, denied } => {
                let tried = scene.unjailed(None, "native", program);
                assert!(
                    tried.errors.iter().any(|error| error.contains(says)),
                    "{capability} is built? {tried:?}"
                );
                if let Some(denied) = denied {
                    let tried = scene.unjailed(Some("stdout"), "native", program);
                    let told = tried.errors.iter().any(|error| error.contains(denied));
                    assert!(
                        told && !tried.errors.iter().any(|error| error.contains(says)),
                        "{capability}: {tried:?}"
                    );
                }
            }
        }
    }
}

fn both(built: &Built) -> String {
    format!("{},{}", built.beside, built.grant)
}

#[track_caller]
fn refused_by_ceiling(scene: &Scene, capability: Capability, built: &Built, tried: &Tried, kind: &str) {
    assert!(!tried.reached(), "{capability}: {tried:?}");
    let [error] = tried.errors.as_slice() else { panic!("{capability}: {tried:?}") };
    assert!(error.contains(&scene.fill(built.denied)) && error.contains(kind), "{capability}: {error}");
    let check = scene.fill(built.check);
    let of_use = |entry: &&Entry| {
        let by_a_builtin = entry.source.ends_with("()") || entry.source == "secret-builtin";
        !entry.granted && entry.layer == Layer::Gate && entry.capability == check && by_a_builtin
    };
    let entries: Vec<&Entry> = tried.audit.iter().filter(of_use).collect();
    assert_eq!(entries.len(), 1, "{capability}: {tried:?}");
    assert!(
        entries[0].line.is_some() && entries[0].file.as_deref() == Some("p.syn"),
        "{capability}: {tried:?}"
    );
}

#[test]
fn c_the_pure_profile_alone_holds_what_looks_at_the_machine() {
    let scene = Scene::new(Who::ordinary());
    for capability in Capability::ALL {
        let rows = rows(capability);
        let (program, says) = match &rows.language {
            Language::Built(built) => (built.program, None),
            Language::NotBuilt { program, says, .. } => (*program, Some(*says)),
        };
        let pure = scene.unjailed(None, "pure", program);
        match rows.pure {
            Pure::Stub(builtin, why) => {
                assert!(
                    capability.walls().contains(&Wall::Profile),
                    "{capability}: the list of walls says otherwise"
                );
                refused_by_profile(capability, &pure, builtin, why);
                let native = scene.unjailed(None, "native", program);
                assert!(says.is_some() || native.reached(), "{capability} granted: {native:?}");
            }
            Pure::Stays(why) => match says {
                None => assert!(pure.reached(), "{capability} stays ({why}): {pure:?}"),
                Some(says) => {
                    assert!(pure.errors.iter().any(|error| error.contains(says)), "{capability}: {pure:?}")
                }
            },
        }
    }
}

#[track_caller]
fn refused_by_profile(capability: Capability, tried: &Tried, builtin: &str, why: &str) {
    assert!(!tried.reached(), "{capability}: {tried:?}");
    let message = format!("{builtin}: not available in the pure profile — {why}");
    assert!(tried.errors.iter().any(|error| error.contains(&message)), "{capability}: {tried:?}");
    let entries = denials(tried, Layer::Profile, builtin);
    assert_eq!(entries.len(), 1, "{capability}: {tried:?}");
    assert!(entries[0].line.is_some(), "{capability}: {tried:?}");
}

#[test]
fn d_all_walls_together_refuse_and_grant_alike() {
    for who in Who::all() {
        let scene = Scene::new(*who);
        for capability in Capability::ALL {
            let rows = rows(capability);
            match &rows.language {
                Language::Built(built) => {
                    let tried = scene.whole(built.beside, "pure", built.program);
                    match rows.pure {
                        Pure::Stub(builtin, why) => refused_by_profile(capability, &tried, builtin, why),
                        Pure::Stays(_) => {
                            let kind = "declared but above the host ceiling";
                            refused_by_ceiling(&scene, capability, built, &tried, kind);
                        }
                    }
                    let tried = scene.whole(&both(built), "native", built.program);
                    assert!(tried.reached(), "{capability} granted: {tried:?}");
                }
                Language::NotBuilt { program, says, .. } => {
                    let tried = scene.whole(EVERYTHING, "native", program);
                    assert!(
                        tried.errors.iter().any(|error| error.contains(says)),
                        "{capability} is built? {tried:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn everything_names_every_capability() {
    let all = policies::ceiling::Ceiling::parse(&EVERYTHING.replace("{port}", "1")).unwrap();
    for capability in Capability::ALL {
        assert!(all.grants().any(|grant| grant.capability().includes(capability)), "{capability}");
    }
}
