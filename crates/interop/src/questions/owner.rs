//! Identifies the process that holds a lock or waits for an answer, even if its pid is reused later.

use std::fs;
use std::time::Duration;

use coven_holder::process;
use rustix::process::{Pid, test_kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Owner {
    pub(super) pid: u32,
    pub(super) started_ticks: u64,
    pub(super) boot_id: String,
    /// A pid is only valid in its namespace; a container may share the folder but not the processes.
    pub(super) pid_namespace: String,
}

impl Owner {
    pub(super) fn this_process() -> Option<Self> {
        let pid = std::process::id();
        let (boot_id, pid_namespace) = boot_and_namespace()?;
        Some(Self { pid, started_ticks: started_ticks(pid)?, boot_id, pid_namespace })
    }

    /// Returns whether the process has ended, or `None` if it belongs to another namespace, machine or boot.
    pub(super) fn is_gone(&self) -> Option<bool> {
        let (boot_id, pid_namespace) = boot_and_namespace()?;
        let is_ours = boot_id == self.boot_id && pid_namespace == self.pid_namespace;
        is_ours.then(|| started_ticks(self.pid) != Some(self.started_ticks))
    }
}

/// Returns whether the process exists. EPERM means that it exists and belongs to another user.
pub(super) fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    match test_kill_process(pid) {
        Ok(()) => started_ticks(pid.as_raw_nonzero().get().unsigned_abs()).is_some(),
        Err(error) => error == rustix::io::Errno::PERM,
    }
}

/// Returns how long ago the process started.
pub(super) fn age(pid: u32) -> Option<Duration> {
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    let started = Duration::from_millis(started_ticks(pid)? * 1000 / ticks_per_second);
    let since_boot = Duration::try_from(clock_gettime(ClockId::Boottime)).ok()?;
    Some(since_boot.saturating_sub(started))
}

/// Returns the start time of the process in ticks since boot, or `None` for a zombie.
fn started_ticks(pid: u32) -> Option<u64> {
    let stat = process::stat(pid).ok()?;
    (!stat.is_zombie()).then_some(stat.started_ticks)
}

fn boot_and_namespace() -> Option<(String, String)> {
    let boot_id = process::boot_id().ok()?;
    let pid_namespace = fs::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_owned();
    Some((boot_id, pid_namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_identified_by_start_time_boot_and_namespace() {
        let me = Owner::this_process().expect("this process");
        assert_eq!(me.is_gone(), Some(false));
        assert_eq!(Owner { started_ticks: me.started_ticks + 1, ..me.clone() }.is_gone(), Some(true));
        assert_eq!(Owner { boot_id: "another".into(), ..me.clone() }.is_gone(), None);
        assert_eq!(Owner { pid_namespace: "pid:[1]".into(), ..me.clone() }.is_gone(), None);
        assert!(is_alive(me.pid) && is_alive(1) && !is_alive(0) && !is_alive(u32::MAX));
        assert!(age(me.pid).expect("alive") < age(1).expect("alive"));
    }

    #[test]
    fn a_zombie_counts_as_ended() {
        let mut child = std::process::Command::new("true").spawn().expect("program starts");
        let pid = child.id();
        // NOWAIT waits for the exit without reaping the zombie.
        let ended = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        let pid_of_child = Pid::from_child(&child);
        rustix::process::waitid(rustix::process::WaitId::Pid(pid_of_child), ended).expect("child process");
        assert!(!is_alive(pid));
        child.wait().expect("child process");
        assert!(!is_alive(pid));
    }
}
