//! A small made-up host, so that a test reads as given, planned, expected.

use policies::{
    ceiling::Ceiling,
    error::Refusal,
    facts::{Caller, CgroupFacts, HostFacts},
    plan::{HostPath, Plan, plan},
    policy::{Policy, ready},
    request::{
        Found, Kind, OpenTo, Options, PathFacts, PathQuery, Profile, ProgramFacts, Request, Subject, resolve,
    },
    scope::{Base, glob},
};
use std::collections::BTreeMap;

/// What stands at a path.
#[derive(Debug, Clone)]
enum Entry {
    File,
    Folder,
    Link(&'static str),
    Socket,
}

/// A file system as data.
pub(crate) struct Disk(BTreeMap<String, Entry>);

impl Disk {
    /// As Debian lays it out, with one user's folder.
    pub(crate) fn debian() -> Self {
        let mut disk = Self(BTreeMap::new());
        for (link, to) in
            [("/bin", "usr/bin"), ("/sbin", "usr/sbin"), ("/lib", "usr/lib"), ("/lib64", "usr/lib64")]
        {
            disk.0.insert(link.to_owned(), Entry::Link(to));
        }
        disk.add(
            "/usr/lib64/ld-linux-x86-64.so.2",
            Entry::Link("/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
        );
        disk.add("/usr/bin/python3", Entry::Link("python3.11"));
        for file in [
            "/usr/bin/python3.11",
            "/usr/bin/true",
            "/usr/bin/git",
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
            "/usr/lib/gcc/cc1",
            "/usr/sbin/nologin",
            "/etc/ld.so.cache",
            "/etc/alternatives/awk",
            "/etc/shadow",
            "/home/u/w/data/a.txt",
            "/home/u/w/data/deep/b.txt",
            "/home/u/w/notes.md",
            "/home/u/w/scratch_1",
            "/home/u/w/scratch_2/x",
            "/home/u/secret",
            "/srv/shared/file",
            "/tmp/other/x",
            "/proc/version",
        ] {
            disk.add(file, Entry::File);
        }
        disk.add("/run/docker.sock", Entry::Socket);
        disk.add("/home/u/w/data/out", Entry::Link("/srv/shared"));
        disk.add("/home/u/w/data/c.txt", Entry::Link("/home/u/secret"));
        disk.add("/home/u/w/data/d.txt", Entry::Link("a.txt"));
        disk.0.insert("/home/u/w/link".to_owned(), Entry::Link("/srv/shared"));
        disk
    }

    fn add(&mut self, path: &str, entry: Entry) {
        for (slash, _) in path.match_indices('/').skip(1) {
            self.0.entry(path[..slash].to_owned()).or_insert(Entry::Folder);
        }
        self.0.insert(path.to_owned(), entry);
    }

    /// Follows every link; `None` if the path doesn't exist.
    fn real(&self, path: &str) -> Option<String> {
        let mut real = String::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let next = format!("{real}/{part}");
            real = match self.0.get(&next)? {
                Entry::Link(to) if to.starts_with('/') => self.real(to)?,
                Entry::Link(to) => self.real(&format!("{real}/{to}"))?,
                Entry::File | Entry::Folder | Entry::Socket => next,
            };
        }
        Some(real)
    }

    pub(crate) fn found(&self, path: &str) -> Option<Found> {
        let real = self.real(path)?;
        let kind = match self.0.get(&real)? {
            Entry::File => Kind::File,
            Entry::Folder => Kind::Folder,
            Entry::Link(_) | Entry::Socket => Kind::Other,
        };
        let open_to =
            if real.contains("secret") || real == "/etc/shadow" { OpenTo::Some } else { OpenTo::Everybody };
        let link = match self.0.get(path) {
            Some(Entry::Link(to)) => Some((*to).to_owned()),
            Some(Entry::File | Entry::Folder | Entry::Socket) | None => None,
        };
        let socket = self.0.iter().find_map(|(at, entry)| {
            (matches!(entry, Entry::Socket) && kind == Kind::Folder && at.starts_with(&format!("{real}/")))
                .then(|| HostPath(at.clone()))
        });
        Some(Found { at: HostPath(path.to_owned()), real: HostPath(real), kind, open_to, link, socket })
    }

    /// All regular files, by their own paths.
    pub(crate) fn files(&self) -> Vec<String> {
        self.0
            .iter()
            .filter(|(_, entry)| matches!(entry, Entry::File))
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// All paths that lead to a file: its own, through links to folders above it, and links to itself.
    pub(crate) fn names(&self, file: &str) -> Vec<String> {
        let mut names = vec![file.to_owned()];
        for (link, entry) in &self.0 {
            if let (Entry::Link(_), Some(real)) = (entry, self.real(link))
                && let Some(rest) = file.strip_prefix(&real)
                && (rest.is_empty() || rest.starts_with('/'))
            {
                names.push(format!("{link}{rest}"));
            }
        }
        names
    }

    /// As the launcher would answer.
    pub(crate) fn answer(&self, request: &Request) -> PathFacts {
        let mut facts = PathFacts::default();
        for query in request.paths() {
            let found: Vec<Found> = match &query {
                PathQuery::Path(path) => self.found(&path.0).into_iter().collect(),
                PathQuery::Pattern(pattern) => {
                    let mut hits: Vec<&String> =
                        self.0.keys().filter(|path| glob::covers(pattern, path)).collect();
                    if pattern.ends_with('*') {
                        let all = hits.clone();
                        hits.retain(|path| !all.iter().any(|above| path.starts_with(&format!("{above}/"))));
                    }
                    hits.into_iter().filter_map(|path| self.found(path)).collect()
                }
            };
            facts.found.insert(query, found);
        }
        for command in request.commands() {
            if let Some(program) = self.program(&[command]) {
                facts.commands.insert(command.to_owned(), program);
            }
        }
        if let Subject::Command { argv } = request.subject() {
            facts.program = self.program(&argv.iter().map(String::as_str).collect::<Vec<_>>());
        }
        facts
    }

    fn program(&self, argv: &[&str]) -> Option<ProgramFacts> {
        let path = if argv[0].contains('/') { argv[0].to_owned() } else { format!("/usr/bin/{}", argv[0]) };
        Some(ProgramFacts {
            program: self.found(&path)?,
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            loader: self.found("/lib64/ld-linux-x86-64.so.2"),
            files: self.found("/lib/x86_64-linux-gnu/libc.so.6").into_iter().collect(),
        })
    }
}

/// A new kernel, all there, called by an ordinary user with a delegated cgroup.
pub(crate) fn host() -> HostFacts {
    HostFacts {
        arch: "x86_64".to_owned(),
        kernel: "6.18.44".to_owned(),
        landlock_abi: 7,
        seccomp: true,
        user_namespaces: Ok(()),
        shared_network_namespace: false,
        caller: Caller::User { uid: 1001, gid: 1001 },
        cgroup: CgroupFacts::V2 { memory: true, pids: true, cpu: true },
        nofile_hard: 4096,
        idmapped_mounts: false,
    }
}

pub(crate) fn root() -> HostFacts {
    HostFacts { caller: Caller::Root, shared_network_namespace: true, idmapped_mounts: true, ..host() }
}

pub(crate) fn base() -> Base {
    Base { workdir: "/home/u/w".to_owned(), home: Some("/home/u".to_owned()) }
}

/// Options for a foreign command.
pub(crate) fn command(argv: &[&str]) -> Options {
    Options::new(Subject::Command { argv: argv.iter().map(|&word| word.to_owned()).collect() }, base())
}

/// Options for the runtime under a ceiling.
pub(crate) fn runtime(ceiling: &str) -> Options {
    let ceiling = Some(Ceiling::parse(ceiling).unwrap());
    Options { ceiling, ..Options::new(Subject::Runtime { profile: Profile::Pure }, base()) }
}

/// Plans as the command line does.
pub(crate) fn planned(policy: &Policy, options: Options, host: &HostFacts) -> Result<Plan, Refusal> {
    let request = resolve(policy, options)?;
    plan(&request, &Disk::debian().answer(&request), host)
}

/// Plans a command under a ready policy.
pub(crate) fn ready_plan(name: &str, options: Options, host: &HostFacts) -> Result<Plan, Refusal> {
    planned(&ready::get(name).unwrap(), options, host)
}

/// The runtime's plan under a ceiling.
pub(crate) fn run_plan(ceiling: &str) -> Plan {
    planned(&Policy::runtime(), runtime(ceiling), &host()).unwrap()
}
