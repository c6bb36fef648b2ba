//! What `/proc` says about an agent's processes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// One process. Pids are used again, so the start time belongs to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: u32,
    /// In clock ticks since boot.
    pub started: u64,
}

struct Stat {
    process: Process,
    parent: u32,
    group: u32,
    session: u32,
    is_zombie: bool,
}

/// What a process says it is.
pub struct Identity {
    pub comm: String,
    /// Arguments with blanks between them.
    pub cmdline: String,
}

pub fn find(pid: u32) -> Option<Process> {
    stat(pid).filter(|stat| !stat.is_zombie).map(|stat| stat.process)
}

pub fn parent(pid: u32) -> Option<Process> {
    find(stat(pid)?.parent)
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
    let table = all();
    let mark = format!("COVEN_SESSION_ID={session_id}");
    let mut pids = BTreeSet::from([leader]);
    for stat in &table {
        let is_relative = stat.group == leader || stat.session == leader;
        if is_relative || environment_has(stat.process.pid, mark.as_bytes()) {
            pids.insert(stat.process.pid);
        }
    }
    loop {
        let known = pids.len();
        pids.extend(
            table.iter().filter(|stat| pids.contains(&stat.parent)).map(|stat| stat.process.pid).collect::<Vec<_>>(),
        );
        if pids.len() == known {
            break;
        }
    }
    let living = table.iter().filter(|stat| !stat.is_zombie && pids.contains(&stat.process.pid));
    living.map(|stat| stat.process).collect()
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
    for stat in all() {
        let pid = stat.process.pid;
        let texts = ["cmdline", "environ"].map(|name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default());
        if pid != std::process::id() && texts.iter().any(|text| holds(text)) {
            kill(pid);
        }
    }
}

fn all() -> Vec<Stat> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    folder.filter_map(|entry| stat(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(pid: u32, text: &str) -> Option<Stat> {
    // The name stands in parentheses and may have blanks and parentheses of its own.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let id = |at: usize| u32::try_from(number(at)?).ok();
    Some(Stat {
        process: Process { pid, started: number(19)? },
        parent: id(1)?,
        group: id(2)?,
        session: id(3)?,
        is_zombie: fields.first() == Some(&"Z"),
    })
}

fn cmdline(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    Some(String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned())
}

fn environment_has(pid: u32, variable: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|one| one == variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = "42 (a) (b) S 7 40 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0";
        let stat = parse_stat(42, text).expect("a whole line");
        assert_eq!((stat.parent, stat.group, stat.session, stat.process.started), (7, 40, 41, 98765));
        assert!(!stat.is_zombie);
    }

    #[test]
    fn a_process_is_of_its_own_family() {
        let me = std::process::id();
        let family = family(me, "no such session");
        assert!(family.contains(&find(me).expect("this process lives")));
    }
}
