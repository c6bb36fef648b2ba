//! Spawns the harness on a terminal or on pipes.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Pid;

use crate::spec::{Spec, StdioMode};

/// A running harness and the holder's ends of its streams, all non-blocking.
#[derive(Debug)]
pub struct Harness {
    pub pid: u32,
    pub output: OwnedFd,
    /// `None` once it is closed (pipes only).
    pub input: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    pub is_terminal: bool,
}

pub fn launch(spec: &Spec) -> io::Result<Harness> {
    let (program, args) =
        spec.argv.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no program to run"))?;
    match spec.stdio {
        StdioMode::Terminal => on_terminal(spec, program, args),
        StdioMode::Pipes => on_pipes(spec, program, args),
    }
}

fn on_terminal(spec: &Spec, program: &str, args: &[String]) -> io::Result<Harness> {
    let (pty, pts) = pty_process::blocking::open().map_err(io::Error::other)?;
    pty.resize(pty_process::Size::new(spec.rows, spec.cols)).map_err(io::Error::other)?;
    let command = pty_process::blocking::Command::new(program)
        .args(args)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&spec.cwd);
    let announce = duplicate_stdout()?;
    // SAFETY: both functions only make async-signal-safe calls; see their comments.
    let child = unsafe {
        command.pre_exec(move || {
            announce_process(&announce);
            reset_signals()
        })
    };
    let child = child.spawn(pts).map_err(|error| match error {
        pty_process::Error::Io(error) => error,
        other => io::Error::other(other),
    })?;
    let output = OwnedFd::from(pty);
    set_nonblocking(&output)?;
    Ok(Harness { pid: child.id(), input: Some(output.try_clone()?), output, stderr: None, is_terminal: true })
}

fn on_pipes(spec: &Spec, program: &str, args: &[String]) -> io::Result<Harness> {
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&spec.cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let announce = duplicate_stdout()?;
    // SAFETY: setsid and both functions only make async-signal-safe calls; see the functions' comments.
    unsafe {
        command.pre_exec(move || {
            rustix::process::setsid()?;
            announce_process(&announce);
            reset_signals()
        })
    };
    let mut child = command.spawn()?;
    let input = OwnedFd::from(child.stdin.take().expect("the stream is piped"));
    let output = OwnedFd::from(child.stdout.take().expect("the stream is piped"));
    let stderr = OwnedFd::from(child.stderr.take().expect("the stream is piped"));
    for fd in [&input, &output, &stderr] {
        set_nonblocking(fd)?;
    }
    Ok(Harness { pid: child.id(), output, input: Some(input), stderr: Some(stderr), is_terminal: false })
}

/// Duplicates the holder's standard output for use between fork and exec, where standard output is already the
/// harness's own. Exec closes it.
fn duplicate_stdout() -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?)
}

/// Writes [`crate::LaunchReport::Spawned`] from the harness's process, before any code of the harness runs. Runs between fork
/// and exec, so it only formats into a stack buffer and makes async-signal-safe calls.
fn announce_process(starter: &OwnedFd) {
    // SAFETY: ignoring is a valid action, and `reset_signals` restores the default. Ignored because the daemon that
    // reads this output may be gone.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let mut line = [0; 64];
    let mut rest = &mut line[..];
    let _ = writeln!(rest, r#"{{"spawned":{{"pid":{}}}}}"#, rustix::process::getpid().as_raw_nonzero());
    let unused = rest.len();
    let _ = rustix::io::write(starter, &line[..line.len() - unused]);
}

/// Resets all signals to their default action. Otherwise signals that the parent process ignored, as `nohup` and
/// background jobs of shells do, would stay ignored in the harness, and a shell in it could not be interrupted. Runs
/// between fork and exec; every call in it is async-signal-safe.
fn reset_signals() -> io::Result<()> {
    for signal in 1..=64 {
        // SAFETY: the default is always a valid action. The call fails for SIGKILL and SIGSTOP, which is fine.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    Ok(())
}

pub fn as_pid(pid: u32) -> Pid {
    Pid::from_raw(pid.cast_signed()).expect("a pid is not 0")
}

fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    Ok(fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}
