//! Starting a holder: its program first, its spec when the record is written.

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

pub const HOLDER_ANSWER: Limit = Limit::new("a holder's first answer", 64 << 10);

/// A holder that waits to be told what to run. Told nothing, it ends by itself.
pub(crate) struct PreparedHolder {
    child: JoinHandle<io::Result<Child>>,
    dir: PathBuf,
    processes: Processes,
}

/// How long a launch may take, and how to cancel it earlier.
pub(crate) struct Bounds<'a> {
    pub limit: Duration,
    pub cancelled: &'a Notify,
}

impl Engine {
    /// An id for a new session and the holder that waits under it: the one that was kept ready, or a new one.
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

    /// Keeps a holder ready for the next launch: loading a program takes longer than everything else in it. It has no
    /// session until it is told one, and ends by itself when the daemon does.
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

    /// One that keeps its files in another folder than a session's own.
    pub(crate) fn prepare_holder_at(&self, name: &str, dir: PathBuf) -> PreparedHolder {
        self.prepare(name, dir, Processes::of_holder(name))
    }

    fn prepare(&self, name: &str, dir: PathBuf, processes: Processes) -> PreparedHolder {
        let (program, name) = (self.program.clone(), name.to_owned());
        // From a thread of those who answer: a child has the rank of the thread that makes it.
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
    /// Nobody ended it while it waited.
    async fn if_alive(self) -> Option<Self> {
        let Self { child, dir, processes } = self;
        let mut child = child.await.ok()?.ok()?;
        let is_alive = matches!(child.try_wait(), Ok(None));
        is_alive.then(|| Self { child: tokio::spawn(async move { Ok(child) }), dir, processes })
    }

    /// Sends the spec and waits until the harness runs. Ends all processes of a failed launch before it returns.
    pub async fn launch_with(self, spec: Spec, bounds: &Bounds<'_>) -> Result<(Child, ProcessIdentity), String> {
        let Self { child, dir, mut processes } = self;
        let mut holder = match child.await {
            Ok(Ok(child)) => child,
            Ok(Err(error)) => return Err(format!("the holder cannot be started: {error}")),
            Err(error) => return Err(error.to_string()),
        };
        let (stdin, stdout) = (holder.stdin.take(), holder.stdout.take());
        let heard = async {
            spawn_blocking(move || send_spec(stdin.expect("it was piped"), &dir, &spec))
                .await
                .map_err(|error| error.to_string())??;
            read_launch_report(stdout.expect("it was piped"), &mut processes.leader).await
        };
        let reason = tokio::select! {
            heard = heard => match heard {
                Ok(process) => return Ok((holder, process)),
                Err(reason) => reason,
            },
            () = tokio::time::sleep(bounds.limit) => format!(
                "it was not running after {} seconds (sessions.launchTimeoutSeconds) and was ended",
                bounds.limit.as_secs_f64()
            ),
            () = bounds.cancelled.notified() => "it was killed before it ran".to_owned(),
        };
        end_launch(&processes, holder).await;
        Err(reason)
    }

    /// It is not needed after all.
    pub fn give_up(self) {
        tokio::spawn(async move {
            if let Ok(Ok(child)) = self.child.await {
                reap(child);
            }
        });
    }
}

/// Children that nobody waits for, and whether somebody collects them.
static ENDING: Mutex<(Vec<Child>, bool)> = Mutex::new((Vec::new(), false));
const COLLECT: Duration = Duration::from_millis(200);

/// Collects a holder once it has ended, whenever that is: one task for all of them, and no thread.
pub(crate) fn reap(mut holder: Child) {
    drop(holder.stdin.take());
    let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    ending.0.push(holder);
    if std::mem::replace(&mut ending.1, true) {
        return;
    }
    // Ends when there is nobody left to collect, or with the daemon.
    tokio::spawn(async {
        loop {
            tokio::time::sleep(COLLECT).await;
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
    // Through /proc: a binary that was replaced by an upgrade is still the one that speaks our language.
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

/// Ends what a launch started, and its holder.
pub(super) async fn end_launch(processes: &Processes, mut holder: Child) {
    let left = processes.end_launch().await;
    if !left.is_empty() {
        tracing::error!(pids = ?left, "processes of a failed launch are alive after SIGKILL");
    }
    // A holder that has not taken its name yet.
    let _ = holder.kill();
    reap(holder);
}

fn send_spec(mut stdin: ChildStdin, dir: &Path, spec: &Spec) -> Result<(), String> {
    let told = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    // A pull can replace the folder while the daemon runs: nothing is written through a link.
    if dir.parent().is_some_and(Path::is_symlink) {
        return Err("the folder of sessions is a symbolic link; remove it".to_owned());
    }
    std::fs::DirBuilder::new().mode(0o700).create(dir).map_err(told("the session's folder cannot be made"))?;
    let spec = serde_json::to_vec(spec).map_err(|error| error.to_string())?;
    stdin.write_all(&spec).map_err(told("the holder did not read its instructions"))
}

/// Waits until the harness runs. Its process is known earlier: a holder can die in between.
async fn read_launch_report(
    stdout: ChildStdout,
    spawned: &mut Option<ProcessIdentity>,
) -> Result<ProcessIdentity, String> {
    let told = |error: io::Error| format!("the holder did not answer: {error}");
    let stdout = pipe::Receiver::from_owned_fd(stdout.into()).map_err(told)?;
    let mut lines = BufReader::new(stdout.take(HOLDER_ANSWER.bytes)).lines();
    while let Some(line) = lines.next_line().await.map_err(told)? {
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
