//! Started where something is missing, the launcher refuses and names it; it never goes on without.

use crate::{
    ended::Ended,
    given::{Given, on_host},
    host::{self, Who, is_root, skip},
};
use policies::report::Verdict;
use std::process::Command;

/// The launcher behind another command that takes something away.
fn behind(who: Who, words: &[&str]) -> Ended {
    let programs = host::programs();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .arg(&programs.thirdwall)
        .args(["exec", "--policy", "static", "--wall", "20s", "--"]);
    command.arg(&programs.hostile).arg("executed").current_dir("/");
    on_host(who, command)
}

#[test]
fn a_container_that_forbids_user_namespaces_is_refused_by_name() {
    if !is_root() {
        return skip("a container that forbids user namespaces: only root can set its limit");
    }
    // A user namespace of one's own, in which no further one may be made.
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let ended =
        behind(Who::Root, &["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", forbid, "sh"]);
    ended.is_refusal(&["namespaces", "max_user_namespaces"]);
    // Twin: the same container with the limit as it was.
    let ended = behind(
        Who::Root,
        &["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", "exec \"$@\"", "sh"],
    );
    ended.says("executed", "yes");
}

#[test]
fn inside_an_unprivileged_container_the_jail_is_whole() {
    for who in Who::all() {
        let container = [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--net",
            "--kill-child",
        ];
        let ended = behind(*who, &container);
        ended.says("executed", "yes");
    }
}

#[test]
fn a_chroot_is_refused() {
    if !is_root() {
        return skip("a chroot: only root can make one");
    }
    // The kernel refuses user namespaces in a chroot to users, and pivot_root to all.
    let folder = Who::Root.folder();
    let root = folder.path().display();
    let programs = host::programs();
    let script = format!(
        "set -e; mkdir -p {root}/proc {root}/dev {root}/var; cp {} {} {root}/; \
         mount --bind /proc {root}/proc; mount --rbind /dev {root}/dev; cd {root}; \
         exec chroot --userspec=65534:65534 {root} /thirdwall exec --policy static -- /hostile executed",
        programs.thirdwall.display(),
        programs.hostile.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]);
    let ended = on_host(Who::Root, command);
    ended.is_refusal(&["namespaces"]);
}

#[test]
fn without_namespaces_allow_missing_is_no_way_past() {
    if !is_root() {
        return skip("a container that forbids user namespaces: only root can set its limit");
    }
    let programs = host::programs();
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec {} exec --policy static --allow-missing namespaces -- {} executed",
        programs.thirdwall.display(),
        programs.hostile.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).current_dir("/");
    on_host(Who::Root, command).is_refusal(&["namespaces"]);
}

#[test]
fn every_report_says_which_layers_were_in_force() {
    for who in Who::all() {
        let ended = Given::bare(*who).run(&["executed"]).expect(Verdict::Ok);
        let report = ended.report();
        for layer in ["namespaces", "root", "landlock", "filter", "network", "limits"] {
            let row = report.layers.iter().find(|row| row.layer.name() == layer);
            let row = row.unwrap_or_else(|| panic!("{layer}"));
            assert!(!row.how.is_empty());
        }
        assert_eq!(report.limits.len(), 7);
        assert!(report.limits.iter().all(|row| !row.means.is_empty()));
    }
}
