//! From what was typed to what is asked for: texts become amounts, a ceiling, a policy, a request.

use super::{
    args::{CommonArgs, ExecArgs, Profile, RunArgs},
    keys::{self, Keys},
};
use crate::error::Error;
use clap::Args as _;
use nix::unistd::AccessFlags;
use policies::{
    ceiling::Ceiling,
    layer::Layer,
    limits::{LimitSettings, Setting},
    nearest::nearest,
    plan::{Access, HostPath},
    policy::{Policy, ready},
    request::{self, Options, Request, Subject, Terminal, Workdir},
    scope::Base,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs, mem,
    path::Path,
    str::FromStr,
};

/// Largest policy file.
const MOST_POLICY: u64 = 1 << 20;

/// The request of an `exec`.
pub(super) fn of_exec(args: &ExecArgs, terminal: Terminal) -> Result<Request, Error> {
    flags_are_known(args)?;
    let policy = policy(args.policy.as_deref().unwrap_or("auto"))?;
    let subject = Subject::Command { argv: args.command.clone() };
    let mut options = options(&args.common, subject)?;
    options.ceiling = args.cap_set.as_deref().map(ceiling).transpose()?;
    options.terminal = terminal;
    if let Some(address) = args.serve_address {
        options.serve_address = address;
    }
    if let Some(workdir) = &args.workdir {
        if !args.copy_in.is_empty() || !args.copy_out.is_empty() {
            return Err(usage(
                "--copy-in and --copy-out go with a scratch folder, not with --workdir",
                "leave one of them out",
            ));
        }
        options.workdir = host_workdir(workdir)?;
    }
    for variable in &args.env {
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let value = keys::variable(variable).ok_or_else(|| {
                    usage(&format!("--env {variable}: you have no such variable"), "write --env NAME=VALUE")
                })?;
                (variable.as_str(), value)
            }
        };
        if name.is_empty() || value.contains('\0') {
            return Err(usage(
                &format!("--env {variable}: no name, or a NUL byte"),
                "write --env NAME=VALUE",
            ));
        }
        options.set.insert(name.to_owned(), value);
    }
    resolved(&policy, options, &Keys::new())
}

/// A word that begins with `-` is a command only behind `--`: in front of it, it is a flag that was typed wrongly.
fn flags_are_known(args: &ExecArgs) -> Result<(), Error> {
    let Some(flag) = args.command.first().filter(|word| word.starts_with('-')) else { return Ok(()) };
    let behind: Option<Vec<String>> = {
        let mut typed = env::args_os();
        typed
            .find(|word| word == "--")
            .map(|_| typed.map(|word| word.to_string_lossy().into_owned()).collect())
    };
    if behind.is_some_and(|behind| behind == args.command) {
        return Ok(());
    }
    let name = flag.split('=').next().unwrap_or_default();
    let made = ExecArgs::augment_args(clap::Command::new("exec"));
    let known: Vec<String> =
        made.get_arguments().filter_map(|known| known.get_long().map(|long| format!("--{long}"))).collect();
    let remedy = match nearest(name, known.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean '{meant}'? (a command that begins with '-' stands behind '--')"),
        None => "see `thirdwall exec --help`; a command that begins with '-' stands behind '--'".to_owned(),
    };
    Err(usage(&format!("unknown flag '{name}'"), &remedy))
}

/// The request of a `run`. `required` is what the program's own `require` lines ask for, where the host gives no
/// ceiling.
pub(super) fn of_run(args: &RunArgs, required: Option<Ceiling>) -> Result<Request, Error> {
    let profile = match args.profile() {
        Profile::Native => request::Profile::Native,
        Profile::Pure => request::Profile::Pure,
    };
    let mut options = options(&args.common, Subject::Runtime { profile })?;
    let file = super::env_file::read(args)?;
    for (name, value) in file.of {
        options.environment.entry(name).or_insert(value);
    }
    options.ceiling = match host_ceiling(args)? {
        Some(ceiling) => Some(ceiling),
        None => {
            // The caller trusts the program: it may take its time and print what it likes.
            options.limits.wall.get_or_insert(Setting::Unlimited);
            options.limits.cpu.get_or_insert(Setting::Unlimited);
            options.limits.output.get_or_insert(Setting::Unlimited);
            required
        }
    };
    resolved(&Policy::runtime(), options, &file.keys)
}

/// What the host allows, if it says anything.
pub(super) fn host_ceiling(args: &RunArgs) -> Result<Option<Ceiling>, Error> {
    if args.deterministic {
        if args.sandbox || args.cap_set.is_some() || args.profile == Some(Profile::Native) {
            return Err(usage(
                "--deterministic already fixes the ceiling and the profile: stdout, and pure",
                "leave out --sandbox, --cap-set and --profile native",
            ));
        }
        return ceiling("stdout").map(Some);
    }
    match (&args.cap_set, args.sandbox) {
        (Some(_), true) => Err(usage("--sandbox and --cap-set are mutually exclusive", "give one of them")),
        (Some(list), false) => ceiling(list).map(Some),
        (None, true) => Ok(Some(Ceiling::sandbox())),
        (None, false) => Ok(None),
    }
}

fn resolved(policy: &Policy, mut options: Options, keys_of_file: &Keys) -> Result<Request, Error> {
    let ceiling = options.ceiling.as_ref().unwrap_or(policy.ceiling());
    keys::put_back(&mut options.environment, keys_of_file, ceiling);
    request::resolve(policy, options).map_err(|refusal| Error::Policy(refusal.to_string(), refusal.help()))
}

pub(super) fn usage(what: &str, remedy: &str) -> Error {
    Error::Usage { what: what.to_owned(), remedy: remedy.to_owned() }
}

pub(super) fn ceiling(list: &str) -> Result<Ceiling, Error> {
    Ceiling::parse(list)
        .map_err(|wrong| Error::Policy(format!("read the capabilities in '{list}': {wrong}"), wrong.help()))
}

/// A ready policy by its name, or a file: what has a slash or ends in `.toml` is one.
fn policy(name: &str) -> Result<Policy, Error> {
    let malformed =
        |wrong: policies::error::Malformed| Error::Policy(format!("read the policy: {wrong}"), wrong.help());
    if !name.contains('/') && !name.ends_with(".toml") {
        return ready::get(name).map_err(|wrong| {
            let file = format!("./{name}.toml");
            if !ready::names().contains(&name) && Path::new(&file).is_file() {
                return usage(
                    &format!("there is no ready policy '{name}'"),
                    &format!("your file is --policy {file}"),
                );
            }
            malformed(wrong)
        });
    }
    let text = read_policy(name).map_err(|source| Error::File {
        act: "read the policy",
        path: name.to_owned(),
        source,
    })?;
    let folder = Path::new(name).parent().map(Path::to_path_buf).unwrap_or_default();
    let lookup = |other: &str| read_policy(folder.join(other).to_str()?).ok();
    Policy::parse_with(name, &text, &lookup).map_err(malformed)
}

fn read_policy(path: &str) -> std::io::Result<String> {
    super::given::text(path, MOST_POLICY, "a policy is at most 1 MiB").map(|mut text| mem::take(&mut *text))
}

fn options(common: &CommonArgs, subject: Subject) -> Result<Options, Error> {
    let workdir = env::current_dir().map_err(|source| Error::File {
        act: "find the working folder",
        path: ".".into(),
        source,
    })?;
    let workdir = workdir
        .into_os_string()
        .into_string()
        .map_err(|_| usage("the working folder's path is not UTF-8", "start from another folder"))?;
    let mut options = Options::new(subject, Base { workdir, home: env::var("HOME").ok() });
    options.environment = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect::<BTreeMap<_, _>>();
    options.limits = limits(common)?;
    options.allow_missing = common
        .allow_missing
        .iter()
        .map(|name| {
            name.parse::<Layer>()
                .map_err(|wrong| Error::Policy(format!("read --allow-missing {name}: {wrong}"), wrong.help()))
        })
        .collect::<Result<BTreeSet<_>, _>>()?;
    Ok(options)
}

/// The limits that were typed.
pub(super) fn limits(common: &CommonArgs) -> Result<LimitSettings, Error> {
    Ok(LimitSettings {
        wall: amount("--wall", common.wall.as_deref())?,
        cpu: amount("--cpu", common.cpu.as_deref())?,
        memory: amount("--memory", common.memory.as_deref())?,
        pids: amount("--pids", common.pids.as_deref())?,
        output: amount("--output", common.output.as_deref())?,
        disk: amount("--disk", common.disk.as_deref())?,
        nofile: count("--nofile", common.nofile.as_deref())?,
        grace: amount("--grace", common.grace.as_deref())?,
    })
}

fn amount<T: FromStr<Err = policies::error::Malformed>>(
    flag: &str,
    text: Option<&str>,
) -> Result<Option<T>, Error> {
    text.map(|text| {
        text.parse().map_err(|wrong: policies::error::Malformed| {
            Error::Policy(format!("read {flag}: {wrong}"), wrong.help())
        })
    })
    .transpose()
}

/// A size.
pub(super) fn size(flag: &str, text: Option<&str>) -> Result<Option<u64>, Error> {
    amount::<policies::units::Bytes>(flag, text).map(|size| size.map(|bytes| bytes.0))
}

/// A request that can't be settled.
pub(super) fn unsettled(refusal: policies::error::Refusal) -> Error {
    Error::Policy(refusal.to_string(), refusal.help())
}

/// Refused input of the command line.
pub(super) fn refused(wrong: policies::error::Malformed) -> Error {
    Error::Policy(wrong.to_string(), wrong.help())
}

/// A count without the word `none`.
pub(super) fn count(flag: &str, text: Option<&str>) -> Result<Option<u64>, Error> {
    text.map(|text| {
        <u64 as policies::limits::Amount>::parse_amount(text)
            .map_err(|wrong| Error::Policy(format!("read {flag}: {wrong}"), wrong.help()))
    })
    .transpose()
}

/// `DIR`, `DIR:ro` or `DIR:rw`; read-only unless it says otherwise.
fn host_workdir(text: &str) -> Result<Workdir, Error> {
    let (path, access) = match text.rsplit_once(':') {
        Some((path, "ro")) => (path, Access::ReadOnly),
        Some((path, "rw")) => (path, Access::ReadWrite),
        Some(_) | None => (text, Access::ReadOnly),
    };
    let unusable = |source| Error::File { act: "open the working folder", path: path.to_owned(), source };
    let absolute = match (fs::canonicalize(path), text.rsplit_once(':')) {
        (Err(_), Some((folder, suffix))) if Path::new(folder).is_dir() => {
            return Err(usage(
                &format!("--workdir {text}: ':{suffix}' is neither ':ro' nor ':rw'"),
                "write DIR:ro or DIR:rw",
            ));
        }
        (found, _) => found.map_err(unusable)?,
    };
    if !absolute.is_dir() {
        return Err(unusable(std::io::Error::from(std::io::ErrorKind::NotADirectory)));
    }
    // The jail's step would say the same of a folder whose name it doesn't know.
    nix::unistd::access(&absolute, AccessFlags::R_OK | AccessFlags::X_OK)
        .map_err(|errno| unusable(errno.into()))?;
    let path =
        absolute.into_os_string().into_string().map_err(|_| usage("--workdir is not UTF-8", "rename it"))?;
    Ok(Workdir::Host { path: HostPath(path), access })
}
