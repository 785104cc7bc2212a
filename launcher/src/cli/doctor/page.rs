//! The diagnosis as a page that a person reads.

use super::examine::{Diagnosis, Jail, Who};
use policies::{
    layer::{Layer, Standing},
    plan::Means,
};
use std::fmt;

impl fmt::Display for Diagnosis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.jail {
            Jail::Full => "a full jail can be built here",
            Jail::Incomplete => "a full jail can't be built here: a layer is missing",
        };
        writeln!(out, "{verdict}")?;
        writeln!(out, "Linux {} on {}, called by {}", self.kernel, self.arch, self.caller)?;
        writeln!(out, "\nLAYERS")?;
        for finding in &self.layers {
            writeln!(
                out,
                "  {:<11} {:<12} {}",
                layer(finding.layer),
                standing(&finding.standing),
                finding.how
            )?;
            for remedy in &finding.remedies {
                writeln!(out, "  {:<24} {}: {}", "", who(remedy.who), remedy.what)?;
            }
        }
        if !self.landlock_lacks.is_empty() {
            writeln!(out, "\nLANDLOCK ABI {}, without", self.landlock_abi)?;
            for step in &self.landlock_lacks {
                writeln!(
                    out,
                    "  ABI {} (Linux {}): {}; here {}",
                    step.abi, step.kernel, step.adds, step.meanwhile
                )?;
            }
        }
        writeln!(out, "\nLIMITS")?;
        for row in &self.limits {
            writeln!(out, "  {:<11} {:<12} {}", row.limit, means(row.means), row.how)?;
        }
        if !self.removed_cgroups.is_empty() {
            writeln!(out, "\nREMOVED (cgroups of launchers that were killed)")?;
            for path in &self.removed_cgroups {
                writeln!(out, "  {path}")?;
            }
        }
        Ok(())
    }
}

fn layer(layer: Layer) -> &'static str {
    match layer {
        Layer::Gate => "gate",
        Layer::Profile => "profile",
        Layer::Namespaces => "namespaces",
        Layer::Root => "root",
        Layer::Landlock => "landlock",
        Layer::Filter => "filter",
        Layer::Network => "network",
        Layer::Broker => "broker",
        Layer::Limits => "limits",
    }
}

fn standing(standing: &Standing) -> &'static str {
    match standing {
        Standing::InForce => "in force",
        Standing::OtherMeans => "other means",
        Standing::Missing => "MISSING",
        Standing::NotApplicable => "not here",
    }
}

fn who(who: Who) -> &'static str {
    match who {
        Who::Caller => "you",
        Who::Host => "host administrator",
        Who::Container => "container runtime",
        Who::Kernel => "kernel",
    }
}

fn means(means: Means) -> &'static str {
    match means {
        Means::CgroupV2 => "cgroup v2",
        Means::CgroupV1 => "cgroup v1",
        Means::Rlimit => "rlimit",
        Means::Polling => "polling",
        Means::Supervisor => "supervisor",
        Means::Tmpfs => "tmpfs",
    }
}
