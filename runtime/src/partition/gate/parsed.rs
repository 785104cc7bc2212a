//! A use's target, read once for all grants.

use policies::capability::{Capability, ScopeKind};
use policies::scope::{Base, Database, HostTarget, NormalPath, Target};

/// A use's target in its normal form, owned.
pub(super) enum Parsed {
    Whole,
    Path(NormalPath),
    Host(HostTarget),
    Command(String),
    Name(String),
    Database(Database),
    Port(u16),
}

impl Parsed {
    /// `None` if it is malformed: then nothing covers it.
    pub(super) fn new(capability: Capability, target: Option<&str>, base: Option<&Base>) -> Option<Self> {
        let absolute = |path: NormalPath| match base {
            Some(base) => path.absolute(base).unwrap_or(path),
            None => path,
        };
        let Some(text) = target else { return Some(Self::Whole) };
        match capability.scope_kind() {
            ScopeKind::None => Some(Self::Whole),
            ScopeKind::Path => NormalPath::parse(text).ok().map(|path| Self::Path(absolute(path))),
            ScopeKind::Host => host_target(text).map(Self::Host),
            ScopeKind::Command => Some(Self::Command(text.to_owned())),
            ScopeKind::Name => Some(Self::Name(text.to_owned())),
            ScopeKind::Database => Database::parse(text).ok().map(|database| {
                Self::Database(match database {
                    Database::File(path) => Database::File(absolute(path)),
                    Database::Memory | Database::Url(_) => database,
                })
            }),
            ScopeKind::Port => text.parse().ok().map(Self::Port),
        }
    }

    pub(super) fn target(&self) -> Target<'_> {
        match self {
            Self::Whole => Target::Whole,
            Self::Path(p) => Target::Path(p),
            Self::Host(h) => Target::Host(h),
            Self::Command(c) => Target::Command(c),
            Self::Name(n) => Target::Name(n),
            Self::Database(d) => Target::Database(d),
            Self::Port(p) => Target::Port(*p),
        }
    }
}

/// `host:port`; without a port that of HTTPS.
fn host_target(text: &str) -> Option<HostTarget> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, 443),
    };
    Some(HostTarget { host: policies::scope::Host::parse(host).ok()?, port })
}
