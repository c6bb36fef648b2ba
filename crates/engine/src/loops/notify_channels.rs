//! The programs that get notifications: `notify-send`, and the command of the user.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coven_domain::text::one_line;
use coven_host::program;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::notification::NotificationRecord;

/// Time limit of a program.
const TIME_LIMIT: Duration = Duration::from_secs(10);
const MAX_CHARS: usize = 200;
/// The program that shows notifications.
const NOTIFY_SEND: &str = "notify-send";
/// Calls of the command that run at a time.
const MAX_CALLS: usize = 2;
/// How much of the command's standard error is read for the log.
const MAX_STDERR_BYTES: u64 = 4096;

/// Shows a notification if there is a program that can; `coven doctor` says so if there is none.
pub async fn show(title: String, body: Vec<String>) {
    let Some(notify_send) = program::find(NOTIFY_SEND, std::env::var_os("PATH").as_deref()) else { return };
    let lines: Vec<String> = body.iter().map(|line| one_line(line, MAX_CHARS)).collect();
    let child = Command::new(notify_send)
        .args(["--app-name=coven", "--"])
        .args([one_line(&title, MAX_CHARS), lines.join("\n")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // In its own process group, so that a timeout also ends its children.
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    match child {
        Ok(mut child) => drop(timeout(TIME_LIMIT, child.wait()).await.map_err(|_| end(&mut child))),
        Err(error) => tracing::warn!(%error, "cannot show a notification"),
    }
}

/// The command of the user: it gets each notification as JSON.
#[derive(Clone)]
pub struct NotificationCommand {
    argv: Arc<[String]>,
    folder: PathBuf,
    calls: Arc<Semaphore>,
    has_failed: Arc<AtomicBool>,
}

impl NotificationCommand {
    pub fn new(argv: &[String], folder: &Path) -> Option<Self> {
        let calls = Arc::new(Semaphore::new(MAX_CALLS));
        (!argv.is_empty()).then(|| Self {
            argv: argv.into(),
            folder: folder.to_owned(),
            calls,
            has_failed: Arc::default(),
        })
    }

    /// Runs the command. Its first failure is logged.
    pub fn run(self, record: &NotificationRecord) -> impl Future<Output = ()> + use<> {
        let mut text = serde_json::to_vec(record).expect("plain data");
        text.push(b'\n');
        async move {
            let Ok(_permit) = self.calls.acquire().await else { return };
            if let Err(problem) = self.call(&text).await
                && !self.has_failed.swap(true, Ordering::Relaxed)
            {
                let program = &self.argv[0];
                tracing::warn!(program, problem, "notifications.command failed; later failures are not logged");
            }
        }
    }

    async fn call(&self, text: &[u8]) -> Result<(), String> {
        let mut child = Command::new(&self.argv[0])
            .args(&self.argv[1..])
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start it: {error}"))?;
        match timeout(TIME_LIMIT, exchange(&mut child, text)).await {
            Ok(Ok((status, _))) if status.success() => Ok(()),
            Ok(Ok((status, said))) => Err(format!("{status}: {}", one_line(&said, MAX_CHARS))),
            Ok(Err(error)) => Err(format!("cannot wait for it: {error}")),
            Err(_) => {
                end(&mut child);
                Err(format!("it ran for more than {} s and was killed", TIME_LIMIT.as_secs()))
            }
        }
    }
}

/// Writes the text and waits for the end. Returns how the command ended and the start of what it wrote to standard error.
async fn exchange(child: &mut Child, text: &[u8]) -> std::io::Result<(ExitStatus, String)> {
    let (input, errors) = (child.stdin.take(), child.stderr.take());
    let write = async {
        if let Some(mut input) = input {
            // A command that does not read its input is not an error.
            let _ = input.write_all(text).await;
        }
    };
    let read = async {
        let mut said = Vec::new();
        if let Some(mut errors) = errors {
            let _ = (&mut errors).take(MAX_STDERR_BYTES).read_to_end(&mut said).await;
            // Read the rest, so that the command does not fail for writing it.
            let _ = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
        }
        String::from_utf8_lossy(&said).into_owned()
    };
    let (status, (), said) = tokio::join!(child.wait(), write, read);
    Ok((status?, said))
}

/// Kills a program with its children.
fn end(child: &mut Child) {
    let group = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    // Reaped by the runtime.
    let _ = child.start_kill();
}
