//! The viewer's terminal: raw while a session is shown, then restored.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, OptionalActions, OutputModes, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Restores the terminal when dropped, also on a panic.
pub struct RawMode {
    terminal: OwnedFd,
    before: Termios,
    raw: Termios,
}

impl RawMode {
    /// Enters raw mode: keys are neither echoed nor translated.
    pub fn enter(terminal: impl AsFd) -> io::Result<Self> {
        Self::change(terminal.as_fd(), Termios::make_raw)
    }

    /// Changes only the output mode: another program reads the keys, and Ctrl-C still ends the command.
    pub fn enter_for_output(terminal: impl AsFd) -> io::Result<Self> {
        Self::change(terminal.as_fd(), |mode| {
            mode.output_modes.remove(OutputModes::OPOST);
            mode.local_modes.remove(LocalModes::ECHO);
        })
    }

    fn change(terminal: BorrowedFd<'_>, change: fn(&mut Termios)) -> io::Result<Self> {
        let terminal = terminal.try_clone_to_owned()?;
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        change(&mut raw);
        tcsetattr(&terminal, OptionalActions::Now, &raw)?;
        Ok(Self { terminal, before, raw })
    }

    /// Enters raw mode again after the command was stopped and continued.
    pub fn again(&self) {
        // If the terminal is gone, the next read or write fails.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.raw);
    }

    /// Restores the terminal and discards unread input.
    pub fn leave_flushed(self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Not `Drain`: it would block forever on a stalled terminal.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Output for the session's bytes.
pub struct Sink {
    /// A separate non-blocking descriptor, so that a stalled terminal does not block the keys. Changing the shared
    /// one would make the shell's terminal non-blocking too.
    terminal: Option<OwnedFd>,
    waiting: Vec<u8>,
    done: usize,
}

impl Sink {
    pub fn stdout() -> Self {
        let terminal = io::stdout().is_terminal().then(|| {
            rustix::fs::open("/proc/self/fd/1", OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())
        });
        Self { terminal: terminal.and_then(Result::ok), waiting: Vec::new(), done: 0 }
    }

    /// Writes as much as possible without blocking and queues the rest for `flush`.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_waiting() {
            self.waiting.extend_from_slice(bytes);
            return Ok(());
        }
        let Some(terminal) = &self.terminal else {
            let mut out = io::stdout().lock();
            return out.write_all(bytes).and_then(|()| out.flush());
        };
        let written = write_some(terminal, bytes)?;
        self.waiting.extend_from_slice(&bytes[written..]);
        Ok(())
    }

    /// Writes queued bytes. Call it when the descriptor is writable.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Some(terminal) = &self.terminal {
            self.done += write_some(terminal, &self.waiting[self.done..])?;
        }
        if self.done == self.waiting.len() {
            self.waiting.clear();
            self.done = 0;
        }
        Ok(())
    }

    pub fn is_waiting(&self) -> bool {
        self.done < self.waiting.len()
    }

    /// Discards queued bytes that a newer screen replaces.
    pub fn discard(&mut self) {
        self.waiting.clear();
        self.done = 0;
    }

    /// Returns the descriptor to poll while bytes are queued.
    pub fn waits_on(&self) -> Option<BorrowedFd<'_>> {
        self.terminal.as_ref().filter(|_| self.is_waiting()).map(AsFd::as_fd)
    }
}

fn write_some(terminal: &OwnedFd, mut bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while !bytes.is_empty() {
        match rustix::io::write(terminal, bytes) {
            Ok(count) => {
                written += count;
                bytes = &bytes[count..];
            }
            Err(rustix::io::Errno::AGAIN) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(written)
}

/// Writes to standard output until the timeout.
pub fn write_within(bytes: &[u8], within: Duration) -> io::Result<()> {
    let mut sink = Sink::stdout();
    sink.write(bytes)?;
    let deadline = Instant::now() + within;
    while let Some(terminal) = sink.waits_on() {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap_or_default();
        if poll(&mut [PollFd::from_borrowed_fd(terminal, PollFlags::OUT)], Some(&timeout))? == 0 {
            break;
        }
        sink.flush()?;
    }
    Ok(())
}

/// Returns rows and columns of a terminal.
pub fn size(terminal: impl AsFd) -> Option<(u16, u16)> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}
