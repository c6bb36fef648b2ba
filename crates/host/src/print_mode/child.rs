//! The program of one turn: started on pipes, in its own process session, and killed when dropped.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, set_parent_process_death_signal, setsid};

use super::session;

/// A running program. Dropping it kills all processes in its session.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    pub pid: Pid,
    /// Readable once the program has exited.
    pub ended: OwnedFd,
    /// Nonblocking pipe ends of the program's streams; `None` once closed.
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    is_reaped: bool,
}

impl Agent {
    pub fn start(mut command: Command, has_input: bool) -> io::Result<Self> {
        // Some programs wait for input even if the prompt is an argument.
        command.stdin(if has_input { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let starter = rustix::process::getpid();
        // SAFETY: every call is async-signal-safe and accesses no memory of this process.
        unsafe {
            command.pre_exec(move || {
                // A new session has no terminal: its processes cannot prompt there, and Ctrl+C reaches only coven.
                setsid()?;
                // The program must not keep running if coven is killed.
                set_parent_process_death_signal(Some(Signal::TERM))?;
                match rustix::process::getppid() == Some(starter) {
                    true => Ok(()),
                    false => Err(io::ErrorKind::Interrupted.into()),
                }
            });
        }
        let mut child = command.spawn()?;
        let pid = Pid::from_child(&child);
        let streams = (
            child.stdin.take().map(OwnedFd::from),
            child.stdout.take().map(OwnedFd::from),
            child.stderr.take().map(OwnedFd::from),
        );
        let ended = pidfd_open(pid, PidfdFlags::empty());
        let ended = ended.inspect_err(|_| abandon(&mut child, pid))?;
        let (stdin, stdout, stderr) = streams;
        let agent = Self { child, pid, ended, stdin, stdout, stderr, is_reaped: false };
        for stream in [&agent.stdin, &agent.stdout, &agent.stderr].into_iter().flatten() {
            let flags = fcntl_getfl(stream)?;
            fcntl_setfl(stream, flags | OFlags::NONBLOCK)?;
        }
        Ok(agent)
    }

    pub fn signal(&self, signal: Signal) {
        if !self.is_reaped {
            session::signal(self.pid, signal);
        }
    }

    /// Waits for the program to exit and returns its status.
    pub fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.is_reaped = true;
        Ok(status)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if !self.is_reaped {
            abandon(&mut self.child, self.pid);
        }
    }
}

fn abandon(child: &mut Child, pid: Pid) {
    session::signal(pid, Signal::KILL);
    // This fails only for a process that is not a child.
    let _ = child.wait();
}
