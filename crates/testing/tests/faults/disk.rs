//! A full disk and a home that cannot be written.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use coven_testing::pattern::{assert_bytes, flood};
use coven_testing::program::{coven, is_root, skip};
use coven_testing::{Ran, TestHome, check_invariants, journal, wait_until};
use serde_json::json;

/// Nobody's uid: the test drops to it where it runs as root, for whom nothing is read-only.
const NOBODY: u32 = 65534;

/// A small file system of its own, gone when dropped.
struct SmallDisk {
    folder: Option<tempfile::TempDir>,
}

impl SmallDisk {
    fn mount(megabytes: u32) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("cv-").tempdir_in("/tmp").expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self { folder: Some(folder) })
    }

    fn path(&self) -> &Path {
        self.folder.as_ref().expect("it is there until dropped").path()
    }

    fn free_bytes(&self) -> u64 {
        let found = rustix::fs::statvfs(self.path()).expect("a file system");
        found.f_bavail * found.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Whoever still has a file open there was killed a moment ago.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
        drop(self.folder.take());
    }
}

/// A home on a disk of 40 MB, or a word on why there is none.
fn on_small_disk(test: &str) -> Option<(SmallDisk, TestHome)> {
    if !is_root() {
        skip(test, "mounting a small file system takes root");
        return None;
    }
    let Some(disk) = SmallDisk::mount(40) else {
        skip(test, "nothing can be mounted here");
        return None;
    };
    let home = TestHome::in_folder(tempfile::Builder::new().prefix("h").tempdir_in(disk.path()).expect("a folder"));
    home.configure(json!({ "sessions": { "compressFinished": false, "killGraceSeconds": 2.0 } }));
    home.start();
    Some((disk, home))
}

#[test]
fn on_a_full_disk_the_harness_waits_and_nothing_is_lost() {
    let Some((disk, home)) = on_small_disk("on_a_full_disk_the_harness_waits_and_nothing_is_lost") else { return };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; 24 << 20]).expect("room on disk");

    let id = home.launch("flood 24000000 ;; say done").id;
    wait_until("the disk is full", || disk.free_bytes() == 0);
    let dir = home.session_dir(&id);
    let (pid, written) = (home.session(&id).pid.expect("it runs"), journal::log_end(&dir));
    assert!(coven_testing::process::is_alive(pid) && written < 24_000_000, "{written} bytes written");
    // Whoever asks for something that needs room gets a sentence, not silence.
    let answer = home.post("/api/v1/sessions", &json!({ "harness": "claude", "prompt": "say hello" }));
    assert!(matches!(answer.status, 201 | 500 | 507), "{}", answer.status);
    fs::remove_file(&ballast).expect("ours");

    let session = home.wait_for_end(&id);
    assert_eq!(session.status, "completed");
    let expected = [flood(24_000_000), b"done\n".to_vec()].concat();
    assert_bytes("the log", &home.log(&id), &expected);
    check_invariants(&home);
    drop(home);
}

#[test]
fn on_a_full_disk_what_fills_it_can_be_ended_and_deleted() {
    let Some((disk, home)) = on_small_disk("on_a_full_disk_what_fills_it_can_be_ended_and_deleted") else { return };

    let id = home.launch("flood 100000000").id;
    wait_until("the disk is full", || disk.free_bytes() == 0);
    // Whatever is answered: the one who fills the disk is ended.
    home.act(&id, "kill");
    wait_until("its processes are gone", || home.harness_processes(&id).is_empty());
    wait_until("it can be deleted", || home.sacrifice(&id).status == 200);

    assert!(disk.free_bytes() > 20 << 20);
    assert_eq!(home.run_to_end("say hello").status, "completed");
    check_invariants(&home);
    drop(home);
}

#[test]
fn a_home_that_cannot_be_written_is_told_with_what_to_do() {
    let home = TestHome::new();
    let folder = home.path();
    fs::remove_file(folder.join("config.json")).expect("it was there");
    home.forget_trust();
    let mut command = home.command(&["sessions", "--json"]);
    if is_root() {
        let is_open = fs::metadata(coven()).is_ok_and(|it| it.permissions().mode() & 0o005 == 0o005);
        if !is_open {
            return skip("a_home_that_cannot_be_written", "other users cannot run the binary");
        }
        chown(&folder, Some(NOBODY), Some(NOBODY)).expect("root may");
        chown(home.user(), Some(NOBODY), Some(NOBODY)).expect("root may");
        fs::set_permissions(home.folder(), fs::Permissions::from_mode(0o755)).expect("ours");
        command.uid(NOBODY).gid(NOBODY);
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).expect("ours");

    let ran = Ran::from(command.output().expect("coven runs"));

    let message = ran.refused(2);
    assert!(message.contains(".coven") && message.contains("--home"), "{message}");
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0, "nothing was made");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("ours");
}
