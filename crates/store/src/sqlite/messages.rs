//! Messages and checkpoints of ACP sessions.

use coven_domain::event::EventBody;
use coven_domain::message::{MessageChange, Role, StoredMessage};
use coven_domain::{MessageId, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::events::Recorder;
use super::{count, integer, parsed, sessions, unsigned};
use crate::{AcpCheckpoint, AcpCheckpointUpdate, StoreError};
use coven_domain::query::MessageQuery;

/// Writes the changes with an event for each and touches the session.
pub(super) fn change(
    connection: &Connection,
    recorder: &mut Recorder,
    id: SessionId,
    changes: &[MessageChange],
    now: Timestamp,
) -> Result<(), StoreError> {
    let key = sessions::key_of(connection, id)?.ok_or(StoreError::NotFound)?;
    let (mut number, last_at) = last(connection, key)?;
    // Message times are unique, so that a query by time misses none.
    let mut at = now.not_before(Timestamp::from_millis(last_at.as_millis() + 1));
    for change in changes {
        number += 1;
        let (row_id, message_id, role, content, is_chunk) = match change {
            MessageChange::Added(message) | MessageChange::Replaced(message) => {
                (message.id, message.id, message.role, message.content.clone(), false)
            }
            MessageChange::Chunk(chunk) => (chunk.id, chunk.message_id, chunk.role, chunk.content().to_string(), true),
        };
        if let MessageChange::Replaced(message) = change {
            connection.prepare_cached("DELETE FROM messages WHERE whole = ?1")?.execute([message.id.to_string()])?;
        }
        connection
            .prepare_cached(
                "INSERT INTO messages (session_key, number, id, whole, role, content, at, is_piece)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                key,
                integer(number),
                row_id.to_string(),
                message_id.to_string(),
                role.as_str(),
                content,
                at.as_millis(),
                is_chunk
            ])?;
        let stored = StoredMessage { number, id: row_id, message_id, role, at, content, is_chunk };
        let kind = if is_chunk { "message.chunk" } else { "message.added" };
        let body = EventBody::Message { session: id, message: &stored };
        recorder.add(connection, kind.to_owned(), id.to_string(), at, body)?;
        at = Timestamp::from_millis(at.as_millis() + 1);
    }
    connection
        .prepare_cached("UPDATE sessions SET updated_at = max(updated_at, ?2) WHERE key = ?1")?
        .execute(params![key, now.as_millis()])?;
    Ok(())
}

/// Returns the newest number and time of a session's messages.
fn last(connection: &Connection, key: i64) -> Result<(u64, Timestamp), StoreError> {
    let found = connection
        .prepare_cached("SELECT number, at FROM messages WHERE session_key = ?1 ORDER BY number DESC LIMIT 1")?
        .query_row([key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    match found {
        Some((number, at)) => Ok((unsigned(number)?, Timestamp::from_millis(at))),
        None => Ok((0, Timestamp::from_millis(0))),
    }
}

pub(super) fn list(
    connection: &Connection,
    id: SessionId,
    query: &MessageQuery,
) -> Result<Vec<StoredMessage>, StoreError> {
    let Some(key) = sessions::key_of(connection, id)? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(match query.before {
        None => {
            "SELECT number, id, whole, role, at, content, is_piece FROM messages
             WHERE session_key = ?1 AND number > ?2 AND number <= ?5 AND at > ?3 ORDER BY number LIMIT ?4"
        }
        Some(_) => {
            "SELECT number, id, whole, role, at, content, is_piece FROM messages
             WHERE session_key = ?1 AND number > ?2 AND number < ?5 AND at > ?3 ORDER BY number DESC LIMIT ?4"
        }
    })?;
    let before = query.before.map_or(i64::MAX, integer);
    let since = query.since.map_or(-1, Timestamp::as_millis);
    let limit = query.limit.map_or(-1, count);
    let mut rows = statement.query(params![key, integer(query.after), since, limit, before])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        messages.push(from_row(row)?);
    }
    if query.before.is_some() {
        messages.reverse();
    }
    Ok(messages)
}

fn from_row(row: &Row<'_>) -> Result<StoredMessage, StoreError> {
    Ok(StoredMessage {
        number: unsigned(row.get(0)?)?,
        id: parsed::<MessageId>(row.get_ref(1)?.as_str()?)?,
        message_id: parsed(row.get_ref(2)?.as_str()?)?,
        role: parsed::<Role>(row.get_ref(3)?.as_str()?)?,
        at: Timestamp::from_millis(row.get(4)?),
        content: row.get(5)?,
        is_chunk: row.get(6)?,
    })
}

pub(super) fn acp_checkpoint(connection: &Connection, id: SessionId) -> Result<Option<AcpCheckpoint>, StoreError> {
    let Some(key) = sessions::key_of(connection, id)? else { return Ok(None) };
    let found = connection
        .prepare_cached("SELECT read_to, written_to, state FROM conversations WHERE session_key = ?1")?
        .query_row([key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get(2)?)))
        .optional()?;
    let Some((read_to, written_to, state)) = found else { return Ok(None) };
    let mut statement =
        connection.prepare_cached("SELECT offset, line FROM outbox WHERE session_key = ?1 ORDER BY offset")?;
    let mut rows = statement.query([key])?;
    let mut outbox = Vec::new();
    while let Some(row) = rows.next()? {
        outbox.push((unsigned(row.get(0)?)?, row.get(1)?));
    }
    Ok(Some(AcpCheckpoint { read_to: unsigned(read_to)?, written_to: unsigned(written_to)?, state, outbox }))
}

pub(super) fn save(
    connection: &Connection,
    id: SessionId,
    progress: &AcpCheckpointUpdate<'_>,
) -> Result<(), StoreError> {
    let key = sessions::key_of(connection, id)?.ok_or(StoreError::NotFound)?;
    match progress.state {
        Some(state) => connection
            .prepare_cached(
                "INSERT INTO conversations (session_key, read_to, written_to, state) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET read_to = ?2, written_to = ?3, state = ?4",
            )?
            .execute(params![key, integer(progress.read_to), integer(progress.written_to), state])?,
        None => connection
            .prepare_cached("UPDATE conversations SET read_to = ?2, written_to = ?3 WHERE session_key = ?1")?
            .execute(params![key, integer(progress.read_to), integer(progress.written_to)])?,
    };
    if let Some(at) = progress.active_at {
        connection
            .prepare_cached("UPDATE sessions SET updated_at = max(updated_at, ?2) WHERE key = ?1")?
            .execute(params![key, at.as_millis()])?;
    }
    if progress.delivered_to > 0 {
        // A partly delivered line is still needed.
        connection
            .prepare_cached("DELETE FROM outbox WHERE session_key = ?1 AND offset + length(CAST(line AS BLOB)) <= ?2")?
            .execute(params![key, integer(progress.delivered_to)])?;
    }
    for (offset, line) in progress.lines {
        connection
            .prepare_cached("INSERT INTO outbox (session_key, offset, line) VALUES (?1, ?2, ?3)")?
            .execute(params![key, integer(*offset), line])?;
    }
    Ok(())
}

/// Deletes a session's messages, checkpoint, outbox and permission requests.
pub(super) fn delete(connection: &Connection, key: i64) -> Result<(), StoreError> {
    for table in ["messages", "conversations", "outbox"] {
        connection.prepare_cached(&format!("DELETE FROM {table} WHERE session_key = ?1"))?.execute([key])?;
    }
    Ok(())
}
