//! Starts holders. The process starts first and gets its spec once the record is stored.

use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coven_domain::SessionId;
use coven_domain::session::ProcessIdentity;
use coven_files::Limit;
use coven_holder::{LaunchReport, Spec, process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use uuid::Uuid;

use super::Engine;
use super::leftovers::Processes;
use crate::runtime;

pub const HOLDER_ANSWER: Limit = Limit::new("a holder's first answer", 64 << 10);

/// A holder process that has not received its spec. It exits if its standard input is closed.
pub(crate) struct PreparedHolder {
    child: JoinHandle<io::Result<Child>>,
    dir: PathBuf,
    processes: Processes,
}

/// Timeout of a launch and the signal that cancels it.
pub(crate) struct Bounds<'a> {
    pub limit: Duration,
    pub cancelled: &'a Notify,
}

impl Engine {
    /// Returns an id for a new session and its holder: the standby holder, or a new one.
    pub(crate) async fn take_standby_holder(&self) -> (SessionId, PreparedHolder) {
        let kept = self.standby_holder.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((id, holder)) = kept
            && let Some(holder) = holder.if_alive().await
        {
            return (id, holder);
        }
        let id = SessionId::from_uuid(Uuid::new_v4());
        (id, self.prepare_holder(id))
    }

    /// Starts a standby holder for the next launch, because loading the program is the slowest part of a launch. It has
    /// no session until it gets a spec, and exits when the daemon does.
    pub(crate) fn refill_standby_holder(&self) {
        let mut standby = self.standby_holder.lock().unwrap_or_else(PoisonError::into_inner);
        if standby.is_none() && !self.is_stopping() {
            let id = SessionId::from_uuid(Uuid::new_v4());
            *standby = Some((id, self.prepare_holder(id)));
        }
    }

    pub(crate) fn prepare_holder(&self, id: SessionId) -> PreparedHolder {
        self.prepare(&id.to_string(), self.home.session_dir(id), Processes::of_launch(id))
    }

    /// Starts a holder whose files are in another folder than a session's.
    pub(crate) fn prepare_holder_at(&self, name: &str, dir: PathBuf) -> PreparedHolder {
        self.prepare(name, dir, Processes::of_holder(name))
    }

    fn prepare(&self, name: &str, dir: PathBuf, processes: Processes) -> PreparedHolder {
        let (program, name) = (self.program.clone(), name.to_owned());
        // From the runtime that answers requests: a child inherits the thread's nice value.
        let child = self.foreground.spawn(async move {
            match spawn_blocking(move || start(&program, &name)).await {
                Ok(started) => started,
                Err(error) => Err(io::Error::other(error)),
            }
        });
        PreparedHolder { child, dir, processes }
    }

    pub(crate) fn launch_limit(&self) -> Duration {
        Duration::try_from_secs_f64(self.config.sessions.launch_timeout_seconds).unwrap_or(Duration::MAX)
    }
}

impl PreparedHolder {
    /// Returns the holder if its process is still running.
    async fn if_alive(self) -> Option<Self> {
        let Self { child, dir, processes } = self;
        let mut child = child.await.ok()?.ok()?;
        let is_alive = matches!(child.try_wait(), Ok(None));
        is_alive.then(|| Self { child: runtime::spawn(async move { Ok(child) }), dir, processes })
    }

    /// Sends the spec and waits until the harness is running. Ends all processes of a failed launch before it returns.
    pub async fn launch_with(self, spec: Spec, bounds: &Bounds<'_>) -> Result<(Child, ProcessIdentity), String> {
        let Self { child, dir, mut processes } = self;
        let mut holder = match child.await {
            Ok(Ok(child)) => child,
            Ok(Err(error)) => return Err(format!("cannot start the holder: {error}")),
            Err(error) => return Err(error.to_string()),
        };
        let (stdin, stdout) = (holder.stdin.take(), holder.stdout.take());
        let report = async {
            spawn_blocking(move || send_spec(stdin.expect("the stream is piped"), &dir, &spec))
                .await
                .map_err(|error| error.to_string())??;
            read_launch_report(stdout.expect("the stream is piped"), &mut processes.leader).await
        };
        let reason = tokio::select! {
            report = report => match report {
                Ok(process) => return Ok((holder, process)),
                Err(reason) => reason,
            },
            () = tokio::time::sleep(bounds.limit) => format!(
                "the harness was not running after {} seconds and was stopped; raise sessions.launchTimeoutSeconds",
                bounds.limit.as_secs_f64()
            ),
            () = bounds.cancelled.notified() => "the session was killed before the harness was running".to_owned(),
        };
        end_launch(&processes, holder).await;
        Err(reason)
    }

    /// Ends a holder that is not needed.
    pub fn give_up(self) {
        runtime::spawn(async move {
            if let Ok(Ok(child)) = self.child.await {
                reap(child);
            }
        });
    }
}

/// Children to collect, and whether the task that collects them is running.
static ENDING: Mutex<(Vec<Child>, bool)> = Mutex::new((Vec::new(), false));
const COLLECT_INTERVAL: Duration = Duration::from_millis(200);

/// Collects a holder once it has ended. One task does this for all holders, so none needs a thread.
pub(crate) fn reap(mut holder: Child) {
    drop(holder.stdin.take());
    let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    ending.0.push(holder);
    if std::mem::replace(&mut ending.1, true) {
        return;
    }
    // Ends when no child is left, or with the daemon.
    runtime::spawn(async {
        loop {
            tokio::time::sleep(COLLECT_INTERVAL).await;
            let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
            ending.0.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            if ending.0.is_empty() {
                ending.1 = false;
                return;
            }
        }
    });
}

fn start(program: &Path, name: &str) -> io::Result<Child> {
    // Through /proc: after an upgrade, the file at `program` may use another protocol version.
    Command::new("/proc/self/exe")
        .arg0(program)
        .args(["hold", name])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// Ends the processes of a launch and its holder.
pub(super) async fn end_launch(processes: &Processes, mut holder: Child) {
    let left = processes.end_launch().await;
    if !left.is_empty() {
        tracing::error!(pids = ?left, "processes of a failed launch are alive after SIGKILL");
    }
    // The holder may not have set its process name yet.
    let _ = holder.kill();
    reap(holder);
}

fn send_spec(mut stdin: ChildStdin, dir: &Path, spec: &Spec) -> Result<(), String> {
    create_folder(dir)?;
    let spec = serde_json::to_vec(spec).map_err(|error| error.to_string())?;
    stdin.write_all(&spec).map_err(|error| format!("cannot send the spec to the holder: {error}"))
}

/// Creates the folder of a new session. It may exist already with the files for hooks; the holder refuses a used one.
pub(super) fn create_folder(dir: &Path) -> Result<(), String> {
    // A pull can replace the folder by a link while the daemon is running.
    if dir.parent().is_some_and(Path::is_symlink) {
        return Err("the folder of sessions is a symbolic link; remove it".to_owned());
    }
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !dir.is_dir() || dir.is_symlink() => {
            Err(format!("cannot create the session's folder: {error}"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Waits until the harness is running. Sets `spawned` as soon as the process is known, because the holder can die
/// before it reports that the harness is running.
async fn read_launch_report(
    stdout: ChildStdout,
    spawned: &mut Option<ProcessIdentity>,
) -> Result<ProcessIdentity, String> {
    let failed = |error: io::Error| format!("the holder did not answer: {error}");
    let stdout = pipe::Receiver::from_owned_fd(stdout.into()).map_err(failed)?;
    let mut lines = BufReader::new(stdout.take(HOLDER_ANSWER.bytes)).lines();
    while let Some(line) = lines.next_line().await.map_err(failed)? {
        match serde_json::from_str(&line) {
            Ok(LaunchReport::Spawned { pid }) => *spawned = process::identity(pid).ok(),
            Ok(LaunchReport::Running { pid, started_ticks, boot_id, .. }) => {
                return Ok(ProcessIdentity { pid, started_ticks, boot_id });
            }
            Ok(LaunchReport::Failed { reason }) => return Err(reason),
            Err(error) => return Err(format!("the holder's answer is not valid: {error}")),
        }
    }
    Err("the holder died before it answered".to_owned())
}
