//! Ends the processes of a session without the help of its holder.

use std::collections::HashSet;
use std::time::Duration;

use coven_domain::SessionId;
use coven_domain::session::{ProcessIdentity, Session};
use coven_holder::process::{self, Stat};
use rustix::process::Signal;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::launch::SESSION_VARIABLE;

/// How long processes may take to be gone after SIGKILL.
const AFTER_SIGKILL: Duration = Duration::from_secs(5);
/// How long a holder that was stopped may take to write down the end of its session.
const HOLDER_ENDS: Duration = Duration::from_secs(5);
const FIRST_LOOK: Duration = Duration::from_millis(20);
const SLOWEST_LOOK: Duration = Duration::from_millis(250);

/// Where the processes of one holder are found.
#[derive(Debug, Clone)]
pub(crate) struct Processes {
    /// What its holder was started with, as `coven hold <name>`.
    name: String,
    /// The harness's own process, if it is known.
    pub leader: Option<ProcessIdentity>,
    /// What only processes of this session have in their environment.
    variable: Option<String>,
}

impl Processes {
    pub fn of(session: &Session) -> Self {
        Self { leader: session.process.clone(), ..Self::of_launch(session.id) }
    }

    /// Of a session whose process is not recorded.
    pub fn of_launch(id: SessionId) -> Self {
        Self { name: id.to_string(), leader: None, variable: Some(format!("{SESSION_VARIABLE}={id}")) }
    }

    /// Of a holder that is not a session's own, such as an agent's terminal: its environment is the agent's.
    pub fn of_holder(name: &str) -> Self {
        Self { name: name.to_owned(), leader: None, variable: None }
    }

    fn holder(&self) -> Option<Stat> {
        self.parent().or_else(|| process::find_holder(&self.name))
    }

    /// The holder as the parent of the harness's process.
    fn parent(&self) -> Option<Stat> {
        let leader = self.leader.as_ref()?;
        let seen = process::stat(leader.pid).ok().filter(|now| now.started_ticks == leader.started_ticks)?;
        process::stat(seen.parent).ok().filter(|parent| process::is_holder(parent, &self.name))
    }

    /// Continues a holder that is stopped: a harness can stop its own.
    pub fn wake_holder(&self) {
        if let Some(holder) = self.parent().filter(Stat::is_stopped) {
            tracing::warn!(holder = %self.name, pid = holder.pid, "a holder was stopped; continuing it");
            process::signal(&holder, Signal::CONT);
        }
    }

    async fn family(&self) -> Vec<Stat> {
        let it = self.clone();
        let find = move || {
            let holder = it.holder().map(|holder| holder.pid);
            process::family(it.leader.as_ref(), holder, it.variable.as_deref())
        };
        spawn_blocking(find).await.unwrap_or_default()
    }

    /// Sends SIGTERM, and SIGKILL after the grace period. Returns what is still alive after that.
    pub async fn end(&self, grace: Duration) -> Vec<u32> {
        let (begun, mut look) = (Instant::now(), FIRST_LOOK);
        let mut warned = HashSet::new();
        loop {
            let family = self.family().await;
            let waited = begun.elapsed();
            if family.is_empty() || waited >= grace + AFTER_SIGKILL {
                return family.iter().map(|it| it.pid).collect();
            }
            for it in &family {
                if waited >= grace {
                    process::signal(it, Signal::KILL);
                } else if warned.insert((it.pid, it.started_ticks)) {
                    process::signal(it, Signal::TERM);
                    // A stopped process keeps a signal pending.
                    process::signal(it, Signal::CONT);
                }
            }
            let until_kill = grace.saturating_sub(waited);
            sleep(if until_kill.is_zero() { FIRST_LOOK } else { look.min(until_kill) }).await;
            look = (look * 2).min(SLOWEST_LOOK);
        }
    }

    /// Lets a stopped holder write down how its session ended; ends one that stays stopped.
    pub async fn release_holder(&self) {
        let until = Instant::now() + HOLDER_ENDS;
        while let Some(holder) = self.find_holder().await.filter(Stat::is_stopped) {
            if Instant::now() >= until {
                process::signal(&holder, Signal::KILL);
                return;
            }
            process::signal(&holder, Signal::CONT);
            sleep(FIRST_LOOK).await;
        }
    }

    /// Ends a launch at once, holder included: nothing of it was recorded as running.
    pub async fn end_launch(&self) -> Vec<u32> {
        let holder = self.find_holder().await;
        if let Some(holder) = &holder {
            // It must neither start the harness now nor write down that it ended.
            process::signal(holder, Signal::STOP);
        }
        let mut left = self.end(Duration::ZERO).await;
        if let Some(holder) = &holder {
            process::signal(holder, Signal::KILL);
            // What the holder started in the last moment.
            left = self.end(Duration::ZERO).await;
        }
        left
    }

    async fn find_holder(&self) -> Option<Stat> {
        let it = self.clone();
        spawn_blocking(move || it.holder()).await.unwrap_or_default()
    }
}
