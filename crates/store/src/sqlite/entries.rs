//! Rows of `entries` and `keyframes`: a session's ledger and snapshots of its screen.

use coven_domain::entry::Entry;
use coven_domain::{SessionId, Timestamp};
use coven_files::Limit;
use rusqlite::{Connection, params};

use super::{count, from_json, integer, parsed, sessions, to_json, unsigned};
use crate::{Keyframe, StoreError};

pub(super) fn append(connection: &Connection, id: SessionId, entries: &[Entry]) -> Result<(), StoreError> {
    let key = sessions::key_of(connection, id)?.ok_or(StoreError::NotFound)?;
    let last = last_of(connection, key)?;
    ensure_no_gap(last, entries)?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO entries (session_key, seq, kind, at, offset, length, data, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    let mut newest = last;
    for entry in entries {
        if entry.seq <= newest {
            continue;
        }
        insert.execute(params![
            key,
            integer(entry.seq),
            entry.kind.as_str(),
            entry.at.as_millis(),
            integer(entry.offset),
            integer(entry.length),
            entry.data,
            entry.detail.as_ref().map(to_json),
        ])?;
        newest = entry.seq;
    }
    Ok(())
}

/// Checks for gaps before the first write, so that a refused append writes nothing.
fn ensure_no_gap(last: u64, entries: &[Entry]) -> Result<(), StoreError> {
    let mut expected = last + 1;
    for entry in entries {
        if entry.seq > expected {
            return Err(StoreError::Gap { expected, got: entry.seq });
        }
        if entry.seq == expected {
            expected += 1;
        }
    }
    Ok(())
}

pub(super) fn after(
    connection: &Connection,
    id: SessionId,
    after: u64,
    limit: usize,
) -> Result<Vec<Entry>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, kind, at, offset, length, data, detail FROM entries
         WHERE session_key = (SELECT key FROM sessions WHERE id = ?1) AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = statement.query(params![id.to_string(), integer(after), count(limit)])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(Entry {
            seq: unsigned(row.get(0)?)?,
            kind: parsed(row.get_ref(1)?.as_str()?)?,
            at: Timestamp::from_millis(row.get(2)?),
            offset: unsigned(row.get(3)?)?,
            length: unsigned(row.get(4)?)?,
            data: row.get(5)?,
            detail: row.get_ref(6)?.as_str_or_null()?.map(from_json).transpose()?,
        });
    }
    Ok(entries)
}

pub(super) fn last(connection: &Connection, id: SessionId) -> Result<u64, StoreError> {
    match sessions::key_of(connection, id)? {
        Some(key) => last_of(connection, key),
        None => Ok(0),
    }
}

fn last_of(connection: &Connection, key: i64) -> Result<u64, StoreError> {
    unsigned(
        connection
            .prepare_cached("SELECT coalesce(max(seq), 0) FROM entries WHERE session_key = ?1")?
            .query_row([key], |row| row.get(0))?,
    )
}

/// Larger screens are neither stored nor read; an earlier keyframe is used instead.
pub const KEYFRAME: Limit = Limit::new("a keyframe of a screen", 16 << 20);

/// Stores a keyframe. Replaces one at the same offset, which reading the log again reproduces.
pub(super) fn put_keyframe(
    connection: &Connection,
    id: SessionId,
    offset: u64,
    rows: u16,
    cols: u16,
    screen: &[u8],
) -> Result<(), StoreError> {
    let key = sessions::key_of(connection, id)?.ok_or(StoreError::NotFound)?;
    if screen.len() as u64 > KEYFRAME.bytes {
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO keyframes (session_key, offset, rows, cols, screen, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![key, integer(offset), rows, cols, screen, checksum(offset, rows, cols, screen)])?;
    Ok(())
}

fn checksum(offset: u64, rows: u16, cols: u16, screen: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&offset.to_le_bytes());
    hasher.update(&rows.to_le_bytes());
    hasher.update(&cols.to_le_bytes());
    hasher.update(screen);
    hasher.finalize()
}

/// Returns the last intact keyframe at or before `offset`. Skips damaged ones: the log can reproduce the screen.
pub(super) fn keyframe_before(
    connection: &Connection,
    id: SessionId,
    offset: u64,
) -> Result<Option<Keyframe>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT offset, rows, cols, screen, checksum FROM keyframes
         WHERE session_key = (SELECT key FROM sessions WHERE id = ?1) AND offset <= ?2 AND length(screen) <= ?3
         ORDER BY offset DESC",
    )?;
    let mut rows = statement.query(params![id.to_string(), integer(offset), integer(KEYFRAME.bytes)])?;
    while let Some(row) = rows.next()? {
        let keyframe =
            Keyframe { offset: unsigned(row.get(0)?)?, rows: row.get(1)?, cols: row.get(2)?, screen: row.get(3)? };
        let expected = checksum(keyframe.offset, keyframe.rows, keyframe.cols, &keyframe.screen);
        if row.get::<_, Option<u32>>(4)?.is_none_or(|stored| stored == expected) {
            return Ok(Some(keyframe));
        }
    }
    Ok(None)
}

/// Deletes a session's ledger and keyframes, which are two contiguous ranges.
pub(super) fn delete(connection: &Connection, key: i64) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM entries WHERE session_key = ?1")?.execute([key])?;
    connection.prepare_cached("DELETE FROM keyframes WHERE session_key = ?1")?.execute([key])?;
    Ok(())
}
