//! Terminates a harness: SIGTERM to its process group, then SIGKILL to all its descendants.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process_group};

use crate::child::as_pid;
use crate::process;
use crate::wire::EndMode;

/// How long to wait after SIGKILL: a process in uninterruptible sleep cannot exit yet.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How many times one kill lists the descendants, to catch processes that were forked in between.
const MAX_KILL_ROUNDS: usize = 8;

/// Processes that remain while a harness is being terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survivors {
    /// The harness is running, so its group id cannot have been reused.
    Harness,
    /// The harness has exited; the kernel reparented its descendants to the holder.
    Descendants,
    None,
}

#[derive(Debug)]
pub struct Termination {
    pub how: EndMode,
    leader: u32,
    hang_up_at: Option<Instant>,
    kill_at: Instant,
    give_up_at: Instant,
    next_poll: Instant,
    /// Processes outside the group that have received SIGTERM: pid and start time.
    terminated: Vec<(u32, u64)>,
}

impl Termination {
    pub fn start(how: EndMode, leader: u32, grace: Duration, now: Instant) -> Self {
        signal_group(leader, Signal::TERM);
        // A stopped process does not handle SIGTERM until it continues.
        signal_group(leader, Signal::CONT);
        let kill_at = now + grace;
        Self {
            how,
            leader,
            // Interactive shells ignore SIGTERM but exit on SIGHUP.
            hang_up_at: (grace > Duration::ZERO).then(|| now + grace / 2),
            kill_at,
            give_up_at: kill_at + KILL_TIMEOUT,
            next_poll: now,
            terminated: Vec::new(),
        }
    }

    /// Applies a second request, which can only shorten the grace period or turn a finish into a kill.
    pub fn escalate(&mut self, how: EndMode, grace: Duration, now: Instant) {
        if how == EndMode::Kill {
            self.how = how;
        }
        self.kill_at = self.kill_at.min(now + grace);
        self.give_up_at = self.kill_at + KILL_TIMEOUT;
    }

    pub fn next_deadline(&self, survivors: Survivors) -> Instant {
        match survivors {
            Survivors::Harness => {
                let kill_at = self.kill_at.max(self.next_poll);
                self.hang_up_at.map_or(kill_at, |at| at.min(kill_at))
            }
            Survivors::Descendants | Survivors::None => self.next_poll,
        }
    }

    /// Sends the signals that are due. Returns true when no process is left or the timeout after SIGKILL has passed.
    pub fn step(&mut self, survivors: Survivors, now: Instant) -> bool {
        if survivors == Survivors::None {
            return true;
        }
        if survivors == Survivors::Harness && self.hang_up_at.is_some_and(|at| now >= at) {
            self.hang_up_at = None;
            signal_group(self.leader, Signal::HUP);
        }
        let is_time_up = now >= self.kill_at;
        if now < self.next_poll || (survivors == Survivors::Harness && !is_time_up) {
            return false;
        }
        self.next_poll = now + POLL_INTERVAL;
        if is_time_up {
            if survivors == Survivors::Harness {
                signal_group(self.leader, Signal::KILL);
            }
            kill_descendants();
        } else {
            self.term_descendants();
        }
        survivors == Survivors::Descendants
            && (now >= self.give_up_at || process::descendants(std::process::id()).is_empty())
    }

    /// Sends SIGTERM once to each descendant outside the harness's group, which the group signal did not reach.
    fn term_descendants(&mut self) {
        for it in process::descendants(std::process::id()) {
            let identity = (it.pid, it.started_ticks);
            if it.group != self.leader && !self.terminated.contains(&identity) {
                self.terminated.push(identity);
                process::signal(&it, Signal::TERM);
                process::signal(&it, Signal::CONT);
            }
        }
    }
}

fn kill_descendants() {
    let mut known = Vec::new();
    for _ in 0..MAX_KILL_ROUNDS {
        let mut is_new = false;
        for it in process::descendants(std::process::id()) {
            let identity = (it.pid, it.started_ticks);
            if !known.contains(&identity) {
                known.push(identity);
                is_new = true;
                process::signal(&it, Signal::KILL);
            }
        }
        if !is_new {
            return;
        }
    }
}

/// Signals the terminal's foreground process group, because a shell gives each job its own group. Falls back to the
/// harness's group without a terminal or if the foreground group does not belong to this session.
pub fn signal_foreground(terminal: impl AsFd, leader: u32, signal: Signal) {
    let foreground = rustix::termios::tcgetpgrp(terminal).map(|group| group.as_raw_pid().cast_unsigned());
    let is_ours = |group: &u32| process::descendants(std::process::id()).iter().any(|it| it.group == *group);
    match foreground.ok().filter(|group| *group != leader).filter(is_ours) {
        Some(group) => drop(kill_process_group(as_pid(group), signal)),
        None => signal_group(leader, signal),
    }
}

/// Signals the harness's group. Call it only until the harness is reaped: after that, its id may be reused.
pub fn signal_group(leader: u32, signal: Signal) {
    // The group may already be gone.
    let _ = kill_process_group(as_pid(leader), signal);
}
