//! A running session as the daemon sees it: its journal's unstored and its screen.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use coven_domain::SessionId;
use coven_domain::entry::{Entry, EntryKind};
use coven_domain::session::ExitStatus;
use coven_holder::journal::{JournalReader, Record};
use tokio::sync::{Mutex, Notify, watch};

use super::acp::AcpSession;
use super::announce::OutputAnnouncer;
use super::model::Model;
use super::sizes::Sizes;

pub struct LiveSession {
    pub id: SessionId,
    pub dir: PathBuf,
    pub model: Option<Arc<Model>>,
    /// For sessions over ACP.
    pub acp: Option<Arc<AcpSession>>,
    pub(crate) unstored: Mutex<UnstoredEntries>,
    /// The model has something to fetch: answers for the harness, keyframes for the store.
    pub(crate) model_moved: Notify,
    has_ended: watch::Sender<bool>,
    /// The sizes of its terminal so far.
    pub(crate) sizes: Arc<Sizes>,
    /// Where the log ends, for those who read it along.
    progress: watch::Sender<u64>,
}

/// The end of the journal that the store does not have yet.
pub(crate) struct UnstoredEntries {
    reader: JournalReader,
    /// Read from the journal and not yet in the store, in order.
    pub pending: Vec<Entry>,
    /// Entries up to this number are in the store.
    stored: u64,
    /// Where the log ends according to the journal.
    pub end: u64,
    pub exit: Option<ExitStatus>,
    pub launch_failure: Option<String>,
    /// pid and start time, as the holder wrote them down.
    pub started: Option<(u32, u64, String)>,
    /// The end of what was written to standard error, for the message about a failure.
    pub stderr: Vec<u8>,
    pub announcer: OutputAnnouncer,
    pub sizes: Arc<Sizes>,
}

/// So much of standard error is kept at hand.
const STDERR_BYTES: usize = 16 << 10;

impl UnstoredEntries {
    pub fn open(journal: &std::path::Path, stored: u64) -> io::Result<Self> {
        Ok(Self {
            reader: JournalReader::open(journal)?,
            pending: Vec::new(),
            stored,
            end: 0,
            exit: None,
            launch_failure: None,
            started: None,
            stderr: Vec::new(),
            announcer: OutputAnnouncer::default(),
            sizes: Arc::default(),
        })
    }

    /// Reads what the journal has; sizes go to the model, entries wait for the store.
    pub fn read(&mut self, model: Option<&Model>) -> io::Result<()> {
        loop {
            let records = self.reader.read_more(256 << 10)?;
            if records.is_empty() {
                return Ok(());
            }
            for (seq, stamped) in records {
                match &stamped.record {
                    Record::Start { pid, started_ticks, boot_id, .. } => {
                        self.started = Some((*pid, *started_ticks, boot_id.clone()));
                    }
                    Record::Output { length, .. } => self.end = stamped.offset + length,
                    Record::Resize { rows, cols } => {
                        self.sizes.add(stamped.offset, *rows, *cols);
                        if let Some(model) = model {
                            model.resize_at(stamped.offset, *rows, *cols);
                        }
                    }
                    Record::Exit(status) => self.exit = Some(*status),
                    Record::LaunchFailed(reason) => self.launch_failure = Some(reason.clone()),
                    Record::Input(_)
                    | Record::HiddenInput { .. }
                    | Record::Kill { .. }
                    | Record::Truncated { .. }
                    | Record::Note(_) => {}
                    Record::Stderr(bytes) => {
                        self.stderr.extend_from_slice(bytes);
                        let excess = self.stderr.len().saturating_sub(STDERR_BYTES);
                        self.stderr.drain(..excess);
                    }
                }
                // A start and an end have events that say more.
                if !matches!(stamped.record, Record::Start { .. } | Record::Exit(_) | Record::LaunchFailed(_)) {
                    self.announcer.add_news();
                }
                if seq > self.stored {
                    self.pending.push(stamped.entry(seq));
                }
            }
        }
    }

    /// Output that the holder wrote to the log and could not note down before it was killed.
    pub fn append_unjournaled_output(&mut self, dir: &std::path::Path, now: coven_domain::Timestamp) {
        let end = super::log_file::LogFile::new(dir).range().map_or(0, |range| range.end);
        // Without a start there was no output, and without an order no number for it.
        if self.started.is_none() || end <= self.end {
            return;
        }
        let seq = self.pending.last().map_or(self.stored, |last| last.seq).max(self.reader.seq()) + 1;
        let (kind, offset, length) = (EntryKind::Output, self.end, end - self.end);
        self.pending.push(Entry { seq, kind, at: now, offset, length, data: None, detail: None });
        self.end = end;
        self.announcer.add_news();
    }

    /// The pending entries are in the store now.
    pub fn mark_stored(&mut self) {
        if let Some(last) = self.pending.last() {
            self.stored = last.seq;
        }
        self.pending.clear();
    }
}

impl LiveSession {
    pub(crate) fn new(
        id: SessionId,
        dir: PathBuf,
        unstored: UnstoredEntries,
        model: Option<Arc<Model>>,
        acp: Option<Arc<AcpSession>>,
    ) -> Self {
        Self {
            id,
            dir,
            model,
            acp,
            sizes: unstored.sizes.clone(),
            unstored: Mutex::new(unstored),
            model_moved: Notify::new(),
            has_ended: watch::Sender::new(false),
            progress: watch::Sender::new(0),
        }
    }

    pub(crate) fn advance(&self, end: u64) {
        self.progress.send_replace(end);
    }

    pub fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// Where the log ends, as far as anybody has told: the holder tells what comes, the journal what was there before.
    pub async fn log_end(&self) -> u64 {
        let known = self.unstored.lock().await.end;
        known.max(*self.progress.borrow())
    }

    pub fn has_ended(&self) -> bool {
        *self.has_ended.borrow()
    }

    pub(crate) fn end(&self) {
        self.has_ended.send_replace(true);
    }

    /// Waits until the session's end is in the store.
    pub async fn ended(&self) {
        let mut has_ended = self.has_ended.subscribe();
        let _ = has_ended.wait_for(|ended| *ended).await;
    }
}
