//! Memory of sessions and load of the machine, from `/proc`.

use std::collections::{HashMap, HashSet};
use std::fs;

use coven_domain::session::ProcessIdentity;

use crate::process::{self, Stat};

/// Returns the memory of the sessions with these leaders in bytes: the proportional set size (PSS) of the leaders and of
/// every descendant of a leader or of its holder. Holders themselves do not count.
pub fn of_sessions(leaders: &[ProcessIdentity]) -> u64 {
    let seen: HashMap<u32, Stat> = process::all().into_iter().map(|it| (it.pid, it)).collect();
    session_members(&seen, leaders).into_iter().filter_map(of_process).sum()
}

fn session_members(seen: &HashMap<u32, Stat>, leaders: &[ProcessIdentity]) -> Vec<u32> {
    let is_leader = |it: &&ProcessIdentity| seen.get(&it.pid).is_some_and(|now| now.started_ticks == it.started_ticks);
    let mut roots: HashSet<u32> = HashSet::new();
    for leader in leaders.iter().filter(is_leader) {
        roots.insert(leader.pid);
        // Processes whose parent exits become children of the holder.
        let parent = seen.get(&leader.pid).and_then(|it| seen.get(&it.parent));
        roots.extend(parent.filter(|parent| parent.is_coven).map(|parent| parent.pid));
    }
    let belongs = |it: &&Stat| {
        let (mut next, mut steps) = (Some(*it), 0);
        while let Some(ancestor) = next.filter(|_| steps <= seen.len()) {
            if roots.contains(&ancestor.pid) {
                return true;
            }
            // A holder or daemon below a session belongs to other sessions.
            if ancestor.is_coven {
                return false;
            }
            (next, steps) = (seen.get(&ancestor.parent), steps + 1);
        }
        false
    };
    seen.values().filter(|it| !it.is_coven).filter(belongs).map(|it| it.pid).collect()
}

/// Returns the proportional set size, or the resident set size if the kernel does not show it.
fn of_process(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
    match rollup.ok().as_deref().and_then(pss) {
        Some(bytes) => Some(bytes),
        None => {
            let pages = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
            let pages: u64 = pages.split_ascii_whitespace().nth(1)?.parse().ok()?;
            Some(pages * rustix::param::page_size() as u64)
        }
    }
}

fn pss(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Returns the load average of the last minute, per core.
pub fn load_per_core() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    first_load(&text).map(|load| load / cores as f64)
}

fn first_load(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn stat(pid: u32, parent: u32, is_coven: bool) -> (u32, Stat) {
        let ticks = u64::from(pid);
        (pid, Stat { pid, state: b'S', parent, group: pid, session: pid, started_ticks: ticks, is_coven })
    }

    fn leader(pid: u32, started_ticks: u64) -> ProcessIdentity {
        ProcessIdentity { pid, started_ticks, boot_id: String::new() }
    }

    #[test]
    fn the_members_of_a_session_are_the_descendants_of_its_leader_and_holder() {
        // Holder 10 has leader 11 and orphan 13; session 11 runs a holder of its own with leader 21.
        let seen = HashMap::from([
            stat(1, 0, false),
            stat(10, 1, true),
            stat(11, 10, false),
            stat(12, 11, false),
            stat(13, 10, false),
            stat(20, 11, true),
            stat(21, 20, false),
            stat(30, 1, false),
        ]);
        let members = |leaders: &[ProcessIdentity]| {
            let mut members = session_members(&seen, leaders);
            members.sort_unstable();
            members
        };
        assert_eq!(members(&[leader(11, 11)]), [11, 12, 13]);
        assert_eq!(members(&[leader(11, 11), leader(21, 21)]), [11, 12, 13, 21]);
        assert_eq!(members(&[leader(11, 7)]), [0; 0], "another process has the pid");
        assert_eq!(members(&[]), [0; 0]);
    }

    #[test]
    fn the_memory_of_a_real_process_tree_is_measured() {
        let script = "sleep 60 & echo; wait";
        let mut shell = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut line = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().expect("piped"), &mut line).expect("the shell has started");
        let whole = of_sessions(&[process::identity(shell.id()).expect("it is running")]);
        let alone = of_process(shell.id()).expect("it is running");
        process::descendants(shell.id()).iter().for_each(|it| process::signal(it, rustix::process::Signal::KILL));
        shell.kill().expect("it is running");
        shell.wait().expect("a child");
        assert!(alone > 0 && whole > alone, "{whole} and {alone}");
    }

    #[test]
    fn the_kernels_texts_are_parsed() {
        assert_eq!(pss("00400000-7ff 00:00 [rollup]\nRss:  3000 kB\nPss:  1024 kB\nPss_Dirty: 1 kB\n"), Some(1 << 20));
        assert_eq!(pss("Rss: 3 kB\n"), None);
        assert_eq!(first_load("0.42 0.30 0.25 1/423 9999\n"), Some(0.42));
        assert!(load_per_core().is_some_and(|load| load >= 0.0));
    }
}
