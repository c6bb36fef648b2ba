//! A session's entries, page by page, in order.

use std::collections::VecDeque;

use coven_api::request::Request;
use coven_api::routes::{Endpoint, ListEntries};
use coven_api::session::{EntriesQuery, EntryRecord};

use crate::failure::Failure;
use crate::link::Link;

/// Entries asked for at once; the daemon gives fewer where they bring many bytes along.
const PAGE: usize = 1000;

/// A request for the entries after a number.
pub fn page_after(id: &str, after: u64) -> Request<ListEntries> {
    ListEntries::of(id).query(&EntriesQuery { after: Some(after), limit: Some(PAGE) })
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
    pub async fn next(&mut self, link: &mut Link) -> Result<Option<EntryRecord>, Failure> {
        if self.page.is_empty() && !self.is_complete {
            let page = link.call(page_after(&self.id, self.after)).await?;
            self.is_complete = page.entries.is_empty() || page.next <= self.after;
            self.after = page.next.max(self.after);
            self.page = page.entries.into();
        }
        Ok(self.page.pop_front())
    }
}

/// Rows and columns, where an entry tells them.
pub fn size_of(entry: &EntryRecord) -> Option<(u16, u16)> {
    let side = |name: &str| entry.detail.get(name)?.as_u64().and_then(|value| u16::try_from(value).ok());
    Some((side("rows")?, side("cols")?))
}

/// When an entry was written, in milliseconds since the epoch.
pub fn time_of(entry: &EntryRecord) -> i64 {
    entry.at.parse().map_or(0, coven_domain::Timestamp::as_millis)
}
