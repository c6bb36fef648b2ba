//! Starts the daemon when a command needs it: detached from the caller's terminal, session and, where there is a
//! user manager, its scope.

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

/// How long a daemon that is stopping may hold the store.
const OLD_ONE_ENDS: Duration = Duration::from_secs(5);
/// How long a daemon may take to be ready. Bringing a big store up to date takes longest.
const READY_WITHIN: Duration = Duration::from_secs(180);
/// How long a daemon may take from listening to serving.
const SERVES_WITHIN: Duration = Duration::from_secs(10);

/// What a starting daemon says when the home holds state of the older coven.
pub const MIGRATE_NOTICE: &str = "Run `coven migrate` to migrate existing state";

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error("the daemon could not be started")]
    Spawn(#[source] io::Error),
    #[error("{message}")]
    Refused { message: String, exit_code: u8 },
    #[error("the daemon ended before it was ready; see {}", log.display())]
    Died { log: PathBuf },
    #[error("the daemon was not ready after {} seconds and was ended; see {}", READY_WITHIN.as_secs(), log.display())]
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

/// What a starting daemon says on its standard output, as one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstWord {
    Ready {
        pid: u32,
        /// What the caller should know, e.g. that old state can be migrated.
        notices: Vec<String>,
    },
    Failed {
        message: String,
        exit_code: u8,
    },
}

/// What a start told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    pub socket: PathBuf,
    /// False when it ran already.
    pub is_new: bool,
    pub notices: Vec<String>,
}

/// Makes sure that a daemon answers for this home.
pub fn ensure_running(home: &Home, extra_args: &[String]) -> Result<Started, StartError> {
    let socket = home.socket()?;
    let running = |socket: PathBuf| Started { socket, is_new: false, notices: Vec::new() };
    if answers(&socket) {
        return Ok(running(socket));
    }
    home.create()?;
    // One starter at a time: the others wait here and then find it running.
    let _turn = start_lock(home)?;
    if answers(&socket) {
        return Ok(running(socket));
    }
    let log = home.logs_dir().join("daemon.err");
    let until = Instant::now() + OLD_ONE_ENDS;
    loop {
        match start_new(home, &socket, &log, extra_args) {
            // One that was just stopped still writes its last; its lock goes with its process.
            Err(StartError::Refused { exit_code: 5, .. }) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(50));
                // Or one that runs has lost its socket and makes a new one.
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
    let mut stdout = child.stdout.take().expect("it was piped");
    let Some(line) = first_line(&mut stdout, READY_WITHIN).map_err(StartError::Spawn)? else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(StartError::Late { log: log.to_owned() });
    };
    match serde_json::from_str(&line) {
        Ok(FirstWord::Ready { notices, .. }) => Ok(Started { socket: socket.to_owned(), is_new: true, notices }),
        Ok(FirstWord::Failed { message, exit_code }) => {
            let _ = child.wait();
            Err(StartError::Refused { message, exit_code })
        }
        Err(_) => {
            let _ = child.wait();
            Err(StartError::Died { log: log.to_owned() })
        }
    }
}

/// Reads up to the end of a line; nothing if that takes longer than `limit`.
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

/// Whether a daemon serves there. One that was just killed may still be connected to, and never answers.
fn answers(socket: &Path) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = peer::connect(socket)?;
        // A daemon that is starting listens before it serves. Any answer will do, also that the path is unknown.
        stream.set_read_timeout(Some(SERVES_WITHIN))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        Ok(&head == b"HTTP/1.1")
    };
    ask().unwrap_or(false)
}

/// Returns the pid of the daemon that has the home's store, whether or not it answers.
pub fn store_owner(home: &Home) -> Option<u32> {
    let mut lock = home.db().into_os_string();
    lock.push(".lock");
    let id = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let lock = id(Path::new(&lock))?;
    let has_it = |pid: &u32| {
        fs::read_dir(format!("/proc/{pid}/fd"))
            .is_ok_and(|files| files.flatten().any(|file| id(&file.path()) == Some(lock)))
    };
    // Other commands have the store for a moment only, and holders never.
    process::all().into_iter().filter(|it| it.is_coven).map(|it| it.pid).find(has_it)
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
            // Of its own scope: the end of a login session does not take the daemon and its sessions along.
            let mut command = Command::new(systemd_run);
            command.args(["--user", "--scope", "--quiet", "--collect", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.args(["daemon", "serve", "--home"]).arg(home.path()).args(extra_args);
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    // SAFETY: setsid is async-signal-safe and touches nothing of ours.
    unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
    Ok(command)
}

/// `systemd-run`, where a user manager answers.
fn user_scope() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")?;
    fs::metadata(Path::new(&runtime).join("systemd/private")).ok()?;
    crate::program::find("systemd-run", std::env::var_os("PATH").as_deref())
}
