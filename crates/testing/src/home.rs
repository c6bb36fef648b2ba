//! A project with its own `.coven` home, and the command line in it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use coven_api::List;
use coven_holder::process as kernel;
use coven_host::trust::{Origin, TrustStore};
use coven_store::sqlite::checksums;
use rusqlite::{Connection, OpenFlags};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::process::{self, Found, Role};
use crate::{program, wait_until};

/// A project folder with a `.coven` home, a home folder of the user, and a folder of agents on PATH. Dropping it kills all
/// of its processes and waits until they have exited.
pub struct TestHome {
    folder: tempfile::TempDir,
    /// Additional variables for every command.
    pub env: Vec<(String, String)>,
}

/// The exit code and the output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl CommandOutput {
    /// Asserts that the command succeeded and returns its output.
    #[track_caller]
    pub fn expect_success(self) -> String {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stdout
    }

    /// Asserts that the command failed with this exit code and one message, and returns the message.
    #[track_caller]
    pub fn expect_failure(self, code: i32) -> String {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert!(self.stderr.starts_with("coven: "), "not a message of coven: {:?}", self.stderr);
        assert_eq!(self.stderr.trim_end().lines().count(), 1, "more than one line: {:?}", self.stderr);
        self.stderr
    }
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}

impl TestHome {
    /// Creates a home without a daemon, with the fake agent installed as `claude`.
    pub fn new() -> Self {
        // A short path: the path of a socket may have 107 bytes.
        Self::in_folder(tempfile::Builder::new().prefix("cv-").tempdir_in("/tmp").expect("temporary folder"))
    }

    pub fn in_folder(folder: tempfile::TempDir) -> Self {
        let home = Self { folder, env: Vec::new() };
        for folder in [home.project(), home.path(), home.user(), home.agents()] {
            fs::create_dir_all(folder).expect("disk has space");
        }
        // Like `coven init`: the settings that a test writes belong to the user.
        let trust = TrustStore::at(&home.user().join(".local/state/coven"));
        let path = fs::canonicalize(home.path()).expect("exists");
        trust.record_home(&path, Origin::Made).expect("disk has space");
        // A short grace period keeps tests fast.
        home.configure(json!({ "sessions": { "killGraceSeconds": 2.0 } }));
        home.install("claude");
        home
    }

    /// Creates a home with a running daemon.
    pub fn started() -> Self {
        let home = Self::new();
        home.start();
        home
    }

    /// Opens the database for reading and writing.
    pub fn database(&self) -> Connection {
        let path = self.path().join("coven.db");
        Connection::open_with_flags_and_vfs(path, OpenFlags::default(), checksums::vfs()).expect("database")
    }

    pub fn edit_database(&self, script: &str) {
        self.database().execute_batch(script).expect("valid SQL");
    }

    /// Creates a home with this config and a running daemon.
    pub fn started_with(config: Value) -> Self {
        let home = Self::new();
        home.configure(config);
        home.start();
        home
    }

    /// Removes the record that this user created the home, as if it came from a repository or archive.
    pub fn forget_trust(&self) {
        fs::remove_dir_all(self.user().join(".local/state/coven")).expect("was recorded");
        fs::remove_file(self.path().join("home.id")).expect("was recorded");
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn project(&self) -> PathBuf {
        self.folder.path().join("p")
    }

    /// The `.coven` folder.
    pub fn path(&self) -> PathBuf {
        self.project().join(".coven")
    }

    pub fn user(&self) -> PathBuf {
        self.folder.path().join("u")
    }

    /// The first folder on PATH.
    pub fn agents(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    pub fn socket(&self) -> PathBuf {
        self.path().join("coven.sock")
    }

    pub fn session_dir(&self, id: &str) -> PathBuf {
        self.path().join("sessions").join(id)
    }

    pub fn configure(&self, config: Value) {
        fs::write(self.path().join("config.json"), config.to_string()).expect("disk has space");
    }

    /// Installs the fake agent under a harness's name.
    pub fn install(&self, name: &str) {
        symlink(program::fake_agent(), self.agents().join(name)).expect("disk has space");
    }

    /// Writes an executable file with this content into the first folder on PATH.
    pub fn write_agent(&self, name: &str, content: &str) {
        let path = self.agents().join(name);
        fs::write(&path, content).expect("disk has space");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("writable");
    }

    /// Creates a folder in the project.
    pub fn make_folder(&self, name: &str) -> PathBuf {
        let path = self.project().join(name);
        fs::create_dir_all(&path).expect("disk has space");
        path
    }

    /// Returns the environment of every command. Other variables of the machine are not passed on.
    pub fn variables(&self) -> Vec<(String, String)> {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.agents().display());
        let mut variables = vec![
            ("HOME".to_owned(), self.user().display().to_string()),
            ("PATH".to_owned(), path),
            ("TERM".to_owned(), "xterm-256color".to_owned()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("SHELL".to_owned(), "/bin/sh".to_owned()),
        ];
        variables.extend(self.env.iter().cloned());
        variables
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program::coven());
        command.args(args).env_clear().envs(self.variables()).current_dir(self.project()).stdin(Stdio::null());
        command
    }

    /// Runs `coven` in the project and waits until it exits.
    pub fn coven(&self, args: &[&str]) -> CommandOutput {
        self.command(args).output().expect("coven runs").into()
    }

    /// Runs `coven` with this input on stdin.
    pub fn coven_with_input(&self, args: &[&str], input: &[u8]) -> CommandOutput {
        let mut command = self.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("coven runs");
        // Ignore an error: the command may exit before it has read all input.
        let _ = child.stdin.take().expect("piped").write_all(input);
        child.wait_with_output().expect("child process").into()
    }

    /// Runs `coven` and parses its output as JSON.
    #[track_caller]
    pub fn json<T: DeserializeOwned>(&self, args: &[&str]) -> T {
        let text = self.coven(args).expect_success();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Returns the items of the page that a command with `--json` prints.
    #[track_caller]
    pub fn items<T: DeserializeOwned>(&self, args: &[&str]) -> Vec<T> {
        self.json::<List<T>>(args).items
    }

    #[track_caller]
    pub fn start(&self) {
        self.coven(&["daemon", "start"]).expect_success();
    }

    #[track_caller]
    pub fn stop(&self) {
        self.coven(&["daemon", "stop"]).expect_success();
        self.wait_for_daemon_end();
    }

    /// Stops the daemon and starts another one.
    #[track_caller]
    pub fn restart(&self) {
        self.stop();
        self.start();
    }

    /// Kills the daemon with SIGKILL and waits until it has exited.
    #[track_caller]
    pub fn kill_daemon(&self) {
        process::kill_hard(self.health().pid);
        self.wait_for_daemon_end();
    }

    /// Kills every daemon of the home, including one that is starting.
    pub fn end_daemons(&self) {
        wait_until("no daemon is running", || {
            let left = self.daemons();
            left.iter().for_each(|pid| process::kill_hard(*pid));
            left.is_empty()
        });
    }

    /// Starts a daemon that kills itself with SIGKILL at the named point.
    #[track_caller]
    pub fn start_with_fault(&mut self, point: &str) {
        self.env.push(("COVEN_FAULT".to_owned(), point.to_owned()));
        self.start();
        self.env.pop();
    }

    /// Waits until the daemon has exited, and starts another one.
    #[track_caller]
    pub fn restart_after_death(&self) {
        self.wait_for_daemon_end();
        self.start();
    }

    fn wait_for_daemon_end(&self) {
        wait_until("the daemon has exited", || self.daemons().is_empty());
    }

    pub fn processes(&self) -> Vec<Found> {
        process::of_home(&fs::canonicalize(self.path()).unwrap_or_else(|_| self.path()))
    }

    pub fn daemons(&self) -> Vec<u32> {
        let found: Vec<u32> =
            self.processes().into_iter().filter(|it| it.role == Role::Daemon).map(|it| it.pid).collect();
        // A child that has not called exec yet has the command line of the daemon.
        let is_child = |pid: u32| kernel::stat(pid).is_ok_and(|it| found.contains(&it.parent));
        found.iter().copied().filter(|pid| !is_child(*pid)).collect()
    }

    pub fn holder_of(&self, id: &str) -> Option<u32> {
        self.processes().into_iter().find(|it| it.role == Role::Holder(id.to_owned())).map(|it| it.pid)
    }

    /// Returns the harness of a session and its descendants.
    pub fn harness_processes(&self, id: &str) -> Vec<u32> {
        let role = Role::Harness(id.to_owned());
        self.processes().into_iter().filter(|it| it.role == role).map(|it| it.pid).collect()
    }

    /// Kills all processes of this home.
    pub fn end_all(&self) {
        wait_until("all processes of the home have exited", || {
            let left = self.processes();
            left.iter().for_each(|it| process::kill_hard(it.pid));
            left.is_empty()
        });
    }
}

impl Drop for TestHome {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The daemon's log helps to understand the failure.
            self.print_daemon_log();
            let left = self.processes();
            left.iter().for_each(|it| process::kill_hard(it.pid));
            self.processes().iter().for_each(|it| process::kill_hard(it.pid));
            return;
        }
        self.end_all();
    }
}

impl TestHome {
    fn print_daemon_log(&self) {
        let Ok(entries) = fs::read_dir(self.path().join("logs")) else { return };
        for entry in entries.flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(40)..] {
                eprintln!("{}: {line}", entry.file_name().display());
            }
        }
    }
}
