//! Ending a harness: SIGTERM to its group, then SIGKILL to everything that belongs to it.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process, kill_process_group};

use crate::process::{self, Stat};
use crate::stage::as_pid;
use crate::wire::How;

/// How long survivors of SIGKILL are waited for; a process in the kernel cannot be hurried.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct Ending {
    pub how: How,
    leader: u32,
    hang_up_at: Option<Instant>,
    kill_at: Instant,
    give_up_at: Instant,
    next_look: Instant,
}

impl Ending {
    pub fn begin(how: How, leader: u32, grace: Duration, now: Instant) -> Self {
        signal_group(leader, Signal::TERM);
        // A stopped process would keep the signal to itself.
        signal_group(leader, Signal::CONT);
        let kill_at = now + grace;
        Self {
            how,
            leader,
            // Interactive shells ignore SIGTERM and heed a hang-up.
            hang_up_at: (grace > Duration::ZERO).then(|| now + grace / 2),
            kill_at,
            give_up_at: kill_at + PATIENCE,
            next_look: now,
        }
    }

    /// A second request can only make it sooner and harder.
    pub fn hurry(&mut self, how: How, grace: Duration, now: Instant) {
        if how == How::Kill {
            self.how = how;
        }
        self.kill_at = self.kill_at.min(now + grace);
        self.give_up_at = self.kill_at + PATIENCE;
    }

    pub fn next_deadline(&self, is_main_gone: bool) -> Instant {
        match is_main_gone {
            true => self.next_look,
            false => self.hang_up_at.unwrap_or(self.kill_at.max(self.next_look)),
        }
    }

    /// Does what is due. `is_main_gone`: the harness itself has ended. True when nothing is left, or nothing helps.
    pub fn step(&mut self, is_main_gone: bool, now: Instant) -> bool {
        if self.hang_up_at.is_some_and(|at| now >= at) {
            self.hang_up_at = None;
            signal_group(self.leader, Signal::HUP);
        }
        if now < self.next_look || (!is_main_gone && now < self.kill_at) {
            return false;
        }
        self.next_look = now + LOOK_AGAIN;
        let left = self.left();
        if now >= self.kill_at {
            signal_group(self.leader, Signal::KILL);
            for process in &left {
                let _ = kill_process(as_pid(process.pid), Signal::KILL);
            }
        } else if is_main_gone && !left.is_empty() {
            // Those in other groups of the session did not get the first signal.
            for process in left.iter().filter(|process| process.group != self.leader) {
                let _ = kill_process(as_pid(process.pid), Signal::TERM);
            }
        }
        is_main_gone && (left.is_empty() || now >= self.give_up_at)
    }

    /// Members of the harness's session and group, and orphans that came to us.
    pub fn left(&self) -> Vec<Stat> {
        process::members(self.leader, std::process::id())
    }
}

pub fn signal_group(leader: u32, signal: Signal) {
    // It may have ended already, which is what we want.
    let _ = kill_process_group(as_pid(leader), signal);
}
