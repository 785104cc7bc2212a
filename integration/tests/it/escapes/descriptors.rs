//! What the launcher had open: nothing of it is open inside.

use crate::{
    ended::Ended,
    given::{Given, on_host},
    host::{self, Who},
};
use policies::report::Verdict;
use std::{
    fs::{self, File},
    os::fd::{AsRawFd, IntoRawFd},
    process::Command,
};

/// The launcher, started by a shell that leaves descriptors open.
fn with_open(who: Who, redirections: &str, acts: &str) -> Ended {
    let programs = host::programs();
    let script = format!(
        "exec {redirections}; exec {} exec --policy auto --wall 20s --report - -- {} {acts}",
        programs.thirdwall.display(),
        programs.hostile.display()
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir("/");
    let mut ended = on_host(who, command);
    ended.report = serde_json::from_str(&ended.stdout).ok();
    ended
}

#[test]
fn only_the_three_streams_are_open() {
    for who in Who::all() {
        // With a network there are the egress's and the relay's besides.
        let ceilings =
            ["stdout,stdin,exec", "stdout,net", "stdout,net=example.com:443", "stdout,serve=18999"];
        let with = ceilings.map(|ceiling| Given::usual(*who).flag("--cap-set", ceiling));
        for given in [Given::bare(*who), Given::usual(*who)].into_iter().chain(with) {
            let ended = given.run(&["files", "descriptors"]).expect(Verdict::Ok);
            assert_eq!(ended.all("descriptor"), ["0 pipe", "1 pipe", "2 pipe"], "{who:?}");
        }
    }
}

#[test]
fn a_folder_that_the_caller_left_open_is_no_way_out() {
    for who in Who::all() {
        let open = "3</ 4</etc 77</proc 200</";
        let ended = with_open(*who, open, "files by-descriptor etc/passwd").expect(Verdict::Ok);
        assert_eq!(ended.all("by-descriptor"), ["done"], "{who:?}");
        let ended = with_open(*who, open, "files descriptors").expect(Verdict::Ok);
        assert_eq!(ended.all("descriptor"), ["0 pipe", "1 pipe", "2 pipe"]);
        // Outside, the same descriptor leads to the file.
        let mut twin = Command::new("bash");
        let hostile = host::programs().hostile.display();
        twin.args(["-c", &format!("exec 3</; exec {hostile} files by-descriptor etc/passwd")])
            .current_dir("/");
        assert_eq!(on_host(*who, twin).all("by-descriptor"), ["ok 3", "done"]);
    }
}

#[test]
fn standard_input_cant_be_opened_anew_for_writing() {
    for who in Who::all() {
        let folder = who.folder();
        let path = folder.path().join("input");
        fs::write(&path, "as it was").unwrap();
        who.own(&path);
        let given = Given::usual(*who).flag("--stdin", &path);
        let ended = given.run(&["files", "reopen-input"]).expect(Verdict::Ok);
        // A pipe of the jail's own may be written to; the file behind it may not.
        assert_eq!(fs::read_to_string(&path).unwrap(), "as it was", "{ended:?}");
        // By redirection, too.
        let open = format!("0<{}", path.display());
        let ended = with_open(*who, &open, "files reopen-input").expect(Verdict::Ok);
        assert_eq!(fs::read_to_string(&path).unwrap(), "as it was", "{ended:?}");
        // Outside, the same act overwrites it.
        let mut twin = Command::new("bash");
        twin.args([
            "-c",
            &format!("exec {open}; exec {} files reopen-input", host::programs().hostile.display()),
        ]);
        on_host(*who, twin).says("/proc/self/fd/0", "ok");
        assert_ne!(fs::read_to_string(&path).unwrap(), "as it was");
    }
}

#[test]
fn a_report_descriptor_of_the_caller_stays_outside() {
    let folder = Who::ordinary().folder();
    let report = File::create(folder.path().join("report")).unwrap();
    // std opens with close-on-exec; the shell below opens its own.
    assert!(report.as_raw_fd() >= 3 && report.into_raw_fd() >= 3);
    let programs = host::programs();
    let script = format!(
        "exec 9>report; exec {} exec --policy static --report fd:9 -- {} files descriptors",
        programs.thirdwall.display(),
        programs.hostile.display()
    );
    let mut command = Command::new("bash");
    Who::ordinary().own(&folder.path().join("report"));
    command.args(["-c", &script]).current_dir(folder.path());
    let ended = on_host(Who::ordinary(), command);
    assert_eq!(ended.all("descriptor"), ["0 pipe", "1 pipe", "2 pipe"], "{ended:?}");
    assert!(fs::read_to_string(folder.path().join("report")).unwrap().contains("\"status\""));
}
