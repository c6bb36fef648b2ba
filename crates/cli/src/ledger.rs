//! Reads a session's entries in order, page by page.

use std::collections::VecDeque;

use coven_api::entry::{EntriesQuery, EntryRecord};
use coven_api::request::Request;
use coven_api::routes::{Endpoint, ListEntries};

use crate::daemon_client::DaemonClient;
use crate::failure::Failure;

/// Entries per request; the daemon returns fewer if they contain many bytes.
const PAGE_SIZE: usize = 1000;

/// Returns a request for the entries after a sequence number.
pub fn page_after(id: &str, after: u64) -> Request<ListEntries> {
    ListEntries::of(id).query(&EntriesQuery { after: Some(after), limit: Some(PAGE_SIZE), cursor: None })
}

/// Reads forward and keeps at most one page in memory.
pub struct Ledger {
    id: String,
    after: u64,
    page: VecDeque<EntryRecord>,
    is_complete: bool,
}

impl Ledger {
    /// Starts after the entry with sequence number `after`.
    pub fn after(id: &str, after: u64) -> Self {
        Self { id: id.to_owned(), after, page: VecDeque::new(), is_complete: false }
    }

    /// Returns the next entry, or `None` at the end.
    pub async fn next(&mut self, link: &mut DaemonClient) -> Result<Option<EntryRecord>, Failure> {
        if self.page.is_empty() && !self.is_complete {
            let page = link.call(page_after(&self.id, self.after)).await?;
            self.is_complete = page.entries.is_empty() || page.next <= self.after;
            self.after = page.next.max(self.after);
            self.page = page.entries.into();
        }
        Ok(self.page.pop_front())
    }
}

/// Returns rows and columns of a start or resize entry.
pub fn size_of(entry: &EntryRecord) -> Option<(u16, u16)> {
    Some((entry.detail.rows?, entry.detail.cols?))
}

/// Returns the time of an entry in milliseconds since the epoch.
pub const fn time_of(entry: &EntryRecord) -> i64 {
    entry.at.as_millis()
}
