//! Processes as the kernel knows them: start time, boot, command line, who belongs to a session.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs;
use std::io;

use coven_domain::session::ProcessIdentity;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::stage::as_pid;

/// What `/proc/<pid>/stat` tells that we need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub pid: u32,
    pub state: u8,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    pub started_ticks: u64,
    /// A daemon or a holder of coven: it outlives whoever happened to start it.
    pub is_coven: bool,
}

/// The names of coven's own processes that live on.
pub const DAEMON_NAME: &CStr = c"coven-daemon";
pub const HOLDER_NAME: &CStr = c"coven-holder";

const MAX_GENERATIONS: usize = 1000;

impl Stat {
    /// Stopped by a signal or by a debugger.
    pub const fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// Whether its first thread has ended and only waits to be collected; see [`Stat::is_running`] for the others.
    pub const fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// Whether it still runs code. The first thread of a process may be a zombie while the others run.
    pub fn is_running(&self) -> bool {
        let has_threads = || fs::read_dir(format!("/proc/{}/task", self.pid)).is_ok_and(|it| it.count() > 1);
        !self.is_zombie() || has_threads()
    }
}

pub fn stat(pid: u32) -> io::Result<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat"))?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable stat"))
}

fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The name stands in parentheses and may itself have blanks and parentheses: fields count from the last one.
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

/// The process that was recorded still lives: same pid, same start, same boot, and not a zombie.
pub fn is_alive(recorded: &ProcessIdentity) -> bool {
    boot_id().is_ok_and(|boot| boot == recorded.boot_id)
        && stat(recorded.pid).is_ok_and(|now| now.started_ticks == recorded.started_ticks && !now.is_zombie())
}

/// The living process shows `identity` in its command line, its name or its program file.
pub fn shows(pid: u32, identity: &str) -> bool {
    let needle = identity.as_bytes();
    let holds = |text: &[u8]| text.windows(needle.len().max(1)).any(|window| window == needle);
    identity.is_empty()
        || fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|text| holds(&text))
        || fs::read(format!("/proc/{pid}/comm")).is_ok_and(|text| holds(&text))
        || fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|path| holds(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())))
}

/// Every process that comes from `ancestor`, whatever session or group it made for itself: with a subreaper nobody gets
/// away. Zombies count: one may only be the first thread of a process that goes on. A daemon that was started from inside
/// a session, and the holders it started, are not of its family: they carry other sessions.
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

/// Reports whether `pid` comes from `ancestor`. The chain ends at a daemon or holder of coven: what they started belongs
/// to other sessions.
pub fn comes_from(pid: u32, ancestor: u32) -> bool {
    let mut next = pid;
    // A parent always lives when it is asked for; the bound is for processes that end meanwhile.
    for _ in 0..MAX_GENERATIONS {
        match stat(next) {
            Ok(it) if it.is_coven => return false,
            Ok(it) if it.parent == ancestor => return true,
            Ok(it) if it.parent > 1 => next = it.parent,
            _ => return false,
        }
    }
    false
}

/// What still lives of a session whose first process was `leader` and had `variable` in its environment, without coven's own.
/// A number alone could be somebody else's by now; what a process was started with is not.
pub fn members(leader: u32, variable: &str) -> Vec<Stat> {
    let is_member =
        |it: &Stat| it.session == leader && !it.is_coven && !it.is_zombie() && has_variable(it.pid, variable);
    all().into_iter().filter(is_member).collect()
}

/// Whether the process was started with `variable`, a name and its value, in its environment.
pub fn has_variable(pid: u32, variable: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|text| text.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes()))
}

/// Returns the living process that was started as `coven hold <name>`.
pub fn find_holder(name: &str) -> Option<Stat> {
    all().into_iter().find(|it| is_holder(it, name))
}

/// Whether the process is the holder that was started under `name`.
pub fn is_holder(seen: &Stat, name: &str) -> bool {
    let is_named = || {
        fs::read(format!("/proc/{}/cmdline", seen.pid)).is_ok_and(|text| {
            let mut words = text.split(|byte| *byte == 0).skip(1);
            words.next() == Some(b"hold") && words.next() == Some(name.as_bytes())
        })
    };
    seen.is_coven && !seen.is_zombie() && is_named()
}

/// Returns every living process that a session started, with or without its holder: what comes from the holder or from
/// the recorded leader, what is in the leader's terminal session, and what has `variable` in its environment.
/// Coven's own processes and what comes from them are left out.
pub fn family(leader: Option<&ProcessIdentity>, holder: Option<u32>, variable: Option<&str>) -> Vec<Stat> {
    let seen: HashMap<u32, Stat> = all().into_iter().map(|it| (it.pid, it)).collect();
    let is_recorded = |recorded: &&ProcessIdentity| {
        seen.get(&recorded.pid).is_some_and(|now| now.started_ticks == recorded.started_ticks)
            && boot_id().is_ok_and(|boot| boot == recorded.boot_id)
    };
    let leader = leader.filter(is_recorded).map(|recorded| recorded.pid);
    let belongs = |it: &Stat| {
        let (mut above, mut steps) = (Some(it), 0);
        while let Some(ancestor) = above.filter(|_| steps <= seen.len()) {
            if Some(ancestor.pid) == holder || Some(ancestor.pid) == leader {
                return true;
            }
            if ancestor.is_coven {
                return false;
            }
            (above, steps) = (seen.get(&ancestor.parent), steps + 1);
        }
        leader == Some(it.session) || variable.is_some_and(|variable| has_variable(it.pid, variable))
    };
    seen.values().filter(|it| !it.is_coven && it.is_running() && belongs(it)).copied().collect()
}

/// Signals the process that was seen, and never another one that got its pid since.
pub fn signal(seen: &Stat, signal: Signal) {
    if let Ok(pidfd) = pidfd_open(as_pid(seen.pid), PidfdFlags::empty())
        && stat(seen.pid).is_ok_and(|now| now.started_ticks == seen.started_ticks)
    {
        let _ = pidfd_send_signal(&pidfd, signal);
    }
}

/// Every process there is.
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
        let stat = parse_stat(line).expect("a sound line");
        assert_eq!((stat.pid, stat.state, stat.parent), (42, b'R', 7));
        assert_eq!((stat.group, stat.session, stat.started_ticks), (8, 9, 12345));
    }

    #[test]
    fn this_process_is_alive_and_another_start_time_is_not_it() {
        let me = identity(std::process::id()).expect("own process");
        assert!(is_alive(&me));
        assert!(!is_alive(&ProcessIdentity { started_ticks: me.started_ticks + 1, ..me.clone() }));
        assert!(!is_alive(&ProcessIdentity { boot_id: "another boot".into(), ..me }));
    }

    #[test]
    fn store_09_the_identity_is_looked_for_in_the_whole_command_line() {
        let me = std::process::id();
        assert!(shows(me, "coven_holder"));
        assert!(shows(me, ""));
        assert!(!shows(me, "claude-that-is-not-here"));
    }
}
