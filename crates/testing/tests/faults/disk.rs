//! A full disk, and a home that is not writable.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use coven_testing::pattern::{assert_bytes, flood};
use coven_testing::program::{coven, is_root, skip};
use coven_testing::{CommandOutput, TestHome, check_invariants, journal, wait_until};
use serde_json::json;

/// The uid of an unprivileged user. Root can write everywhere, so a test that runs as root switches to it.
const OTHER_UID: u32 = 65534;

/// A small file system that is unmounted on drop.
struct SmallDisk {
    folder: Option<tempfile::TempDir>,
}

impl SmallDisk {
    fn mount(megabytes: u32) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("cv-").tempdir_in("/tmp").expect("temporary folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self { folder: Some(folder) })
    }

    fn path(&self) -> &Path {
        self.folder.as_ref().expect("present until dropped").path()
    }

    fn free_bytes(&self) -> u64 {
        let found = rustix::fs::statvfs(self.path()).expect("file system");
        found.f_bavail * found.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Processes that were just killed may still have files open there.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
        drop(self.folder.take());
    }
}

/// Starts a home on a disk of 40 MB. Reports a skipped test and returns `None` if that is not possible.
fn on_small_disk(test: &str) -> Option<(SmallDisk, TestHome)> {
    if !is_root() {
        skip(test, "mounting a file system requires root");
        return None;
    }
    let Some(disk) = SmallDisk::mount(40) else {
        skip(test, "file systems cannot be mounted here");
        return None;
    };
    let home =
        TestHome::in_folder(tempfile::Builder::new().prefix("h").tempdir_in(disk.path()).expect("temporary folder"));
    home.configure(json!({ "sessions": { "compressFinished": false, "killGraceSeconds": 2.0 } }));
    home.start();
    Some((disk, home))
}

#[test]
fn on_a_full_disk_the_harness_waits_and_nothing_is_lost() {
    let Some((disk, home)) = on_small_disk("on_a_full_disk_the_harness_waits_and_nothing_is_lost") else { return };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; 24 << 20]).expect("disk has space");

    let id = home.launch("flood 24000000 ;; say done").id;
    wait_until("the disk is full", || disk.free_bytes() == 0);
    let dir = home.session_dir(&id);
    let (pid, written) = (home.session(&id).pid.expect("is running"), journal::log_end(&dir));
    assert!(coven_testing::process::is_alive(pid) && written < 24_000_000, "{written} bytes written");
    // A request that needs disk space must still get a response.
    let answer = home.post("/api/v1/sessions", &json!({ "harness": "claude", "prompt": "say hello" }));
    assert!(matches!(answer.status, 201 | 500 | 507), "{}", answer.status);
    fs::remove_file(&ballast).expect("writable");

    let session = home.wait_for_end(&id);
    assert_eq!(session.status, "completed");
    let expected = [flood(24_000_000), b"done\n".to_vec()].concat();
    assert_bytes("the log", &home.log(&id), &expected);
    check_invariants(&home);
    drop(home);
}

#[test]
fn on_a_full_disk_the_session_that_fills_it_can_be_killed_and_deleted() {
    let Some((disk, home)) = on_small_disk("on_a_full_disk_the_session_that_fills_it_can_be_killed_and_deleted") else {
        return;
    };

    let id = home.launch("flood 100000000").id;
    wait_until("the disk is full", || disk.free_bytes() == 0);
    // The response does not matter, but the session must end.
    home.act(&id, "kill");
    wait_until("the session's processes have exited", || home.harness_processes(&id).is_empty());
    wait_until("the session can be deleted", || home.sacrifice(&id).status == 200);

    assert!(disk.free_bytes() > 20 << 20);
    assert_eq!(home.run_to_end("say hello").status, "completed");
    check_invariants(&home);
    drop(home);
}

#[test]
fn a_home_that_is_not_writable_is_reported_with_advice() {
    let home = TestHome::new();
    let folder = home.path();
    fs::remove_file(folder.join("config.json")).expect("existed");
    home.forget_trust();
    let mut command = home.command(&["sessions", "--json"]);
    if is_root() {
        let is_open = fs::metadata(coven()).is_ok_and(|it| it.permissions().mode() & 0o005 == 0o005);
        if !is_open {
            return skip("a_home_that_is_not_writable_is_reported_with_advice", "other users cannot run the binary");
        }
        chown(&folder, Some(OTHER_UID), Some(OTHER_UID)).expect("permitted for root");
        chown(home.user(), Some(OTHER_UID), Some(OTHER_UID)).expect("permitted for root");
        fs::set_permissions(home.folder(), fs::Permissions::from_mode(0o755)).expect("writable");
        command.uid(OTHER_UID).gid(OTHER_UID);
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).expect("writable");

    let ran = CommandOutput::from(command.output().expect("coven starts"));

    let message = ran.expect_failure(2);
    assert!(message.contains(".coven") && message.contains("--home"), "{message}");
    assert_eq!(fs::read_dir(&folder).expect("readable folder").count(), 0, "no file was created");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("writable");
}
