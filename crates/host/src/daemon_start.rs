//! Starts the daemon when a command needs it, detached from the caller's terminal and session, and from its systemd
//! scope if there is a user manager.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use coven_holder::process;
use rustix::event::{PollFd, PollFlags};
use serde::{Deserialize, Serialize};

use crate::{Home, HomeError, peer, trust};

/// How long to wait for a stopping daemon to release the store.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for a daemon to be ready. Migrating a large store takes longest.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(180);
/// How long to wait for a response from a daemon that is listening.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Notice of a starting daemon if the home contains state of the older coven.
pub const MIGRATE_NOTICE: &str = "Run `coven migrate` to migrate existing state";

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error("cannot start the daemon")]
    Spawn(#[source] io::Error),
    #[error("{message}")]
    Refused { message: String, exit_code: u8 },
    #[error("the daemon exited before it was ready; see {}", log.display())]
    Died { log: PathBuf },
    #[error(
        "the daemon was not ready after {} seconds and was stopped; see {}",
        STARTUP_TIMEOUT.as_secs(), log.display()
    )]
    Late { log: PathBuf },
}

impl StartError {
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Home(error) => error.exit_code(),
            Self::Spawn(_) | Self::Died { .. } | Self::Late { .. } => 5,
            Self::Refused { exit_code, .. } => *exit_code,
        }
    }
}

/// Startup report of a daemon: one line of JSON on its standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartupReport {
    Ready {
        pid: u32,
        /// Notices for the caller, e.g. that old state can be migrated.
        notices: Vec<String>,
    },
    Failed {
        message: String,
        exit_code: u8,
    },
}

/// A running daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub socket: PathBuf,
    /// False if the daemon was already running.
    pub is_new: bool,
    pub notices: Vec<String>,
}

/// Starts a daemon for this home unless one is already running.
pub fn ensure_running(home: &Home, extra_args: &[String]) -> Result<Started, StartError> {
    let socket = home.socket()?;
    let running = |socket: PathBuf| Started { socket, is_new: false, notices: Vec::new() };
    if answers(&socket) {
        return Ok(running(socket));
    }
    home.create()?;
    // Only one process starts the daemon: the others wait here and then find it running.
    let _lock = start_lock(home)?;
    if answers(&socket) {
        return Ok(running(socket));
    }
    let log = home.logs_dir().join("daemon.err");
    let until = Instant::now() + SHUTDOWN_TIMEOUT;
    loop {
        match start_new(home, &socket, &log, extra_args) {
            // A daemon that is stopping keeps the store's lock until its process exits.
            Err(StartError::Refused { exit_code: 5, .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(50));
                // Or a running daemon has lost its socket and is creating a new one.
                if answers(&socket) {
                    return Ok(running(socket));
                }
            }
            started => return started,
        }
    }
}

fn start_new(home: &Home, socket: &Path, log: &Path, extra_args: &[String]) -> Result<Started, StartError> {
    let mut child = command(home, log, extra_args)?.spawn().map_err(StartError::Spawn)?;
    let mut stdout = child.stdout.take().expect("a piped stream");
    let Some(line) = first_line(&mut stdout, STARTUP_TIMEOUT).map_err(StartError::Spawn)? else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(StartError::Late { log: log.to_owned() });
    };
    match serde_json::from_str(&line) {
        Ok(StartupReport::Ready { notices, .. }) => Ok(Started { socket: socket.to_owned(), is_new: true, notices }),
        Ok(StartupReport::Failed { message, exit_code }) => {
            let _ = child.wait();
            Err(StartError::Refused { message, exit_code })
        }
        Err(_) => {
            let _ = child.wait();
            Err(StartError::Died { log: log.to_owned() })
        }
    }
}

/// Reads one line; returns `None` if that takes longer than `limit`.
fn first_line(stdout: &mut ChildStdout, limit: Duration) -> io::Result<Option<String>> {
    let (mut line, mut buffer, until) = (Vec::new(), [0; 1024], Instant::now() + limit);
    while !line.ends_with(b"\n") {
        let left = until.saturating_duration_since(Instant::now());
        let left = rustix::event::Timespec::try_from(left).map_err(io::Error::other)?;
        match rustix::event::poll(&mut [PollFd::new(stdout, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(None),
            Ok(_) => match stdout.read(&mut buffer)? {
                0 => break,
                count => line.extend_from_slice(&buffer[..count]),
            },
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// Returns whether a daemon responds on the socket. Connecting is not enough: the socket of a daemon that was just
/// killed may still accept connections.
fn answers(socket: &Path) -> bool {
    let request = || -> io::Result<bool> {
        let mut stream = peer::connect(socket)?;
        // A starting daemon listens before it responds. Any response will do, even 404.
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        Ok(&head == b"HTTP/1.1")
    };
    request().unwrap_or(false)
}

/// Returns the pid of the daemon that has locked the home's store, even if it does not respond.
pub fn store_owner(home: &Home) -> Option<u32> {
    let mut lock = home.db().into_os_string();
    lock.push(".lock");
    let id = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let lock = id(Path::new(&lock))?;
    let has_lock = |pid: &u32| {
        fs::read_dir(format!("/proc/{pid}/fd"))
            .is_ok_and(|files| files.flatten().any(|file| id(&file.path()) == Some(lock)))
    };
    // Other commands lock the store only briefly, and holders never do.
    process::all().into_iter().filter(|it| it.is_coven).map(|it| it.pid).find(has_lock)
}

fn start_lock(home: &Home) -> Result<File, StartError> {
    let path = home.path().join("daemon.start");
    let unusable = |source| StartError::Home(HomeError::Unusable { path: home.path().to_owned(), source });
    let file = trust::open_own(&path).map_err(unusable)?;
    file.lock().map_err(unusable)?;
    Ok(file)
}

fn command(home: &Home, log: &Path, extra_args: &[String]) -> Result<Command, StartError> {
    let program = std::env::current_exe().map_err(StartError::Spawn)?;
    let errors = trust::open_own(log).map_err(StartError::Spawn)?;
    rustix::fs::fcntl_setfl(&errors, rustix::fs::OFlags::APPEND).map_err(|error| StartError::Spawn(error.into()))?;
    let mut command = match user_scope() {
        Some(systemd_run) => {
            // A separate scope, so that the end of the login session does not kill the daemon and its sessions.
            let mut command = Command::new(systemd_run);
            command.args(["--user", "--scope", "--quiet", "--collect", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.args(["daemon", "serve", "--home"]).arg(home.path()).args(extra_args);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    // SAFETY: setsid is async-signal-safe and accesses no memory of this process.
    unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
    Ok(command)
}

/// Returns the path of `systemd-run` if a user manager is running.
fn user_scope() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")?;
    fs::metadata(Path::new(&runtime).join("systemd/private")).ok()?;
    crate::program::find("systemd-run", std::env::var_os("PATH").as_deref())
}
