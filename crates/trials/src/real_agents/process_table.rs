//! Reads an agent's processes from `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use coven_holder::process::{self, Stat};
use rustix::process::{Pid, Signal, kill_process};

/// One process. Pids are reused, so the start time is part of its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: u32,
    /// In clock ticks since boot.
    pub started: u64,
}

impl Process {
    const fn of(stat: &Stat) -> Self {
        Self { pid: stat.pid, started: stat.started_ticks }
    }
}

/// Name and command line of a process.
pub struct Identity {
    pub comm: String,
    /// Arguments, separated by spaces.
    pub cmdline: String,
}

pub fn find(pid: u32) -> Option<Process> {
    process::stat(pid).ok().filter(|stat| !stat.is_zombie()).map(|stat| Process::of(&stat))
}

pub fn parent(pid: u32) -> Option<Process> {
    find(process::stat(pid).ok()?.parent)
}

pub fn is_alive(process: Process) -> bool {
    find(process.pid) == Some(process)
}

pub fn identity(pid: u32) -> Option<Identity> {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned();
    Some(Identity { comm, cmdline: cmdline(pid)? })
}

/// Returns the leader and its related processes: descendants, process group, process session, and processes with the
/// session's id in their environment.
pub fn session_processes(leader: u32, session_id: &str) -> BTreeSet<Process> {
    let table = process::all();
    let mark = format!("COVEN_SESSION_ID={session_id}");
    let mut pids = BTreeSet::from([leader]);
    for stat in &table {
        let is_relative = stat.group == leader || stat.session == leader;
        if is_relative || process::has_variable(stat.pid, &mark) {
            pids.insert(stat.pid);
        }
    }
    loop {
        let known = pids.len();
        pids.extend(table.iter().filter(|stat| pids.contains(&stat.parent)).map(|stat| stat.pid).collect::<Vec<_>>());
        if pids.len() == known {
            break;
        }
    }
    let living = table.iter().filter(|stat| !stat.is_zombie() && pids.contains(&stat.pid));
    living.map(Process::of).collect()
}

pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // Fails only if the process has already exited.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Kills every process with `root`, a folder unique to this run, in its arguments or environment.
pub fn sweep(root: &Path) {
    let root = root.as_os_str().as_bytes();
    let contains = |bytes: &[u8]| bytes.windows(root.len()).any(|window| window == root);
    for pid in process::all().into_iter().map(|stat| stat.pid) {
        let texts = ["cmdline", "environ"].map(|name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default());
        if pid != std::process::id() && texts.iter().any(|text| contains(text)) {
            kill(pid);
        }
    }
}

fn cmdline(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_in_its_own_family() {
        let me = std::process::id();
        let processes = session_processes(me, "no such session");
        assert!(processes.contains(&find(me).expect("this process is running")));
    }
}
