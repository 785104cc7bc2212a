//! Any text as a policy file: never a panic, and every fault has words and a remedy.
#![no_main]

use libfuzzer_sys::fuzz_target;
use policies::policy::Policy;

fuzz_target!(|text: &str| {
    if let Err(fault) = Policy::parse("fuzz.toml", text) {
        assert!(!fault.to_string().is_empty());
        let _remedy = fault.help();
    }
});
