//! Writes to a turn's program and reads from it concurrently, until it exits or has to be stopped.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use rustix::process::Signal;

use super::cancel::Cancel;
use super::child::Agent;
use super::tail::Tail;

const CHUNK_SIZE: usize = 64 << 10;
/// Maximum pipe size for an unprivileged program, and so the most output that can remain after it exits.
const MAX_PIPE: usize = 1 << 20;

/// Why an exchange ended.
#[derive(Debug)]
pub enum Over {
    Exited(ExitStatus),
    Cancelled,
    TimedOut,
    /// The reader accepts no more output.
    Refused,
}

pub struct Exchange<'a> {
    agent: Agent,
    /// Remaining bytes to write.
    input: &'a [u8],
    pub stderr: Tail,
    buffer: Vec<u8>,
}

/// The descriptors that are ready.
#[derive(Default)]
struct Ready {
    ended: bool,
    cancelled: bool,
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl<'a> Exchange<'a> {
    pub fn new(agent: Agent, input: &'a [u8]) -> Self {
        Self { agent, input, stderr: Tail::default(), buffer: vec![0; CHUNK_SIZE] }
    }

    /// Runs the exchange. `on_output` receives standard output as it arrives and returns whether it accepts more.
    pub fn run(
        &mut self,
        cancel: &Cancel,
        deadline: Option<Instant>,
        mut on_output: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<Over> {
        loop {
            let ready = self.poll(Some(cancel), deadline, true)?;
            if ready.cancelled {
                return Ok(Over::Cancelled);
            }
            if ready.stdin {
                self.write()?;
            }
            if ready.stderr {
                self.read_errors()?;
            }
            if ready.stdout && !self.read_output(&mut on_output)? {
                return Ok(Over::Refused);
            }
            if ready.ended {
                return self.drain(&mut on_output);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Over::TimedOut);
            }
        }
    }

    /// Sends SIGTERM to all processes of the session, and SIGKILL to those that remain after the grace period.
    pub fn end(&mut self, grace: Duration) -> io::Result<()> {
        self.agent.stdin = None;
        self.agent.signal(Signal::TERM);
        let deadline = Instant::now() + grace;
        let mut has_ended = false;
        // A launcher may exit before the agent, which may still be saving its session and keeps the pipes open.
        while !(has_ended && self.agent.stdout.is_none() && self.agent.stderr.is_none()) && Instant::now() < deadline {
            let ready = self.poll(None, Some(deadline), !has_ended)?;
            has_ended |= ready.ended;
            if ready.stderr {
                self.read_errors()?;
            }
            // Read the output so that a full pipe does not block the agent, but discard it: the turn is over.
            if ready.stdout {
                self.read_output(&mut |_| true)?;
            }
        }
        self.agent.signal(Signal::KILL);
        self.agent.reap()?;
        Ok(())
    }

    /// Reads the output that remains in the pipes after the program has exited. Does not wait for them to close,
    /// because other processes may keep them open.
    fn drain(&mut self, on_output: &mut impl FnMut(&[u8]) -> bool) -> io::Result<Over> {
        let status = self.agent.reap()?;
        for _ in 0..MAX_PIPE / CHUNK_SIZE {
            let ready = self.poll(None, Some(Instant::now()), false)?;
            if ready.stderr {
                self.read_errors()?;
            }
            if ready.stdout && !self.read_output(on_output)? {
                return Ok(Over::Refused);
            }
            if !ready.stdout && !ready.stderr {
                break;
            }
        }
        Ok(Over::Exited(status))
    }

    /// Waits until a descriptor is ready. After the program's exit, pass `wait_for_exit = false`: its descriptor would
    /// always be ready.
    fn poll(&self, cancel: Option<&Cancel>, deadline: Option<Instant>, wait_for_exit: bool) -> io::Result<Ready> {
        let Agent { ended, stdin, stdout, stderr, .. } = &self.agent;
        let ended = wait_for_exit.then_some(ended);
        let sources = [
            (ended.map(AsFd::as_fd), PollFlags::IN),
            (cancel.map(AsFd::as_fd), PollFlags::IN),
            (stdin.as_ref().map(AsFd::as_fd), PollFlags::OUT),
            (stdout.as_ref().map(AsFd::as_fd), PollFlags::IN),
            (stderr.as_ref().map(AsFd::as_fd), PollFlags::IN),
        ];
        let mut fds: Vec<PollFd> =
            sources.iter().filter_map(|(fd, flags)| Some(PollFd::from_borrowed_fd((*fd)?, *flags))).collect();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left =
            left.map(|left| Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) });
        match poll(&mut fds, left.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let mut polled = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut ready = sources.iter().map(|(fd, _)| fd.is_some() && polled.next().unwrap_or(false));
        let mut next = || ready.next().unwrap_or(false);
        Ok(Ready { ended: next(), cancelled: next(), stdin: next(), stdout: next(), stderr: next() })
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(stdin) = &self.agent.stdin else { return Ok(()) };
        let piece = &self.input[..self.input.len().min(CHUNK_SIZE)];
        match write(stdin, piece) {
            Ok(count) => self.input = &self.input[count..],
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            // The program closed its input early, which is not an error.
            Err(Errno::PIPE) => self.input = &[],
            Err(error) => return Err(error.into()),
        }
        if self.input.is_empty() {
            self.agent.stdin = None;
        }
        Ok(())
    }

    fn read_output(&mut self, on_output: &mut impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
        match read_piece(&mut self.agent.stdout, &mut self.buffer)? {
            0 => Ok(true),
            count => Ok(on_output(&self.buffer[..count])),
        }
    }

    fn read_errors(&mut self) -> io::Result<()> {
        let count = read_piece(&mut self.agent.stderr, &mut self.buffer)?;
        self.stderr.push(&self.buffer[..count]);
        Ok(())
    }
}

/// Reads a chunk; returns 0 if there is none yet. Closes the stream at its end.
fn read_piece(stream: &mut Option<OwnedFd>, buffer: &mut [u8]) -> io::Result<usize> {
    let Some(open) = stream.as_ref() else { return Ok(0) };
    match read(open, buffer) {
        Ok(0) => {
            *stream = None;
            Ok(0)
        }
        Ok(count) => Ok(count),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
