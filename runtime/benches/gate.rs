//! What asking the gate costs: the check of a use that passes, the first time and again.
//!
//! `cargo bench -p runtime --bench gate`

use criterion::{Criterion, criterion_group, criterion_main};
use policies::capability::Capability;
use policies::ceiling::Ceiling;
use policies::scope::Base;
use runtime::partition::gate::Gate;
use runtime::partition::host::Memory;
use std::hint::black_box;

fn benches(c: &mut Criterion) {
    let parsed = |list: &str| Ceiling::parse(list).unwrap_or_else(|_| Ceiling::none());
    let base = Base { workdir: "/home/somebody/work".into(), home: None };
    let ceiling = "stdout,time,random,file.read=data/*,net=*.example.com";
    let mut gate = Gate::granted(Some(parsed(ceiling)), parsed(ceiling), Some(base), &mut Memory::default());
    let mut check = |name: &str, capability: Capability, target: Option<&str>| {
        assert!(gate.check(capability, target), "{name}");
        c.bench_function(name, |b| b.iter(|| gate.check(black_box(capability), black_box(target))));
    };
    check("a check without a scope", Capability::Random, None);
    check("a check of a path", Capability::FileRead, Some("data/2026/measured.csv"));
    check("a check of a host", Capability::Net, Some("api.example.com:443"));
    c.bench_function("two checks in turn, without a scope", |b| {
        b.iter(|| {
            gate.check(black_box(Capability::Time), None) & gate.check(black_box(Capability::Random), None)
        })
    });
    c.bench_function("two checks in turn, of paths", |b| {
        b.iter(|| {
            gate.check(Capability::FileRead, black_box(Some("data/a.csv")))
                & gate.check(Capability::FileRead, black_box(Some("data/b.csv")))
        })
    });
}

criterion_group!(gate, benches);
criterion_main!(gate);
