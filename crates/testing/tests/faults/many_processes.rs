//! A user who has reached the process limit. Root has no limit, so as root the tests use another user's daemon.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coven_testing::{CommandOutput, TestHome, eventually, program};
use rustix::process::{Resource, Rlimit, geteuid, setrlimit};

/// Returns the uid of a user without processes, if the tests run as root.
fn other_user() -> Option<u32> {
    geteuid().is_root().then(|| 60_000 + std::process::id() % 5_000)
}

/// Changes the owner of the home and copies the binary into it, so that the user can access both.
fn give_home_to(home: &TestHome, user: Option<u32>) -> PathBuf {
    let binary = home.folder().join("coven");
    fs::copy(program::coven(), &binary).expect("disk has space");
    fs::set_permissions(home.folder(), fs::Permissions::from_mode(0o755)).expect("writable");
    chown_all(home.folder(), user);
    if user.is_some() {
        // Trust is recorded per user, so the new owner must trust the home.
        home.forget_trust();
        let folder = home.path().display().to_string();
        let output = limited(home, &binary, user, 1000, &["trust", &folder, "--yes"]).output().expect("is running");
        CommandOutput::from(output).expect_success();
    }
    binary
}

fn chown_all(path: &Path, user: Option<u32>) {
    lchown(path, user, user).expect("writable");
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).expect("readable folder").flatten().for_each(|entry| chown_all(&entry.path(), user));
    }
}

/// Returns a command that runs as the user, with at most `limit` processes and threads.
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
fn a_daemon_that_cannot_create_threads_exits_with_the_reason() {
    let home = TestHome::new();
    let user = other_user();
    let binary = give_home_to(&home, user);
    let folder = home.path().display().to_string();

    for limit in [1, 2, 3, 4, 6, 10, 16] {
        let mut daemon =
            limited(&home, &binary, user, limit, &["daemon", "serve", "--home", &folder]).spawn().expect("is running");
        let ended = eventually("the daemon exits", || daemon.try_wait().expect("child process"));
        let output = daemon.wait_with_output().expect("child process");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert_eq!(ended.code(), Some(1), "{limit}: {stdout}");
        assert!(stdout.contains("failed") && stdout.contains("ulimit -u"), "{limit}: {stdout}");
    }
}

#[test]
fn a_command_does_not_wait_for_a_daemon_that_cannot_create_threads() {
    // As the same user, the command itself would not run.
    let Some(user) = other_user() else { return };
    let home = TestHome::new();
    let binary = give_home_to(&home, Some(user));

    let output = limited(&home, &binary, Some(user), 8, &["run", "claude", "hang", "--background"])
        .output()
        .expect("is running");

    let message = CommandOutput::from(output).expect_failure(1);
    assert!(message.contains("ulimit -u"), "{message}");
    assert_eq!(home.daemons(), Vec::<u32>::new());
}
