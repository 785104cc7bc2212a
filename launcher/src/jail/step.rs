//! The ordered list of steps between the clone and the exec, and how one that fails is told.
//!
//! Invariant: the order of [`Step::ALL`] is the order in which they happen. Each line says what would break if the
//! step stood elsewhere.

use nix::errno::Errno;

/// One act on the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Enter the prepared network namespace: before the clone, since a new user namespace may not join one that it
    /// doesn't own.
    EnterNetwork,
    /// New process in new namespaces.
    Clone,
    /// Enter the cgroup: before anything is allocated on the jail's account.
    EnterCgroup,
    /// New cgroup namespace: after the entry, so that the jail's own group is its root.
    CgroupNamespace,
    /// Bounding set of Linux capabilities emptied: once for both processes, while the parent is busy with the maps. It
    /// has a say in executing only, so that the steps below keep the rights they need.
    BoundingSet,
    /// Id maps, written by the parent: before any file is made, or its owner would be unmapped.
    IdMaps,
    /// Become the jail's user in all four ids, groups emptied: before the tmpfs, which belongs to its maker.
    /// The Linux capabilities of the new user namespace stay until [`Step::DropLinuxCaps`].
    BecomeUser,
    /// Die with the supervisor: after the ids, whose change clears it.
    ParentDeath,
    /// New session: signals to the launcher's group don't reach the jail, nor the other way round.
    Session,
    /// New session keyring: as the jail's user, on whose account it counts.
    Keyring,
    /// Loopback, routes and sockets of a named network: before the root, which covers /proc, and while pid 1 holds
    /// the namespace's Linux capabilities.
    Network,
    /// The tmpfs that becomes the root and holds all scratch.
    MakeRoot,
    /// The nodes of the root, parents first.
    BuildRoot,
    /// Files copied in: while the host's tree can still be read.
    CopyIn,
    /// The new root in the old one's place, the old one detached.
    PivotRoot,
    /// The root's own mount read-only: after everything in it is made.
    SealRoot,
    /// Host name.
    HostName,
    /// pid 1 forks the payload: after the mounts that both share, before all that only the payload gets.
    ForkPayload,
    /// The payload's own session, and its terminal.
    PayloadSession,
    /// Standard streams and passed descriptors to their numbers.
    Streams,
    /// Working folder: before Landlock, which asks nothing of chdir, but a missing folder is told here.
    WorkFolder,
    /// The program's file, opened to its high number.
    OpenProgram,
    /// Resource limits, but the one on descriptors.
    ResourceLimits,
    /// Inheritable, ambient, permitted and effective Linux capabilities emptied.
    DropLinuxCaps,
    /// Not dumpable until the exec.
    NotDumpable,
    /// no_new_privs: without it neither Landlock nor the filter is accepted.
    NoNewPrivs,
    /// Landlock: before the filter, which may refuse its calls.
    Landlock,
    /// An open that Landlock must refuse: proof that it bites.
    SelfTestOpen,
    /// The limit on descriptors, lowered below the program's number: nothing can be put on that number any more.
    DescriptorLimit,
    /// The filter, and its listener sent: last, since it may refuse any step above.
    Filter,
    /// A call that the filter must refuse: proof that it bites.
    SelfTestCall,
    /// The program takes the process over.
    Exec,
}

impl Step {
    /// All of them, in order.
    pub const ALL: [Self; 32] = [
        Self::EnterNetwork,
        Self::Clone,
        Self::EnterCgroup,
        Self::CgroupNamespace,
        Self::BoundingSet,
        Self::IdMaps,
        Self::BecomeUser,
        Self::ParentDeath,
        Self::Session,
        Self::Keyring,
        Self::Network,
        Self::MakeRoot,
        Self::BuildRoot,
        Self::CopyIn,
        Self::PivotRoot,
        Self::SealRoot,
        Self::HostName,
        Self::ForkPayload,
        Self::PayloadSession,
        Self::Streams,
        Self::WorkFolder,
        Self::OpenProgram,
        Self::ResourceLimits,
        Self::DropLinuxCaps,
        Self::NotDumpable,
        Self::NoNewPrivs,
        Self::Landlock,
        Self::SelfTestOpen,
        Self::DescriptorLimit,
        Self::Filter,
        Self::SelfTestCall,
        Self::Exec,
    ];

    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EnterNetwork => "enter-network",
            Self::Clone => "clone",
            Self::EnterCgroup => "enter-cgroup",
            Self::CgroupNamespace => "cgroup-namespace",
            Self::BoundingSet => "bounding-set",
            Self::IdMaps => "id-maps",
            Self::BecomeUser => "become-user",
            Self::ParentDeath => "parent-death",
            Self::Session => "session",
            Self::Keyring => "keyring",
            Self::Network => "network",
            Self::MakeRoot => "make-root",
            Self::BuildRoot => "build-root",
            Self::CopyIn => "copy-in",
            Self::PivotRoot => "pivot-root",
            Self::SealRoot => "seal-root",
            Self::HostName => "host-name",
            Self::ForkPayload => "fork-payload",
            Self::PayloadSession => "payload-session",
            Self::Streams => "streams",
            Self::WorkFolder => "work-folder",
            Self::OpenProgram => "open-program",
            Self::ResourceLimits => "resource-limits",
            Self::DropLinuxCaps => "drop-linux-caps",
            Self::NotDumpable => "not-dumpable",
            Self::NoNewPrivs => "no-new-privs",
            Self::Landlock => "landlock",
            Self::SelfTestOpen => "self-test-open",
            Self::DescriptorLimit => "descriptor-limit",
            Self::Filter => "filter",
            Self::SelfTestCall => "self-test-call",
            Self::Exec => "exec",
        }
    }
}

/// A step that failed: a fixed-size record on the control channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Which step.
    pub step: Step,
    /// The kernel's answer.
    pub errno: Errno,
    /// Which item of the step's list (a mount, a rule), where it has one.
    pub item: Option<u32>,
}

impl Failure {
    /// Bytes on the channel, the tag not included.
    pub const SIZE: usize = 9;

    /// To bytes.
    #[must_use]
    pub fn encode(self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[0] = self.step as u8;
        out[1..5].copy_from_slice(&(self.errno as i32).to_ne_bytes());
        out[5..9].copy_from_slice(&self.item.unwrap_or(u32::MAX).to_ne_bytes());
        out
    }

    /// From bytes; `None` if the step's number is none.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let [step, e0, e1, e2, e3, i0, i1, i2, i3] = *bytes;
        let item = u32::from_ne_bytes([i0, i1, i2, i3]);
        Some(Self {
            step: *Step::ALL.get(usize::from(step))?,
            errno: Errno::from_raw(i32::from_ne_bytes([e0, e1, e2, e3])),
            item: (item != u32::MAX).then_some(item),
        })
    }
}

/// Names the step in a call's error.
pub(crate) trait AtStep<T> {
    /// The error becomes a [`Failure`] of `step`.
    fn at(self, step: Step) -> Result<T, Failure>;
    /// Likewise, with the number of an item in the step's list.
    fn at_item(self, step: Step, item: usize) -> Result<T, Failure>;
}

impl<T> AtStep<T> for Result<T, Errno> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.map_err(|errno| Failure { step, errno, item: None })
    }

    fn at_item(self, step: Step, item: usize) -> Result<T, Failure> {
        self.map_err(|errno| Failure { step, errno, item: u32::try_from(item).ok() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_stand_in_their_own_order() {
        for (place, step) in Step::ALL.iter().enumerate() {
            assert_eq!(*step as usize, place, "{}", step.name());
        }
    }

    #[test]
    fn a_failure_survives_the_channel() {
        for step in Step::ALL {
            for item in [None, Some(7)] {
                let failure = Failure { step, errno: Errno::EPERM, item };
                assert_eq!(Failure::decode(&failure.encode()), Some(failure));
            }
        }
    }
}
