//! Compiles the system call table into filters, ahead of time, for every planned architecture.
//!
//! For each filter one classic BPF program: foreign architectures and x32 are killed, a binary search over the number
//! finds the verdict, and seccompiler compiles the conditions of the few calls that have any. A search instead of
//! seccompiler's chain of comparisons because the kernel, when it takes a filter, runs it once for each number to fill
//! its cache of always-allowed calls: a chain of 300 entries makes that the dearest step of a start. Since the search is
//! ours, a leaf can have any action, and one program does where seccompiler alone would need two.
//!
//! Invariant: the build fails on a name that no architecture has, a call that is given two verdicts, or a constant that
//! is not there.
//! Source: Linux Documentation/userspace-api/seccomp_filter.rst; kernel/seccomp.c, seccomp_cache_prepare.

#[path = "build/compile.rs"]
mod compile;
#[path = "build/shrink.rs"]
mod shrink;
#[path = "build/table.rs"]
mod table;
#[path = "build/write.rs"]
mod write;

use seccompiler::TargetArch;
use std::{collections::BTreeMap, error::Error, fs, path::Path};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TABLE: &str = "../policies/tables/syscalls.toml";
const NUMBERS: &str = "../policies/tables/numbers.toml";

/// The filters of the table, in its own words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Filter {
    Runtime,
    Command,
    CommandExec,
    CommandNet,
    CommandNetExec,
    Egress,
    Init,
}

const FILTERS: [Filter; 7] = [
    Filter::Runtime,
    Filter::Command,
    Filter::CommandExec,
    Filter::CommandNet,
    Filter::CommandNetExec,
    Filter::Egress,
    Filter::Init,
];

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed={TABLE}");
    println!("cargo::rerun-if-changed={NUMBERS}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    let table: table::Table =
        toml::from_str(&fs::read_to_string(TABLE)?).map_err(|error| format!("{TABLE}: {error}"))?;
    let numbers: BTreeMap<String, BTreeMap<String, u32>> =
        toml::from_str(&fs::read_to_string(NUMBERS)?).map_err(|error| format!("{NUMBERS}: {error}"))?;
    for entry in &table.call {
        if entry.why.trim().is_empty() {
            return Err(format!("{TABLE}: {:?} has no reason", entry.names).into());
        }
        for name in &entry.names {
            if !numbers.values().any(|known| known.contains_key(name)) {
                return Err(format!("{TABLE}: no architecture has a system call {name:?}").into());
            }
        }
    }
    let out = std::env::var("OUT_DIR")?;
    for (name, arch) in [("x86_64", TargetArch::x86_64), ("aarch64", TargetArch::aarch64)] {
        let known = numbers.get(name).ok_or_else(|| format!("{NUMBERS}: [{name}] is missing"))?;
        let mut code = String::new();
        let mut rows = String::from("pub(super) static ROWS: &[Row] = &[\n");
        for filter in FILTERS {
            let rules =
                table::rules_of(&table, known, filter).map_err(|error| format!("{TABLE}: {error}"))?;
            let program = compile::compile(&rules, filter, arch)?;
            write::program(&mut code, filter, &program)?;
            write::rows(&mut rows, filter, &rules, known)?;
        }
        rows.push_str("];\n");
        write::names(&mut code, known, &table)?;
        let with_network = table::rules_of(&table, known, Filter::CommandNet)
            .map_err(|error| format!("{TABLE}: {error}"))?;
        write::watched(&mut code, &with_network)?;
        fs::write(Path::new(&out).join(format!("filters_{name}.rs")), code)?;
        fs::write(Path::new(&out).join(format!("rows_{name}.rs")), rows)?;
    }
    Ok(())
}
