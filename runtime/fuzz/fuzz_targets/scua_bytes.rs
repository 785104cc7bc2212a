//! Any text as a SCUA program, and as a sandbox's source: read, and run if it can be, under small limits; twice, with the
//! same end. Never a panic, a hang or memory beyond them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use policies::ceiling::Ceiling;
use runtime::partition::boundary::Data;
use runtime::partition::host::Memory;
use runtime::partition::sandbox::Limits;
use runtime::scua::program::{self, Grants};
use runtime::scua::{self, Mod};
use std::cell::RefCell;
use std::rc::Rc;

fuzz_target!(|text: &[u8]| {
    if let Ok(program) = scua::load("fuzz.scua", text, &[]) {
        let program = Rc::new(program);
        let once = || {
            let host = Rc::new(RefCell::new(Memory::default()));
            let Ok(granted) = Ceiling::parse("stdout,sandbox_run,time,file,env") else { return None };
            let grants = Grants {
                granted,
                fuel: Some(50_000),
                memory: Some(4 << 20),
                virtual_time: true,
                ..Grants::nothing()
            };
            let outcome = program::run(program.clone(), grants, Vec::new(), Box::new(host.clone()));
            let host = host.borrow();
            Some((outcome.end.exit, outcome.end.fuel, host.output.clone(), host.errors.clone()))
        };
        assert!(once() == once(), "a run is the same twice");
    }
    let Ok(text) = std::str::from_utf8(text) else { return };
    let limits = Limits { fuel: 20_000, memory: 256 << 10, ..Limits::frame("fuzz") };
    let _answer = Mod::new(limits.clone()).run(text, &Data::Int(3));
    let mut actor = Mod::new(limits);
    if actor.load(text, &Data::Nil).is_ok() {
        for n in 0..3 {
            let _reply = actor.ask("Add", &[Data::Int(n), Data::from("text")]);
        }
    }
});
