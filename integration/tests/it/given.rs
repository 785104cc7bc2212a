//! The builder: given this jail, run that, expect an end.

use super::{
    ended::Ended,
    host::{self, Who},
};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::Read,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// No run takes longer, whatever happens inside.
const PATIENCE: Duration = Duration::from_secs(40);

/// A jail in the making.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    who: Who,
    flags: BTreeMap<&'static str, OsString>,
    environment: Vec<(String, String)>,
    report: bool,
}

impl Given {
    /// One static binary in an empty root: the narrowest policy.
    pub(crate) fn bare(who: Who) -> Self {
        Self::policy(who, "static")
    }

    /// The usual root, with /etc and /proc.
    pub(crate) fn usual(who: Who) -> Self {
        Self::policy(who, "auto")
    }

    pub(crate) fn policy(who: Who, policy: &str) -> Self {
        let given = Self { who, flags: BTreeMap::new(), environment: Vec::new(), report: true };
        given.flag("--policy", policy).flag("--wall", "20s")
    }

    /// The last value of a name counts.
    pub(crate) fn flag(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.flags.insert(name, value.into());
        self
    }

    /// A variable of the launcher's own environment.
    pub(crate) fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The program's output as it is, and no report.
    pub(crate) fn plainly(mut self) -> Self {
        self.report = false;
        self
    }

    /// Runs `hostile` in it.
    pub(crate) fn run(&self, acts: &[&str]) -> Ended {
        let hostile = host::programs().hostile.to_str().unwrap().to_owned();
        let mut command = vec![hostile.as_str()];
        command.extend(acts);
        self.run_program(&command)
    }

    /// Runs any program in it.
    pub(crate) fn run_program(&self, program: &[&str]) -> Ended {
        let mut ended = end(self.start_program(program));
        if self.report {
            ended.report = serde_json::from_str(&ended.stdout).ok();
            if ended.report.is_some() {
                ended.stdout.clear();
            }
        }
        ended
    }

    /// The page that `explain` prints of it.
    pub(crate) fn explain(&self) -> String {
        let programs = host::programs();
        let mut command = Command::new(&programs.thirdwall);
        command
            .args(["explain", "exec"])
            .args(self.words())
            .arg("--")
            .arg(&programs.hostile)
            .current_dir("/");
        let ended = on_host(self.who, command);
        assert_eq!(ended.code, 0, "{ended:?}");
        // Lines are broken where they are too long for a terminal.
        ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn words(&self) -> impl Iterator<Item = &OsStr> {
        self.flags.iter().flat_map(|(name, value)| [OsStr::new(name), value])
    }

    /// Starts `hostile` and doesn't wait.
    pub(crate) fn start(&self, acts: &[&str]) -> Child {
        let hostile = host::programs().hostile.to_str().unwrap().to_owned();
        let mut command = vec![hostile.as_str()];
        command.extend(acts);
        self.start_program(&command)
    }

    fn start_program(&self, program: &[&str]) -> Child {
        let mut command = Command::new(&host::programs().thirdwall);
        command.arg("exec").args(self.words());
        if self.report {
            command.args(["--report", "-"]);
        }
        command.arg("--").args(program);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir("/");
        self.who.take_on(&mut command);
        spawn(command)
    }
}

/// The same program with nothing around it, in a folder of its own.
pub(crate) fn outside(who: Who, acts: &[&str]) -> Ended {
    let mut command = Command::new(&host::programs().hostile);
    command.args(acts);
    alone_in_folder(who, command)
}

/// The same program as root of namespaces that are thrown away, where what it does can't harm the host.
pub(crate) fn outside_as_root(acts: &[&str]) -> Ended {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child"]);
    if !host::is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg("setsid").arg("--wait").arg(&host::programs().hostile).args(acts);
    alone_in_folder(if host::is_root() { Who::Root } else { Who::Caller }, command)
}

/// Any other command on the host, within the same patience.
pub(crate) fn on_host(who: Who, mut command: Command) -> Ended {
    who.take_on(&mut command);
    end(spawn(command))
}

/// Likewise, with an input.
pub(crate) fn on_host_with(who: Who, mut command: Command, input: Stdio) -> Ended {
    who.take_on(&mut command);
    end(spawn_with(command, input))
}

fn alone_in_folder(who: Who, mut command: Command) -> Ended {
    let folder = who.folder();
    command.current_dir(folder.path());
    on_host(who, command)
}

/// Children stand in a process group of their own: what is sent to their group doesn't reach the tests.
fn spawn(command: Command) -> Child {
    spawn_with(command, Stdio::null())
}

fn spawn_with(mut command: Command, input: Stdio) -> Child {
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Waits for its end, which is bounded.
pub(crate) fn end(mut child: Child) -> Ended {
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            let status = child.wait().unwrap();
            panic!("no end after {PATIENCE:?}; {status}; it said: {}", stderr.join().unwrap());
        }
        thread::sleep(Duration::from_millis(2));
    };
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ended { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap(), report: None }
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).unwrap();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
