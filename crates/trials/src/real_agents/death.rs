//! Kills a daemon or an agent and checks which processes survive.

use coven_domain::session::SessionState;
use std::time::{Duration, Instant};

use super::coven::Coven;
use super::process_table::{self, Process};
use super::{TrialResult, eventually, seconds};

/// Time for processes to exit; longer than any grace period.
pub const DEATH: Duration = Duration::from_secs(20);

/// Kills the daemon with -9 while the session's agent is writing, and checks that the log keeps growing.
pub fn kill_daemon(coven: &Coven, id: &str) -> TrialResult<Process> {
    let daemon = kill_idle_daemon(coven)?;
    let length = coven.log_length(id)?;
    eventually(DEATH, || coven.log_length(id).is_ok_and(|now| now > length).then_some(()))
        .ok_or("the log does not grow without a daemon")?;
    Ok(daemon)
}

/// Kills the daemon with -9 while the agent is idle.
pub fn kill_idle_daemon(coven: &Coven) -> TrialResult<Process> {
    let daemon = process_table::find(coven.daemon_pid()?).ok_or("the daemon's process does not exist")?;
    process_table::kill(daemon.pid);
    eventually(DEATH, || (!process_table::is_alive(daemon)).then_some(())).ok_or("the daemon survived SIGKILL")?;
    Ok(daemon)
}

/// Runs `coven kill` and checks that all processes of the agent and its holder are gone.
pub fn dies_whole(coven: &Coven, id: &str, leader: Process) -> TrialResult<String> {
    let mut processes = process_table::session_processes(leader.pid, id);
    let count = processes.len();
    // The holder must exit, too.
    processes.extend(process_table::parent(leader.pid));
    let started = Instant::now();
    coven.kill(id)?;
    let gone = eventually(DEATH, || {
        // A child may have been spawned between the check and the signal.
        processes.extend(process_table::session_processes(leader.pid, id));
        processes.retain(|process| process_table::is_alive(*process));
        processes.is_empty().then_some(())
    });
    let took = seconds(started);
    if gone.is_none() {
        let names = processes.iter().filter_map(|process| process_table::identity(process.pid));
        let names: Vec<String> = names.map(|identity| identity.cmdline).collect();
        return Err(format!("still running: {}", names.join(" | ")).into());
    }
    let killed = eventually(DEATH, || coven.session(id).ok().filter(|session| session.status == SessionState::Killed));
    match killed {
        Some(_) => Ok(format!("{count} gone in {took}")),
        None => Err("all processes are gone, but the session's status is not killed".into()),
    }
}
