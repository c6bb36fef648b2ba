//! A user whose limit of processes is reached: root has none, so under root another user's daemon is started.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coven_testing::{Ran, TestHome, eventually, program};
use rustix::process::{Resource, Rlimit, geteuid, setrlimit};

/// A user without processes, where the tests may be one.
fn other_user() -> Option<u32> {
    geteuid().is_root().then(|| 60_000 + std::process::id() % 5_000)
}

/// Gives the home to the other user, with a binary that the other user can reach.
fn give_to(home: &TestHome, user: Option<u32>) -> PathBuf {
    let binary = home.folder().join("coven");
    fs::copy(program::coven(), &binary).expect("room on disk");
    fs::set_permissions(home.folder(), fs::Permissions::from_mode(0o755)).expect("ours");
    give(home.folder(), user);
    if user.is_some() {
        // The record that a user made a home is for that user.
        home.forget_trust();
        let folder = home.path().display().to_string();
        let output = limited(home, &binary, user, 1000, &["trust", &folder, "--yes"]).output().expect("it runs");
        Ran::from(output).done();
    }
    binary
}

fn give(path: &Path, user: Option<u32>) {
    lchown(path, user, user).expect("ours");
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).expect("a folder").flatten().for_each(|entry| give(&entry.path(), user));
    }
}

/// A command of the user who may have `limit` processes and threads.
fn limited(home: &TestHome, binary: &Path, user: Option<u32>, limit: u64, args: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(args).env_clear().envs(home.variables()).current_dir(home.project());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    // SAFETY: setrlimit is async-signal-safe.
    unsafe {
        command
            .pre_exec(move || Ok(setrlimit(Resource::Nproc, Rlimit { current: Some(limit), maximum: Some(limit) })?));
    }
    command
}

#[test]
fn a_daemon_that_gets_no_threads_ends_and_says_why() {
    let home = TestHome::new();
    let user = other_user();
    let binary = give_to(&home, user);
    let folder = home.path().display().to_string();

    for limit in [1, 2, 3, 4, 6, 10, 16] {
        let mut daemon =
            limited(&home, &binary, user, limit, &["daemon", "serve", "--home", &folder]).spawn().expect("it runs");
        let ended = eventually("the daemon ends", || daemon.try_wait().expect("our child"));
        let output = daemon.wait_with_output().expect("our child");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(ended.code(), Some(1), "{limit}: {said}");
        assert!(said.contains("failed") && said.contains("ulimit -u"), "{limit}: {said}");
    }
}

#[test]
fn a_command_that_needs_a_daemon_does_not_wait_for_one_that_gets_no_threads() {
    // Without another user the command itself would not run.
    let Some(user) = other_user() else { return };
    let home = TestHome::new();
    let binary = give_to(&home, Some(user));

    let output =
        limited(&home, &binary, Some(user), 8, &["run", "claude", "hang", "--background"]).output().expect("it runs");

    let message = Ran::from(output).refused(1);
    assert!(message.contains("ulimit -u"), "{message}");
    assert_eq!(home.daemons(), Vec::<u32>::new());
}
