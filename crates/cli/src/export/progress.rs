//! Shows the progress of a long export.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::format;

const UPDATE_INTERVAL: Duration = Duration::from_millis(500);

pub struct Progress {
    /// `None` if progress is not shown: no terminal, or the export itself goes to it.
    next_at: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    pub fn new() -> Self {
        let is_watched = io::stderr().is_terminal() && !io::stdout().is_terminal();
        Self { next_at: is_watched.then(|| Instant::now() + UPDATE_INTERVAL), is_shown: false }
    }

    pub fn reached(&mut self, bytes: u64) {
        let now = Instant::now();
        if self.next_at.is_some_and(|at| now >= at) {
            self.next_at = Some(now + UPDATE_INTERVAL);
            self.is_shown = true;
            let _ = write!(io::stderr(), "\rexported {} \x1b[K", format::size(bytes));
        }
    }

    pub fn done(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
