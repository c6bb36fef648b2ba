//! Writes a session's log and journal in order, with timestamps, and schedules their syncs.

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

/// How long output may wait before its sync starts; together with the sync this stays within 10 ms.
pub const WINDOW: Duration = Duration::from_millis(7);
const WINDOW_BYTES: u64 = 1 << 20;
/// With more unsynced bytes than this, the holder stops reading output until the disk catches up.
const MAX_BACKLOG: u64 = 64 << 20;
/// With more queued record bytes than this, for example on a full disk, the holder accepts no more input.
const MAX_WAITING: usize = 1 << 20;
/// With more queued record bytes than this, records are written without waiting for the next sync.
const GROUP_BYTES: usize = 32 << 10;
/// How long to wait before retrying a failed write.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How often to check whether a slow disk has caught up.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Output since the last `Output` record.
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
    /// Deadline of the next sync.
    sync_at: Option<Instant>,
    dirty: Vec<Arc<File>>,
    dirty_bytes: u64,
    /// Records not yet in the journal. They are written in groups, so that not every keystroke costs a write.
    waiting: VecDeque<Stamped>,
    /// Approximate size of `waiting`.
    waiting_bytes: usize,
    retry_at: Option<Instant>,
    /// End of the log and number of journal records at the last sync.
    progress: (u64, u64),
    last_at: Timestamp,
    has_output: bool,
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
            has_output: false,
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

    /// Returns the end of the log and the number of journal records that are safe to read from the files.
    pub const fn progress(&self) -> (u64, u64) {
        self.progress
    }

    /// Reports whether the disk accepts writes and is not too far behind.
    pub fn wants_output(&self) -> bool {
        self.retry_at.is_none() && self.syncer.backlog() < MAX_BACKLOG
    }

    /// Reports whether there is room to queue input records, even if the disk is full.
    pub const fn wants_input(&self) -> bool {
        self.waiting_bytes < MAX_WAITING
    }

    /// Reports whether a write failed and its retry is not due yet.
    pub const fn is_refused(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Writes output to the log and returns the number of bytes written; 0 means that the caller must retry later.
    pub fn output(&mut self, bytes: &[u8]) -> usize {
        let offset = self.log.end();
        let count = loop {
            match self.log.append(bytes) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The disk is full: the harness blocks until there is space.
                Err(_) => break 0,
            }
        };
        if count == 0 {
            self.retry_at = Some(Instant::now() + RETRY_DELAY);
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

    /// Adds a record, which is written and synced with the next group.
    pub fn note(&mut self, record: Record) {
        self.close_window();
        let (at, offset) = (self.stamp(), self.log.end());
        self.append(Stamped { at, offset, record });
        self.sync_soon();
    }

    /// Adds a record, writes it and starts its sync immediately.
    pub fn note_now(&mut self, record: Record) {
        self.note(record);
        self.sync();
    }

    /// Writes and syncs the last record. Returns false if the write failed and must be retried later.
    pub fn finish(&mut self, status: ExitStatus) -> bool {
        self.close_window();
        self.write_waiting();
        if !self.waiting.is_empty() {
            return false;
        }
        let record = Stamped { at: self.stamp(), offset: self.log.end(), record: Record::Exit(status) };
        if self.journal.append(&record).is_err() {
            self.retry_at = Some(Instant::now() + RETRY_DELAY);
            return false;
        }
        self.sync();
        self.syncer.flush();
        true
    }

    /// Records and syncs the output now, for callers that know that no more will arrive within the window.
    pub fn close_group(&mut self) {
        if self.window.is_some() {
            self.has_output = true;
            self.close_window();
            self.sync();
        }
    }

    /// Runs retries and syncs that are due.
    pub fn tick(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            self.write_waiting();
            self.sync_soon();
        }
        let is_due = self.sync_at.is_some_and(|at| now >= at);
        let is_large = self.window.as_ref().is_some_and(|window| self.log.end() - window.start >= WINDOW_BYTES);
        // Publish the first output immediately: clients are waiting for it.
        let is_first = !self.has_output && self.window.is_some();
        if is_due || is_large || is_first {
            self.has_output |= self.window.is_some();
            self.close_window();
            self.sync();
        }
        if let Some(reason) = self.syncer.take_failure() {
            self.note(Record::Note(format!("cannot sync the session's files to disk: {reason}")));
        }
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        let is_behind = self.syncer.backlog() >= MAX_BACKLOG;
        let next_poll = is_behind.then(|| Instant::now() + POLL_INTERVAL);
        [self.sync_at, self.retry_at, next_poll].into_iter().flatten().min()
    }

    /// Syncs the folder with both files, so that the names of new files are durable.
    pub fn sync_folder(&self, dir: &Path) {
        if let Ok(folder) = File::open(dir) {
            self.syncer.request([Arc::new(folder), self.log.file().clone(), self.journal.file().clone()], 0);
        }
    }

    /// Returns the current time, but never a time before an earlier record.
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

    /// Writes pending records so that readers of the journal see them.
    pub fn flush(&mut self) {
        self.close_window();
        self.write_waiting();
    }

    fn write_waiting(&mut self) {
        if self.retry_at.is_some() {
            return;
        }
        while let Some(record) = self.waiting.front() {
            if self.journal.append(record).is_err() {
                self.retry_at = Some(Instant::now() + RETRY_DELAY);
                return;
            }
            self.waiting_bytes -= record.weight();
            self.waiting.pop_front();
        }
    }

    /// Adds a record of the output since the last one and trims the log to its size limit.
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
