//! What is written down of a session: its log and its journal, in order, with times, brought to the disk in time.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use coven_domain::Timestamp;
use coven_domain::session::ExitStatus;

use crate::journal::{JournalWriter, Record, Stamped};
use crate::log::LogWriter;
use crate::syncer::Syncer;

/// What was read is on its way to the disk after this long: with the sync itself that stays within 10 ms.
pub const WINDOW: Duration = Duration::from_millis(7);
const WINDOW_BYTES: u64 = 1 << 20;
/// Past this much that is written and not synced, the harness waits for the disk.
const MAX_BACKLOG: u64 = 64 << 20;
/// Past this much that a full disk keeps waiting, nothing more is taken in.
const MAX_WAITING: usize = 1 << 20;
/// Past this much, records do not wait for their group.
const GROUP_BYTES: usize = 32 << 10;
/// How long to wait before a full disk is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// How long to wait before a slow disk is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Output since the last record of it.
#[derive(Debug)]
struct Window {
    start: u64,
    at: Timestamp,
    crc: crc32fast::Hasher,
}

#[derive(Debug)]
pub struct Recorder {
    log: LogWriter,
    journal: JournalWriter,
    syncer: Syncer,
    window: Option<Window>,
    /// When what was written goes to the disk at the latest.
    sync_at: Option<Instant>,
    dirty: Vec<Arc<File>>,
    dirty_bytes: u64,
    /// Records that are not in the journal yet, in order, and about how large they are: a group is written at once, so
    /// that typing costs no write of its own.
    waiting: VecDeque<Stamped>,
    waiting_bytes: usize,
    retry_at: Option<Instant>,
    /// The log's end and the number of records when they were last in step.
    progress: (u64, u64),
    last_at: Timestamp,
    has_spoken: bool,
}

impl Recorder {
    pub fn new(log: LogWriter, journal: JournalWriter, syncer: Syncer) -> Self {
        Self {
            log,
            journal,
            syncer,
            window: None,
            sync_at: None,
            dirty: Vec::new(),
            dirty_bytes: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            retry_at: None,
            progress: (0, 0),
            last_at: Timestamp::default(),
            has_spoken: false,
        }
    }

    pub fn first(&self) -> u64 {
        self.log.first()
    }

    pub const fn end(&self) -> u64 {
        self.log.end()
    }

    pub const fn records(&self) -> u64 {
        self.journal.records()
    }

    /// How far both files have come, for those who read them.
    pub const fn progress(&self) -> (u64, u64) {
        self.progress
    }

    /// Output is welcome: the disk takes it and is not far behind.
    pub fn wants_output(&self) -> bool {
        self.retry_at.is_none() && self.syncer.backlog() < MAX_BACKLOG
    }

    /// There is room to remember what is typed, even if the disk is full.
    pub const fn wants_input(&self) -> bool {
        self.waiting_bytes < MAX_WAITING
    }

    /// The disk refused something and it is too early to try again.
    pub const fn is_refused(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Writes output to the log as far as the disk takes it and says how far; 0 means: try again later.
    pub fn output(&mut self, bytes: &[u8]) -> usize {
        let offset = self.log.end();
        let count = loop {
            match self.log.append(bytes) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A full disk: the harness waits with us until there is room.
                Err(_) => break 0,
            }
        };
        if count == 0 {
            self.retry_at = Some(Instant::now() + RETRY);
            return 0;
        }
        if self.window.is_none() {
            let at = self.stamp();
            self.window = Some(Window { start: offset, at, crc: crc32fast::Hasher::new() });
            self.sync_soon();
        }
        if let Some(window) = &mut self.window {
            window.crc.update(&bytes[..count]);
        }
        self.dirty_bytes += count as u64;
        let file = self.log.file();
        if !self.dirty.last().is_some_and(|last| Arc::ptr_eq(last, file)) {
            self.dirty.push(file.clone());
        }
        count
    }

    /// Writes a record; the disk gets it with the next group.
    pub fn note(&mut self, record: Record) {
        self.close_window();
        let (at, offset) = (self.stamp(), self.log.end());
        self.append(Stamped { at, offset, record });
        self.sync_soon();
    }

    /// Writes a record and starts to bring it to the disk at once.
    pub fn note_now(&mut self, record: Record) {
        self.note(record);
        self.sync();
    }

    /// The last record, on the disk when this returns true. False: the disk is full, try again later.
    pub fn finish(&mut self, status: ExitStatus) -> bool {
        self.close_window();
        self.write_waiting();
        if !self.waiting.is_empty() {
            return false;
        }
        let record = Stamped { at: self.stamp(), offset: self.log.end(), record: Record::Exit(status) };
        if self.journal.append(&record).is_err() {
            self.retry_at = Some(Instant::now() + RETRY);
            return false;
        }
        self.sync();
        self.syncer.flush();
        true
    }

    /// Nothing more comes within the window: what there is need not wait for its end.
    pub fn close_group(&mut self) {
        if self.window.is_some() {
            self.has_spoken = true;
            self.close_window();
            self.sync();
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            self.write_waiting();
            self.sync_soon();
        }
        let is_due = self.sync_at.is_some_and(|at| now >= at);
        let is_large = self.window.as_ref().is_some_and(|window| self.log.end() - window.start >= WINDOW_BYTES);
        // The first output is told at once: somebody waits for it.
        let is_first = !self.has_spoken && self.window.is_some();
        if is_due || is_large || is_first {
            self.has_spoken |= self.window.is_some();
            self.close_window();
            self.sync();
        }
        if let Some(reason) = self.syncer.take_failure() {
            self.note(Record::Note(format!("the disk did not take the log: {reason}")));
        }
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        let is_behind = self.syncer.backlog() >= MAX_BACKLOG;
        let look = is_behind.then(|| Instant::now() + LOOK_AGAIN);
        [self.sync_at, self.retry_at, look].into_iter().flatten().min()
    }

    /// New files get their names onto the disk too.
    pub fn sync_folder(&self, dir: &Path) {
        if let Ok(folder) = File::open(dir) {
            self.syncer.request([Arc::new(folder), self.log.file().clone(), self.journal.file().clone()], 0);
        }
    }

    /// Now, but never before what was already written down.
    fn stamp(&mut self) -> Timestamp {
        self.last_at = now_ms().not_before(self.last_at);
        self.last_at
    }

    fn append(&mut self, record: Stamped) {
        self.waiting_bytes += record.weight();
        self.waiting.push_back(record);
        if self.waiting_bytes > GROUP_BYTES {
            self.write_waiting();
        }
    }

    /// Whoever reads the journal now finds everything that was noted.
    pub fn settle(&mut self) {
        self.close_window();
        self.write_waiting();
    }

    fn write_waiting(&mut self) {
        if self.retry_at.is_some() {
            return;
        }
        while let Some(record) = self.waiting.front() {
            if self.journal.append(record).is_err() {
                self.retry_at = Some(Instant::now() + RETRY);
                return;
            }
            self.waiting_bytes -= record.weight();
            self.waiting.pop_front();
        }
    }

    /// Writes down the output since the last record, and drops the oldest past the bound.
    fn close_window(&mut self) {
        let Some(window) = self.window.take() else { return };
        let length = self.log.end() - window.start;
        let record = Record::Output { length, crc: Some(window.crc.finalize()) };
        self.append(Stamped { at: window.at, offset: window.start, record });
        if let Some(first) = self.log.trim() {
            let (at, offset) = (self.stamp(), self.log.end());
            self.append(Stamped { at, offset, record: Record::Truncated { first } });
        }
    }

    fn sync_soon(&mut self) {
        self.sync_at.get_or_insert_with(|| Instant::now() + WINDOW);
    }

    fn sync(&mut self) {
        self.sync_at = None;
        self.write_waiting();
        if self.log.take_rotated() {
            self.sync_folder(self.log.dir());
        }
        let files = self.dirty.drain(..).chain([self.journal.file().clone()]);
        self.syncer.request(files, std::mem::take(&mut self.dirty_bytes));
        self.progress = (self.log.end(), self.journal.records());
    }
}

pub fn now_ms() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
