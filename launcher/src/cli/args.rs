//! What was typed. No decision here.

use clap::{ArgMatches, Args, FromArgMatches, Subcommand, ValueEnum, error::ErrorKind};
use policies::wire;
use std::ffi::OsString;

/// One of the commands, with what was typed behind it.
#[derive(Debug)]
pub(super) enum Command {
    Run(RunArgs),
    Test(TestArgs),
    Check(RunArgs),
    Conform(RunArgs),
    Build(BuildArgs),
    Repl(ReplArgs),
    Exec(ExecArgs),
    Explain(ExplainArgs),
    Doctor(DoctorArgs),
}

/// A command's entry in the command line.
struct Entry {
    name: &'static str,
    about: &'static str,
    arguments: fn(clap::Command) -> clap::Command,
    read: fn(&ArgMatches) -> Result<Command, clap::Error>,
}

impl Entry {
    const fn new<A: Args>(
        name: &'static str,
        about: &'static str,
        read: fn(&ArgMatches) -> Result<Command, clap::Error>,
    ) -> Self {
        Self { name, about, arguments: arguments::<A>, read }
    }
}

/// The languages' commands, which Synsema's own command line has, too.
const LANGUAGE: &[Entry] = &[
    Entry::new::<RunArgs>("run", "Run a program of one of the two languages in a jail", |typed| {
        RunArgs::from_arg_matches(typed).map(Command::Run)
    }),
    Entry::new::<TestArgs>(
        "test",
        "Run the `test` blocks of files, or of all .syn files in folders",
        |typed| TestArgs::from_arg_matches(typed).map(Command::Test),
    ),
    Entry::new::<RunArgs>("check", "Read a program and tell what is wrong with it", |typed| {
        RunArgs::from_arg_matches(typed).map(Command::Check)
    }),
    Entry::new::<RunArgs>("conform", "Run a program and print one line of JSON: ok, out, err", |typed| {
        RunArgs::from_arg_matches(typed).map(Command::Conform)
    }),
    Entry::new::<BuildArgs>(
        "build",
        "Make one executable of the engine and a program, its ceiling and profile baked in",
        |typed| BuildArgs::from_arg_matches(typed).map(Command::Build),
    ),
    Entry::new::<ReplArgs>("repl", "Type statements and see what they give", |typed| {
        ReplArgs::from_arg_matches(typed).map(Command::Repl)
    }),
];

/// The commands for any program, and about the host.
const GENERAL: &[Entry] = &[
    Entry::new::<ExecArgs>("exec", "Run any command in a jail", |typed| {
        ExecArgs::from_arg_matches(typed).map(Command::Exec)
    }),
    Entry::new::<ExplainArgs>(
        "explain",
        "Show the plan of a `run` or `exec` without starting anything",
        |typed| ExplainArgs::from_arg_matches(typed).map(Command::Explain),
    ),
    Entry::new::<DoctorArgs>("doctor", "Tell what this host has of each wall", |typed| {
        DoctorArgs::from_arg_matches(typed).map(Command::Doctor)
    }),
];

/// Reads thirdwall's own command line.
pub(super) fn read(words: impl Iterator<Item = OsString>) -> Result<Command, clap::Error> {
    let about = "Runs code that nobody trusts, behind three walls";
    read_one("thirdwall", about, &[LANGUAGE, GENERAL], words)
}

/// Reads the command line of a language's name.
pub(super) fn read_language(words: impl Iterator<Item = OsString>) -> Result<Command, clap::Error> {
    read_one("synsema", "Synsema's own command line", &[LANGUAGE], words)
}

fn read_one(
    name: &'static str,
    about: &'static str,
    lists: &[&[Entry]],
    words: impl Iterator<Item = OsString>,
) -> Result<Command, clap::Error> {
    let mut line = clap::Command::new(name)
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(100)
        .after_help(EXIT_CODES)
        .subcommand_required(true)
        .arg_required_else_help(true);
    for entry in lists.iter().copied().flatten() {
        // Only the arguments of the command that was typed are ever made: the start path is short.
        let made = clap::Command::new(entry.name).about(entry.about).after_help(EXIT_CODES);
        line = line.subcommand(made.defer(entry.arguments));
    }
    let typed = line.try_get_matches_from_mut(words)?;
    let found = typed.subcommand().and_then(|(name, typed)| {
        lists.iter().copied().flatten().find(|entry| entry.name == name).map(|entry| (entry, typed))
    });
    match found {
        Some((entry, typed)) => (entry.read)(typed).map_err(|error| error.format(&mut line)),
        None => Err(line.error(ErrorKind::MissingSubcommand, "no command was given")),
    }
}

/// The table of [`super::exit`], under each page of help.
const EXIT_CODES: &str = "Exit codes: the program's own; 128 + N when signal N ended it; 124 a time limit; 137 another limit;\n\
    1 out of fuel or heap, or no program of the language; 125 thirdwall refused, failed or was called wrongly; 126 and 127 a\n\
    command that can't be executed or isn't there. Called as synsema or scua, a wrong call is 2.";

/// Adds the arguments, and keeps the sentence of the command's own entry.
fn arguments<A: Args>(command: clap::Command) -> clap::Command {
    let about = command.get_about().cloned().unwrap_or_default();
    A::augment_args(command).about(about)
}

/// `run`
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Ceiling: nothing but stdout and time.
    #[arg(long)]
    pub(super) sandbox: bool,
    /// Ceiling: `none`, or capabilities as name or name=scope, separated by commas.
    #[arg(long, value_name = "LIST")]
    pub(super) cap_set: Option<String>,
    /// Second wall: builtins that see the operating system don't exist.
    #[arg(long, value_enum)]
    pub(super) profile: Option<Profile>,
    /// Fuel of the program; unlimited unless given.
    #[arg(long, value_name = "N")]
    pub(super) fuel: Option<String>,
    /// Bytes of the program's heap; unlimited unless given.
    #[arg(long, value_name = "SIZE")]
    pub(super) memory_heap: Option<String>,
    /// A fixed clock, no randomness, the pure profile, and nothing granted but stdout.
    #[arg(long)]
    pub(super) deterministic: bool,
    /// A SCUA program's waits are jumped over, and its clock starts at 0.
    #[arg(long)]
    pub(super) virtual_time: bool,
    /// Save a SCUA program's state to a file once it has come to rest.
    #[arg(long, value_name = "STATE")]
    pub(super) save: Option<String>,
    /// Go on with the state that was saved of the SCUA program: its `fn restored()` is called.
    #[arg(long, value_name = "STATE")]
    pub(super) restore: Option<String>,
    /// What the program captured, in more detail.
    #[arg(skip)]
    pub(super) verbose: bool,
    /// Print what the program prints, or its result as one line of JSON.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
    /// Variables for `env` and `secret`, KEY=VALUE lines; `.env` of the working folder unless given.
    #[arg(long, value_name = "FILE", conflicts_with = "no_env_file")]
    pub(super) env_file: Option<String>,
    /// Read no file of variables.
    #[arg(long)]
    pub(super) no_env_file: bool,
    /// Errors with the lines around them, the calls that led there and what may help.
    #[arg(long)]
    pub(super) explain: bool,
    /// With `conform`: also the blackboard and the agents.
    #[arg(long)]
    pub(super) swarm: bool,
    /// Flags that other engines of the language have.
    #[command(flatten)]
    pub(super) accepted: AcceptedArgs,
    /// Grants of a SCUA program.
    #[command(flatten)]
    pub(super) allow: super::scua::AllowArgs,
    /// Limits and reports.
    #[command(flatten)]
    pub(super) common: CommonArgs,
    /// The program, or `-` for standard input: Synsema, or SCUA where the binary is called as `scua`.
    pub(super) file: String,
    /// Arguments of the program; those that begin with `-` stand after `--`.
    #[arg(allow_negative_numbers = true)]
    pub(super) args: Vec<String>,
}

impl RunArgs {
    /// The profile in force: `--deterministic` brings its own.
    pub(super) fn profile(&self) -> Profile {
        if self.deterministic { Profile::Pure } else { self.profile.unwrap_or(Profile::Native) }
    }
}

/// Taken, and without an effect here.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct AcceptedArgs {
    /// Labels of information flow.
    #[arg(long, help_heading = "Accepted, without an effect")]
    labels: bool,
    /// No just-in-time compiler: there is none.
    #[arg(long, help_heading = "Accepted, without an effect")]
    jitless: bool,
    /// Provider of model operations.
    #[arg(long, value_name = "NAME", help_heading = "Accepted, without an effect")]
    provider: Option<String>,
}

/// How a run's result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// What the program prints.
    Text,
    /// One line of JSON: ok, output, errors, audit, exit, llm_tokens, steps.
    Json,
}

/// `test`
#[derive(Debug, Args)]
pub(super) struct TestArgs {
    /// Ceiling: nothing but stdout and time.
    #[arg(long)]
    pub(super) sandbox: bool,
    /// Ceiling: `none`, or capabilities as name or name=scope, separated by commas.
    #[arg(long, value_name = "LIST")]
    pub(super) cap_set: Option<String>,
    /// Second wall: builtins that see the operating system don't exist.
    #[arg(long, value_enum)]
    pub(super) profile: Option<Profile>,
    /// Show what each test printed.
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Fuel of each file; unlimited unless given.
    #[arg(long, value_name = "N")]
    pub(super) fuel: Option<String>,
    /// Bytes of each file's heap; unlimited unless given.
    #[arg(long, value_name = "SIZE")]
    pub(super) memory_heap: Option<String>,
    /// A fixed clock, no randomness, the pure profile, and nothing granted but stdout.
    #[arg(long)]
    pub(super) deterministic: bool,
    /// Variables for `env` and `secret`, KEY=VALUE lines; `.env` of the working folder unless given.
    #[arg(long, value_name = "FILE", conflicts_with = "no_env_file")]
    pub(super) env_file: Option<String>,
    /// Read no file of variables.
    #[arg(long)]
    pub(super) no_env_file: bool,
    /// Flags that other engines of the language have.
    #[command(flatten)]
    pub(super) accepted: AcceptedArgs,
    /// Limits of each file's run.
    #[command(flatten)]
    pub(super) common: CommonArgs,
    /// Files, folders whose .syn files are run, or patterns with `*` and `?` in the last part.
    #[arg(required = true)]
    pub(super) paths: Vec<String>,
}

impl TestArgs {
    /// The run of one of the files.
    pub(super) fn as_run(&self, file: &str) -> RunArgs {
        RunArgs {
            sandbox: self.sandbox,
            cap_set: self.cap_set.clone(),
            profile: self.profile,
            verbose: self.verbose,
            fuel: self.fuel.clone(),
            memory_heap: self.memory_heap.clone(),
            deterministic: self.deterministic,
            env_file: self.env_file.clone(),
            no_env_file: self.no_env_file,
            common: self.common.clone(),
            ..RunArgs::plain(file)
        }
    }
}

/// `build`
#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    /// The executable to write.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: String,
    /// Baked in: nothing but stdout and time.
    #[arg(long)]
    pub(super) sandbox: bool,
    /// Baked in: `none`, or capabilities as name or name=scope, separated by commas.
    #[arg(long, value_name = "LIST")]
    pub(super) cap_set: Option<String>,
    /// Baked in: which builtins exist.
    #[arg(long, value_enum)]
    pub(super) profile: Option<Profile>,
    /// Baked in: a fixed clock, no randomness, the pure profile, and nothing granted but stdout.
    #[arg(long)]
    pub(super) deterministic: bool,
    /// Baked in: where each decision is written (see `run --audit`).
    #[arg(long, value_name = "json|FILE|fd:N|unix:PATH")]
    pub(super) audit: Option<String>,
    /// Packed with the program: a file, or all files of a folder. It reads them by the same path, without a capability.
    #[arg(long, value_name = "PATH")]
    pub(super) asset: Vec<String>,
    /// The program.
    pub(super) file: String,
}

impl BuildArgs {
    /// The run that the executable will make.
    pub(super) fn as_run(&self) -> RunArgs {
        RunArgs {
            sandbox: self.sandbox,
            cap_set: self.cap_set.clone(),
            profile: self.profile,
            deterministic: self.deterministic,
            ..RunArgs::plain(&self.file)
        }
    }
}

/// `repl`
#[derive(Debug, Args)]
pub(super) struct ReplArgs {
    /// Ceiling: nothing but stdout and time.
    #[arg(long)]
    pub(super) sandbox: bool,
    /// Ceiling: `none`, or capabilities as name or name=scope, separated by commas; stdin, stdout, time, random and llm
    /// unless given. A `require` that is typed grants what the ceiling covers.
    #[arg(long, value_name = "LIST")]
    pub(super) cap_set: Option<String>,
    /// Second wall: builtins that see the operating system don't exist.
    #[arg(long, value_enum)]
    pub(super) profile: Option<Profile>,
    /// Fuel of the whole conversation; unlimited unless given.
    #[arg(long, value_name = "N")]
    pub(super) fuel: Option<String>,
    /// Bytes of its heap; unlimited unless given.
    #[arg(long, value_name = "SIZE")]
    pub(super) memory_heap: Option<String>,
    /// A fixed clock, no randomness, the pure profile, and nothing granted but stdout.
    #[arg(long)]
    pub(super) deterministic: bool,
    /// Variables for `env` and `secret`, KEY=VALUE lines; `.env` of the working folder unless given.
    #[arg(long, value_name = "FILE", conflicts_with = "no_env_file")]
    pub(super) env_file: Option<String>,
    /// Read no file of variables.
    #[arg(long)]
    pub(super) no_env_file: bool,
    /// Limits and reports.
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

impl ReplArgs {
    /// The run that it is: as long as the person likes, unless limits are given.
    pub(super) fn as_run(&self) -> RunArgs {
        let mut common = self.common.clone();
        for limit in [&mut common.wall, &mut common.cpu, &mut common.output] {
            limit.get_or_insert_with(|| "none".to_owned());
        }
        RunArgs {
            sandbox: self.sandbox,
            cap_set: self.cap_set.clone(),
            profile: self.profile,
            fuel: self.fuel.clone(),
            memory_heap: self.memory_heap.clone(),
            deterministic: self.deterministic,
            env_file: self.env_file.clone(),
            no_env_file: self.no_env_file,
            common,
            ..RunArgs::plain("<repl>")
        }
    }
}

impl RunArgs {
    /// A run of a file with nothing else said.
    pub(super) fn plain(file: &str) -> Self {
        Self {
            sandbox: false,
            cap_set: None,
            profile: None,
            fuel: None,
            memory_heap: None,
            deterministic: false,
            virtual_time: false,
            save: None,
            restore: None,
            format: Format::Text,
            env_file: None,
            no_env_file: false,
            verbose: false,
            explain: false,
            swarm: false,
            accepted: AcceptedArgs::default(),
            allow: super::scua::AllowArgs::default(),
            common: CommonArgs::default(),
            file: file.to_owned(),
            args: Vec::new(),
        }
    }

    /// The run of a bundle, as its header has it.
    pub(super) fn bundled(header: &wire::JobHeader, args: Vec<String>) -> Self {
        Self {
            cap_set: header.ceiling.clone().filter(|_| !header.deterministic),
            profile: match header.profile {
                wire::Profile::Pure if !header.deterministic => Some(Profile::Pure),
                wire::Profile::Pure | wire::Profile::Native => None,
            },
            deterministic: header.deterministic,
            common: CommonArgs { audit: header.audit.clone(), ..CommonArgs::default() },
            args,
            ..Self::plain(&header.file)
        }
    }
}

/// Which builtins exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Profile {
    /// All of them.
    Native,
    /// Those that need nothing of the local machine.
    Pure,
}

/// `exec`
#[derive(Debug, Args)]
pub(super) struct ExecArgs {
    /// A ready policy (python, node, gcc, sh, static, service) or a TOML file; `auto` unless given.
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) policy: Option<String>,
    /// Replaces the policy's ceiling, never what it provides.
    #[arg(long, value_name = "LIST")]
    pub(super) cap_set: Option<String>,
    /// A host folder as working folder instead of a private scratch folder.
    #[arg(long, value_name = "DIR[:ro|:rw]")]
    pub(super) workdir: Option<String>,
    /// Copy a file into the working folder before the start.
    #[arg(long, value_name = "FILE[:NAME]")]
    pub(super) copy_in: Vec<String>,
    /// Copy a file of the working folder out at the end.
    #[arg(long, value_name = "NAME[:FILE]")]
    pub(super) copy_out: Vec<String>,
    /// Set a variable, or pass the caller's.
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(super) env: Vec<String>,
    /// Where the host listens for the ports that the ceiling serves; 127.0.0.1 unless given.
    #[arg(long, value_name = "ADDRESS")]
    pub(super) serve_address: Option<std::net::IpAddr>,
    /// Limits and reports.
    #[command(flatten)]
    pub(super) common: CommonArgs,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

/// What `run` and `exec` share.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct CommonArgs {
    /// Wall clock time: 500ms, 10s, 5m, or none. 10s unless given; none for a `run` without a ceiling.
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(super) wall: Option<String>,
    /// CPU time of all processes together, or none. Unless given, as the wall clock.
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(super) cpu: Option<String>,
    /// Memory of all processes together: 64M, 1G, or none. 512M unless given.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub(super) memory: Option<String>,
    /// Processes and threads, or none. 64 unless given.
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(super) pids: Option<String>,
    /// Open files of each process. 256 unless given.
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(super) nofile: Option<String>,
    /// Output bytes, both streams together, or none. 8M unless given; none for a `run` without a ceiling.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub(super) output: Option<String>,
    /// Bytes of the scratch folder and /tmp together. 64M unless given.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    pub(super) disk: Option<String>,
    /// Time between the request to stop and the kill. 5s unless given.
    #[arg(long, value_name = "TIME", help_heading = "Limits")]
    pub(super) grace: Option<String>,
    /// Standard input from a file.
    #[arg(long, value_name = "FILE")]
    pub(super) stdin: Option<String>,
    /// Write the JSON report to a file, to standard output (-) or to an open descriptor.
    #[arg(long, value_name = "FILE|-|fd:N")]
    pub(super) report: Option<String>,
    /// Write each decision of each wall as a line of JSON: to standard error (json), a file, a descriptor or a socket.
    #[arg(long, value_name = "json|FILE|fd:N|unix:PATH")]
    pub(super) audit: Option<String>,
    /// Start although this host lacks a layer (namespaces, landlock, filter …). The report says so.
    #[arg(long, value_name = "LAYER")]
    pub(super) allow_missing: Vec<String>,
}

/// `explain`
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The plan as JSON.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Whose plan.
    #[command(subcommand)]
    pub(super) of: Explained,
}

/// What can be explained.
#[derive(Debug, Subcommand)]
pub(super) enum Explained {
    /// The plan of a `run`.
    Run(RunArgs),
    /// The plan of an `exec`.
    Exec(ExecArgs),
}

/// `doctor`
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// As JSON.
    #[arg(long)]
    pub(super) json: bool,
}
