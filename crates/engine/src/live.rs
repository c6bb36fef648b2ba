//! A running session in the daemon: its unstored journal entries and its screen.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use coven_domain::SessionId;
use coven_domain::entry::{Entry, EntryKind};
use coven_domain::session::ExitStatus;
use coven_harness::hooks::Hooks;
use coven_holder::journal::{JournalReader, Record};
use serde_json::Value;
use tokio::sync::{Mutex, Notify, mpsc, watch};

use super::acp::AcpSession;
use super::activity::SessionActivity;
use super::announce::OutputAnnouncer;
use super::model::Model;
use super::sizes::Sizes;

pub struct LiveSession {
    pub id: SessionId,
    pub dir: PathBuf,
    pub model: Option<Arc<Model>>,
    /// Set for sessions over ACP.
    pub acp: Option<Arc<AcpSession>>,
    pub(crate) unstored: Mutex<UnstoredEntries>,
    /// Notified when the model has replies for the harness or keyframes for the store.
    pub(crate) model_moved: Notify,
    has_ended: watch::Sender<bool>,
    /// The sizes that the terminal has had.
    pub(crate) sizes: Arc<Sizes>,
    /// The end of the log, for readers that follow it.
    progress: watch::Sender<u64>,
    pub(crate) activity: std::sync::Mutex<SessionActivity>,
    /// Held while stored hook calls are read: each is handled once.
    pub(crate) reading_stored_calls: Mutex<()>,
    /// How the agent's hooks are read; `None` if it has none.
    pub(crate) hooks: Option<&'static Hooks>,
    /// Notes for the ledger; the follower sends them to the holder.
    notes: mpsc::Sender<String>,
    pub(crate) unsent_notes: Mutex<mpsc::Receiver<String>>,
}

/// Journal entries that are not stored yet.
pub(crate) struct UnstoredEntries {
    reader: JournalReader,
    /// Entries to store, in order.
    pub pending: Vec<Entry>,
    /// Entries up to this number are in the store.
    stored: u64,
    /// The end of the log according to the journal.
    pub end: u64,
    /// The same according to the entries that were stored when the session was adopted.
    pub stored_end: u64,
    pub exit: Option<ExitStatus>,
    pub launch_failure: Option<String>,
    /// Pid, start time and boot id from the journal.
    pub started: Option<(u32, u64, String)>,
    /// The end of standard error, for error messages.
    pub stderr: Vec<u8>,
    pub announcer: OutputAnnouncer,
    pub sizes: Arc<Sizes>,
}

/// Queue capacity of notes for the ledger.
const MAX_NOTES: usize = 64;
/// How much of standard error is kept in memory.
const STDERR_BYTES: usize = 16 << 10;

impl UnstoredEntries {
    pub fn open(journal: &std::path::Path, stored: u64) -> io::Result<Self> {
        Ok(Self {
            reader: JournalReader::open(journal)?,
            pending: Vec::new(),
            stored,
            end: 0,
            stored_end: 0,
            exit: None,
            launch_failure: None,
            started: None,
            stderr: Vec::new(),
            announcer: OutputAnnouncer::default(),
            sizes: Arc::default(),
        })
    }

    /// Reads new records of the journal. Sizes go to the model, entries to `pending`.
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
                // Start and end have their own events.
                if !matches!(stamped.record, Record::Start { .. } | Record::Exit(_) | Record::LaunchFailed(_)) {
                    self.announcer.add_news();
                }
                if seq > self.stored {
                    self.pending.push(stamped.entry(seq));
                } else {
                    self.stored_end = self.end;
                }
            }
        }
    }

    /// Adds an entry for output that the holder wrote to the log but not to the journal, because it was killed.
    pub fn append_unjournaled_output(&mut self, dir: &std::path::Path, now: coven_domain::Timestamp) {
        let end = super::log_file::LogFile::new(dir).range().map_or(0, |range| range.end);
        // Without a start the harness wrote no output.
        if self.started.is_none() || end <= self.end {
            return;
        }
        let seq = self.next_seq();
        let (kind, offset, length) = (EntryKind::Output, self.end, end - self.end);
        self.pending.push(Entry { seq, kind, at: now, offset, length, data: None, detail: None });
        self.end = end;
        self.announcer.add_news();
    }

    fn next_seq(&self) -> u64 {
        self.pending.last().map_or(self.stored, |last| last.seq).max(self.reader.seq()) + 1
    }

    /// Returns entries for notes that no holder can write any more: they follow the pending ones.
    pub fn final_notes(&self, notes: Vec<Value>, now: coven_domain::Timestamp) -> Vec<Entry> {
        let (first, offset) = (self.next_seq(), self.end);
        (first..)
            .zip(notes)
            .map(|(seq, note)| Entry {
                seq,
                kind: EntryKind::Note,
                at: now,
                offset,
                length: 0,
                data: None,
                detail: Some(note),
            })
            .collect()
    }

    /// Marks the pending entries as stored.
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
        activity: SessionActivity,
        hooks: Option<&'static Hooks>,
    ) -> Self {
        let (notes, unsent_notes) = mpsc::channel(MAX_NOTES);
        Self {
            activity: std::sync::Mutex::new(activity),
            reading_stored_calls: Mutex::new(()),
            hooks,
            notes,
            unsent_notes: Mutex::new(unsent_notes),
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

    /// Adds a note to the ledger. When the queue is full the note is dropped: the record and its event have the change.
    pub(crate) fn note(&self, note: Value) {
        let _ = self.notes.try_send(note.to_string());
    }

    pub(crate) fn has_unstored_activity(&self) -> bool {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner).has_unstored()
    }

    pub(crate) fn advance(&self, end: u64) {
        self.progress.send_replace(end);
    }

    pub fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// Returns the end of the log: the larger of the journal's value and the holder's last progress report.
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

    /// Waits until the session's end is stored.
    pub async fn ended(&self) {
        let mut has_ended = self.has_ended.subscribe();
        let _ = has_ended.wait_for(|ended| *ended).await;
    }
}
