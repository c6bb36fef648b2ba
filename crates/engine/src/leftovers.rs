//! Ends the processes of a session without its holder.

use std::collections::HashSet;
use std::time::Duration;

use coven_domain::SessionId;
use coven_domain::session::{ProcessIdentity, Session};
use coven_holder::process::{self, Stat};
use rustix::process::Signal;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::launch::SESSION_VARIABLE;

/// How long to wait for processes after SIGKILL.
const AFTER_SIGKILL: Duration = Duration::from_secs(5);
/// How long a continued holder may take to record the end of its session.
const HOLDER_END_TIMEOUT: Duration = Duration::from_secs(5);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How to find the processes of one holder.
#[derive(Debug, Clone)]
pub(crate) struct Processes {
    /// The argument of the holder's command line, `coven hold <name>`.
    name: String,
    /// The harness's own process, if it is known.
    pub leader: Option<ProcessIdentity>,
    /// An environment variable that only processes of this session have.
    variable: Option<String>,
}

impl Processes {
    pub fn of(session: &Session) -> Self {
        Self { leader: session.process.clone(), ..Self::of_launch(session.id) }
    }

    /// For a session whose process is not recorded.
    pub fn of_launch(id: SessionId) -> Self {
        Self { name: id.to_string(), leader: None, variable: Some(format!("{SESSION_VARIABLE}={id}")) }
    }

    /// For the holder of an agent's terminal, which has the agent's environment.
    pub fn of_holder(name: &str) -> Self {
        Self { name: name.to_owned(), leader: None, variable: None }
    }

    fn holder(&self) -> Option<Stat> {
        self.parent().or_else(|| process::find_holder(&self.name))
    }

    /// Returns the holder, found as the parent of the harness's process.
    fn parent(&self) -> Option<Stat> {
        let leader = self.leader.as_ref()?;
        let seen = process::stat(leader.pid).ok().filter(|now| now.started_ticks == leader.started_ticks)?;
        process::stat(seen.parent).ok().filter(|parent| process::is_holder(parent, &self.name))
    }

    /// Continues a stopped holder: a harness can stop its own.
    pub fn wake_holder(&self) {
        if let Some(holder) = self.parent().filter(Stat::is_stopped) {
            tracing::warn!(holder = %self.name, pid = holder.pid, "a holder was stopped; continuing it");
            process::signal(&holder, Signal::CONT);
        }
    }

    async fn descendants(&self) -> Vec<Stat> {
        let it = self.clone();
        let find = move || {
            let holder = it.holder().map(|holder| holder.pid);
            process::session_processes(it.leader.as_ref(), holder, it.variable.as_deref())
        };
        spawn_blocking(find).await.unwrap_or_default()
    }

    /// Sends SIGTERM, and SIGKILL after the grace period. Returns the pids that survive.
    pub async fn end(&self, grace: Duration) -> Vec<u32> {
        let (started, mut interval) = (Instant::now(), MIN_POLL_INTERVAL);
        let mut warned = HashSet::new();
        loop {
            let alive = self.descendants().await;
            let waited = started.elapsed();
            if alive.is_empty() || waited >= grace + AFTER_SIGKILL {
                return alive.iter().map(|it| it.pid).collect();
            }
            for it in &alive {
                if waited >= grace {
                    process::signal(it, Signal::KILL);
                } else if warned.insert((it.pid, it.started_ticks)) {
                    process::signal(it, Signal::TERM);
                    // A stopped process keeps a signal pending.
                    process::signal(it, Signal::CONT);
                }
            }
            let until_kill = grace.saturating_sub(waited);
            sleep(if until_kill.is_zero() { MIN_POLL_INTERVAL } else { interval.min(until_kill) }).await;
            interval = (interval * 2).min(MAX_POLL_INTERVAL);
        }
    }

    /// Continues a stopped holder, so that it records the end of its session. Kills it if it stays stopped.
    pub async fn release_holder(&self) {
        let until = Instant::now() + HOLDER_END_TIMEOUT;
        while let Some(holder) = self.find_holder().await.filter(Stat::is_stopped) {
            if Instant::now() >= until {
                process::signal(&holder, Signal::KILL);
                return;
            }
            process::signal(&holder, Signal::CONT);
            sleep(MIN_POLL_INTERVAL).await;
        }
    }

    /// Kills a launch immediately, including its holder, because nothing of it is recorded as running.
    pub async fn end_launch(&self) -> Vec<u32> {
        let holder = self.find_holder().await;
        if let Some(holder) = &holder {
            // It must neither start the harness now nor record its end.
            process::signal(holder, Signal::STOP);
        }
        let mut left = self.end(Duration::ZERO).await;
        if let Some(holder) = &holder {
            process::signal(holder, Signal::KILL);
            // The holder may have started the harness at the last moment.
            left = self.end(Duration::ZERO).await;
        }
        left
    }

    async fn find_holder(&self) -> Option<Stat> {
        let it = self.clone();
        spawn_blocking(move || it.holder()).await.unwrap_or_default()
    }
}
