//! The pure profile's list, made from the registry, against the page's: what is a stub and why, what stays.

use crate::harness::Given;
use runtime::builtins::{self, Profile};
use std::collections::BTreeMap;

/// Sections 5.9 and 4.10–4.15 of the page: each name that is out, by the reason that it gives.
const OUT: &[(&str, &[&str])] = &[
    (
        "this run has no filesystem",
        &[
            "read_file",
            "read_file_bytes",
            "file_exists",
            "file_info",
            "list_dir",
            "grep",
            "write_file",
            "append_file",
            "edit_file",
            "delete_file",
            "delete_dir",
            "cwd",
            "zip_create",
            "tar_create",
            "zip_extract",
            "tar_extract",
            "render",
            "mtls_identity",
        ],
    ),
    ("this run has no child processes", &["run", "proc_spawn"]),
    (
        "this run has no child processes nor an I/O hub (select/proc_* need a process)",
        &[
            "select",
            "proc_recv",
            "proc_send",
            "proc_select",
            "proc_wait",
            "proc_kill",
            "proc_close",
            "proc_close_stdin",
            "proc_status",
            "proc_stats",
            "proc_resize",
            "watch",
            "watch_recv",
            "watch_stats",
            "watch_close",
        ],
    ),
    ("this run has no sockets", &["push_send"]),
    (
        "this run has no database drivers",
        &["db_open", "db_close", "sql", "sql_exec", "sql_batch", "sql_tables"],
    ),
    ("this run has no scheduler", &["cron_every", "cron_after", "cron_cancel", "cron_list", "cron_status"]),
    ("this run has no process", &["self_path"]),
];

/// Families that are out as a whole: the start of their names.
const OUT_FAMILIES: [(&str, &str); 5] = [
    ("ws_", "this run has no sockets"),
    ("tcp_", "this run has no sockets"),
    ("mongo_", "this run has no database drivers"),
    ("redis_", "this run has no database drivers"),
    ("db_", "this run has no database drivers"),
];

/// Stubs that the page doesn't name, because of what it says of their kind: they read or write files, or page a query.
const OUT_OF_A_KIND: [(&str, &str); 3] = [
    ("parquet_read", "this run has no filesystem"),
    ("parquet_write", "this run has no filesystem"),
    ("paged", "this run has no database drivers"),
];

/// What the page says stays, a name or two of each kind.
const IN: &[&str] = &[
    "print",
    "length",
    "sum",
    "sort",
    "regex_find_all",
    "json_encode",
    "csv_encode",
    "toml_encode",
    "xml_parse",
    "chart_svg",
    "sha256",
    "hmac",
    "fetch",
    "http_get",
    "http_post",
    "llm_available",
    "secret",
    "reveal",
    "env",
    "as_secret",
    "agents",
    "bus_publish",
    "pipe",
    "remember",
    "recall",
    "create_progress",
    "run_program",
    "read_line",
    "now",
    "sleep",
    "random",
    "random_int",
    "assert",
    "assert_eq",
    "term_open",
    "evm_call",
    "jwt_verify",
];

fn out() -> BTreeMap<&'static str, &'static str> {
    let named = OUT.iter().flat_map(|(why, names)| names.iter().map(move |name| (*name, *why)));
    named.chain(OUT_OF_A_KIND).collect()
}

#[test]
fn the_registry_s_list_is_the_page_s() {
    let page = out();
    let of_family = |name: &str| {
        let family = OUT_FAMILIES.iter().find(|(start, _)| name.starts_with(start));
        family.map(|(_, why)| *why)
    };
    let mut wrong = Vec::new();
    let mut seen = 0;
    for builtin in builtins::all() {
        let expected = page.get(builtin.name).copied().or_else(|| of_family(builtin.name));
        let found = match builtin.profile {
            Profile::Pure => None,
            Profile::Native(why) => Some(why),
        };
        seen += 1;
        if expected != found {
            wrong.push(format!("{}: the page says {expected:?}, the registry {found:?}", builtin.name));
        }
    }
    assert!(seen > 300, "{seen} builtins");
    let unbound = page.keys().chain(IN).filter(|name| builtins::find(name).is_none());
    wrong.extend(unbound.map(|name| format!("{name}: not bound")));
    let stays = IN.iter().filter_map(|name| builtins::find(name)).map(builtins::get);
    wrong.extend(
        stays.filter(|one| one.profile != Profile::Pure).map(|one| format!("{}: has to stay", one.name)),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Called with nothing: the stub's check comes before the arguments' and the gate's.
#[test]
fn every_stub_says_the_truth_of_its_environment_and_is_one_entry() {
    for builtin in builtins::all() {
        let Profile::Native(why) = builtin.profile else { continue };
        let ran = Given::program(&format!("{}()\n", builtin.name)).pure().ceiling("stdout").run();
        let message = format!(
            "{}: not available in the pure profile — {why} (drop --profile pure to run it natively)",
            builtin.name
        );
        assert_eq!(ran.errors.len(), 1, "{}: {:?}", builtin.name, ran.errors);
        assert!(ran.errors[0].contains(&message), "{:?}", ran.errors);
        let of_profile = ran.audit.iter().filter(|entry| entry.layer == policies::layer::Layer::Profile);
        let entries: Vec<_> =
            of_profile.map(|entry| (entry.target.as_str(), entry.granted, entry.line)).collect();
        assert_eq!(entries, [(builtin.name, false, Some(1))]);
    }
}
