//! The processes of one home, from `/proc`.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use coven_holder::process::{self, Stat};
use rustix::process::{Pid, Signal, kill_process};

/// The role of a process in a home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Daemon,
    /// The holder of the session with this id.
    Holder(String),
    /// The harness of the session with this id, or one of its descendants.
    Harness(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub pid: u32,
    pub role: Role,
}

/// Returns all running processes of the home.
pub fn of_home(home: &Path) -> Vec<Found> {
    let living = process::all().into_iter().filter(Stat::is_running);
    living.filter_map(|it| Some(Found { pid: it.pid, role: role(it.pid, home)? })).collect()
}

fn role(pid: u32, home: &Path) -> Option<Role> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
    let path = home.as_os_str().as_bytes();
    if words.get(1..3) == Some(&[&b"daemon"[..], b"serve"][..]) && words.contains(&path) {
        return Some(Role::Daemon);
    }
    // The working folder of a holder is the session's folder.
    if words.get(1) == Some(&&b"hold"[..])
        && let Some(folder) = fs::read_link(format!("/proc/{pid}/cwd")).ok()
        && folder.starts_with(home)
    {
        return Some(Role::Holder(String::from_utf8_lossy(words.get(2)?).into_owned()));
    }
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |name: &[u8]| {
        let mut variables = environment.split(|byte| *byte == 0);
        variables.find_map(|it| it.strip_prefix(name)).map(<[u8]>::to_vec)
    };
    (value(b"COVEN_HOME=")? == path)
        .then(|| value(b"COVEN_SESSION_ID=").map(|id| Role::Harness(String::from_utf8_lossy(&id).into_owned())))
        .flatten()
}

/// Returns whether a process is running. A zombie with running threads still has its files and locks, so it counts.
pub fn is_alive(pid: u32) -> bool {
    process::stat(pid).is_ok_and(|it| it.is_running())
}

/// Sends a signal to one process.
pub fn signal(pid: u32, signal: Signal) {
    // Ignore an error: the process may have exited.
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).expect("a pid is not 0"), signal);
}

pub fn kill_hard(pid: u32) {
    signal(pid, Signal::KILL);
}
