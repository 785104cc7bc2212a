//! The four rows: who tries, and which wall stands.

use crate::{
    given::on_host,
    host::{self, Who},
};
use policies::{audit::Entry, broker::Ran, report::Report};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    process::Command,
    time::Duration,
};
use tempfile::TempDir;

/// What became of one try.
#[derive(Debug)]
pub(super) struct Tried {
    /// What was printed.
    pub(super) output: Vec<String>,
    /// Errors; of the native attacker its answers.
    pub(super) errors: Vec<String>,
    pub(super) audit: Vec<Entry>,
}

impl Tried {
    /// Whether a program of the language got what it was after.
    pub(super) fn reached(&self) -> bool {
        self.output.iter().any(|line| line.contains("reached"))
    }

    /// The native attacker's answer to an act.
    #[track_caller]
    pub(super) fn answer(&self, act: &str) -> &str {
        let answers = self.errors.iter().filter_map(|line| line.split_once(" -> "));
        let mut answers = answers.filter(|(asked, _)| *asked == act).map(|(_, answer)| answer);
        answers.next().unwrap_or_else(|| panic!("no answer to '{act}': {self:?}"))
    }
}

/// Where the tries are made: files that could be reached, an environment with what could be read.
pub(super) struct Scene {
    who: Who,
    folder: TempDir,
    port: u16,
    host: SocketAddr,
}

/// A server that answers everybody the same; it ends with this process.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut visitor in listener.incoming().flatten() {
            let _asked = visitor
                .set_read_timeout(Some(Duration::from_secs(5)))
                .and_then(|()| visitor.read(&mut [0; 4096]));
            let _told = visitor
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nreached");
        }
    });
    address
}

impl Scene {
    pub(super) fn new(who: Who) -> Self {
        let folder = who.folder();
        fs::write(folder.path().join("a.txt"), "reached").unwrap();
        who.own(&folder.path().join("a.txt"));
        // Given back at once: nobody else asks for it meanwhile, and nothing here listens on it for long.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { who, folder, port, host: server() }
    }

    /// Text with the folder in the place of `{}`, the port and the server.
    pub(super) fn fill(&self, text: &str) -> String {
        let text = text.replace("{port}", &self.port.to_string()).replace("{host}", &self.host.to_string());
        text.replace("{}", self.folder.path().to_str().unwrap())
    }

    fn command(&self, text: &str) -> Command {
        let file = self.folder.path().join("p.syn");
        fs::write(&file, self.fill(text)).unwrap();
        self.who.own(&file);
        fs::write(self.folder.path().join("input"), "reached\n").unwrap();
        let mut command = Command::new(&host::programs().hostile);
        command.current_dir(self.folder.path());
        command.envs([("MATRIX_ENV", "reached"), ("MATRIX_SECRET", "reached")]);
        command
    }

    /// Row (a): native code in the runtime's place, with the launcher's plan for the runtime.
    pub(super) fn native(&self, ceiling: &str, acts: &[&str]) -> Tried {
        let mut command = self.command(&acts.join("\n"));
        command.args(["run", "--cap-set", &self.fill(ceiling), "--report", "-", "--stdin", "input", "p.syn"]);
        self.report(command)
    }

    /// Rows (b) and (c): the real runtime without a jail, beside a broker that lends everything. `None`: no ceiling.
    pub(super) fn unjailed(&self, ceiling: Option<&str>, profile: &str, program: &str) -> Tried {
        let mut command = self.command(program);
        let ceiling = ceiling.map_or("open".to_owned(), |ceiling| self.fill(ceiling));
        command.args(["unjailed", &ceiling, profile, "p.syn"]);
        let input = fs::File::open(self.folder.path().join("input")).unwrap();
        let ended = crate::given::on_host_with(self.who, command, input.into());
        let ran: Ran = serde_json::from_str(ended.answer("ran")).unwrap();
        Tried { output: ran.output, errors: ran.errors, audit: ran.audit }
    }

    /// Row (d): the real thing.
    pub(super) fn whole(&self, ceiling: &str, profile: &str, program: &str) -> Tried {
        let mut command = self.command(program);
        let mut thirdwall = Command::new(&host::programs().thirdwall);
        thirdwall.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        thirdwall.current_dir(self.folder.path());
        thirdwall.args(["run", "--cap-set", &self.fill(ceiling), "--profile", profile]);
        thirdwall.args(["--report", "-", "--stdin", "input", "p.syn"]);
        std::mem::swap(&mut command, &mut thirdwall);
        self.report(command)
    }

    fn report(&self, command: Command) -> Tried {
        let ended = on_host(self.who, command);
        let report: Report =
            serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        Tried { output: report.output, errors: report.errors, audit: report.audit }
    }
}
