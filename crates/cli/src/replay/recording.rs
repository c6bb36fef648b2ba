//! A recording: what was written when, loaded as it is needed.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::attach::screen::{self, PaintedScreen};
use crate::daemon_client::DaemonClient;
use crate::failure::Failure;
use crate::ledger::{Ledger, size_of, time_of};

/// Where a piece of output stands in time and in the log. Its bytes are asked for when it is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub seq: u64,
    /// Since the beginning of the recording.
    pub at: Duration,
    pub offset: u64,
    pub length: u64,
    /// Rows and columns of the terminal that it was written to.
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
    /// Everything seen so far, in order.
    marks: Vec<Mark>,
    started_ms: Option<i64>,
    /// The size that the terminal had last.
    size: Option<(u16, u16)>,
    ahead: Ledger,
    /// The bytes of `marks[held_from..]`, as long as they are played in order.
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

    /// The mark with this number; nothing behind the end.
    pub fn mark(&mut self, index: usize) -> Result<Option<Mark>, Failure> {
        while self.marks.len() <= index && self.load()? {}
        Ok(self.marks.get(index).copied())
    }

    /// The first mark later than `at`; the number of marks if there is none.
    pub fn first_after(&mut self, at: Duration) -> Result<usize, Failure> {
        while self.marks.last().is_none_or(|mark| mark.at <= at) && self.load()? {
            self.drop_played();
        }
        Ok(self.marks.partition_point(|mark| mark.at <= at))
    }

    /// The first mark that reaches beyond this byte of the log.
    pub fn first_beyond(&mut self, offset: u64) -> Result<usize, Failure> {
        while self.marks.last().is_none_or(|mark| mark.end() <= offset) && self.load()? {
            self.drop_played();
        }
        Ok(self.marks.partition_point(|mark| mark.end() <= offset))
    }

    /// The bytes behind a mark.
    pub fn bytes(&mut self, index: usize) -> Result<Vec<u8>, Failure> {
        if let Some(bytes) = index.checked_sub(self.held_from).and_then(|at| self.held.get_mut(at)) {
            return Ok(std::mem::take(bytes));
        }
        let Some(mark) = self.marks.get(index) else { return Ok(Vec::new()) };
        // It was played before: a seek went back.
        let mut again = Ledger::after(&self.id, mark.seq - 1);
        let entry = self.runtime.block_on(again.next(&mut self.link))?;
        Ok(entry.map(|entry| entry.bytes()).unwrap_or_default())
    }

    /// The screen as it was when the log stood at `offset`.
    pub fn screen_at(&mut self, offset: u64) -> Result<PaintedScreen, Failure> {
        self.runtime.block_on(screen::fetch_at(&mut self.link, &self.id, offset))
    }

    /// Takes in one more entry; false at the end.
    fn load(&mut self) -> Result<bool, Failure> {
        let Some(entry) = self.runtime.block_on(self.ahead.next(&mut self.link))? else { return Ok(false) };
        let time = time_of(&entry);
        let started = *self.started_ms.get_or_insert(time);
        self.size = size_of(&entry).or(self.size);
        let (offset, Some(length)) = (entry.offset, entry.length) else { return Ok(true) };
        // A clock that went back must not play before what came before it.
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

    /// Forgets bytes that are skipped, or were played.
    fn drop_played(&mut self) {
        self.held.clear();
        self.held_from = self.marks.len();
    }

    /// Everything up to this mark was played.
    pub fn played(&mut self, index: usize) {
        if index + 1 == self.marks.len() {
            self.drop_played();
        }
    }
}
