//! The plan's rules as a Landlock ruleset.
//!
//! Invariant: every right that the ABI knows is handled, so what no rule grants is refused; both scopes (abstract
//! sockets, signals) are on where the ABI has them. A rule never reaches above its own path.
//! Source: landlock(7), Documentation/userspace-api/landlock.rst.

use super::step::{AtStep, Failure, Step};
use ::landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::stat::{Mode, fstat},
};
use policies::plan::{LandlockPlan, Network, Right};
use std::{error::Error, ffi::CString, os::fd::BorrowedFd};

/// Rules with their paths made.
#[derive(Debug)]
pub(crate) struct StagedRules {
    abi: ABI,
    rules: Vec<(CString, BitFlags<AccessFs>)>,
    ports: Ports,
}

/// TCP ports, where the ABI knows them (4).
#[derive(Debug)]
struct Ports {
    handled: BitFlags<AccessNet>,
    granted: Vec<(u16, AccessNet)>,
}

impl Ports {
    fn of(network: &Network, abi: ABI) -> Self {
        let mut handled = AccessNet::from_all(abi);
        let mut granted = Vec::new();
        if let Network::Named(named) = network {
            match named.connect_ports() {
                Some(ports) => granted.extend(ports.into_iter().map(|port| (port, AccessNet::ConnectTcp))),
                None => handled &= !BitFlags::from(AccessNet::ConnectTcp),
            }
            granted.extend(named.serve().iter().map(|port| (*port, AccessNet::BindTcp)));
        }
        if handled.is_empty() {
            granted.clear();
        }
        Self { handled, granted }
    }
}

impl StagedRules {
    /// `None` where the plan goes without Landlock.
    pub(crate) fn new(plan: &LandlockPlan, network: &Network) -> Result<Option<Self>, Failure> {
        if plan.abi == 0 {
            return Ok(None);
        }
        let abi = ABI::from(plan.abi as i32);
        let mut rules = Vec::with_capacity(plan.rules.len());
        for (place, rule) in plan.rules.iter().enumerate() {
            let at =
                CString::new(rule.at.0.as_str()).map_err(|_| Errno::EINVAL).at_item(Step::Landlock, place)?;
            rules.push((at, rights(&rule.rights) & AccessFs::from_all(abi)));
        }
        Ok(Some(Self { abi, rules, ports: Ports::of(network, abi) }))
    }
}

fn rights(rights: &[Right]) -> BitFlags<AccessFs> {
    rights.iter().fold(BitFlags::EMPTY, |all, right| {
        all | match right {
            Right::ReadFile => AccessFs::ReadFile.into(),
            Right::ReadDir => AccessFs::ReadDir.into(),
            Right::Execute => AccessFs::Execute.into(),
            Right::WriteFile => AccessFs::WriteFile | AccessFs::Truncate,
            Right::Make => {
                AccessFs::MakeReg
                    | AccessFs::MakeDir
                    | AccessFs::MakeSym
                    | AccessFs::RemoveDir
                    | AccessFs::RemoveFile
                    | AccessFs::Refer
            }
            Right::MakeIpc => AccessFs::MakeSock | AccessFs::MakeFifo,
            Right::IoctlDev => AccessFs::IoctlDev.into(),
        }
    })
}

/// Puts the calling process under the rules. `program` is the file that will be executed from its descriptor: where
/// it is thirdwall's own, no path of the jail leads to it, so it gets a rule of its own.
pub(crate) fn restrict(staged: &StagedRules, program: Option<BorrowedFd<'_>>) -> Result<(), Failure> {
    let ruleset =
        create(staged.abi, staged.ports.handled).map_err(|error| errno(&error)).at(Step::Landlock)?;
    let mut ruleset = ruleset;
    for (place, (path, access)) in staged.rules.iter().enumerate() {
        let file = open(path.as_c_str(), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
            .at_item(Step::Landlock, place)?;
        // The kernel refuses rights on a file that only make sense on a folder.
        let folder = fstat(&file).at_item(Step::Landlock, place)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
        let access = if folder { *access } else { *access & AccessFs::from_file(staged.abi) };
        if access.is_empty() {
            continue;
        }
        ruleset = ruleset
            .add_rule(PathBeneath::new(file, access))
            .map_err(|error| errno(&error))
            .at_item(Step::Landlock, place)?;
    }
    for (port, access) in &staged.ports.granted {
        ruleset = ruleset
            .add_rule(NetPort::new(*port, *access))
            .map_err(|error| errno(&error))
            .at(Step::Landlock)?;
    }
    if let Some(program) = program {
        ruleset = ruleset
            .add_rule(PathBeneath::new(program, AccessFs::Execute | AccessFs::ReadFile))
            .map_err(|error| errno(&error))
            .at(Step::Landlock)?;
    }
    let status = ruleset.restrict_self().map_err(|error| errno(&error)).at(Step::Landlock)?;
    match status.ruleset {
        ::landlock::RulesetStatus::FullyEnforced => Ok(()),
        ::landlock::RulesetStatus::PartiallyEnforced | ::landlock::RulesetStatus::NotEnforced => {
            Err(Errno::EOPNOTSUPP).at(Step::Landlock)
        }
    }
}

fn create(abi: ABI, ports: BitFlags<AccessNet>) -> Result<RulesetCreated, RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    let ruleset = match ports {
        none if none.is_empty() => ruleset,
        access => ruleset.handle_access(access)?,
    };
    let ruleset = match Scope::from_all(abi) {
        none if none.is_empty() => ruleset,
        scopes => ruleset.scope(scopes)?,
    };
    ruleset.create()
}

/// The errno at the bottom of the crate's error.
fn errno(error: &RulesetError) -> Errno {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(raw) = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
            return Errno::from_raw(raw);
        }
        cause = error.source();
    }
    Errno::EINVAL
}
