//! What the terminal and the kernel have to say: keys, clicks, sizes, signals.

use std::fs::File;
use std::io::{self, IsTerminal, Read, stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::attach::signals::Signals;

pub struct Input {
    /// The terminal, where standard input is something else.
    tty: Option<File>,
    signals: Signals,
    /// Becomes readable when there is something to do besides.
    bell: Option<UnixStream>,
    /// The last wait found bytes and no event in them.
    is_stuck: bool,
}

/// One wait's worth of news.
#[derive(Debug, Default)]
pub struct News {
    pub events: Vec<Event>,
    /// The program was stopped and goes on: the terminal may have been changed meanwhile.
    pub is_continued: bool,
    /// A signal asks the program to end.
    pub ending: Option<i32>,
}

impl Input {
    pub fn listen() -> io::Result<Self> {
        let tty = if stdin().is_terminal() { None } else { Some(File::open("/dev/tty")?) };
        Ok(Self { tty, signals: Signals::listen()?, bell: None, is_stuck: false })
    }

    /// Waits end when this becomes readable, too.
    pub fn with_bell(self, bell: UnixStream) -> Self {
        Self { bell: Some(bell), ..self }
    }

    /// Waits until there is something, but no longer than `limit`.
    pub fn wait(&mut self, limit: Duration) -> io::Result<News> {
        let is_readable = self.wait_for_bytes(limit)?;
        self.signals.drain();
        if let Some(bell) = &mut self.bell {
            let mut rings = [0; 256];
            while matches!(bell.read(&mut rings), Ok(count) if count > 0) {}
        }
        let mut news =
            News { ending: self.signals.ending(), is_continued: self.signals.take_continued(), events: Vec::new() };
        while news.ending.is_none() && event::poll(Duration::ZERO)? {
            news.events.push(event::read()?);
        }
        self.is_stuck = is_readable && news.events.is_empty();
        Ok(news)
    }

    fn wait_for_bytes(&self, limit: Duration) -> io::Result<bool> {
        let input = stdin();
        let tty: BorrowedFd<'_> = self.tty.as_ref().map_or_else(|| input.as_fd(), AsFd::as_fd);
        // The event reader is told of new bytes only; bytes it left behind must not make this loop spin.
        let wanted = if self.is_stuck { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN), PollFd::from_borrowed_fd(tty, wanted)];
        fds.extend(self.bell.as_ref().map(|bell| PollFd::new(bell, PollFlags::IN)));
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&limit)) {
            // A signal has come; the flags say which.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let seen = fds[1].revents();
        if seen.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            // The event reader would wait for the terminal for ever.
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the terminal is gone"));
        }
        Ok(seen.contains(PollFlags::IN))
    }
}
