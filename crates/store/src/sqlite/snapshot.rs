//! Snapshots: all rows as of one moment, read in batches.

use std::time::Duration;

use coven_domain::query::{StatePage, StatePlace, StateTable};
use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;

use super::readers::Reader;
use super::{RowsAfter, agents, events, question_sets, requests, sessions, tasks, workflows};
use crate::StoreError;

/// Maximum number of rows in memory during a full snapshot.
const BATCH_ROWS: usize = 500;
/// An open read transaction prevents truncation of the write-ahead log, so a stalled receiver is dropped.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn page(connection: &Connection, after: Option<StatePlace>, limit: usize) -> Result<StatePage, StoreError> {
    let read = connection.unchecked_transaction()?;
    let page = rows(&read, after, limit)?;
    read.commit()?;
    Ok(page)
}

/// Sends all rows, read in one transaction; the last page has no `next`. Stops if the receiver is dropped or stalls.
pub(super) fn send(connection: &Reader, pages: &Sender<Result<StatePage, StoreError>>) {
    let send = |page| {
        let sending = Handle::current().block_on(tokio::time::timeout(STALL_TIMEOUT, pages.send(page)));
        matches!(sending, Ok(Ok(())))
    };
    let read = match connection.unchecked_transaction() {
        Ok(read) => read,
        Err(error) => {
            send(Err(error.into()));
            return;
        }
    };
    let mut after = None;
    loop {
        let page = rows(&read, after, BATCH_ROWS);
        after = page.as_ref().ok().and_then(|page| page.next);
        if !send(page) || after.is_none() {
            return;
        }
    }
}

fn rows(read: &Connection, after: Option<StatePlace>, limit: usize) -> Result<StatePage, StoreError> {
    let mut page = StatePage { event_number: events::newest(read)?, ..StatePage::default() };
    let (mut last, mut left) = (after, limit);
    for &table in StateTable::ALL.iter().filter(|table| after.is_none_or(|place| **table >= place.table)) {
        let row = after.filter(|place| place.table == table).map_or(i64::MIN, |place| place.row);
        let (taken, last_row, has_more) = match table {
            StateTable::Sessions => take(&mut page.sessions, sessions::rows_after(read, row, left)?),
            StateTable::Tasks => take(&mut page.tasks, tasks::rows_after(read, row, left)?),
            StateTable::Agents => take(&mut page.agents, agents::rows_after(read, row, left)?),
            StateTable::Workflows => take(&mut page.workflows, workflows::rows_after(read, row, left)?),
            StateTable::Questions => take(&mut page.questions, requests::rows_after(read, row, left)?),
            StateTable::QuestionSets => take(&mut page.question_sets, question_sets::rows_after(read, row, left)?),
        };
        left -= taken;
        last = last_row.map(|row| StatePlace { table, row }).or(last);
        if has_more {
            page.next = last;
            break;
        }
    }
    Ok(page)
}

/// Stores the rows. Returns their count, the number of the last row, and whether more follow.
fn take<T>(into: &mut Vec<T>, found: RowsAfter<T>) -> (usize, Option<i64>, bool) {
    *into = found.items;
    (into.len(), found.last, found.has_more)
}
