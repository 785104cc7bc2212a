//! Archives from strangers: each trick is refused before anything is written, and its harmless twin is taken.

use crate::harness::{Given, Ran};
use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use tar::{EntryType, Header};
use zip::write::{SimpleFileOptions, ZipWriter};

/// What a program gets from an archive: the answer, and every file below its folder with its size.
fn extracted(archive: &[u8], kind: &str, options: &str) -> Ran {
    let mut hex = String::new();
    for byte in archive {
        let _ = write!(hex, "{byte:02x}");
    }
    let more = if options.is_empty() { String::new() } else { format!(", {options}") };
    Given::program(&format!(
        r#"require file
write_file("a", bytes("{hex}", "hex"))
try
    print({kind}_extract("a", "out"{more}))
recover e
    print(e)
task list_all(folder)
    each entry in list_dir(folder)
        when entry.is_dir
            list_all(folder + "/" + entry.name)
        otherwise
            print(folder + "/" + entry.name, entry.size)
when file_exists("out")
    list_all("out")
"#
    ))
    .run()
}

fn refused(archive: &[u8], kind: &str, why: &str) {
    let ran = extracted(archive, kind, "");
    assert!(ran.errors.is_empty(), "{:?}", ran.errors);
    assert!(ran.output.len() == 1, "something was written: {:?}", ran.output);
    assert!(ran.output[0].starts_with(&format!("{kind}_extract: ")), "{:?}", ran.output);
    assert!(ran.output[0].contains(why), "wanted {why}: {:?}", ran.output);
}

fn taken(archive: &[u8], kind: &str, lines: &[&str]) {
    let ran = extracted(archive, kind, "");
    assert!(ran.errors.is_empty(), "{:?}", ran.errors);
    assert_eq!(ran.output, lines);
}

fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        zip.start_file(*name, SimpleFileOptions::default()).expect("an archive in memory");
        zip.write_all(content).expect("an archive in memory");
    }
    zip.finish().expect("an archive in memory").into_inner()
}

/// The archive with one name, of the same length, in the place of another one.
fn renamed(mut archive: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    for at in 0..archive.len() - from.len() {
        if &archive[at..at + from.len()] == from.as_bytes() {
            archive[at..at + from.len()].copy_from_slice(to.as_bytes());
        }
    }
    archive
}

#[test]
fn names_of_a_zip_stay_below_the_folder() {
    for (name, why) in [
        ("/tmp/xx", "an absolute name"),
        ("../../x", "a name with `..`"),
        ("a/../../x", "a name with `..`"),
        ("..\\..\\x", "a backslash"),
        ("C:/xx/yy", "a drive"),
        ("a//bb/cc", "an empty part"),
        ("a\u{1}bb/cc", "a control character"),
    ] {
        let from = "n".repeat(name.len());
        refused(&renamed(zipped(&[(&from, b"x")]), &from, name), "zip", why);
    }
    taken(
        &zipped(&[("a/..b", b"xy"), ("./c", b"")]),
        "zip",
        &["{entries: 2, bytes: 2}", "out/a/..b 2", "out/c 0"],
    );
}

#[test]
fn two_entries_of_a_zip_are_never_one_file() {
    let two = renamed(zipped(&[("first", b"1"), ("other", b"2")]), "other", "first");
    refused(&two, "zip", "a name that is there twice");
    refused(&zipped(&[("x", b"1"), ("x/y", b"2")]), "zip", "a file that is a folder as well");
    taken(
        &zipped(&[("x/y", b"1"), ("x/z", b"2")]),
        "zip",
        &["{entries: 2, bytes: 2}", "out/x/y 1", "out/x/z 1"],
    );
}

#[test]
fn links_and_devices_in_a_zip_are_refused() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("link", "/etc/passwd", SimpleFileOptions::default()).expect("an archive in memory");
    let link = zip.finish().expect("an archive in memory").into_inner();
    refused(&link, "zip", "a link: \"link\"");
    // The mode stands in the upper half of the outer attributes.
    let list = link.windows(4).position(|four| four == b"PK\x01\x02").expect("an archive in memory");
    for (mode, why) in
        [(0o020_666_u16, "a device"), (0o010_666, "a device, pipe"), (0o160_000, "kind is none")]
    {
        let mut other = link.clone();
        other[list + 40..list + 42].copy_from_slice(&mode.to_le_bytes());
        refused(&other, "zip", why);
    }
}

#[test]
fn a_zip_that_grows_without_end_is_refused() {
    let bomb = zipped(&[("zeros", &vec![0; 4 << 20])]);
    refused(&bomb, "zip", "more than 200 times its packed size; `max_ratio` sets the limit");
    let ran = extracted(&bomb, "zip", "{\"max_ratio\": 1100}");
    assert_eq!(ran.output, ["{entries: 1, bytes: 4194304}", "out/zeros 4194304"]);
    let ran = extracted(&bomb, "zip", "{\"max_ratio\": 1100, \"max_bytes\": 4194303}");
    assert!(ran.output[0].contains("more than 4194303 bytes; `max_bytes`"), "{:?}", ran.output);
    let three = zipped(&[("a", b""), ("b", b""), ("c", b"")]);
    let ran = extracted(&three, "zip", "{\"max_entries\": 2}");
    assert!(ran.output[0].contains("more than 2 entries; `max_entries`"), "{:?}", ran.output);
    assert_eq!(extracted(&three, "zip", "{\"max_entries\": 3}").output.len(), 4);
    // A size that is a lie: what comes out counts.
    let mut lie = bomb.clone();
    let list = lie.windows(4).position(|four| four == b"PK\x01\x02").expect("an archive in memory");
    lie[list + 24..list + 28].copy_from_slice(&7_u32.to_le_bytes());
    let ran = extracted(&lie, "zip", "");
    assert!(ran.output[0].contains("is damaged"), "{:?}", ran.output);
    assert!(ran.output.iter().all(|line| !line.starts_with("out/zeros ")), "{:?}", ran.output);
}

#[test]
fn a_zip_that_is_cut_or_changed_is_read_or_refused() {
    let good = zipped(&[("a", b"hello, hello, hello"), ("b/c", b"more")]);
    for length in [0, 1, 21, 22, good.len() / 2, good.len() - 1] {
        let ran = extracted(&good[..length], "zip", "");
        assert!(
            ran.errors.is_empty() && ran.output[0].contains("can't be read as an archive"),
            "{:?}",
            ran.output
        );
    }
    for at in (0..good.len()).step_by(3) {
        let mut changed = good.clone();
        changed[at] ^= 0xff;
        let ran = extracted(&changed, "zip", "");
        assert!(ran.errors.is_empty(), "{at}: {:?}", ran.errors);
    }
}

/// One entry with a header as it is wanted, whatever a writer would say to it.
fn entry(out: &mut Vec<u8>, name: &[u8], kind: EntryType, content: &[u8]) {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    if kind.is_symlink() || kind.is_hard_link() {
        header.set_link_name("/etc/passwd").expect("an archive in memory");
    }
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(512), 0);
}

fn tarred(entries: &[(&[u8], EntryType, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, kind, content) in entries {
        entry(&mut out, name, *kind, content);
    }
    out.resize(out.len() + 1024, 0);
    out
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    to.write_all(bytes).expect("an archive in memory");
    to.finish().expect("an archive in memory")
}

/// One field of pax: its length counts itself.
fn pax(key: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len() + 1;
    while length != rest.len() + length.to_string().len() {
        length += 1;
    }
    format!("{length}{rest}").into_bytes()
}

#[test]
fn names_of_a_tar_stay_below_the_folder() {
    let file = EntryType::Regular;
    for (name, why) in [
        (&b"/etc/x"[..], "an absolute name"),
        (b"../x", "a name with `..`"),
        (b"a/../../x", "a name with `..`"),
        (b"a\\..\\x", "a backslash"),
        (b"\xff", "not UTF-8"),
    ] {
        refused(&tarred(&[(b"good", file, b"1"), (name, file, b"x")]), "tar", why);
        refused(&gzipped(&tarred(&[(name, file, b"x")])), "tar", why);
    }
    let long = |name: &[u8]| tarred(&[(b"././@LongLink", EntryType::GNULongName, name), (b"x", file, b"1")]);
    refused(&long(b"../../x\0"), "tar", "a name with `..`");
    let deep = format!("{}/file", "d".repeat(200));
    taken(&long(deep.as_bytes()), "tar", &["{entries: 2, bytes: 1}", &format!("out/{deep} 1")]);
    let field = |field: &[u8]| tarred(&[(b"pax", EntryType::XHeader, field), (b"x", file, b"1")]);
    refused(&field(&pax("path", "/x")), "tar", "an absolute name");
    refused(&field(&pax("size", "9999999")), "tar", "a pax field");
    refused(&field(&pax("GNU.sparse.major", "1")), "tar", "a file with holes");
    taken(&field(&pax("path", "named/so")), "tar", &["{entries: 2, bytes: 1}", "out/named/so 1"]);
    let every = tarred(&[(b"g", EntryType::XGlobalHeader, &pax("path", "x")), (b"x", file, b"1")]);
    refused(&every, "tar", "one name for all");
    let huge = tarred(&[(b"L", EntryType::GNULongName, &vec![b'a'; 65_537]), (b"x", file, b"")]);
    refused(&huge, "tar", "more than 65536 bytes about one entry");
}

#[test]
fn links_devices_and_unknown_kinds_of_a_tar_are_refused() {
    let file = EntryType::Regular;
    for (kind, why) in [
        (EntryType::Symlink, "a link"),
        (EntryType::Link, "a link"),
        (EntryType::Char, "a device or pipe"),
        (EntryType::Block, "a device or pipe"),
        (EntryType::Fifo, "a device or pipe"),
        (EntryType::GNUSparse, "a file with holes"),
        (EntryType::new(b'Z'), "an unknown kind"),
    ] {
        refused(&tarred(&[(b"good", file, b"1"), (b"odd", kind, b"")]), "tar", &format!("{why}: \"odd\""));
    }
    refused(&tarred(&[(b"a", file, b"1"), (b"a", file, b"2")]), "tar", "there twice");
    refused(&tarred(&[(b"a", file, b"1"), (b"a/b", file, b"2")]), "tar", "a folder as well");
    refused(&tarred(&[(b"a/", EntryType::Directory, b"x")]), "tar", "a folder with content");
    let twice = [
        (&b"a/"[..], EntryType::Directory, &b""[..]),
        (b"a", EntryType::Directory, b""),
        (b"a/b", file, b"2"),
    ];
    taken(&tarred(&twice), "tar", &["{entries: 3, bytes: 1}", "out/a/b 1"]);
}

#[test]
fn a_tar_that_grows_or_is_cut_is_refused() {
    let big = tarred(&[(b"zeros", EntryType::Regular, &vec![0; 4 << 20])]);
    refused(&gzipped(&big), "tar", "more than 200 times its packed size");
    taken(&big, "tar", &["{entries: 1, bytes: 4194304}", "out/zeros 4194304"]);
    let good = tarred(&[(b"a", EntryType::Regular, &[7; 1000]), (b"b", EntryType::Regular, b"2")]);
    refused(&good[..1300], "tar", "cut short");
    refused(&good[..100], "tar", "can't be read as an archive");
    let packed = gzipped(&good);
    refused(&packed[..packed.len() / 2], "tar", "can't be read as an archive");
    // Without the two empty blocks at its end an archive is whole all the same.
    taken(&good[..2560], "tar", &["{entries: 2, bytes: 1001}", "out/a 1000", "out/b 1"]);
    // A size that no file has.
    let mut header = Header::new_gnu();
    header.set_path("x").expect("an archive in memory");
    header.set_size(u64::MAX >> 1);
    header.set_cksum();
    refused(header.as_bytes(), "tar", "the archive holds more than 268435456 bytes");
    for at in (0..good.len()).step_by(61) {
        let mut changed = good.clone();
        changed[at] ^= 0xff;
        assert!(extracted(&changed, "tar", "").errors.is_empty(), "{at}");
    }
}
