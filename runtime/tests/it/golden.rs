//! Diagnostics as people see them. Each file in `tests/golden/` holds a program, a line `=====`, and what it shows.
//!
//! `RENEW_GOLDEN=1 cargo test -p runtime golden` writes the second halves anew; nobody edits them.

use runtime::partition::Settings;
use runtime::partition::host::Memory;
use runtime::source::Source;
use runtime::synsema::{self, NoModules, program};
use std::path::Path;
use std::rc::Rc;

const LINE: &str = "=====\n";

fn shown(text: &str) -> String {
    let frames = match synsema::load(Source::new("program.syn", text), &mut NoModules) {
        Ok(loaded) => program::run(Rc::new(loaded), Settings::trusted(), Box::new(Memory::default())).errors,
        Err(failure) => {
            failure.errors.iter().map(|e| runtime::diagnostic::of_load(e, &failure.sources)).collect()
        }
    };
    frames.iter().map(|f| runtime::worker::shown(f) + "\n").collect()
}

#[test]
fn diagnostics_look_like_this() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the folder").filter_map(Result::ok).collect();
    files.sort_by_key(std::fs::DirEntry::path);
    assert!(files.len() >= 8);
    for file in files {
        let text = std::fs::read_to_string(file.path()).expect("a file");
        let (source, wanted) = text.split_once(LINE).unwrap_or((&text, ""));
        let got = shown(source);
        if std::env::var_os("RENEW_GOLDEN").is_some() {
            std::fs::write(file.path(), format!("{source}{LINE}{got}")).expect("written");
        } else {
            assert_eq!(got, wanted, "{}", file.path().display());
        }
    }
}
