//! The outer side: prepares folders, runs the peer in its jail, looks at the report and at the disk.

use launcher::{
    broker::{Children, Lent, Nesting, Order, Outer, Outside},
    cgroup::Entry,
    jail::{Inputs, Jail},
    probe,
    supervisor::{Keep, Sink, Source, Wants, supervise},
};
use nix::{
    fcntl::{AT_FDCWD, RenameFlags, renameat2},
    sys::{
        signal::SigSet,
        stat::{Mode, SFlag, mknod},
    },
    unistd::mkfifo,
};
use policies::{
    broker::{self, Ran},
    ceiling::Ceiling,
    layer::Layer,
    limits::Setting,
    plan,
    policy::Policy,
    report::{Report, Verdict},
    request::{Options, PathFacts, Profile, Subject, resolve},
    scope::Base,
    units::{Bytes, Millis},
};
use std::{
    fs,
    io::{Seek, Write},
    os::{
        fd::OwnedFd,
        unix::{fs::symlink, net::UnixListener},
    },
    path::Path,
    process::{Command, ExitCode},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Folders for one test.
struct Given {
    folder: tempfile::TempDir,
}

impl Given {
    /// `top` with a file in it, and `outside` beside it.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let given = Self { folder };
        for name in ["top/deep", "outside"] {
            fs::create_dir_all(given.at(name)).unwrap();
        }
        fs::write(given.at("top/a.txt"), "inside").unwrap();
        fs::write(given.at("outside/secret"), "outside").unwrap();
        given
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.folder.path().to_str().unwrap())
    }

    fn top(&self) -> String {
        self.at("top")
    }

    /// Runs the peer under a ceiling in which `{}` is the top folder.
    fn run(&self, ceiling: &str, job: &[&str]) -> Report {
        self.run_for(Millis::seconds(20), ceiling, job)
    }

    fn run_for(&self, wall: Millis, ceiling: &str, job: &[&str]) -> Report {
        let base = Base { workdir: self.top(), home: None };
        // With output, so that a failed peer tells where.
        let ceiling = format!("stdout,{}", ceiling.replace("{}", &self.top()));
        let ceiling = Ceiling::parse(&ceiling).unwrap();
        let mut options = Options::new(Subject::Runtime { profile: Profile::Native }, base);
        options.ceiling = Some(ceiling);
        options.limits.wall = Some(Setting::At(wall));
        options.limits.memory = Some(Setting::Unlimited);
        options.limits.pids = Some(Setting::Unlimited);
        options.limits.cpu = Some(Setting::Unlimited);
        let request = resolve(&Policy::runtime(), options).unwrap();
        let plan = plan::plan(&request, &PathFacts::default(), &probe::fast()).unwrap();
        let limits = plan.limits.clone();
        let children = Children {
            start: told,
            command: |order, words| {
                Err(format!("{} {:?} {}", words.argv.join(" "), words.folder, order.ceiling))
            },
            profile: broker::Profile::Pure,
            nesting: Nesting { depth: 0, most: 1 },
            limits,
            fuel: Some(1000),
            heap: None,
            groups: Vec::new(),
            home: None,
        };
        let (ceiling, base) = (request.ceiling().clone(), request.base().clone());
        let (notebooks, outside) = (Some(self.top()), Outside::of(&plan).in_network(home()));
        let lent = Lent {
            ceiling,
            base,
            outer: Outer::nobody(),
            notebooks,
            children: Some(children),
            modules: None,
            outside,
        };
        run(plan, lent, job)
    }
}

/// In the place of a launcher: tells what it was ordered.
fn told(order: Order) -> Result<Ran, String> {
    if order.filename == "slow" {
        std::thread::sleep(Duration::from_secs(60));
    }
    let Some(Setting::At(memory)) = order.limits.memory else { return Err("no limit".into()) };
    Ok(Ran {
        ok: true,
        output: vec![
            order.ceiling.to_string(),
            format!("{:?}", order.profile),
            order.nesting.depth.to_string(),
            order.source.len().to_string(),
            memory.to_string(),
            order.base.workdir,
        ],
        errors: Vec::new(),
        audit: Vec::new(),
        exit: Some(0),
        timed_out: false,
        llm_tokens: 0,
        fuel: 0,
    })
}

fn a_lying_runtime_gets_no_more_for_its_children() {
    let given = Given::new();
    let report = given.run("sandbox_run,file.read={}/*", &["child", &given.top()]);
    passes(&report);
    let cut: Vec<_> = report.audit.iter().filter(|entry| entry.reason == "above parent ceiling").collect();
    assert!(cut.iter().any(|entry| entry.capability == "exec" && entry.layer == Layer::Broker), "{cut:?}");
    assert!(report.audit.iter().any(|entry| entry.reason == "above parent profile"));
}

fn a_request_while_a_child_runs_ends_both() {
    let given = Given::new();
    let start = Instant::now();
    let report = given.run("sandbox_run", &["child and more"]);
    assert_eq!(report.status, Verdict::JailFailed);
    assert!(report.errors[0].contains("before the answer to the last one"), "{:?}", report.errors);
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(nix::sys::wait::waitpid(None, None), Err(nix::errno::Errno::ECHILD), "nobody is left");
}

fn a_process_is_started_where_exec_is_granted_and_nobody_has_another_s() {
    let given = Given::new();
    let report = given.run("exec=granted", &["processes"]);
    passes(&report);
    assert!(report.audit.iter().any(|entry| entry.capability == "exec(\"other\")" && !entry.granted));
    assert_eq!(nix::sys::wait::waitpid(None, None), Err(nix::errno::Errno::ECHILD), "nobody is left");
}

fn a_request_while_it_waits_is_a_breach() {
    let given = Given::new();
    let report = given.run("exec=granted", &["a wait and more"]);
    assert_eq!(report.status, Verdict::JailFailed);
    assert!(report.errors[0].contains("before the answer to the last one"), "{:?}", report.errors);
}

/// The host's network: a start by root takes this process into the jails' shared one, and it doesn't come back.
fn home() -> Option<OwnedFd> {
    static HOME: OnceLock<OwnedFd> = OnceLock::new();
    let home = HOME.get_or_init(|| fs::File::open("/proc/self/ns/net").unwrap().into());
    nix::unistd::geteuid().is_root().then(|| home.try_clone().unwrap())
}

/// A server on loopback that answers `ok` to whoever asks, from a process of its own: this one has one thread.
fn server() -> (u16, std::process::Child) {
    let program = "import socket,sys\ns=socket.create_server((\"127.0.0.1\",0));print(s.getsockname()[1],flush=True)\n\
        while True:\n c,_=s.accept();c.recv(9999);c.sendall(b\"HTTP/1.1 200 OK\\r\\n\\r\\nok\");c.close()";
    if let Some(home) = home() {
        nix::sched::setns(home, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    }
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", program])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    (line.trim().parse().unwrap(), child)
}

fn a_lying_runtime_reaches_no_more_than_the_ceiling() {
    let given = Given::new();
    let (port, mut child) = server();
    let report = given.run(&format!("net=127.0.0.1:{port}"), &["fetch", &port.to_string()]);
    let early = given.run(&format!("net=127.0.0.1:{port}"), &["fetch and more", &port.to_string()]);
    child.kill().unwrap();
    child.wait().unwrap();
    passes(&report);
    assert_eq!(denials(&report), 6);
    let carried: Vec<_> = report.audit.iter().filter(|entry| entry.layer == Layer::Network).collect();
    assert!(carried.len() == 1 && carried[0].granted, "{carried:?}");
    assert_eq!(early.status, Verdict::JailFailed);
    assert_eq!(nix::sys::wait::waitpid(None, None), Err(nix::errno::Errno::ECHILD), "nobody is left");
}

fn run(plan: plan::Plan, lent: Lent, job: &[&str]) -> Report {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(job.join("\n").as_bytes()).unwrap();
    file.rewind().unwrap();
    let inputs = Inputs {
        cgroup: Entry::Written(Vec::new()),
        terminal: None,
        job: Some(file.into()),
        copy_in: Vec::new(),
        signal_mask: SigSet::empty(),
    };
    let (jail, plan) = Jail::planned(plan).stage(inputs).unwrap();
    let running = jail.start().unwrap();
    let wants = Wants {
        stdin: Source::Empty,
        stdout: Sink::Nowhere,
        stderr: Sink::Nowhere,
        keep: Keep::AtMost(Bytes(1 << 20)),
        signals: None,
        quiet: false,
        egress: None,
        person: None,
        state: None,
        lent: Some(lent),
    };
    supervise(running, &plan, None, wants)
}

fn passes(report: &Report) {
    assert_eq!(report.status, Verdict::Ok, "{:?} {:?}", report.errors, report.output);
}

fn denials(report: &Report) -> usize {
    report.audit.iter().filter(|entry| entry.layer == Layer::Broker && !entry.granted).count()
}

fn granted_files_are_read_written_listed_and_removed() {
    let given = Given::new();
    let report = given.run("file={}/*", &["everyday", &given.top()]);
    passes(&report);
    assert_eq!(denials(&report), 0);
    let left: Vec<_> = fs::read_dir(given.top()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_str().unwrap().starts_with('.')), "{left:?}");
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let made = fs::metadata(given.at("top/made/by/append.txt")).unwrap();
    assert_eq!(made.permissions().mode() & 0o7777 & !0o644, 0);
    assert_eq!(made.uid(), fs::metadata(given.top()).unwrap().uid());
}

fn nothing_leads_out_of_the_scope() {
    let given = Given::new();
    for (name, to) in [
        ("relative-out", "../outside/secret".to_owned()),
        ("absolute-out", given.at("outside/secret")),
        ("folder-out", "../outside".to_owned()),
        ("out-and-in", "../outside/back".to_owned()),
        ("dangling", "../nowhere".to_owned()),
        ("circle", "circle".to_owned()),
        ("magic", "/proc/self/root".to_owned()),
        ("relative-in", "a.txt".to_owned()),
        ("absolute-in", given.at("top/a.txt")),
        ("folder-in", "deep".to_owned()),
        ("deep/a.txt", "../a.txt".to_owned()),
        ("twice", "relative-in".to_owned()),
    ] {
        symlink(to, given.at(&format!("top/{name}"))).unwrap();
    }
    let report = given.run("file={}/*", &["escapes", &given.top(), &given.at("outside/secret")]);
    passes(&report);
    assert_eq!(denials(&report), 80);
    assert_eq!(fs::read_to_string(given.at("outside/secret")).unwrap(), "outside");
    assert_eq!(fs::read_dir(given.at("outside")).unwrap().count(), 1);
    assert!(!Path::new(&given.at("nowhere")).exists());
    let entry = &report.audit[0];
    assert_eq!(
        (entry.source.as_str(), entry.target.as_str()),
        ("broker", given.at("outside/secret").as_str())
    );
    assert!(entry.capability.starts_with("file_read(\""), "{}", entry.capability);
}

fn a_database_is_granted_with_what_stands_beside_it_and_nothing_else() {
    let given = Given::new();
    let report = given.run("db={}/one.db,memory=n", &["databases", &given.top()]);
    passes(&report);
    assert!(denials(&report) > 20);
    assert!(Path::new(&given.at("top/.synsema/state/n.db")).is_file());
    // A link in the program's own folder doesn't lead its notebook out of it.
    let given = Given::new();
    fs::create_dir(given.at("top/.synsema")).unwrap();
    symlink(given.at("outside"), given.at("top/.synsema/state")).unwrap();
    let report = given.run("db={}/one.db,memory=n", &["databases", &given.top()]);
    assert!(!report.ok && !Path::new(&given.at("outside/n.db")).exists());
}

fn patterns_and_single_files_are_exact() {
    let given = Given::new();
    for (name, text) in [
        ("pub_a.txt", "a"),
        ("private.txt", "private"),
        ("one/exact.txt", "e"),
        ("one/other.txt", "o"),
        ("named.txt", "n"),
    ] {
        let path = given.at(&format!("top/{name}"));
        fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    symlink("private.txt", given.at("top/pub_link")).unwrap();
    symlink("pub_a.txt", given.at("top/pub_fine")).unwrap();
    symlink("named.txt", given.at("top/named-link")).unwrap();
    let ceiling = "file={}/pub_*,file={}/one/exact.txt,file={}/later/file.txt,file.read={}/named-link";
    passes(&given.run(ceiling, &["patterns", &given.top()]));
}

fn only_regular_files_are_opened() {
    let given = Given::new();
    mkfifo(Path::new(&given.at("top/fifo")), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let _listener = UnixListener::bind(given.at("top/socket")).unwrap();
    let device = nix::sys::stat::makedev(1, 3);
    if mknod(Path::new(&given.at("top/null")), SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), device)
        .is_err()
    {
        // An ordinary user can make no device: a second FIFO stands in its place.
        mkfifo(Path::new(&given.at("top/null")), Mode::S_IRUSR).unwrap();
    }
    fs::create_dir(given.at("top/folder")).unwrap();
    let start = Instant::now();
    passes(&given.run("file={}/*", &["kinds", &given.top()]));
    assert!(start.elapsed() < Duration::from_secs(5), "nothing waits for a FIFO's other end");
}

fn the_kernel_s_trees_are_nobody_s_to_grant() {
    let given = Given::new();
    passes(&given.run_wide(&["kernel"]));
}

impl Given {
    /// A lent ceiling of all files, in a jail that was planned without.
    fn run_wide(&self, job: &[&str]) -> Report {
        let base = Base { workdir: self.top(), home: None };
        let mut options = Options::new(Subject::Runtime { profile: Profile::Native }, base.clone());
        options.ceiling = Some(Ceiling::sandbox());
        options.limits.memory = Some(Setting::Unlimited);
        options.limits.pids = Some(Setting::Unlimited);
        options.limits.cpu = Some(Setting::Unlimited);
        let request = resolve(&Policy::runtime(), options).unwrap();
        let plan = plan::plan(&request, &PathFacts::default(), &probe::fast()).unwrap();
        let (ceiling, outside) = (Ceiling::parse("file").unwrap(), Outside::of(&plan));
        run(
            plan,
            Lent {
                ceiling,
                base,
                outer: Outer::nobody(),
                notebooks: None,
                children: None,
                modules: None,
                outside,
            },
            job,
        )
    }
}

fn who_may_write_may_not_read() {
    let given = Given::new();
    passes(&given.run("file.write={}/*", &["write only", &given.top()]));
}

fn without_a_grant_there_is_nothing() {
    let given = Given::new();
    let report = given.run("time", &["nothing", &given.top()]);
    passes(&report);
    assert_eq!(fs::read_to_string(given.at("top/a.txt")).unwrap(), "inside");
}

fn long_folders_come_as_a_file_and_longer_ones_not_at_all() {
    let given = Given::new();
    for (folder, count) in [("many", 5000), ("more", policies::broker::MOST_ENTRIES + 1)] {
        fs::create_dir(given.at(&format!("top/{folder}"))).unwrap();
        for number in 0..count {
            fs::write(given.at(&format!("top/{folder}/a-file-with-a-name-{number}")), "").unwrap();
        }
    }
    passes(&given.run("file={}/*", &["many entries", &given.top()]));
}

fn ten_thousand_swaps_open_nothing_outside() {
    let given = Given::new();
    fs::create_dir(given.at("top/x")).unwrap();
    fs::write(given.at("top/x/secret"), "inside").unwrap();
    fs::write(given.at("outside/victim"), "stays").unwrap();
    symlink("../outside", given.at("top/y")).unwrap();
    let mut swapper =
        Command::new(std::env::current_exe().unwrap()).args(["--swap", &given.top()]).spawn().unwrap();
    let report = given.run("file={}/*", &["race", &given.top()]);
    assert!(swapper.wait().unwrap().success());
    passes(&report);
    let mut left: Vec<_> =
        fs::read_dir(given.at("outside")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["secret", "victim"]);
    assert_eq!(fs::read_to_string(given.at("outside/secret")).unwrap(), "outside");
}

/// Swaps a folder and a link that leads out, 10,000 times, then says so.
pub(crate) fn swap(top: &str) -> ExitCode {
    let (one, two) = (format!("{top}/x"), format!("{top}/y"));
    for _ in 0..10_000 {
        renameat2(AT_FDCWD, one.as_str(), AT_FDCWD, two.as_str(), RenameFlags::RENAME_EXCHANGE).unwrap();
        std::thread::sleep(Duration::from_micros(20));
    }
    fs::write(format!("{top}/done"), "").unwrap();
    ExitCode::SUCCESS
}

fn a_breach_ends_the_peer_and_the_report_says_why() {
    let given = Given::new();
    for (how, why) in [
        ("malformed", "can't be read"),
        ("short", "cut or too long"),
        ("length", "cut or too long"),
        ("oversized", "more than 65536 bytes"),
        ("much oversized", "more than 65536 bytes"),
        ("again", "message number 1 in the place of 2"),
        ("ahead", "message number 9 in the place of 2"),
        ("path", "a path beyond its bound"),
        ("deep", "can't be read"),
        ("answer", "can't be read"),
        ("descriptor", "a descriptor beside a request"),
        ("own end", "a descriptor beside a request"),
        ("many descriptors", "a descriptor beside a request"),
        ("descriptor beside nothing", "a descriptor beside a request"),
        ("later child", "message number 3 in the place of 2"),
        ("tail", "raw bytes beyond its bound"),
    ] {
        let start = Instant::now();
        let report = given.run("time", &["breach", how]);
        assert_eq!(report.status, Verdict::JailFailed, "{how}");
        assert!(report.errors[0].contains("broke the broker's protocol"), "{how}: {:?}", report.errors);
        assert!(report.errors[0].contains(why), "{how}: {:?}", report.errors);
        assert!(start.elapsed() < Duration::from_secs(5), "{how}");
    }
}

fn a_flood_is_slowed_and_costs_no_memory() {
    let given = Given::new();
    let before = memory_kib();
    let report = given.run_for(Millis::seconds(600), "file={}/*", &["flood", &given.top()]);
    passes(&report);
    assert_eq!((report.audit.len(), report.audit_dropped), (1000, 2000));
    let report = given.run("file={}/*", &["flood without reading"]);
    assert_eq!(report.status, Verdict::JailFailed);
    assert!(memory_kib() < before + 16 * 1024, "{} KiB, {before} before", memory_kib());
}

/// The supervisor is this process: what it holds at the end, and at the most.
fn floods_of_everything_cost_no_memory() {
    let given = Given::new();
    // Whatever later ones find there: the allocator's arenas.
    let _warm = given.run("file={}/*", &["flood of frames", "lists"]);
    for job in [
        &["flood of sources"][..],
        &["flood of files", &given.top()],
        &["flood of frames", "entries"],
        &["flood of frames", "long entries"],
        &["flood of frames", "lists"],
    ] {
        let before = memory_kib();
        let report = given.run_for(Millis::seconds(3), "file={}/*", job);
        assert_eq!(report.status, Verdict::WallTime, "{job:?}: {:?}", report.errors);
        assert!(memory_kib() < before + 32 * 1024, "{job:?}: {} KiB, {before} before", memory_kib());
        assert!(report.audit.len() <= 10_001, "{job:?}: {}", report.audit.len());
    }
    let left: Vec<_> = fs::read_dir(given.top()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("part")), "{left:?}");
}

fn a_peer_that_leaves_is_left_alone() {
    let given = Given::new();
    passes(&given.run("file={}/*", &["goodbye"]));
}

fn memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Not a test: how much longer an open takes than a direct one, in the median. `cargo test --test broker -- --speed`
fn speed() {
    let given = Given::new();
    let report = given.run("file={}/*", &["speed", &given.top()]);
    let brokered: u64 = report.output[0].parse().unwrap();
    let path = given.at("top/a.txt");
    let mut direct: Vec<Duration> = (0..2000)
        .map(|_| {
            let start = Instant::now();
            let file = fs::File::open(&path).unwrap();
            let time = start.elapsed();
            drop(file);
            time
        })
        .collect();
    direct.sort();
    say(&format!("direct {} ns, brokered {brokered} ns", direct[1000].as_nanos()));
}

#[expect(clippy::print_stdout, reason = "a test runner tells what it runs")]
fn say(text: &str) {
    println!("{text}");
}

type Test = (&'static str, fn());

macro_rules! tests {
    ($($name:ident),* $(,)?) => { [$((stringify!($name), $name as fn())),*] };
}

/// Runs what the words on the command line name; all without any.
pub(crate) fn main() -> ExitCode {
    let _first = home();
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--speed") {
        speed();
        return ExitCode::SUCCESS;
    }
    let all: Vec<Test> = tests![
        granted_files_are_read_written_listed_and_removed,
        nothing_leads_out_of_the_scope,
        a_database_is_granted_with_what_stands_beside_it_and_nothing_else,
        patterns_and_single_files_are_exact,
        only_regular_files_are_opened,
        the_kernel_s_trees_are_nobody_s_to_grant,
        who_may_write_may_not_read,
        without_a_grant_there_is_nothing,
        long_folders_come_as_a_file_and_longer_ones_not_at_all,
        ten_thousand_swaps_open_nothing_outside,
        a_breach_ends_the_peer_and_the_report_says_why,
        a_flood_is_slowed_and_costs_no_memory,
        floods_of_everything_cost_no_memory,
        a_peer_that_leaves_is_left_alone,
        a_lying_runtime_gets_no_more_for_its_children,
        a_request_while_a_child_runs_ends_both,
        a_process_is_started_where_exec_is_granted_and_nobody_has_another_s,
        a_request_while_it_waits_is_a_breach,
        a_lying_runtime_reaches_no_more_than_the_ceiling,
    ]
    .into();
    if words.iter().any(|word| word == "--list") {
        all.iter().for_each(|(name, _)| say(&format!("{name}: test")));
        return ExitCode::SUCCESS;
    }
    let names: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let mut failed = 0;
    for (name, test) in all {
        if !names.is_empty() && !names.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let passed = std::panic::catch_unwind(test).is_ok();
        say(&format!("test {name} ... {}", if passed { "ok" } else { "FAILED" }));
        failed += u32::from(!passed);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
