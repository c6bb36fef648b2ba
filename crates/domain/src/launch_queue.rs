//! Launches that wait because the limits of the config are reached.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Timestamp;
use crate::session::{Session, SessionState};

/// Key in the metadata of a session for its place in the queue.
pub const QUEUED: &str = "queued";

/// Limits that delay launches; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LaunchLimits {
    /// Live sessions with an agent. Sessions that run a plain command do not count and are not delayed by it.
    pub live_agents: Option<u64>,
    /// Memory of the processes of all sessions.
    pub memory_bytes: Option<u64>,
    /// Load average of the last minute, per core.
    pub load: Option<f64>,
}

/// What the machine and the sessions use now.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    pub live_agents: u64,
    /// `None` if it was not measured.
    pub memory_bytes: Option<u64>,
    pub load: Option<f64>,
}

/// A limit that leaves no room for another launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReachedLimit {
    LiveAgents { live: u64, limit: u64 },
    Memory { limit: u64 },
    Load { limit: f64 },
}

impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LiveAgents { live, limit } => write!(f, "the limit of live agents is reached ({live} of {limit})"),
            // The amounts that are in use change all the time, so they are not part of the reason.
            Self::Memory { limit } => write!(f, "the sessions use at least {}", mebibytes(*limit)),
            Self::Load { limit } => write!(f, "the load is at least {limit} per core"),
        }
    }
}

fn mebibytes(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{bytes} bytes of memory"),
        count => format!("{count} MiB of memory"),
    }
}

impl LaunchLimits {
    pub const fn is_off(&self) -> bool {
        self.live_agents.is_none() && !self.needs_measuring()
    }

    /// Reports whether memory or load must be measured.
    pub const fn needs_measuring(&self) -> bool {
        self.memory_bytes.is_some() || self.load.is_some()
    }

    /// Returns the limit that delays a launch. `is_agent` is false for a plain command.
    pub fn reached(&self, usage: &Usage, is_agent: bool) -> Option<ReachedLimit> {
        let live = usage.live_agents;
        let agents = self.live_agents.filter(|limit| is_agent && live >= *limit);
        let memory = self.memory_bytes.filter(|limit| usage.memory_bytes.is_some_and(|used| used >= *limit));
        let load = self.load.filter(|limit| usage.load.is_some_and(|load| load >= *limit));
        agents
            .map(|limit| ReachedLimit::LiveAgents { live, limit })
            .or_else(|| memory.map(|limit| ReachedLimit::Memory { limit }))
            .or_else(|| load.map(|limit| ReachedLimit::Load { limit }))
    }
}

/// The place of a session in the launch queue, as stored in its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedLaunch {
    pub since: Timestamp,
    /// Counts from 1.
    pub place: u64,
    /// The limit that delays the launch.
    pub reason: String,
}

impl QueuedLaunch {
    pub fn describe(&self) -> String {
        format!("place {} in the launch queue: {}", self.place, self.reason)
    }
}

impl Session {
    /// Reports whether the launch of the session waits.
    pub fn is_queued(&self) -> bool {
        self.state == SessionState::Created && self.launching_at.is_none() && self.metadata.contains_key(QUEUED)
    }

    /// Returns the place of a session whose launch waits.
    pub fn queued_launch(&self) -> Option<QueuedLaunch> {
        let queued = self.metadata.get(QUEUED).filter(|_| self.is_queued())?;
        serde_json::from_value(queued.clone()).ok()
    }

    /// Records that the launch waits.
    pub fn queued(&mut self, launch: &QueuedLaunch) {
        self.metadata.insert(QUEUED.to_owned(), json!(launch));
        self.updated_at = launch.since.not_before(self.updated_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(live_agents: u64, memory: u64, load: f64) -> Usage {
        Usage { live_agents, memory_bytes: Some(memory), load: Some(load) }
    }

    #[test]
    fn without_limits_no_launch_waits() {
        let off = LaunchLimits::default();
        assert!(off.is_off() && !off.needs_measuring());
        assert_eq!(off.reached(&usage(u64::MAX, u64::MAX, f64::MAX), true), None);
    }

    #[test]
    fn each_limit_delays_a_launch_once_it_is_reached() {
        let limits = LaunchLimits { live_agents: Some(3), memory_bytes: Some(5 << 20), load: Some(1.5) };
        assert!(!limits.is_off() && limits.needs_measuring());
        assert_eq!(limits.reached(&usage(2, (5 << 20) - 1, 1.4), true), None);
        for (now, reason) in [
            (usage(3, 0, 0.0), "the limit of live agents is reached (3 of 3)"),
            (usage(4, u64::MAX, 9.0), "the limit of live agents is reached (4 of 3)"),
            (usage(2, 5 << 20, 9.0), "the sessions use at least 5 MiB of memory"),
            (usage(2, 0, 1.5), "the load is at least 1.5 per core"),
        ] {
            assert_eq!(limits.reached(&now, true).map(|limit| limit.to_string()).as_deref(), Some(reason));
        }
        // What was not measured delays nothing.
        assert_eq!(limits.reached(&Usage { live_agents: 1, memory_bytes: None, load: None }, true), None);
    }

    #[test]
    fn a_plain_command_does_not_wait_for_an_agent_to_end() {
        let limits = LaunchLimits { live_agents: Some(1), memory_bytes: Some(10), load: None };
        assert_eq!(limits.reached(&usage(9, 0, 0.0), false), None);
        assert_eq!(limits.reached(&usage(9, 10, 0.0), false), Some(ReachedLimit::Memory { limit: 10 }));
    }
}
