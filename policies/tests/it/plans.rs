//! What a plan holds for what was asked, and what it leaves out.

use crate::given::{command, host, planned, ready_plan, root, run_plan, runtime};
use policies::{
    ceiling::Ceiling,
    error::Refusal,
    layer::Layer,
    limits::Setting,
    plan::{Access, Execute, FilterName, Fit, HostPath, IdMap, Network, Node, Outside, Plan, Right, Stream},
    policy::Policy,
    request::{Options, Terminal, Workdir},
    units::{Bytes, Millis},
};

fn node<'a>(plan: &'a Plan, at: &str) -> Option<&'a Node> {
    plan.root.iter().find(|mount| mount.at.0 == at).map(|mount| &mount.node)
}

fn rights(plan: &Plan, at: &str) -> Vec<Right> {
    plan.landlock
        .rules
        .iter()
        .find(|rule| rule.at.0 == at)
        .map(|rule| rule.rights.clone())
        .unwrap_or_default()
}

fn with(ceiling: &str, options: Options) -> Options {
    Options { ceiling: Some(Ceiling::parse(ceiling).unwrap()), ..options }
}

/// A command's options under a ceiling of files.
fn with_file(ceiling: &str) -> Options {
    with(ceiling, command(&["true"]))
}

/// A command's plan in the emptiest root, under a ceiling of files.
fn jail_plan(ceiling: &str) -> Plan {
    ready_plan("static", with_file(ceiling), &host()).unwrap()
}

fn executable(plan: &Plan) -> Vec<&str> {
    let rules = plan.landlock.rules.iter().filter(|rule| rule.rights.contains(&Right::Execute));
    rules.map(|rule| rule.at.0.as_str()).collect()
}

#[test]
fn the_runtimes_root_is_empty_without_grants() {
    let plan = run_plan("stdout,time");
    assert!(plan.root.is_empty() && plan.landlock.rules.is_empty());
    assert_eq!(plan.workdir.0, "/");
    assert_eq!(plan.filter, Some(FilterName::Runtime));
    assert_eq!((plan.stdin, plan.stdout), (Stream::Closed, Stream::Relayed));
    assert!(plan.environment.is_empty());
}

#[test]
fn the_runtimes_root_is_empty_with_grants_too() {
    for ceiling in
        ["file", "file.read=./data/*,file.write=notes.md", "file=/nowhere/*", "file=/run/docker.sock"]
    {
        let plan = run_plan(ceiling);
        assert!(plan.root.is_empty() && plan.landlock.rules.is_empty(), "{ceiling}");
        assert_eq!(plan.workdir.0, "/");
        let rows = plan.capabilities.iter().filter(|row| row.granted);
        assert!(rows.clone().count() > 0 && rows.clone().all(|row| row.fit == Fit::Exact), "{ceiling}");
    }
    for ceiling in ["file.read=/proc/*", "file.read=/sys", "file=/dev/*", "file.read=/proc/version"] {
        let refusal = planned(&Policy::runtime(), runtime(ceiling), &host()).unwrap_err();
        assert!(matches!(refusal, Refusal::PathRefused { .. }), "{ceiling}: {refusal}");
    }
}

#[test]
fn only_granted_paths_exist_in_the_callers_folder() {
    let plan = jail_plan("file.read=./data/*,file.write=notes.md");
    let paths: Vec<&str> =
        plan.root.iter().map(|mount| mount.at.0.as_str()).filter(|at| at.starts_with("/home")).collect();
    assert_eq!(paths, ["/home", "/home/u", "/home/u/w", "/home/u/w/data", "/home/u/w/notes.md"]);
    assert_eq!(rights(&plan, "/home/u/w/data"), [Right::ReadFile, Right::ReadDir]);
    assert_eq!(rights(&plan, "/home/u/w/notes.md"), [Right::WriteFile]);
}

#[test]
fn a_granted_link_shows_what_it_leads_to() {
    let plan = jail_plan("file.read=./link/*");
    let Some(Node::Bind { source, access, .. }) = node(&plan, "/home/u/w/link") else { panic!("{plan:?}") };
    assert_eq!((source.0.as_str(), *access), ("/srv/shared", Access::ReadOnly));
}

#[test]
fn a_prefix_is_expanded_to_what_matches() {
    let plan = jail_plan("file=scratch_*");
    assert!(node(&plan, "/home/u/w/scratch_1").is_some() && node(&plan, "/home/u/w/scratch_2").is_some());
    assert_eq!(rights(&plan, "/home/u/w/scratch_1"), [Right::ReadFile, Right::WriteFile]);
    assert!(rights(&plan, "/home/u/w/scratch_2").contains(&Right::Make));
}

#[test]
fn a_link_that_matches_a_pattern_never_leads_out() {
    let plan = jail_plan("file.read=./data/*.txt");
    assert!(node(&plan, "/home/u/w/data/a.txt").is_some() && node(&plan, "/home/u/w/data/d.txt").is_some());
    assert!(node(&plan, "/home/u/w/data/c.txt").is_none());
    assert!(plan.root.iter().all(|mount| !format!("{:?}", mount.node).contains("secret")));
}

#[test]
fn a_link_in_a_writable_folder_never_leads_out() {
    let refusal =
        ready_plan("static", with_file("file=./data/*,file.read=./data/out/*"), &host()).unwrap_err();
    assert!(refusal.to_string().contains("leads out of it"), "{refusal}");
    // Its twin: where nobody may write, the link is the host's own word.
    let plan = jail_plan("file.read=./data/*,file.read=./data/out/*");
    assert!(node(&plan, "/srv/shared").is_some());
}

#[test]
fn a_file_of_the_host_stands_before_the_jails_own() {
    let plan = ready_plan("sh", with("file.read=/etc/*", command(&["true"])), &host()).unwrap();
    assert!(matches!(node(&plan, "/etc"), Some(Node::Bind { .. })) && node(&plan, "/etc/passwd").is_none());
    let plan = ready_plan("sh", with("file.read=/etc/shadow", command(&["true"])), &host()).unwrap();
    assert!(matches!(node(&plan, "/etc/passwd"), Some(Node::Text(_))));
    assert!(matches!(node(&plan, "/etc/shadow"), Some(Node::Bind { .. })));
}

#[test]
fn what_is_not_there_is_not_given_and_said() {
    let plan = jail_plan("file.read=/nowhere/*");
    assert!(plan.root.iter().all(|mount| !mount.at.0.starts_with("/nowhere")));
    assert_eq!(plan.notes, ["/nowhere is granted and wasn't there at the start: nothing of it is given"]);
}

#[test]
fn the_hosts_kernel_trees_and_its_whole_root_stay_out() {
    for ceiling in ["file.read=/proc/*", "file.read=/sys", "file=/dev/*", "file.read=/proc/version"] {
        let refusal = ready_plan("static", with_file(ceiling), &host()).unwrap_err();
        assert!(matches!(refusal, Refusal::PathRefused { .. }), "{ceiling}: {refusal}");
    }
    let plan = jail_plan("file.read");
    assert!(node(&plan, "/home").is_some() && node(&plan, "/etc").is_some());
    assert!(node(&plan, "/proc").is_none() && plan.landlock.rules.iter().all(|rule| rule.at.0 != "/"));
    assert_eq!(node(&plan, "/bin"), Some(&Node::Link("usr/bin".to_owned())));
}

#[test]
fn a_granted_tmp_is_the_jails_own() {
    for ceiling in ["file=/tmp/*", "file=/tmp"] {
        assert!(matches!(node(&jail_plan(ceiling), "/tmp"), Some(Node::Scratch { .. })));
    }
    let plan = jail_plan("file.read=/tmp/other/x");
    assert!(matches!(node(&plan, "/tmp/other/x"), Some(Node::Bind { .. })));
}

#[test]
fn a_socket_is_no_file_and_one_in_a_tree_is_told() {
    let refusal = ready_plan("static", with_file("file=/run/docker.sock"), &host()).unwrap_err();
    assert!(matches!(refusal, Refusal::PathRefused { .. }), "{refusal}");
    let plan = jail_plan("file.read=/run/*");
    assert!(plan.notes.iter().any(|note| note.contains("/run/docker.sock is a socket")), "{:?}", plan.notes);
    let mut options = with_file("file.read=/run/*");
    options.allow_missing.insert(Layer::Filter);
    let no_filter = policies::facts::HostFacts { seccomp: false, ..host() };
    let refusal = ready_plan("static", options, &no_filter).unwrap_err();
    assert!(refusal.to_string().contains("without the filter"), "{refusal}");
}

#[test]
fn a_command_without_exec_may_execute_itself_and_its_loader_only() {
    let plan = ready_plan("python", command(&["python3"]), &host()).unwrap();
    assert_eq!(executable(&plan), ["/usr/bin/python3.11", "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"]);
    assert_eq!(plan.filter, Some(FilterName::Command));
    let policies::plan::Payload::Command { program, .. } = &plan.payload else { panic!() };
    assert_eq!(program.0, "/usr/bin/python3.11");
    // Everything's twin: with exec, the trees.
    let plan = ready_plan("python", with("exec", command(&["python3"])), &host()).unwrap();
    assert!(executable(&plan).contains(&"/usr") && executable(&plan).contains(&"/work"));
    assert_eq!(plan.filter, Some(FilterName::CommandExec));
}

#[test]
fn exec_of_a_tree_gives_that_tree_and_the_loader() {
    let plan = ready_plan("sh", with("exec=/bin/*", command(&["true"])), &host()).unwrap();
    assert_eq!(executable(&plan), ["/usr/bin", "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"]);
    let scratch =
        |plan: &Plan, at| matches!(node(plan, at), Some(Node::Scratch { execute: Execute::Allowed, .. }));
    assert!(!scratch(&plan, "/work") && !scratch(&plan, "/tmp"));
    // A host folder inside the jail's /tmp is no scratch.
    let plan =
        ready_plan("sh", with("exec=/tmp/other/*,file=/tmp/other/*", command(&["true"])), &host()).unwrap();
    assert!(!scratch(&plan, "/tmp"));
    let plan = ready_plan("gcc", command(&["true"]), &host()).unwrap();
    assert!(scratch(&plan, "/work") && scratch(&plan, "/tmp") && !scratch(&plan, "/dev/shm"));
    assert!(executable(&plan).contains(&"/work"));
}

#[test]
fn exec_of_a_name_gives_that_program() {
    let plan = ready_plan("python", with("exec=git", command(&["python3"])), &host()).unwrap();
    assert!(executable(&plan).contains(&"/usr/bin/git") && !executable(&plan).contains(&"/usr/bin"));
    let row = plan.capabilities.iter().find(|row| row.capability == "exec").unwrap();
    assert!(matches!(&row.fit, Fit::Coarser(by) if by.contains("loader")));
    let plan = ready_plan("python", with("exec=gi*", command(&["python3"])), &host()).unwrap();
    assert!(executable(&plan).contains(&"/usr/bin/git"));
}

#[test]
fn without_landlock_mounts_alone_hold_and_the_rows_say_so() {
    let facts = policies::facts::HostFacts { landlock_abi: 0, ..host() };
    let mut options = with("exec=/usr/bin/*,file.read=./data,file.write=./scratch_2/*", command(&["true"]));
    options.allow_missing.insert(Layer::Landlock);
    let plan = ready_plan("sh", options, &facts).unwrap();
    assert!(node(&plan, "/home/u/w/data").is_none() && node(&plan, "/home/u/w/scratch_2").is_some());
    assert_eq!((plan.landlock.abi, plan.landlock.rules.len()), (0, 0));
    for (capability, more) in [("file.write", "may be read, too"), ("exec", "every program there")] {
        let row = plan.capabilities.iter().find(|row| row.capability == capability).unwrap();
        assert!(matches!(&row.fit, Fit::Coarser(by) if by.contains(more)), "{row:?}");
    }
}

#[test]
fn auto_binds_the_program_its_loader_and_libraries_one_by_one() {
    let plan = ready_plan("auto", command(&["true"]), &host()).unwrap();
    for at in ["/usr/bin/true", "/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"] {
        assert!(matches!(node(&plan, at), Some(Node::Bind { access: Access::ReadOnly, .. })), "{at}");
    }
    assert!(node(&plan, "/usr").is_some_and(|node| *node == Node::Folder));
}

#[test]
fn a_ceiling_on_the_command_line_never_changes_what_is_provided() {
    let plan = ready_plan("python", with("none", command(&["python3"])), &host()).unwrap();
    assert!(node(&plan, "/usr").is_some());
    assert_eq!((plan.stdin, plan.stdout), (Stream::Closed, Stream::Closed));
}

#[test]
fn a_limit_on_the_command_line_replaces_the_policys() {
    let mut options = command(&["true"]);
    options.limits.wall = Some(Setting::At(Millis::seconds(3)));
    let plan = ready_plan("service", options, &host()).unwrap();
    assert_eq!(plan.limits.wall.value, Some(Millis::seconds(3)));
    assert_eq!(plan.limits.cpu.value, None);
    let mut options = command(&["true"]);
    options.limits.memory = Some(Setting::At(Bytes(1)));
    assert!(matches!(
        ready_plan("sh", options, &host()),
        Err(Refusal::LimitTooSmall { limit: "memory", .. })
    ));
}

#[test]
fn a_host_folder_as_working_folder() {
    let at = |access| Workdir::Host { path: HostPath("/home/u/w".to_owned()), access };
    let plan =
        ready_plan("sh", Options { workdir: at(Access::ReadOnly), ..command(&["true"]) }, &host()).unwrap();
    assert_eq!(rights(&plan, "/work"), [Right::ReadFile, Right::ReadDir]);
    let plan =
        ready_plan("sh", Options { workdir: at(Access::ReadWrite), ..command(&["true"]) }, &root()).unwrap();
    let Some(Node::Bind { idmap, execute, .. }) = node(&plan, "/work") else { panic!() };
    assert_eq!((*idmap, *execute), (IdMap::OwnerIsJailUser, Execute::Refused));
    assert!(plan.notes.iter().any(|note| note.contains("disk limit")));
    let gone = Workdir::Host { path: HostPath("/gone".to_owned()), access: Access::ReadOnly };
    assert!(ready_plan("sh", Options { workdir: gone, ..command(&["true"]) }, &host()).is_err());
}

#[test]
fn roots_private_files_are_reached_by_another_owner_and_public_ones_as_they_are() {
    let idmap = |plan: &Plan, at: &str| match node(plan, at) {
        Some(Node::Bind { idmap, .. }) => *idmap,
        other => panic!("{at}: {other:?}"),
    };
    let plan =
        ready_plan("static", with("file.read=/etc/shadow,file.read=./notes.md", command(&["true"])), &root())
            .unwrap();
    assert_eq!(idmap(&plan, "/etc/shadow"), IdMap::OwnerIsJailUser);
    assert_eq!(idmap(&plan, "/home/u/w/notes.md"), IdMap::AsIs);
    assert_eq!(idmap(&plan, "/usr/bin/true"), IdMap::AsIs);
    let plan = ready_plan("static", command(&["/home/u/secret"]), &root()).unwrap();
    assert_eq!(idmap(&plan, "/home/u/secret"), IdMap::OwnerIsJailUser);
    let plan = ready_plan("static", with("file.write=./notes.md", command(&["true"])), &root()).unwrap();
    assert_eq!(idmap(&plan, "/home/u/w/notes.md"), IdMap::OwnerIsJailUser);
}

#[test]
fn root_gets_an_unused_user_and_the_shared_network() {
    let plan = ready_plan("static", command(&["true"]), &root()).unwrap();
    assert_eq!((plan.identity.outside, plan.network), (Outside::Unused, Network::SharedEmpty));
    // Its /proc would list what others have in a shared one.
    let plan = ready_plan("sh", command(&["true"]), &root()).unwrap();
    assert_eq!((plan.identity.outside, plan.network), (Outside::Unused, Network::OwnEmpty));
    let plan = ready_plan("sh", command(&["true"]), &host()).unwrap();
    assert_eq!((plan.identity.outside, plan.network), (Outside::Caller, Network::OwnEmpty));
}

#[test]
fn what_only_the_languages_have_is_refused_for_commands_and_a_row_for_the_runtime() {
    for (ceiling, runtime) in
        [("attest", Fit::NotBuilt), ("judge", Fit::Exact), ("llm", Fit::Exact), ("memory=x", Fit::Exact)]
    {
        let refusal = ready_plan("sh", with(ceiling, command(&["true"])), &host()).unwrap_err();
        assert!(matches!(refusal, Refusal::LanguagesOwn { .. }), "{refusal}");
        let plan = run_plan(ceiling);
        let row = plan.capabilities.iter().find(|row| ceiling.starts_with(&row.capability)).unwrap();
        assert_eq!((row.granted, &row.fit), (true, &runtime));
    }
}

#[test]
fn a_grant_of_localhost_says_that_it_opens_nothing_and_one_of_the_address_does() {
    let held_by = |plan: &Plan| {
        let row = plan.capabilities.iter().find(|row| row.capability == "net").unwrap();
        assert_eq!((row.granted, &row.fit), (true, &Fit::Exact));
        row.held_by.clone()
    };
    for (ceiling, opens) in [
        ("net=localhost", false),
        ("net=LOCALHOST.:8080", false),
        ("net=127.0.0.1:8080", true),
        ("net=localhost.example", true),
    ] {
        let command = ready_plan("sh", with(ceiling, command(&["true"])), &host()).unwrap();
        for plan in [command, run_plan(ceiling)] {
            assert_eq!(
                !held_by(&plan).starts_with("nothing is given"),
                opens,
                "{ceiling}: {}",
                held_by(&plan)
            );
        }
    }
}

#[test]
fn a_folder_that_may_be_listed_says_so_where_its_files_may_be_read_as_well() {
    for (ceiling, read) in [("file.read=/tmp/other", true), ("file.read=/home/u/w/data", false)] {
        let plan = ready_plan("sh", with(ceiling, command(&["true"])), &host()).unwrap();
        let row = plan.capabilities.iter().find(|row| row.capability == "file.read").unwrap();
        let Fit::Coarser(by) = &row.fit else { panic!("{row:?}") };
        assert_eq!(by.contains("all that is in it may be read"), read, "{by}");
    }
}

#[test]
fn a_command_gets_sockets_only_with_a_network_to_use_them_in() {
    let of = |ceiling: &str| ready_plan("sh", with(ceiling, command(&["true"])), &root()).unwrap();
    let plan = of("net=a.com");
    assert!(matches!(plan.network, Network::Named(_)));
    assert_eq!(plan.filter, Some(FilterName::CommandNet));
    assert!(node(&plan, "/etc/resolv.conf").is_some() && plan.environment.contains_key("https_proxy"));
    let plan = of("serve=8080,exec");
    assert!(matches!(plan.network, Network::Named(_)));
    assert_eq!(plan.filter, Some(FilterName::CommandNetExec));
    assert!(node(&plan, "/etc/resolv.conf").is_none() && !plan.environment.contains_key("https_proxy"));
    let plan = run_plan("net=a.com");
    assert_eq!((plan.network, plan.filter), (Network::OwnEmpty, Some(FilterName::Runtime)));
}

#[test]
fn granted_names_alone_pass_into_the_environment() {
    let mut options = with("env=LANG*,secret=KEY", command(&["true"]));
    for name in ["LANG", "LANGUAGE", "KEY", "OTHER", "LD_PRELOAD"] {
        options.environment.insert(name.to_owned(), format!("{name}'s"));
    }
    let plan = ready_plan("sh", options, &host()).unwrap();
    let names: Vec<&str> = plan.environment.keys().map(String::as_str).collect();
    assert_eq!(names, ["HOME", "KEY", "LANG", "LANGUAGE", "PATH", "TMPDIR"]);
    assert_eq!(plan.environment["LANG"], "LANG's");
}

#[test]
fn a_terminal_brings_its_devices() {
    let plan = ready_plan("sh", Options { terminal: Terminal::Own, ..command(&["true"]) }, &host()).unwrap();
    assert_eq!(node(&plan, "/dev/pts"), Some(&Node::Pts));
    let plan = ready_plan("sh", command(&["true"]), &host()).unwrap();
    assert!(node(&plan, "/dev/pts").is_none() && node(&plan, "/dev/tty").is_none());
    // A terminal is an input: without that there is none.
    let plan =
        ready_plan("sh", Options { terminal: Terminal::Own, ..with("stdout", command(&["true"])) }, &host());
    let plan = plan.unwrap();
    assert!(node(&plan, "/dev/pts").is_none() && node(&plan, "/dev/tty").is_none());
    let plan = ready_plan(
        "sh",
        Options { terminal: Terminal::Own, ..with("stdout,stdin", command(&["true"])) },
        &host(),
    );
    assert_eq!(node(&plan.unwrap(), "/dev/pts"), Some(&Node::Pts));
}

#[test]
fn parents_come_before_what_stands_in_them() {
    for plan in
        [jail_plan("file.read=./data/*,file=/srv/*"), ready_plan("gcc", command(&["true"]), &root()).unwrap()]
    {
        for (i, mount) in plan.root.iter().enumerate() {
            let parent = &mount.at.0[..mount.at.0.rfind('/').unwrap()];
            let there = plan.root[..i]
                .iter()
                .any(|above| above.at.0 == parent || parent.starts_with(&format!("{}/", above.at.0)));
            assert!(parent.is_empty() || there, "{}", mount.at);
        }
    }
}
