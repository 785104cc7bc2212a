//! Archives and pages through the broker: every path within the ceiling, whatever an archive says.

use crate::program::{denials, program};
use policies::report::Verdict;
use std::{fs, os::unix::fs::symlink};

/// Makes an archive beside itself, and takes it apart in `out`.
const PROGRAM: &str = r#"require file("x.*")
require file.read("data")
require file.read("data/*")
require file("out/a*")
require file("out/sub/*")
require file("out/data")
require file("out/data/*")
zip_create("x.zip", {"a.txt": "data/a.txt", "sub/b.txt": bytes("two")})
tar_create("x.tgz", "data")
print(zip_extract("x.zip", "out"))
print(tar_extract("x.tgz", "out"))
print(read_file("out/a.txt"), read_file("out/sub/b.txt"), read_file("out/data/a.txt"))
"#;

#[test]
fn archives_are_made_and_taken_apart_in_the_jail() {
    let given = program(PROGRAM).file("data/a.txt", "one");
    let report = given.go();
    assert_eq!(
        report.output,
        ["{entries: 2, bytes: 6}", "{entries: 2, bytes: 3}", "one two one"],
        "{:?}",
        report.errors
    );
    assert_eq!(fs::read_to_string(given.at("out/sub/b.txt")).unwrap(), "two");
}

#[test]
fn an_entry_outside_the_ceiling_stops_all_of_them() {
    let given = program(PROGRAM).file("data/a.txt", "one");
    let narrow = "stdout,file=x.*,file.read=data/*,file.read=data,file=out/a*";
    let report = given.with("--cap-set", narrow).go();
    assert_eq!(report.status, Verdict::Nonzero, "{:?}", report.output);
    assert_eq!(denials(&report, "file_write(\"out/sub/b.txt\")").len(), 1, "{:?}", report.audit);
    assert!(report.errors[0].contains("above the host ceiling"), "{:?}", report.errors);
    let given = program(PROGRAM).file("data/a.txt", "one");
    let report =
        given.with("--cap-set", &format!("{narrow},file=out/sub/*,file=out/data,file=out/data/*")).go();
    assert!(report.ok, "{:?}", report.errors);
}

#[test]
fn no_link_leads_an_entry_out() {
    let text = "require file(\"*.zip\")\nrequire file.write(\"out/*\")\n\
                zip_create(\"x.zip\", {\"link/b.txt\": bytes(\"b\")})\nprint(zip_extract(\"x.zip\", \"out\"))\n";
    let given = program(text);
    fs::create_dir(given.at("out")).unwrap();
    fs::create_dir(given.at("secret")).unwrap();
    symlink("../secret", given.at("out/link")).unwrap();
    let report = given.go();
    assert_eq!((report.status, report.output.len()), (Verdict::Nonzero, 0), "{:?}", report.output);
    assert!(
        report.audit.iter().any(|entry| !entry.granted && entry.source == "broker"),
        "{:?}",
        report.audit
    );
    assert_eq!(fs::read_dir(given.at("secret")).unwrap().count(), 0);
    // Its twin: a folder in the link's place.
    let given = program(text);
    fs::create_dir_all(given.at("out/link")).unwrap();
    assert_eq!(given.go().output, ["{entries: 1, bytes: 1}"]);
}

#[test]
fn a_page_is_made_of_granted_templates_alone() {
    let text = "require file.read(\"t/page.html\")\nrequire file.read(\"t/part.html\")\nprint(render(\"t/page.html\", {\"name\": \"<Ana>\"}))\n";
    let page = "{% include \"part.html\" %}";
    let given = program(text).file("t/page.html", page).file("t/part.html", "Hello {{ name }}");
    assert_eq!(given.go().output, ["Hello &lt;Ana&gt;"]);
    let given = program(text).file("t/page.html", page).file("t/part.html", "Hello {{ name }}");
    let report = given.with("--cap-set", "stdout,file.read=t/page.html").go();
    let denied = denials(&report, "file_read(\"t/part.html\")");
    assert_eq!(denied.iter().filter(|entry| entry.source == "render()").count(), 1, "{:?}", report.errors);
}
