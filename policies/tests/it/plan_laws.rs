//! Properties of plans: what a program can reach in the jail is what its ceiling covers, no more and no less.
//!
//! The jail is played here by its own rules: a path is reached through the deepest mount above it, a right holds if a
//! Landlock rule at or above it grants it, and writing needs a mount that can be written.

use crate::given::{Disk, command, host, root};
use policies::{
    capability::Capability,
    ceiling::Ceiling,
    plan::{Access, FilterName, Node, Plan, Right, plan},
    policy::ready,
    request::{Options, resolve},
    scope::{NormalPath, Target},
};
use proptest::prelude::*;

fn below<'a>(above: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(above)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// The file of the host that a path of the jail leads to, and whether its mount can be written.
fn behind(plan: &Plan, path: &str) -> Option<(String, Access)> {
    let mount = plan
        .root
        .iter()
        .filter(|mount| below(&mount.at.0, path).is_some())
        .max_by_key(|mount| mount.at.0.len())?;
    match &mount.node {
        Node::Bind { source, access, .. } => {
            Some((format!("{}{}", source.0, below(&mount.at.0, path)?), *access))
        }
        _ => None,
    }
}

fn has(plan: &Plan, path: &str, right: Right) -> bool {
    plan.landlock.rules.iter().any(|rule| below(&rule.at.0, path).is_some() && rule.rights.contains(&right))
}

/// Which of reading and writing works for a file at a path of the jail.
fn works(plan: &Plan, path: &str) -> (bool, bool) {
    match behind(plan, path) {
        None => (false, false),
        Some((_, access)) => (
            has(plan, path, Right::ReadFile),
            has(plan, path, Right::WriteFile) && access == Access::ReadWrite,
        ),
    }
}

fn scope() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "",
        "=*",
        "=./*",
        "=data/*",
        "=./data/a.txt",
        "=./data",
        "=data/*.txt",
        "=./d*",
        "=scratch_*",
        "=scratch_2/x",
        "=./link/*",
        "=./link/file",
        "=./data/out/*",
        "=data/deep/*",
        "=/home/*",
        "=/home/u/secret",
        "=~/*",
        "=/srv/*",
        "=/etc/*",
        "=/etc/sh*",
        "=/usr/bin/*",
        "=/lib/*",
        "=/bin/true",
        "=/nowhere/*",
        "=/home/u/w/../secret",
        "=/*/u/*",
    ])
    .prop_map(str::to_owned)
}

fn ceiling() -> impl Strategy<Value = String> {
    let item = (prop::sample::select(vec!["file", "file.read", "file.write"]), scope())
        .prop_map(|(name, scope)| format!("{name}{scope}"));
    prop::collection::vec(item, 1..5).prop_map(|items| items.join(","))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_program_reaches_what_its_ceiling_covers(text in ceiling(), as_root in any::<bool>()) {
        let disk = Disk::debian();
        let facts = if as_root { root() } else { host() };
        let under = |ceiling: &str| {
            let ceiling = Some(Ceiling::parse(ceiling).unwrap());
            let options = Options { ceiling, ..command(&["true"]) };
            resolve(&ready::get("static").unwrap(), options).unwrap()
        };
        let request = under(&text);
        let Ok(plan) = plan(&request, &disk.answer(&request), &facts) else { return Ok(()) };
        // What the program itself is made of.
        let bare = under("none");
        let bare = policies::plan::plan(&bare, &disk.answer(&bare), &facts).unwrap();
        let ceiling: &Ceiling = request.ceiling();
        let covers = |capability, path: &str| {
            ceiling.covers(capability, Target::Path(&NormalPath::parse(path).unwrap()))
        };
        prop_assert!(plan.landlock.rules.iter().all(|rule| rule.at.0 != "/"));
        for file in disk.files() {
            let own = ["/proc/", "/tmp/"].iter().any(|tree| file.starts_with(tree));
            // No more: what works on a file, by whatever path, is granted by one of the file's names.
            let names = disk.names(&file);
            for name in &names {
                if behind(&plan, name).is_none_or(|(source, _)| source != file) {
                    continue;
                }
                let (reads, writes) = works(&plan, name);
                let own = bare
                    .root
                    .iter()
                    .any(|mount| matches!(&mount.node, Node::Bind { source, .. } if source.0 == file));
                let granted = |capability| names.iter().any(|name| covers(capability, name));
                prop_assert!(!reads || own || granted(Capability::FileRead), "{}: reads {} as {}", text, file, name);
                prop_assert!(!writes || granted(Capability::FileWrite), "{}: writes {} as {}", text, file, name);
            }
            // No less: what is granted by the file's own path works there.
            if !own {
                let (reads, writes) = works(&plan, &file);
                prop_assert!(reads || !covers(Capability::FileRead, &file), "{}: can't read {}", text, file);
                prop_assert!(writes || !covers(Capability::FileWrite, &file), "{}: can't write {}", text, file);
            }
        }
    }

    #[test]
    fn a_command_executes_itself_its_loader_and_what_is_granted(
        execs in prop::collection::vec(prop::sample::select(vec![
            "git", "tr*", "/usr/bin/*", "/bin/*", "/bin/true", "/usr/lib/*", "/usr/lib/gcc/*", "/work/*", "/tmp/other/*", "/tmp/*",
            "/home/u/w/*", "/usr/bin/py*", "./x", "*3", "/nowhere/*",
        ]), 0..4),
        files in prop::option::of(ceiling()),
    ) {
        let disk = Disk::debian();
        let execs: Vec<String> = execs.iter().map(|scope| format!("exec={scope}")).collect();
        let text = execs.iter().cloned().chain(files).chain(["stdout".to_owned()]).collect::<Vec<_>>().join(",");
        let options = Options { ceiling: Some(Ceiling::parse(&text).unwrap()), ..command(&["python3"]) };
        let request = resolve(&ready::get("sh").unwrap(), options).unwrap();
        let Ok(plan) = plan(&request, &disk.answer(&request), &host()) else { return Ok(()) };
        prop_assert_eq!(plan.filter == Some(FilterName::CommandExec), !execs.is_empty());
        for file in disk.files() {
            let names = disk.names(&file);
            let runs = names.iter().any(|name| {
                behind(&plan, name).is_some_and(|(source, _)| source == file) && has(&plan, name, Right::Execute)
            });
            let itself = file == "/usr/bin/python3.11" || file.ends_with("/ld-linux-x86-64.so.2");
            let granted = names.iter().any(|name| {
                let typed = name.rsplit('/').next().filter(|_| name.starts_with("/usr/bin/") || name.starts_with("/bin/"));
                [Some(name.as_str()), typed].into_iter().flatten().any(|typed| {
                    request.ceiling().covers(Capability::Exec, Target::Command(typed))
                })
            });
            prop_assert!(!runs || itself || granted, "{}: executes {}", text, file);
            prop_assert!(runs || !itself, "{}: can't execute {}", text, file);
        }
    }
}
