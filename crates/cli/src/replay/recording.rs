//! A recording of a session's output with times, loaded on demand.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::attach::screen::{self, PaintedScreen};
use crate::daemon_client::DaemonClient;
use crate::failure::Failure;
use crate::ledger::{Ledger, size_of, time_of};

/// Time and log position of a chunk of output. Its bytes are loaded when it is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub seq: u64,
    /// Time since the start of the recording.
    pub at: Duration,
    pub offset: u64,
    pub length: u64,
    /// Rows and columns of the terminal at that time.
    pub size: Option<(u16, u16)>,
}

impl Mark {
    pub const fn end(&self) -> u64 {
        self.offset + self.length
    }
}

pub struct Recording {
    runtime: Runtime,
    link: DaemonClient,
    id: String,
    /// All marks loaded so far, in order.
    marks: Vec<Mark>,
    started_ms: Option<i64>,
    /// Last known size of the terminal.
    size: Option<(u16, u16)>,
    ahead: Ledger,
    /// The bytes of `marks[held_from..]`, while they are played in order.
    held: Vec<Vec<u8>>,
    held_from: usize,
}

impl Recording {
    pub fn new(runtime: Runtime, link: DaemonClient, id: String) -> Self {
        let ahead = Ledger::after(&id, 0);
        Self {
            runtime,
            link,
            id,
            marks: Vec::new(),
            started_ms: None,
            size: None,
            ahead,
            held: Vec::new(),
            held_from: 0,
        }
    }

    /// Returns the mark at this index, or `None` after the end.
    pub fn mark(&mut self, index: usize) -> Result<Option<Mark>, Failure> {
        while self.marks.len() <= index && self.load()? {}
        Ok(self.marks.get(index).copied())
    }

    /// Returns the index of the first mark later than `at`, or the number of marks.
    pub fn first_after(&mut self, at: Duration) -> Result<usize, Failure> {
        while self.marks.last().is_none_or(|mark| mark.at <= at) && self.load()? {
            self.drop_played();
        }
        Ok(self.marks.partition_point(|mark| mark.at <= at))
    }

    /// Returns the index of the first mark that ends after this log offset.
    pub fn first_beyond(&mut self, offset: u64) -> Result<usize, Failure> {
        while self.marks.last().is_none_or(|mark| mark.end() <= offset) && self.load()? {
            self.drop_played();
        }
        Ok(self.marks.partition_point(|mark| mark.end() <= offset))
    }

    /// Returns the bytes of a mark.
    pub fn bytes(&mut self, index: usize) -> Result<Vec<u8>, Failure> {
        if let Some(bytes) = index.checked_sub(self.held_from).and_then(|at| self.held.get_mut(at)) {
            return Ok(std::mem::take(bytes));
        }
        let Some(mark) = self.marks.get(index) else { return Ok(Vec::new()) };
        // Played before, then a seek went back: load the bytes again.
        let mut again = Ledger::after(&self.id, mark.seq - 1);
        let entry = self.runtime.block_on(again.next(&mut self.link))?;
        Ok(entry.map(|entry| entry.bytes()).unwrap_or_default())
    }

    /// Fetches the screen at this log offset.
    pub fn screen_at(&mut self, offset: u64) -> Result<PaintedScreen, Failure> {
        self.runtime.block_on(screen::fetch_at(&mut self.link, &self.id, offset))
    }

    /// Loads one more entry. Returns false at the end.
    fn load(&mut self) -> Result<bool, Failure> {
        let Some(entry) = self.runtime.block_on(self.ahead.next(&mut self.link))? else { return Ok(false) };
        let time = time_of(&entry);
        let started = *self.started_ms.get_or_insert(time);
        self.size = size_of(&entry).or(self.size);
        let (offset, Some(length)) = (entry.offset, entry.length) else { return Ok(true) };
        // Keep the order even if the clock went back.
        let earliest = self.marks.last().map_or(Duration::ZERO, |mark| mark.at);
        let at = Duration::from_millis(u64::try_from(time - started).unwrap_or(0)).max(earliest);
        self.marks.push(Mark { seq: entry.seq, at, offset, length, size: self.size });
        if self.held_from + self.held.len() + 1 != self.marks.len() {
            self.held.clear();
            self.held_from = self.marks.len() - 1;
        }
        self.held.push(entry.bytes());
        Ok(true)
    }

    /// Drops bytes that were skipped or played.
    fn drop_played(&mut self) {
        self.held.clear();
        self.held_from = self.marks.len();
    }

    /// Marks everything up to this index as played.
    pub fn played(&mut self, index: usize) {
        if index + 1 == self.marks.len() {
            self.drop_played();
        }
    }
}
