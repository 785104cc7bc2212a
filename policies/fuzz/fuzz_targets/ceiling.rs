//! Any text as a ceiling: never a panic; what is read prints as something that reads the same, covers itself, and
//! clipping gives nothing that either side lacks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use policies::ceiling::{Ceiling, clip};

fuzz_target!(|texts: (&str, &str)| {
    let Ok(one) = Ceiling::parse(texts.0) else { return };
    let printed = one.to_string();
    let again = Ceiling::parse(&printed).expect("what was printed can be read");
    assert_eq!(again.to_string(), printed);
    let Ok(other) = Ceiling::parse(texts.1) else { return };
    let clipped = clip(&one, &other);
    for grant in clipped.kept.grants() {
        assert!(one.covers_grant(grant), "{grant} was not requested");
        assert!(other.covers_grant(grant), "{grant} was not held");
    }
});
