//! Reads a session's ledger forward, page by page: its output with times and terminal sizes.

use std::time::Duration;

use coven_api::entry::EntryRecord;
use coven_domain::entry::EntryKind;
use coven_domain::{SessionId, Timestamp};

use crate::app::Effect;
use crate::feed::{Answer, Call};

/// The terminal of a session whose size is not recorded.
pub const DEFAULT_SIZE: (u16, u16) = (24, 80);
/// A page with less output and fewer entries is probably the last one.
const SMALL_PAGE_BYTES: usize = 4 << 20;
const SMALL_PAGE_ENTRIES: usize = 500;
/// A running session writes on, so reading ends after this many small pages in a row.
const MAX_SMALL_PAGES: usize = 3;
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Returns the memory that an entry needs.
pub fn memory(entry: &EntryRecord) -> usize {
    let data = entry.data.as_ref().or(entry.data_base64.as_ref());
    data.map_or(0, String::len) + size_of::<EntryRecord>()
}

/// Returns the rows and columns of a terminal that starts or is resized.
pub fn size_of_terminal(entry: &EntryRecord) -> Option<(u16, u16)> {
    Some((entry.detail.rows?, entry.detail.cols?))
}

/// Reports whether the log no longer has this output.
pub fn is_lost(entry: &EntryRecord) -> bool {
    entry.kind == EntryKind::Output && entry.data.is_none() && entry.data_base64.is_none()
}

/// Reports whether an entry changes the screen, or shows that the session was alive.
const fn is_played(entry: &EntryRecord) -> bool {
    use EntryKind::{Exit, Input, Output, Resize, Start};
    matches!(entry.kind, Start | Output | Resize | Input | Exit)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Idle,
    Waiting,
    Failed,
    Complete,
}

/// Asks for one page at a time.
pub struct Reader {
    session: SessionId,
    /// The last entry that was read.
    pub after: u64,
    progress: Progress,
    small_pages: usize,
    pub failure: Option<String>,
    retry_at: Option<Timestamp>,
}

impl Reader {
    pub const fn new(session: SessionId, after: u64) -> Self {
        Self { session, after, progress: Progress::Idle, small_pages: 0, failure: None, retry_at: None }
    }

    pub fn is_complete(&self) -> bool {
        self.progress == Progress::Complete
    }

    pub fn is_waiting_for(&self, after: u64) -> bool {
        self.progress == Progress::Waiting && self.after == after
    }

    /// Returns the request for the next page, unless it is on its way.
    pub fn request(&mut self) -> Option<Effect> {
        if self.progress != Progress::Idle {
            return None;
        }
        self.progress = Progress::Waiting;
        Some(Effect::call(Call::Entries { session: self.session, after: self.after }))
    }

    /// Takes the awaited page.
    pub fn answered(&mut self, call: &Call, result: &Result<Answer, String>) -> Vec<EntryRecord> {
        let is_awaited = self.progress == Progress::Waiting
            && matches!(call, Call::Entries { session, after } if (*session, *after) == (self.session, self.after));
        let page = match result {
            Ok(Answer::Entries(page)) if is_awaited => page,
            Err(why) if is_awaited => {
                (self.progress, self.failure, self.retry_at) = (Progress::Failed, Some(why.clone()), None);
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        self.failure = None;
        let size: usize = page.entries.iter().map(memory).sum();
        let is_small = size < SMALL_PAGE_BYTES && page.entries.len() < SMALL_PAGE_ENTRIES;
        self.small_pages = if is_small { self.small_pages + 1 } else { 0 };
        let is_last = page.entries.is_empty() || page.next <= self.after || self.small_pages >= MAX_SMALL_PAGES;
        self.after = self.after.max(page.next);
        self.progress = if is_last { Progress::Complete } else { Progress::Idle };
        page.entries.iter().filter(|entry| is_played(entry)).cloned().collect()
    }

    /// Lets a failed request be tried again after a while.
    pub fn tick(&mut self, now: Timestamp) {
        if self.progress == Progress::Failed && now >= *self.retry_at.get_or_insert(now.after(RETRY_DELAY)) {
            self.progress = Progress::Idle;
        }
    }

    pub fn next_tick_millis(&self) -> Option<u64> {
        (self.progress == Progress::Failed).then_some(1_000)
    }
}
