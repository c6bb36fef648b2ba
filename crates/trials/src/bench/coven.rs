//! A coven home for the benchmark, with its daemon, sessions and clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coven_api::routes::{CreateSession, Endpoint, GetSession, Health};
use serde_json::{Value, json};

use super::http::Connection;
use super::pattern::{BANNER, Kind};
use super::program::{COLS, ROWS};
use super::pty::{STEP_TIMEOUT, Terminal};
use super::{Bench, BenchResult, pattern, proc};

/// A home in a new folder. Dropping it stops the daemon and kills its sessions.
pub struct Coven {
    bin: PathBuf,
    folder: tempfile::TempDir,
}

#[derive(Debug, Clone)]
pub struct Session {
    pub id: String,
    pub pid: u32,
}

impl Coven {
    /// Creates a home; `sessions` is that block of the config file.
    pub fn new(bench: &Bench, sessions: Value) -> BenchResult<Self> {
        Self::new_in(&bench.coven, &std::env::temp_dir(), sessions)
    }

    fn new_in(bin: &Path, parent: &Path, sessions: Value) -> BenchResult<Self> {
        let coven = Self { bin: bin.to_owned(), folder: tempfile::Builder::new().prefix("cvn").tempdir_in(parent)? };
        fs::create_dir(coven.home())?;
        fs::write(coven.home().join("config.json"), json!({ "sessions": sessions }).to_string())?;
        Ok(coven)
    }

    /// Creates a home and starts its daemon.
    pub fn started(bench: &Bench, sessions: Value) -> BenchResult<Self> {
        let coven = Self::new(bench, sessions)?;
        coven.start()?;
        Ok(coven)
    }

    /// Like `started`, with another binary and parent folder.
    pub fn started_in(bin: &Path, parent: &Path, sessions: Value) -> BenchResult<Self> {
        let coven = Self::new_in(bin, parent, sessions)?;
        coven.start()?;
        Ok(coven)
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join(".coven")
    }

    pub fn session_dir(&self, id: &str) -> PathBuf {
        self.home().join("sessions").join(id)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.bin);
        command.arg("--home").arg(self.home()).args(args).current_dir(self.folder.path());
        command
    }

    pub fn call(&self, args: &[&str]) -> BenchResult<String> {
        let output = self.command(args).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(format!("coven {} ended with {}: {error}", args.join(" "), output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    pub fn start(&self) -> BenchResult<()> {
        self.call(&["daemon", "start"]).map(drop)
    }

    pub fn connect(&self) -> BenchResult<Connection> {
        Connection::open(&self.home().join("coven.sock"))
    }

    pub fn daemon_pid(&self) -> BenchResult<u32> {
        let health = self.connect()?.get_json(Health::ROUTE.path)?;
        Ok(health["pid"].as_u64().ok_or("the daemon does not report its pid")? as u32)
    }

    pub fn request(&self, argv: &[String]) -> Value {
        json!({ "argv": argv, "cwd": self.folder.path(), "project_root": self.folder.path(), "rows": ROWS, "cols": COLS })
    }

    pub fn launch(&self, argv: &[String]) -> BenchResult<Session> {
        let record = self.connect()?.post(CreateSession::ROUTE.path, &self.request(argv))?;
        Session::from(&record)
    }

    /// Blocks until the session has ended.
    pub fn wait(&self, session: &Session) -> BenchResult<()> {
        self.connect()?.get(&session.path("/wait")).map(drop)
    }

    pub fn kill(&self, session: &Session) -> BenchResult<()> {
        self.connect()?.post(&session.path("/kill"), &json!({}))?;
        self.wait(session)
    }

    pub fn sacrifice(&self, session: &Session) -> BenchResult<()> {
        self.connect()?.delete(&session.path(""))
    }

    /// Compares the whole log with the flood's output.
    pub fn check_log(&self, session: &Session, kind: Kind, bytes: u64) -> BenchResult<()> {
        let mut connection = self.connect()?;
        pattern::check(connection.stream("GET", &session.path("/log?from=0"), None)?, kind, bytes)
    }

    /// Attaches a client and waits until its screen shows the flood's banner.
    pub fn attach(&self, session: &Session) -> BenchResult<Terminal> {
        let client = Terminal::spawn(self.command(&["attach", &session.id]))?;
        client.read_until(BANNER.trim_ascii())?;
        Ok(client)
    }
}

impl Session {
    pub fn from(record: &Value) -> BenchResult<Self> {
        let id = record["id"].as_str().ok_or("the session record has no id")?.to_owned();
        Ok(Self { id, pid: record["pid"].as_u64().unwrap_or_default() as u32 })
    }

    pub fn path(&self, rest: &str) -> String {
        format!("{}{rest}", GetSession::of(&self.id).target())
    }
}

/// Returns the process that owns the terminal of `pid`: its parent, in coven and in its peers.
pub fn holder_of(pid: u32) -> BenchResult<u32> {
    proc::parent(pid)
}

impl Drop for Coven {
    fn drop(&mut self) {
        // If the daemon was killed, a new one must end its sessions.
        let stopped = self.start().and_then(|()| self.call(&["daemon", "stop", "--kill-sessions"]));
        if let Err(error) = stopped.and_then(|_| wait_until_gone(&self.home().join("coven.sock"))) {
            eprintln!("bench: the daemon of {} did not stop: {error}", self.folder.path().display());
        }
    }
}

fn wait_until_gone(socket: &Path) -> BenchResult<()> {
    super::eventually(STEP_TIMEOUT, "the daemon to exit", || Ok(Connection::open(socket).is_err()))
}
