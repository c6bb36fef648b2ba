//! Ends a daemon, or an agent, and looks whether what must live on does and what must end has.

use std::time::{Duration, Instant};

use super::coven::Coven;
use super::process_table::{self, Process};
use super::{Outcome, eventually, seconds};

/// Longer than any grace period.
pub const DEATH: Duration = Duration::from_secs(20);

/// Kills the daemon with -9 while the agent of this session is writing; what it writes must go on into the log.
pub fn kill_daemon(coven: &Coven, id: &str) -> Outcome<Process> {
    let daemon = kill_idle_daemon(coven)?;
    let length = coven.log_length(id)?;
    eventually(DEATH, || coven.log_length(id).is_ok_and(|now| now > length).then_some(()))
        .ok_or("without a daemon the log does not grow")?;
    Ok(daemon)
}

/// The same where the agent has nothing to write.
pub fn kill_idle_daemon(coven: &Coven) -> Outcome<Process> {
    let daemon = process_table::find(coven.daemon_pid()?).ok_or("the daemon has no process")?;
    process_table::kill(daemon.pid);
    eventually(DEATH, || (!process_table::is_alive(daemon)).then_some(())).ok_or("the daemon lives on")?;
    Ok(daemon)
}

/// `coven kill`, after which nothing of the agent and its holder may be left.
pub fn dies_whole(coven: &Coven, id: &str, leader: Process) -> Outcome<String> {
    let mut family = process_table::family(leader.pid, id);
    let count = family.len();
    // The holder must go too.
    family.extend(process_table::parent(leader.pid));
    let started = Instant::now();
    coven.kill(id)?;
    let gone = eventually(DEATH, || {
        // A child may have been born between the look and the signal.
        family.extend(process_table::family(leader.pid, id));
        family.retain(|process| process_table::is_alive(*process));
        family.is_empty().then_some(())
    });
    let took = seconds(started);
    if gone.is_none() {
        let names = family.iter().filter_map(|process| process_table::identity(process.pid));
        let names: Vec<String> = names.map(|identity| identity.cmdline).collect();
        return Err(format!("still there: {}", names.join(" | ")).into());
    }
    let killed = eventually(DEATH, || coven.session(id).ok().filter(|session| session.status == "killed"));
    match killed {
        Some(_) => Ok(format!("{count} gone in {took}")),
        None => Err("all gone, but the session is not killed".into()),
    }
}
