//! A session's entries, page by page, in order.

use std::collections::VecDeque;

use coven_api::entry::{EntriesQuery, EntryRecord};
use coven_api::request::Request;
use coven_api::routes::{Endpoint, ListEntries};

use crate::daemon_client::DaemonClient;
use crate::failure::Failure;

/// Entries asked for at once; the daemon gives fewer where they bring many bytes along.
const PAGE: usize = 1000;

/// A request for the entries after a number.
pub fn page_after(id: &str, after: u64) -> Request<ListEntries> {
    ListEntries::of(id).query(&EntriesQuery { after: Some(after), limit: Some(PAGE), cursor: None })
}

/// Reads forward from some entry; never holds more than a page.
pub struct Ledger {
    id: String,
    after: u64,
    page: VecDeque<EntryRecord>,
    is_complete: bool,
}

impl Ledger {
    /// Entries with a greater number than `after`.
    pub fn after(id: &str, after: u64) -> Self {
        Self { id: id.to_owned(), after, page: VecDeque::new(), is_complete: false }
    }

    /// The next entry; nothing once there is no more.
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

/// Rows and columns of a start or resize.
pub fn size_of(entry: &EntryRecord) -> Option<(u16, u16)> {
    Some((entry.detail.rows?, entry.detail.cols?))
}

/// When an entry was written, in milliseconds since the epoch.
pub const fn time_of(entry: &EntryRecord) -> i64 {
    entry.at.as_millis()
}
