//! Process information from `/proc`: identity, command line, ancestry and session membership.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::io;

use coven_domain::session::ProcessIdentity;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::child::as_pid;

/// The fields of `/proc/<pid>/stat` that coven uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub pid: u32,
    pub state: u8,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    pub started_ticks: u64,
    /// A coven daemon or holder, which outlives the process that started it.
    pub is_coven: bool,
}

/// Names of coven's own long-running processes.
pub const DAEMON_NAME: &CStr = c"coven-daemon";
pub const HOLDER_NAME: &CStr = c"coven-holder";

const MAX_ANCESTORS: usize = 1000;

impl Stat {
    /// Reports whether the process is stopped by a signal or by a debugger.
    pub const fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Reports whether the main thread is a zombie; other threads may still run, see [`Stat::is_running`].
    pub const fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Reports whether any thread is running: the main thread may be a zombie while others run.
    pub fn is_running(&self) -> bool {
        let has_threads = || fs::read_dir(format!("/proc/{}/task", self.pid)).is_ok_and(|it| it.count() > 1);
        !self.is_zombie() || has_threads()
    }
}

pub fn stat(pid: u32) -> io::Result<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat"))?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "malformed /proc/<pid>/stat"))
}

fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The name is in parentheses and may itself contain spaces and parentheses, so parse after the last one.
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(&text[..text.iter().position(|byte| *byte == b'(')?]).ok()?.trim().parse().ok()?;
    let name = text.get(text.iter().position(|byte| *byte == b'(')? + 1..close)?;
    let rest = std::str::from_utf8(text.get(close + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started_ticks: fields.get(19)?.parse().ok()?,
        is_coven: [DAEMON_NAME, HOLDER_NAME].iter().any(|known| known.to_bytes() == name),
    })
}

pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

pub fn identity(pid: u32) -> io::Result<ProcessIdentity> {
    Ok(ProcessIdentity { pid, started_ticks: stat(pid)?.started_ticks, boot_id: boot_id()? })
}

/// Reports whether the recorded process is alive: same pid, start time and boot, and not a zombie.
pub fn is_alive(recorded: &ProcessIdentity) -> bool {
    boot_id().is_ok_and(|boot| boot == recorded.boot_id)
        && stat(recorded.pid).is_ok_and(|now| now.started_ticks == recorded.started_ticks && !now.is_zombie())
}

/// Reports whether the process has `identity` in its command line, name or executable path.
pub fn shows(pid: u32, identity: &str) -> bool {
    let needle = identity.as_bytes();
    let contains = |text: &[u8]| text.windows(needle.len().max(1)).any(|window| window == needle);
    identity.is_empty()
        || fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|text| contains(&text))
        || fs::read(format!("/proc/{pid}/comm")).is_ok_and(|text| contains(&text))
        || fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|path| contains(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())))
}

/// Returns all descendants of `ancestor`, regardless of their session and process group. If `ancestor` is a subreaper,
/// orphans are included. Zombies are included, because only the main thread may have exited. Coven's daemons and
/// holders and their descendants are left out: they serve other sessions.
pub fn descendants(ancestor: u32) -> Vec<Stat> {
    let mut others: Vec<Stat> = all().into_iter().filter(|it| !it.is_coven).collect();
    let mut found: Vec<Stat> = Vec::new();
    loop {
        let (more, rest): (Vec<Stat>, Vec<Stat>) = others
            .into_iter()
            .partition(|it| it.parent == ancestor || found.iter().any(|known| known.pid == it.parent));
        if more.is_empty() {
            return found;
        }
        found.extend(more);
        others = rest;
    }
}

/// Reports whether `pid` is a descendant of `ancestor`. Returns false if a coven daemon or holder is in between: its
/// descendants belong to other sessions.
pub fn comes_from(pid: u32, ancestor: u32) -> bool {
    let mut next = pid;
    // The bound guards against a loop when processes exit and pids are reused during the walk.
    for _ in 0..MAX_ANCESTORS {
        match stat(next) {
            Ok(it) if it.is_coven => return false,
            Ok(it) if it.parent == ancestor => return true,
            Ok(it) if it.parent > 1 => next = it.parent,
            _ => return false,
        }
    }
    false
}

/// Returns the live processes of the terminal session `leader` that have `variable` in their environment, except
/// coven's own. The session id alone may have been reused; the environment identifies the session.
pub fn members(leader: u32, variable: &str) -> Vec<Stat> {
    let is_member =
        |it: &Stat| it.session == leader && !it.is_coven && !it.is_zombie() && has_variable(it.pid, variable);
    all().into_iter().filter(is_member).collect()
}

/// Reports whether the process was started with `variable`, in the form `NAME=value`, in its environment.
pub fn has_variable(pid: u32, variable: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|text| text.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes()))
}

/// Returns the live process that was started as `coven hold <name>`.
pub fn find_holder(name: &str) -> Option<Stat> {
    all().into_iter().find(|it| is_holder(it, name))
}

/// Reports whether the process is the holder that was started under `name`.
pub fn is_holder(seen: &Stat, name: &str) -> bool {
    let is_named = || {
        fs::read(format!("/proc/{}/cmdline", seen.pid)).is_ok_and(|text| {
            let mut words = text.split(|byte| *byte == 0).skip(1);
            words.next() == Some(b"hold") && words.next() == Some(name.as_bytes())
        })
    };
    seen.is_coven && !seen.is_zombie() && is_named()
}

/// Returns every running process of a session, even if its holder is gone: the descendants of the holder and of the
/// recorded leader, the members of the leader's terminal session, and processes with `variable` in their environment.
/// Coven's own processes and their descendants are left out.
pub fn session_processes(leader: Option<&ProcessIdentity>, holder: Option<u32>, variable: Option<&str>) -> Vec<Stat> {
    let seen: HashMap<u32, Stat> = all().into_iter().map(|it| (it.pid, it)).collect();
    let is_recorded = |recorded: &&ProcessIdentity| {
        seen.get(&recorded.pid).is_some_and(|now| now.started_ticks == recorded.started_ticks)
            && boot_id().is_ok_and(|boot| boot == recorded.boot_id)
    };
    let leader = leader.filter(is_recorded).map(|recorded| recorded.pid);
    let belongs = |it: &Stat| {
        let (mut next, mut steps) = (Some(it), 0);
        while let Some(ancestor) = next.filter(|_| steps <= seen.len()) {
            if Some(ancestor.pid) == holder || Some(ancestor.pid) == leader {
                return true;
            }
            if ancestor.is_coven {
                return false;
            }
            (next, steps) = (seen.get(&ancestor.parent), steps + 1);
        }
        leader == Some(it.session) || variable.is_some_and(|variable| has_variable(it.pid, variable))
    };
    seen.values().filter(|it| !it.is_coven && it.is_running() && belongs(it)).copied().collect()
}

/// Signals the process, but not another one that has reused its pid.
pub fn signal(seen: &Stat, signal: Signal) {
    if let Ok(pidfd) = pidfd_open(as_pid(seen.pid), PidfdFlags::empty())
        && stat(seen.pid).is_ok_and(|now| now.started_ticks == seen.started_ticks)
    {
        let _ = pidfd_send_signal(&pidfd, signal);
    }
}

/// Returns all processes.
pub fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| stat(pid).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = b"42 (a) b (c) R 7 8 9 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0";
        let stat = parse_stat(line).expect("a valid line");
        assert_eq!((stat.pid, stat.state, stat.parent), (42, b'R', 7));
        assert_eq!((stat.group, stat.session, stat.started_ticks), (8, 9, 12345));
    }

    #[test]
    fn this_process_is_alive_but_not_with_another_start_time_or_boot() {
        let me = identity(std::process::id()).expect("own process");
        assert!(is_alive(&me));
        assert!(!is_alive(&ProcessIdentity { started_ticks: me.started_ticks + 1, ..me.clone() }));
        assert!(!is_alive(&ProcessIdentity { boot_id: "another boot".into(), ..me }));
    }

    #[test]
    fn store_09_searches_the_whole_command_line_for_the_identity() {
        let me = std::process::id();
        assert!(shows(me, "coven_holder"));
        assert!(shows(me, ""));
        assert!(!shows(me, "claude-that-is-not-here"));
    }
}
