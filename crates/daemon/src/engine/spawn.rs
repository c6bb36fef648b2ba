//! Starting a holder: its program first, its spec when the record is written.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use coven_domain::SessionId;
use coven_domain::session::ProcessIdentity;
use coven_holder::{Ready, Spec};
use tokio::task::{JoinHandle, spawn_blocking};
use uuid::Uuid;

use super::Engine;

/// A holder that waits to be told what to run. Told nothing, it ends by itself.
pub(crate) struct PreparedHolder {
    child: JoinHandle<io::Result<Child>>,
    dir: PathBuf,
}

impl Engine {
    /// An id for a new session and the holder that waits under it: the one that was kept ready, or a new one.
    pub(crate) async fn next_holder(&self) -> (SessionId, PreparedHolder) {
        let kept = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
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
    pub(crate) fn keep_holder_ready(&self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.is_none() && !self.is_stopping() {
            let id = SessionId::from_uuid(Uuid::new_v4());
            *spare = Some((id, self.prepare_holder(id)));
        }
    }

    pub(crate) fn prepare_holder(&self, id: SessionId) -> PreparedHolder {
        self.prepare_holder_at(&id.to_string(), self.home.session_dir(id))
    }

    /// One that keeps its files in another folder than a session's own.
    pub(crate) fn prepare_holder_at(&self, name: &str, dir: std::path::PathBuf) -> PreparedHolder {
        let (program, name) = (self.program.clone(), name.to_owned());
        // From a thread of those who answer: a child has the rank of the thread that makes it.
        let child = self.foreground.spawn(async move {
            match spawn_blocking(move || start(&program, &name)).await {
                Ok(started) => started,
                Err(error) => Err(io::Error::other(error)),
            }
        });
        PreparedHolder { child, dir }
    }
}

impl PreparedHolder {
    /// Nobody ended it while it waited.
    async fn if_alive(self) -> Option<Self> {
        let mut child = self.child.await.ok()?.ok()?;
        let is_alive = matches!(child.try_wait(), Ok(None));
        is_alive.then(|| Self { child: tokio::spawn(async move { Ok(child) }), dir: self.dir })
    }

    /// Tells it what to run and waits for its first word.
    pub async fn brief(self, spec: Spec) -> Result<(Child, ProcessIdentity), String> {
        let child = match self.child.await {
            Ok(Ok(child)) => child,
            Ok(Err(error)) => return Err(format!("the holder cannot be started: {error}")),
            Err(error) => return Err(error.to_string()),
        };
        let dir = self.dir;
        match spawn_blocking(move || brief(child, &dir, &spec)).await {
            Ok(answer) => answer,
            Err(error) => Err(error.to_string()),
        }
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

fn brief(mut holder: Child, dir: &Path, spec: &Spec) -> Result<(Child, ProcessIdentity), String> {
    let answer = tell(&mut holder, dir, spec);
    match answer {
        Ok(Ready::Running { pid, started_ticks, boot_id, .. }) => {
            Ok((holder, ProcessIdentity { pid, started_ticks, boot_id }))
        }
        Ok(Ready::Failed { reason }) | Err(reason) => {
            drop(holder.stdin.take());
            let _ = holder.wait();
            Err(reason)
        }
    }
}

fn tell(holder: &mut Child, dir: &Path, spec: &Spec) -> Result<Ready, String> {
    let told = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    std::fs::DirBuilder::new().mode(0o700).create(dir).map_err(told("the session's folder cannot be made"))?;
    let mut stdin = holder.stdin.take().expect("it was piped");
    let spec = serde_json::to_vec(spec).map_err(|error| error.to_string())?;
    stdin.write_all(&spec).map_err(told("the holder did not listen"))?;
    drop(stdin);
    let mut line = String::new();
    let stdout = holder.stdout.take().expect("it was piped");
    BufReader::new(stdout).read_line(&mut line).map_err(told("the holder did not answer"))?;
    serde_json::from_str(&line).map_err(|_| "the holder died before it answered".to_owned())
}
