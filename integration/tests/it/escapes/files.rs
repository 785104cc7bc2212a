//! Files of the host: what is granted is there with just its rights, everything else is not.

use crate::{
    given::{Given, outside},
    host::{self, Who},
};
use policies::report::Verdict;
use std::{fs, os::unix::net::UnixListener, path::Path};
use tempfile::TempDir;

/// A folder with `granted/file`, `granted/link` (to the secret) and `secret` in it.
fn tree(who: Who) -> TempDir {
    let folder = who.folder();
    let granted = folder.path().join("granted");
    fs::create_dir(&granted).unwrap();
    fs::write(granted.join("file"), "granted").unwrap();
    fs::write(folder.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret"), granted.join("link")).unwrap();
    std::os::unix::fs::symlink("../secret", granted.join("up")).unwrap();
    for path in [granted.clone(), granted.join("file"), folder.path().join("secret")] {
        who.own(&path);
    }
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn nothing_of_the_host_is_there() {
    for who in Who::all() {
        let folder = tree(*who);
        let secret = folder.path().join("secret");
        let paths = [text(&secret), "/etc/shadow", "/root", "/home", "/var/log", "/run", "/sys", "/boot"];
        let mut acts = vec!["files", "read"];
        acts.extend(paths);
        let ended = Given::usual(*who).run(&acts).expect(Verdict::Ok);
        for path in paths {
            ended.says(path, "ENOENT");
        }
        outside(*who, &["files", "read", text(&secret)]).says(text(&secret), "ok");
    }
}

#[test]
fn links_dots_and_proc_lead_nowhere() {
    for who in Who::all() {
        let folder = tree(*who);
        let secret = folder.path().join("secret");
        let ended = Given::usual(*who).run(&["files", "through-links", text(&secret)]).expect(Verdict::Ok);
        for way in ["symlink", "root", "dots", "own-root", "parents-root", "own-cwd", "hard-link"] {
            ended.says(way, "ENOENT");
        }
        let twin = outside(*who, &["files", "through-links", text(&secret)]);
        for way in ["symlink", "root", "own-root"] {
            twin.says(way, "ok");
        }
    }
}

#[test]
fn a_granted_tree_is_read_and_links_out_of_it_lead_nowhere() {
    for who in Who::all() {
        let folder = tree(*who);
        let granted = folder.path().join("granted");
        let given = Given::usual(*who).flag("--cap-set", format!("stdout,file.read={}/*", text(&granted)));
        let [file, link, up] = ["file", "link", "up"].map(|name| text(&granted.join(name)).to_owned());
        let ended = given.run(&["files", "read", &file, &link, &up]).expect(Verdict::Ok);
        ended.says(&file, "ok");
        ended.says(&link, "ENOENT");
        ended.says(&up, "ENOENT");
        let twin = outside(*who, &["files", "read", &link, &up]);
        twin.says(&link, "ok");
        twin.says(&up, "ok");
    }
}

#[test]
fn what_is_granted_for_reading_cant_be_changed() {
    for who in Who::all() {
        let folder = tree(*who);
        let granted = folder.path().join("granted");
        let file = text(&granted.join("file")).to_owned();
        let scope = text(&granted).to_owned();
        let given = Given::usual(*who).flag("--cap-set", format!("stdout,file.read={scope}/*"));
        let ended = given.run(&["files", "change", &file]).expect(Verdict::Ok);
        for act in ["chmod", "chown", "utimes"] {
            ended.says(act, "EROFS");
        }
        // The filter's answer, wherever the file is.
        ended.says("setxattr", "EOPNOTSUPP");
        // Landlock answers before the mount does.
        for act in ["truncate", "unlink"] {
            assert!(["EACCES", "EROFS"].contains(&ended.answer(act)), "{ended:?}");
        }
        // The mount answers before Landlock does.
        let ended = given.run(&["files", "write", &file]).expect(Verdict::Ok);
        ended.says(&file, "EROFS");
        assert_eq!(fs::read_to_string(&file).unwrap(), "granted");
        // Granted for both, the same acts work, on the host's own file.
        let given = Given::usual(*who).flag("--cap-set", format!("stdout,file={scope}/*"));
        given.run(&["files", "write", &file]).expect(Verdict::Ok).says(&file, "ok");
        assert_eq!(fs::read_to_string(&file).unwrap(), "grantedhostile");
        let ended = given.run(&["files", "change", &file]).expect(Verdict::Ok);
        for act in ["chmod", "utimes", "truncate", "unlink"] {
            ended.says(act, "ok");
        }
        ended.says("setxattr", "EOPNOTSUPP");
        assert!(!Path::new(&file).exists());
    }
}

#[test]
fn a_write_grant_alone_reads_nothing() {
    for who in Who::all() {
        let folder = tree(*who);
        let granted = folder.path().join("granted");
        let file = text(&granted.join("file")).to_owned();
        let given = Given::usual(*who).flag("--cap-set", format!("stdout,file.write={}/*", text(&granted)));
        given.run(&["files", "read", &file]).expect(Verdict::Ok).says(&file, "EACCES");
        given.run(&["files", "write", &file]).expect(Verdict::Ok).says(&file, "ok");
    }
}

/// A granted folder of the host inside a scratch folder has that folder's rights by Landlock: a rule reaches through
/// mounts. Then a mount holds back writing, nothing holds back reading, and `explain` says so.
#[test]
fn what_stands_in_the_jails_tmp_is_coarser_and_said() {
    let who = Who::ordinary();
    let folder = tempfile::Builder::new().prefix("thirdwall-test-").tempdir_in("/tmp").unwrap();
    who.own(folder.path());
    let file = folder.path().join("file");
    fs::write(&file, "granted").unwrap();
    who.own(&file);
    let file = text(&file);
    let scope = |capability| format!("stdout,{capability}={}/*", text(folder.path()));
    let given = Given::usual(who).flag("--cap-set", scope("file.write"));
    given.run(&["files", "read", file]).expect(Verdict::Ok).says(file, "ok");
    assert!(given.explain().contains("what may be written there may be read, too"), "{}", given.explain());
    let given = Given::usual(who).flag("--cap-set", scope("file.read"));
    given.run(&["files", "write", file]).expect(Verdict::Ok).says(file, "EROFS");
    assert!(!given.explain().contains("may be read, too"));
    assert_eq!(fs::read_to_string(file).unwrap(), "granted");
}

#[test]
fn own_root_etc_and_devices_cant_be_changed() {
    for who in Who::all() {
        let created = ["/hostile", "/etc/hostile", "/dev/hostile", "/proc/hostile"];
        let mut acts = vec!["files", "create"];
        acts.extend(created);
        let ended = Given::usual(*who).run(&acts).expect(Verdict::Ok);
        for path in created {
            assert!(["EROFS", "EACCES", "ENOENT"].contains(&ended.answer(path)), "{path}: {ended:?}");
        }
        for path in ["/etc/passwd", "/dev/null"] {
            let ended = Given::usual(*who).run(&["files", "change", path]).expect(Verdict::Ok);
            for act in ["chmod", "unlink"] {
                assert_ne!(ended.answer(act), "ok", "{path} {act}: {ended:?}");
            }
        }
        // Scratch is what may be written.
        let scratch = ["/work/hostile", "/tmp/hostile", "/dev/shm/hostile"];
        let mut acts = vec!["files", "create"];
        acts.extend(scratch);
        let ended = Given::usual(*who).run(&acts).expect(Verdict::Ok);
        ended.each_says(&scratch, "ok");
    }
}

#[test]
fn scratch_is_gone_with_its_jail() {
    for who in Who::all() {
        Given::usual(*who).run(&["files", "create", "/work/left", "/tmp/left"]).expect(Verdict::Ok);
        let ended = Given::usual(*who).run(&["files", "list", "/work", "/tmp"]).expect(Verdict::Ok);
        assert_eq!(ended.lines(), [""; 0], "{who:?}");
    }
}

/// A path socket in a granted tree can be seen; the filter lets no program make one to call it.
#[test]
fn a_socket_in_a_granted_tree_is_out_of_reach() {
    for who in Who::all() {
        let folder = tree(*who);
        let granted = folder.path().join("granted");
        let _listener = UnixListener::bind(granted.join("socket")).unwrap();
        let scope = format!("stdout,file={}/*", text(&granted));
        let given = Given::usual(*who).flag("--cap-set", scope);
        let acts = ["calls", "socket-unix", "connect", "socketpair-dgram"];
        let ended = given.run(&acts).expect(Verdict::Ok);
        ended.each_says(&acts[1..], "EPERM");
        let path = granted.join("socket");
        assert_ne!(given.run(&["files", "read", text(&path)]).expect(Verdict::Ok).answer(text(&path)), "ok");
    }
}

#[test]
fn another_program_of_the_same_folder_is_not_there() {
    for who in Who::all() {
        let launcher = text(&host::programs().thirdwall);
        Given::usual(*who).run(&["files", "read", launcher]).expect(Verdict::Ok).says(launcher, "ENOENT");
    }
}
