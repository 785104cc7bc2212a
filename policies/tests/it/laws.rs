//! Properties of ceilings: printing and parsing, covering, clipping.

use policies::{
    capability::{Capability, ScopeKind},
    ceiling::{Ceiling, Grant, Grants, Taken, clip},
    policy::Policy,
    scope::{Database, Host, HostTarget, NormalPath, Target},
    units::{Bytes, Millis},
};
use proptest::prelude::*;

/// Path texts from a small alphabet, so that they meet often.
fn path() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["a", "b", "..", ".", "*", "a*", "*b", "**", ""]);
    (prop::sample::select(vec!["", "/", "~/", "./", "../"]), prop::collection::vec(part, 0..4))
        .prop_map(|(front, parts)| format!("{front}{}", parts.join("/")))
}

fn plain_path() -> impl Strategy<Value = String> {
    path().prop_map(|path| path.replace('*', "c"))
}

fn host_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a.com",
        "b.a.com",
        "A.COM.",
        "ba.com",
        "127.0.0.1",
        "0x7f.1",
        "[::1]",
        "bücher.de",
    ])
    .prop_map(str::to_owned)
}

fn scope(capability: Capability) -> BoxedStrategy<Option<String>> {
    let text = match capability.scope_kind() {
        ScopeKind::None => return Just(None).boxed(),
        ScopeKind::Path => path().boxed(),
        ScopeKind::Host => {
            (prop::sample::select(vec!["", "*."]), host_name(), prop::sample::select(vec!["", ":80", ":443"]))
                .prop_map(|(front, host, port)| format!("{front}{host}{port}"))
                .boxed()
        }
        ScopeKind::Command | ScopeKind::Name => {
            prop::sample::select(vec!["A", "AB", "A*", "AB*", "*", "B"]).prop_map(str::to_owned).boxed()
        }
        ScopeKind::Database => prop_oneof![
            path(),
            prop::sample::select(vec![":memory:", "postgres://h/x", "postgres://h/*", "pg://u:p@H:1/x?y"])
                .prop_map(str::to_owned)
        ]
        .boxed(),
        ScopeKind::Port => prop::sample::select(vec!["80", "8080"]).prop_map(str::to_owned).boxed(),
    };
    prop::option::of(text).boxed()
}

fn grant() -> impl Strategy<Value = Grant> {
    prop::sample::select(Capability::ALL.to_vec())
        .prop_flat_map(|capability| {
            scope(capability).prop_map(move |scope| Grant::new(capability, scope.as_deref()))
        })
        .prop_filter_map("a scope that is none", Result::ok)
}

fn ceiling() -> impl Strategy<Value = Ceiling> {
    prop::collection::vec(grant(), 0..6).prop_map(Ceiling::of)
}

/// One use of each kind, from the same alphabets.
#[derive(Debug, Clone)]
struct Use {
    capability: Capability,
    path: NormalPath,
    host: HostTarget,
    name: String,
    database: Database,
    port: u16,
}

impl Use {
    fn target(&self) -> Target<'_> {
        match self.capability.scope_kind() {
            ScopeKind::None => Target::Whole,
            ScopeKind::Path => Target::Path(&self.path),
            ScopeKind::Host => Target::Host(&self.host),
            ScopeKind::Command => Target::Command(&self.name),
            ScopeKind::Name => Target::Name(&self.name),
            ScopeKind::Database => Target::Database(&self.database),
            ScopeKind::Port => Target::Port(self.port),
        }
    }
}

fn a_use() -> impl Strategy<Value = Use> {
    let path = || plain_path().prop_filter_map("an empty path", |path| NormalPath::parse(&path).ok());
    let port = || prop::sample::select(vec![80_u16, 443, 8080]);
    let host = host_name().prop_filter_map("no host", |host| Host::parse(&host).ok());
    let name = prop::sample::select(vec!["A", "AB", "ABC", "B", "C"]).prop_map(str::to_owned);
    (prop::sample::select(Capability::ALL.to_vec()), path(), host, port(), name, path(), port()).prop_map(
        |(capability, path, host, dialled, name, file, port)| Use {
            capability,
            path,
            host: HostTarget { host, port: dialled },
            name,
            database: Database::File(file),
            port,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printing_and_parsing_are_inverse(ceiling in ceiling()) {
        prop_assert_eq!(Ceiling::parse(&ceiling.to_string()).unwrap(), ceiling);
    }

    #[test]
    fn json_and_back_is_the_same_ceiling(ceiling in ceiling()) {
        let json = serde_json::to_string(&ceiling).unwrap();
        prop_assert_eq!(serde_json::from_str::<Ceiling>(&json).unwrap(), ceiling);
    }

    #[test]
    fn any_text_is_read_or_refused_never_a_panic(text in "\\PC{0,40}") {
        if let Ok(ceiling) = Ceiling::parse(&text) {
            prop_assert_eq!(Ceiling::parse(&ceiling.to_string()).unwrap(), ceiling);
        }
    }

    #[test]
    fn any_policy_is_read_or_refused_never_a_panic(text in "(\\[(ceiling|limits|env|jail|x)\\]\n)?[a-zé\"'=\\[\\]#., \n]{0,60}") {
        if let Err(error) = Policy::parse("p.toml", &text) {
            prop_assert!(error.to_string().starts_with("p.toml:"), "{}", error);
        }
    }

    #[test]
    fn clipping_keeps_and_drops_each_grant_once(requested in ceiling(), held in ceiling()) {
        let clipped = clip(&requested, &held);
        let count = clipped.kept.grants().count() + clipped.dropped.len();
        prop_assert_eq!(count, requested.grants().count());
        prop_assert!(clipped.dropped.iter().all(|grant| !held.covers_grant(grant)));
    }

    #[test]
    fn clipping_twice_is_clipping_once(requested in ceiling(), held in ceiling()) {
        let once = clip(&requested, &held).kept;
        let twice = clip(&once, &held);
        prop_assert_eq!(&twice.kept, &once);
        prop_assert!(twice.dropped.is_empty());
    }

    #[test]
    fn clipping_is_monotone_in_what_is_held(requested in ceiling(), held in ceiling(), more in grant()) {
        let wider = Ceiling::of(held.grants().cloned().chain([more]));
        let kept = clip(&requested, &held).kept;
        let kept_under_wider = clip(&requested, &wider).kept;
        prop_assert!(kept.grants().all(|grant| kept_under_wider.covers_grant(grant)));
    }

    #[test]
    fn clipping_grants_nothing_that_either_side_lacks(requested in ceiling(), held in ceiling(), a_use in a_use()) {
        let kept = clip(&requested, &held).kept;
        if kept.covers(a_use.capability, a_use.target()) {
            prop_assert!(requested.covers(a_use.capability, a_use.target()));
            prop_assert!(held.covers(a_use.capability, a_use.target()));
        }
    }

    #[test]
    fn a_covering_grant_allows_each_use_of_the_covered(wide in grant(), narrow in grant(), a_use in a_use()) {
        if wide.covers_grant(&narrow) && narrow.covers(a_use.capability, a_use.target()) {
            prop_assert!(wide.covers(a_use.capability, a_use.target()), "{} {}", wide, narrow);
        }
    }

    #[test]
    fn covering_is_reflexive_and_transitive(a in grant(), b in grant(), c in grant()) {
        prop_assert!(a.covers_grant(&a), "{}", a);
        if a.covers_grant(&b) && b.covers_grant(&c) {
            prop_assert!(a.covers_grant(&c), "{} {} {}", a, b, c);
        }
    }

    #[test]
    fn absolute_paths_keep_what_a_relative_ceiling_covers(grants in ceiling(), target in plain_path()) {
        let base = crate::given::base();
        let (Ok(target), Ok(absolute)) = (NormalPath::parse(&target), grants.absolute(&base)) else { return Ok(()) };
        let from_root = target.absolute(&base).unwrap();
        if grants.covers(Capability::FileRead, Target::Path(&target)) {
            prop_assert!(absolute.covers(Capability::FileRead, Target::Path(&from_root)), "{} {}", grants, target);
        }
    }

    #[test]
    fn a_programs_grants_stay_under_its_ceiling(ceiling in ceiling(), asked in prop::collection::vec(grant(), 0..6), a_use in a_use()) {
        let mut grants = Grants::none();
        for grant in asked {
            let covered = ceiling.covers_grant(&grant);
            prop_assert_eq!(grants.take(grant, &ceiling) == Taken::InForce, covered);
        }
        if grants.covers(a_use.capability, a_use.target()) {
            prop_assert!(ceiling.covers(a_use.capability, a_use.target()));
        }
    }

    #[test]
    fn a_normal_path_is_its_own_normal_form(text in path()) {
        if let Ok(path) = NormalPath::parse(&text) {
            prop_assert_eq!(NormalPath::parse(&path.to_string()).unwrap(), path);
        }
    }

    #[test]
    fn amounts_are_read_as_printed(n in any::<u64>()) {
        prop_assert_eq!(Bytes(n).to_string().parse::<Bytes>().unwrap(), Bytes(n));
        prop_assert_eq!(Millis(n).to_string().parse::<Millis>().unwrap(), Millis(n));
    }
}

#[test]
fn the_pages_rule_about_clipping() {
    let clipped =
        clip(&Ceiling::parse("stdout,net=*").unwrap(), &Ceiling::parse("stdout,net=a.com").unwrap());
    assert_eq!(clipped.kept.to_string(), "stdout");
    assert_eq!(clipped.dropped.iter().map(ToString::to_string).collect::<Vec<_>>(), ["net"]);
}

#[test]
fn forms_in_errors_and_programs() {
    for (capability, scope, check, require) in [
        (Capability::FileRead, Some("./a.txt"), "file_read(\"a.txt\")", "file.read(\"a.txt\")"),
        (Capability::Serve, Some("8080"), "serve(8080)", "serve(8080)"),
        (Capability::Stdout, None, "stdout", "stdout"),
        (Capability::Net, Some("API.x.com"), "net(\"api.x.com\")", "net(\"api.x.com\")"),
    ] {
        let grant = Grant::new(capability, scope).unwrap();
        assert_eq!((grant.check(), grant.require()), (check.to_owned(), require.to_owned()));
    }
}
