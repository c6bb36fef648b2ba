//! What `/proc` says about an agent's processes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use coven_holder::process::{self, Stat};
use rustix::process::{Pid, Signal, kill_process};

/// One process. Pids are used again, so the start time belongs to its name.
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

/// What a process says it is.
pub struct Identity {
    pub comm: String,
    /// Arguments with blanks between them.
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

/// The leader with everything that came from it: its descendants, its group, its session, and whatever carries the
/// session's id in its environment though it left all of those.
pub fn family(leader: u32, session_id: &str) -> BTreeSet<Process> {
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
        // It fails only if the process has ended already.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Ends every process that names `root`, a folder only this run knows, in its arguments or its environment.
pub fn sweep(root: &Path) {
    let root = root.as_os_str().as_bytes();
    let holds = |bytes: &[u8]| bytes.windows(root.len()).any(|window| window == root);
    for pid in process::all().into_iter().map(|stat| stat.pid) {
        let texts = ["cmdline", "environ"].map(|name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default());
        if pid != std::process::id() && texts.iter().any(|text| holds(text)) {
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
    fn a_process_is_of_its_own_family() {
        let me = std::process::id();
        let family = family(me, "no such session");
        assert!(family.contains(&find(me).expect("this process lives")));
    }
}
