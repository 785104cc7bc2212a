//! Any text as a program: read, and run if it can be, under small limits. Never a panic, a hang or memory beyond them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime::{
    partition::{Logs, Profile, Settings, host::Memory},
    source::Source,
    synsema::{self, NoModules, program},
};
use std::rc::Rc;

fuzz_target!(|text: &str| {
    let Ok(loaded) = synsema::load(Source::new("fuzz.syn", text), &mut NoModules) else { return };
    let settings = Settings {
        ceiling: Some(policies::ceiling::Ceiling::sandbox()),
        profile: Profile::Pure,
        fuel: Some(50_000),
        heap: Some(4 << 20),
        logs: Logs::WithOutput,
        ..Settings::trusted()
    };
    let _outcome = program::run(Rc::new(loaded), settings, Box::new(Memory::default()));
});
