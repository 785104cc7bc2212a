//! The JSON schemas in `schema/`: made from the types, and kept equal to them in both directions.
//!
//! Renew with `RENEW_SCHEMA=1 cargo test -p policies schema`, and read the difference before it is committed.

use crate::{
    audit::{Entry, Origin},
    layer::{Layer, LayerState, Standing},
    policy::{Policy, PolicyFile, ready},
    report::{LimitName, LimitState, Report, Usage, Verdict},
    units::{Bytes, Millis},
};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

const POLICY: &str = include_str!("../schema/policy.json");
const REPORT: &str = include_str!("../schema/report.json");

fn schema<T: JsonSchema>(settings: SchemaSettings, title: &str) -> String {
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    format!("{:#}\n", schema.as_value())
}

#[expect(clippy::disallowed_methods, reason = "a test that renews its golden file when it is asked to")]
fn check(name: &str, kept: &str, made: &str) {
    if std::env::var_os("RENEW_SCHEMA").is_some() {
        std::fs::write(format!("{}/schema/{name}", env!("CARGO_MANIFEST_DIR")), made).unwrap();
    } else {
        assert_eq!(kept, made, "schema/{name} is not what the types say: see the top of src/schema.rs");
    }
}

fn validator(schema: &str) -> jsonschema::Validator {
    jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap()
}

#[test]
fn schemas_are_what_the_types_say() {
    let policy = schema::<PolicyFile>(
        SchemaSettings::draft2020_12(),
        "A policy of thirdwall, as JSON; in TOML likewise",
    );
    check("policy.json", POLICY, &policy);
    let report = schema::<Report>(SchemaSettings::draft2020_12().for_serialize(), "A report of thirdwall");
    check("report.json", REPORT, &report);
}

#[test]
fn policies_are_valid_when_they_are_read_and_invalid_when_they_are_not() {
    let validator = validator(POLICY);
    let json = |text: &str| toml::from_str::<Value>(text).unwrap();
    for name in ready::names() {
        assert!(validator.is_valid(&json(ready::text(name).unwrap())), "{name}");
    }
    for (text, good) in [
        ("", true),
        ("extends = \"sh\"\n[ceiling]\nallow = [\"net=a.com\"]\n[limits]\npids = 3\nwall = \"none\"", true),
        ("[env]\nA = \"b\"\n[jail]\nproc = \"own\"\nroot = \"empty\"\n[provides]\nread = [\"/usr\"]", true),
        ("ceilling = 1", false),
        ("[ceiling]\nallow = \"stdout\"", false),
        ("[ceiling]\nalow = []", false),
        ("[limits]\npids = -1", false),
        ("[limits]\nfuel = 1", false),
        ("[jail]\nproc = 1", false),
        ("[jail]\nproc = \"ours\"", false),
        ("[env]\nA = 1", false),
    ] {
        assert_eq!(validator.is_valid(&json(text)), good, "{text}");
        assert_eq!(Policy::parse("p.toml", text).is_ok(), good, "{text}");
    }
}

#[test]
fn reports_are_valid_and_what_lacks_a_field_is_not() {
    let validator = validator(REPORT);
    let report = report();
    let value = serde_json::to_value(&report).unwrap();
    if let Err(error) = validator.validate(&value) {
        panic!("{error}");
    }
    assert_eq!(serde_json::from_value::<Report>(value.clone()).unwrap(), report);
    let mut lacking = value.clone();
    lacking.as_object_mut().unwrap().remove("status");
    assert!(!validator.is_valid(&lacking));
    let mut wrong = value;
    wrong["status"] = json!("exploded");
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn every_verdict_is_in_the_schema() {
    let validator = validator(REPORT);
    for status in [
        Verdict::Ok,
        Verdict::Nonzero,
        Verdict::Signal,
        Verdict::WallTime,
        Verdict::CpuTime,
        Verdict::Memory,
        Verdict::Fuel,
        Verdict::Output,
        Verdict::Disk,
        Verdict::Processes,
        Verdict::Stopped,
        Verdict::JailFailed,
    ] {
        assert!(
            validator.is_valid(&serde_json::to_value(Report { status, ..report() }).unwrap()),
            "{status:?}"
        );
    }
}

fn report() -> Report {
    let entry = Entry {
        ts: 1.5,
        context: "program".to_owned(),
        capability: "file_read(\"a.txt\")".to_owned(),
        granted: false,
        source: "read_file()".to_owned(),
        reason: "No matching grant found".to_owned(),
        origin: Origin::Program,
        file: Some("main.syn".to_owned()),
        line: Some(3),
        seq: 1,
        layer: Layer::Gate,
        target: "a.txt".to_owned(),
    };
    Report {
        ok: false,
        status: Verdict::Nonzero,
        exit: Some(1),
        signal: None,
        output: vec!["5".to_owned()],
        output_replaced: false,
        errors: Vec::new(),
        audit: vec![entry],
        audit_dropped: 0,
        timed_out: false,
        llm_tokens: 0,
        usage: Usage { wall: Some(Millis(3)), output: Some(Bytes(2)), ..Usage::default() },
        layers: vec![LayerState {
            layer: Layer::Filter,
            standing: Standing::InForce,
            how: "seccomp".to_owned(),
        }],
        limits: vec![LimitState {
            limit: LimitName::Wall,
            value: Some(10),
            means: "supervisor".to_owned(),
            met: false,
        }],
    }
}
