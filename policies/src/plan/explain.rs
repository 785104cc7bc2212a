//! Plan → the page that `explain` prints, for a person who wants to know what stands around a program.

use super::{
    Access, CapabilityRow, Execute, FilterName, Fit, IdMap, Limit, Means, NamedNetwork, Network, Node,
    Outside, Payload, Plan, Right, Stream, network::Reach,
};
use crate::layer::{LayerState, Standing};
use std::{
    fmt::{Display, Write},
    net::SocketAddr,
};

/// The page. The same plan gives the same bytes.
#[must_use]
pub fn explain(plan: &Plan) -> String {
    let mut page = Page { text: String::new() };
    page.program(plan);
    page.capabilities(&plan.capabilities);
    page.root(plan);
    page.landlock(plan);
    page.system_calls(plan);
    page.limits(plan);
    page.environment(plan);
    page.layers(&plan.layers);
    page.notes(&plan.notes);
    page.text
}

struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: impl Display) {
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "{}", line.to_string().trim_end());
    }

    fn heading(&mut self, heading: &str) {
        if !self.text.is_empty() {
            self.line("");
        }
        self.line(heading);
    }

    fn program(&mut self, plan: &Plan) {
        self.heading("PROGRAM");
        match &plan.payload {
            Payload::Runtime => self.line("  thirdwall's language runtime, executed from a descriptor"),
            Payload::Command { program, source, argv } => {
                self.line(format!(
                    "  {}",
                    argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
                ));
                let from =
                    if program.0 == source.0 { String::new() } else { format!(" (on the host {source})") };
                self.line(format!("  executes {program}{from}"));
            }
        }
        let outside = match plan.identity.outside {
            Outside::Caller => "the caller",
            Outside::Unused => "an unused user",
        };
        let (uid, gid) = (plan.identity.uid, plan.identity.gid);
        self.line(format!(
            "  in {} as uid {uid} gid {gid}, outside {outside}; host name {}",
            plan.workdir, plan.hostname
        ));
    }

    fn capabilities(&mut self, rows: &[CapabilityRow]) {
        self.heading("CAPABILITIES GRANTED");
        let (granted, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.granted);
        if granted.is_empty() {
            self.line("  none");
        }
        for row in granted {
            let name = match &row.scope {
                Some(scope) => format!("{}={scope}", row.capability),
                None => row.capability.clone(),
            };
            self.line(format!("  {name:<28} {}", fit(&row.fit)));
            self.line(format!("  {:<28}   {}", "", row.held_by));
        }
        self.heading("CAPABILITIES REFUSED");
        for row in others {
            let fit = if row.fit == Fit::LanguageOnly { "language only: " } else { "" };
            self.line(format!("  {:<28} {fit}{}", row.capability, row.held_by));
        }
    }

    fn root(&mut self, plan: &Plan) {
        self.heading("ROOT (nothing else is there)");
        if plan.root.is_empty() {
            self.line("  empty");
        }
        for mount in &plan.root {
            self.line(format!("  {:<28} {}", mount.at.0, node(&mount.at.0, &mount.node)));
        }
    }

    fn landlock(&mut self, plan: &Plan) {
        self.heading(&match plan.landlock.abi {
            0 => "LANDLOCK: missing".to_owned(),
            abi => format!("LANDLOCK (ABI {abi}; all else is refused)"),
        });
        if plan.landlock.rules.is_empty() && plan.landlock.abi > 0 {
            self.line("  no file at all");
        }
        for rule in &plan.landlock.rules {
            let rights: Vec<&str> = rule.rights.iter().map(|&right| right_words(right)).collect();
            self.line(format!("  {:<28} {}", rule.at.0, rights.join(", ")));
        }
    }

    fn system_calls(&mut self, plan: &Plan) {
        self.heading("SYSTEM CALLS AND NETWORK");
        self.line(match plan.filter {
            Some(FilterName::Runtime) => "  filter   the runtime's: the smallest list",
            Some(FilterName::Command) => "  filter   a command's; no program but the first is executed",
            Some(FilterName::CommandExec) => {
                "  filter   a command's; programs are executed where Landlock says so"
            }
            Some(FilterName::CommandNet) => {
                "  filter   a command's, with TCP and UDP sockets; no program but the first is executed"
            }
            Some(FilterName::CommandNetExec) => {
                "  filter   a command's, with TCP and UDP sockets; programs are executed where Landlock says so"
            }
            None => "  filter   missing",
        });
        match &plan.network {
            Network::SharedEmpty => self.line("  network  none: an empty namespace, prepared and shared"),
            Network::OwnEmpty => self.line("  network  none: an empty namespace of its own"),
            Network::Named(named) => self.named_network(named),
        }
        self.line(format!("  stdin    {}", stream(plan.stdin, "empty")));
        self.line(format!("  stdout   {}", stream(plan.stdout, "dropped and audited")));
    }

    fn named_network(&mut self, named: &NamedNetwork) {
        self.line("  network  a namespace of its own, with a way out for what is granted only");
        for grant in named.grants() {
            self.line(format!("             {grant}"));
        }
        let ports = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        match named.reach() {
            Reach::Ports if named.ports().is_empty() => {}
            Reach::Ports => self.line(format!("             to ports {}", ports(named.ports()))),
            Reach::EveryPort => self.line("             to every port"),
        }
        if let Some(proxy) = named.proxy() {
            self.line(format!("             and as HTTP and SOCKS5 proxy on 127.0.0.1:{proxy}"));
        }
        for port in named.serve() {
            self.line(format!(
                "             serves {port}, from {} outside",
                SocketAddr::new(named.serve_address(), *port)
            ));
        }
    }

    fn limits(&mut self, plan: &Plan) {
        self.heading("LIMITS");
        let limits = &plan.limits;
        self.limit("wall", &limits.wall, "ends the run");
        let held = |means: Means, looked: &'static str| {
            if means == Means::Polling { looked } else { "ends the run" }
        };
        let cpu = held(limits.cpu.means, "ends the run once seen; no bound for short-lived processes");
        self.limit("cpu", &limits.cpu, cpu);
        let memory = held(limits.memory.means, "ends the run once seen");
        self.limit("memory", &limits.memory, memory);
        self.limit("pids", &limits.pids, "the act fails");
        self.limit("output", &limits.output, "cut there, ends the run");
        self.line(format!(
            "  {:<8} {:<10} by {:<11} the act fails",
            "disk",
            limits.disk.to_string(),
            "tmpfs"
        ));
        self.line(format!("  {:<8} {:<10} by {:<11} the act fails", "nofile", limits.nofile, "rlimit"));
        self.line(format!("  {:<8} {:<10} between TERM and KILL", "grace", limits.grace.to_string()));
    }

    fn limit<T: Display>(&mut self, name: &str, limit: &Limit<T>, met: &str) {
        match &limit.value {
            Some(value) => {
                let by = limit.means.words();
                self.line(format!("  {name:<8} {:<10} by {by:<11} {met}", value.to_string()));
            }
            None => self.line(format!("  {name:<8} none")),
        }
    }

    fn environment(&mut self, plan: &Plan) {
        self.heading("ENVIRONMENT (names only)");
        let names: Vec<&str> = plan.environment.keys().map(String::as_str).collect();
        self.line(if names.is_empty() { "  empty".to_owned() } else { format!("  {}", names.join(" ")) });
    }

    fn layers(&mut self, layers: &[LayerState]) {
        self.heading("LAYERS");
        for state in layers {
            let standing = match state.standing {
                Standing::InForce => "in force",
                Standing::OtherMeans => "other means",
                Standing::Missing => "MISSING",
                Standing::NotApplicable => "not here",
            };
            self.line(format!("  {:<11} {standing:<12} {}", state.layer.name(), state.how));
        }
    }

    fn notes(&mut self, notes: &[String]) {
        if !notes.is_empty() {
            self.heading("NOTES");
        }
        for note in notes {
            self.line(format!("  - {note}"));
        }
    }
}

fn fit(fit: &Fit) -> String {
    match fit {
        Fit::Exact => "exact".to_owned(),
        Fit::Coarser(by) => format!("coarser: {by}"),
        Fit::LanguageOnly => "language only".to_owned(),
        Fit::NotBuilt => "not built yet".to_owned(),
    }
}

fn node(at: &str, node: &Node) -> String {
    match node {
        Node::Bind { source, access, execute, idmap } => {
            let mut words = vec![match access {
                Access::ReadOnly => "read only",
                Access::ReadWrite => "read and write",
            }];
            if *execute == Execute::Refused {
                words.push("noexec");
            }
            if *idmap == IdMap::OwnerIsJailUser {
                words.push("its owner is the jail's user");
            }
            if source.0 == at { words.join(", ") } else { format!("{} ({source})", words.join(", ")) }
        }
        Node::Scratch { execute, mode } => {
            let noexec = if *execute == Execute::Refused { ", noexec" } else { "" };
            format!("scratch in memory, mode {mode:o}{noexec}")
        }
        Node::Folder => "folder".to_owned(),
        Node::Text(text) => format!("made for the jail, {} bytes", text.len()),
        Node::Link(to) => format!("-> {to}"),
        Node::Device(_) => "device".to_owned(),
        Node::Proc => "of the jail's own processes, read only".to_owned(),
        Node::Pts => "terminals of the jail's own".to_owned(),
    }
}

fn right_words(right: Right) -> &'static str {
    match right {
        Right::ReadFile => "read",
        Right::ReadDir => "list",
        Right::Execute => "execute",
        Right::WriteFile => "write",
        Right::Make => "make and remove",
        Right::MakeIpc => "make sockets and FIFOs",
        Right::IoctlDev => "terminal ioctls",
    }
}

fn stream(stream: Stream, closed: &'static str) -> &'static str {
    match stream {
        Stream::Relayed => "through the supervisor",
        Stream::Closed => closed,
    }
}

/// A word of argv as a shell would take it back, without control characters.
fn quoted(word: &str) -> String {
    let plain =
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&b));
    if plain { word.to_owned() } else { format!("{word:?}") }
}
