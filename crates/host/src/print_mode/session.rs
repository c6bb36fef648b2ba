//! Everyone in the process session of a turn's program: its group, and what made a group of its own.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// `leader` must not have been waited for: until then its number cannot be anyone else's.
pub fn signal(leader: Pid, signal: Signal) {
    // It fails only if nobody is left in it.
    let _ = kill_process_group(leader, signal);
    for pid in numbers() {
        let is_other_group = |pid| membership(pid).is_some_and(|(group, session)| session == leader && group != leader);
        if !is_other_group(pid) {
            continue;
        }
        // The descriptor holds on to one process; only then is it sure whose number this is.
        if let Ok(process) = pidfd_open(pid, PidfdFlags::empty())
            && is_other_group(pid)
        {
            // It fails only if the process has ended.
            let _ = pidfd_send_signal(&process, signal);
        }
    }
}

fn numbers() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

/// A process's group and session.
fn membership(pid: Pid) -> Option<(Pid, Pid)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name stands in parentheses and may have blanks and parentheses of its own.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(2);
    let mut next = || Pid::from_raw(fields.next()?.parse().ok()?);
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    /// Not this process: where its session's leader is outside our namespace, the kernel tells nobody's number.
    #[test]
    fn a_process_that_leads_a_session_is_found_in_it() {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        // SAFETY: setsid is async-signal-safe and touches nothing of ours.
        unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
        let mut child = command.spawn().expect("cat starts");
        let pid = Pid::from_child(&child);
        let found = membership(pid);
        drop(child.stdin.take());
        child.wait().expect("cat ends with its input");
        assert_eq!(found, Some((pid, pid)));
    }
}
