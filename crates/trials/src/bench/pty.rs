//! Terminals of the benchmark: runs programs in them and reads or discards their output.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::Winsize;

use super::BenchResult;
use super::program::{COLS, ROWS};

/// Timeout for operations that are normally immediate, on a busy machine.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// A program on a terminal whose master side is held here. Dropping it kills the program.
pub struct Terminal {
    master: OwnedFd,
    child: Child,
}

pub fn command(argv: &[String]) -> Command {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]);
    command
}

/// Opens a PTY and returns its master and slave side.
pub fn open() -> BenchResult<(OwnedFd, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    rustix::termios::tcsetwinsize(&master, Winsize { ws_row: ROWS, ws_col: COLS, ws_xpixel: 0, ws_ypixel: 0 })?;
    let slave = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    Ok((master, slave))
}

impl Terminal {
    /// Starts `command` on a new terminal of 120×40.
    pub fn spawn(mut command: Command) -> BenchResult<Self> {
        let (master, slave) = open()?;
        command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
        Self::start(command, master)
    }

    /// Like `spawn`, but discards standard output: for programs that also record their output.
    pub fn spawn_quiet(mut command: Command) -> BenchResult<Self> {
        let (master, slave) = open()?;
        command.stdin(slave.try_clone()?).stdout(Stdio::null()).stderr(slave);
        Self::start(command, master)
    }

    fn start(mut command: Command, master: OwnedFd) -> BenchResult<Self> {
        command.env("TERM", "xterm-256color");
        // SAFETY: only two system calls happen between fork and exec, both allowed there.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        Ok(Self { master, child: command.spawn()? })
    }

    pub fn write(&self, bytes: &[u8]) -> BenchResult<()> {
        match rustix::io::write(&self.master, bytes)? {
            written if written == bytes.len() => Ok(()),
            _ => Err("the terminal accepted only part of the input".into()),
        }
    }

    /// Reads and discards output up to `needle`.
    pub fn read_until(&self, needle: &[u8]) -> BenchResult<()> {
        self.read_for(needle, |seen| position(seen, needle).map(drop))
    }

    /// Returns the output between `start` and `end`.
    pub fn read_between(&self, start: &[u8], end: &[u8]) -> BenchResult<Vec<u8>> {
        self.read_for(start, |seen| {
            let rest = &seen[position(seen, start)? + start.len()..];
            position(rest, end).map(|at| rest[..at].to_vec())
        })
    }

    fn read_for<T>(&self, needle: &[u8], found: impl Fn(&[u8]) -> Option<T>) -> BenchResult<T> {
        let deadline = Instant::now() + STEP_TIMEOUT;
        let mut seen: Vec<u8> = Vec::new();
        let mut buffer = [0; 1 << 16];
        loop {
            if !readable(&self.master, deadline.saturating_duration_since(Instant::now()))? {
                return Err(format!("timed out waiting for {} on the terminal", needle.escape_ascii()).into());
            }
            let count = match rustix::io::read(&self.master, &mut buffer) {
                Ok(count) => count,
                Err(Errno::IO) => {
                    let shown = String::from_utf8_lossy(&seen).into_owned();
                    return Err(format!(
                        "the program on the terminal exited before {} appeared: {shown}",
                        needle.escape_ascii()
                    )
                    .into());
                }
                Err(error) => return Err(error.into()),
            };
            seen.extend_from_slice(&buffer[..count]);
            if let Some(found) = found(&seen) {
                return Ok(found);
            }
            // Keep the end: the needle may be split between two reads.
            seen.drain(..seen.len().saturating_sub(4096.max(needle.len())));
        }
    }

    pub fn read_some(&self) -> BenchResult<()> {
        if !readable(&self.master, STEP_TIMEOUT)? {
            return Err("timed out waiting for output on the terminal".into());
        }
        rustix::io::read(&self.master, &mut [0; 1 << 16])?;
        Ok(())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn master(&self) -> BenchResult<OwnedFd> {
        Ok(self.master.try_clone()?)
    }
}

fn position(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A failure means that the program has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn readable(fd: &OwnedFd, timeout: Duration) -> BenchResult<bool> {
    let timeout = Timespec::try_from(timeout)?;
    let ready = rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)))?;
    Ok(ready > 0)
}

/// Reads and discards output until the program exits: the baseline of all capture figures.
pub fn drain(terminal: &Terminal) -> BenchResult<()> {
    let master = &terminal.master;
    set_non_blocking(master)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match rustix::io::read(master, &mut buffer) {
            Ok(0) | Err(Errno::IO) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::new(master, PollFlags::IN)], None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Drains the terminals of attached clients until all are closed.
pub fn drain_clients(masters: Vec<OwnedFd>) -> JoinHandle<BenchResult<()>> {
    std::thread::spawn(move || {
        let mut open = masters;
        for master in &open {
            set_non_blocking(master)?;
        }
        let mut buffer = vec![0; 1 << 16];
        while !open.is_empty() {
            let mut waiting: Vec<PollFd<'_>> = open.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            rustix::io::retry_on_intr(|| poll(&mut waiting, None))?;
            let ready: Vec<bool> = waiting.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(waiting);
            let mut ready = ready.into_iter();
            let mut failed = None;
            open.retain(|master| {
                if !ready.next().expect("one flag for each terminal") {
                    return true;
                }
                match rustix::io::read(master, &mut buffer) {
                    Ok(0) | Err(Errno::IO) => false,
                    Ok(_) | Err(Errno::AGAIN | Errno::INTR) => true,
                    Err(error) => {
                        failed = Some(error);
                        false
                    }
                }
            });
            if let Some(error) = failed {
                return Err(error.into());
            }
        }
        Ok(())
    })
}

fn set_non_blocking(fd: &OwnedFd) -> BenchResult<()> {
    let flags = rustix::fs::fcntl_getfl(fd.as_fd())?;
    rustix::fs::fcntl_setfl(fd.as_fd(), flags | OFlags::NONBLOCK)?;
    Ok(())
}
