//! Rows of `events`: numbered, oldest first, expiring from the front.

use std::ops::Range;

use coven_domain::Timestamp;
use coven_domain::event::{Event, EventBody, current_kind};
use rusqlite::{Connection, OptionalExtension, params};

use super::{count, integer, unsigned};
use crate::{Render, StoreError};

/// The events of one transaction: written with their rows, published after the commit.
pub(super) struct Recorder {
    render: Render,
    pub written: Vec<Event>,
}

impl Recorder {
    pub fn new(render: Render) -> Self {
        Self { render, written: Vec::new() }
    }

    pub fn add(
        &mut self,
        connection: &Connection,
        kind: String,
        subject: String,
        at: Timestamp,
        body: EventBody<'_>,
    ) -> Result<(), StoreError> {
        let payload = (self.render)(body);
        connection
            .prepare_cached("INSERT INTO events (kind, subject, at, payload) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![kind, subject, at.as_millis(), payload])?;
        let number = unsigned(connection.last_insert_rowid())?;
        self.written.push(Event { number, kind, subject, at, payload });
        Ok(())
    }
}

/// Deletes the `session.output` event of a session, which a newer one replaces.
pub(super) fn drop_output(connection: &Connection, session: &str) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM events WHERE kind = 'session.output' AND subject = ?1")?
        .execute([session])?;
    Ok(())
}

/// Returns the last number used, even if its event has expired; 0 before the first event. The counter is a row, so a
/// rollback resets it.
pub(super) fn newest(connection: &Connection) -> Result<u64, StoreError> {
    let number = connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'events'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    unsigned(number.unwrap_or(0))
}

pub(super) fn range(connection: &Connection) -> Result<Range<u64>, StoreError> {
    let (expired, newest) = connection
        .prepare_cached(
            "SELECT (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'events_expired_to'),
                    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)",
        )?
        .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    Ok(unsigned(expired)? + 1..unsigned(newest)? + 1)
}

pub(super) fn after(connection: &Connection, number: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, kind, subject, at, payload FROM events WHERE number > ?1 ORDER BY number LIMIT ?2",
    )?;
    let mut rows = statement.query(params![integer(number), count(limit)])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.push(Event {
            number: unsigned(row.get(0)?)?,
            kind: current_kind(row.get(1)?),
            subject: row.get(2)?,
            at: Timestamp::from_millis(row.get(3)?),
            payload: row.get(4)?,
        });
    }
    Ok(events)
}

pub(super) fn number_at(connection: &Connection, at: Timestamp) -> Result<u64, StoreError> {
    let number = connection
        .prepare_cached("SELECT number FROM events WHERE at <= ?1 ORDER BY at DESC, number DESC LIMIT 1")?
        .query_row([at.as_millis()], |row| row.get(0))
        .optional()?;
    unsigned(number.unwrap_or(0))
}

/// Deletes events from the front up to the first one newer than `cutoff`, so that the rest has no gaps even if the
/// clock went back. Returns the number of deleted events, and whether any of them reported something other than a
/// sweep.
pub(super) fn expire(connection: &Connection, cutoff: Timestamp) -> Result<(u64, bool), StoreError> {
    // `+at` makes SQLite scan by number, so that it reads only events that expire.
    let keep_from: Option<i64> = connection
        .prepare_cached("SELECT number FROM events WHERE +at > ?1 ORDER BY number LIMIT 1")?
        .query_row([cutoff.as_millis()], |row| row.get(0))
        .optional()?;
    let keep_from = keep_from.unwrap_or(i64::MAX);
    let noteworthy = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM events WHERE number < ?1 AND kind <> 'retention.swept')")?
        .query_row([keep_from], |row| row.get(0))?;
    connection
        .prepare_cached(
            "UPDATE meta SET value = coalesce((SELECT max(number) FROM events WHERE number < ?1), value)
             WHERE key = 'events_expired_to'",
        )?
        .execute([keep_from])?;
    let gone = connection.prepare_cached("DELETE FROM events WHERE number < ?1")?.execute([keep_from])?;
    Ok((gone as u64, noteworthy))
}
