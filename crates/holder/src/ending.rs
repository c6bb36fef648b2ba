//! Ending a harness: SIGTERM to its group, then SIGKILL to everything that comes from it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process_group};

use crate::process;
use crate::stage::as_pid;
use crate::wire::How;

/// How long survivors of SIGKILL are waited for; a process in the kernel cannot be hurried.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often the family is looked through in one go, for children born meanwhile.
const ROUNDS: usize = 8;

/// Who is left while a harness ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The harness lives, so its group is its own.
    Harness,
    /// The harness is gone; what it started came to us.
    Family,
    Nobody,
}

#[derive(Debug)]
pub struct Ending {
    pub how: How,
    leader: u32,
    hang_up_at: Option<Instant>,
    kill_at: Instant,
    give_up_at: Instant,
    next_look: Instant,
    /// Those outside the group who got their SIGTERM.
    warned: Vec<(u32, u64)>,
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
            warned: Vec::new(),
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

    pub fn next_deadline(&self, left: Left) -> Instant {
        match left {
            Left::Harness => {
                let kill_at = self.kill_at.max(self.next_look);
                self.hang_up_at.map_or(kill_at, |at| at.min(kill_at))
            }
            Left::Family | Left::Nobody => self.next_look,
        }
    }

    /// Does what is due. True when nothing is left, or nothing helps.
    pub fn step(&mut self, left: Left, now: Instant) -> bool {
        if left == Left::Nobody {
            return true;
        }
        if left == Left::Harness && self.hang_up_at.is_some_and(|at| now >= at) {
            self.hang_up_at = None;
            signal_group(self.leader, Signal::HUP);
        }
        let is_time_up = now >= self.kill_at;
        if now < self.next_look || (left == Left::Harness && !is_time_up) {
            return false;
        }
        self.next_look = now + LOOK_AGAIN;
        if is_time_up {
            if left == Left::Harness {
                signal_group(self.leader, Signal::KILL);
            }
            kill_family();
        } else {
            self.warn_family();
        }
        left == Left::Family && (now >= self.give_up_at || process::descendants(std::process::id()).is_empty())
    }

    /// Those in other groups did not get the first signal; they get it once.
    fn warn_family(&mut self) {
        for it in process::descendants(std::process::id()) {
            let who = (it.pid, it.started_ticks);
            if it.group != self.leader && !self.warned.contains(&who) {
                self.warned.push(who);
                process::signal(&it, Signal::TERM);
                process::signal(&it, Signal::CONT);
            }
        }
    }
}

fn kill_family() {
    let mut known = Vec::new();
    for _ in 0..ROUNDS {
        let mut is_new = false;
        for it in process::descendants(std::process::id()) {
            let who = (it.pid, it.started_ticks);
            if !known.contains(&who) {
                known.push(who);
                is_new = true;
                process::signal(&it, Signal::KILL);
            }
        }
        if !is_new {
            return;
        }
    }
}

/// Signals what is in the foreground of the terminal: a job of a shell has a process group of its own. Signals the harness's
/// group where there is no terminal, or where the foreground is not ours.
pub fn signal_foreground(terminal: impl AsFd, leader: u32, signal: Signal) {
    let foreground = rustix::termios::tcgetpgrp(terminal).map(|group| group.as_raw_pid().cast_unsigned());
    let is_ours = |group: &u32| process::descendants(std::process::id()).iter().any(|it| it.group == *group);
    match foreground.ok().filter(|group| *group != leader).filter(is_ours) {
        Some(group) => drop(kill_process_group(as_pid(group), signal)),
        None => signal_group(leader, signal),
    }
}

/// Only while the harness is not reaped: its number cannot be another's until then.
pub fn signal_group(leader: u32, signal: Signal) {
    // It may have ended already, which is what we want.
    let _ = kill_process_group(as_pid(leader), signal);
}
