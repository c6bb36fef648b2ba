//! Rows of `observations` and `activity_checkpoints`: the evidence for the activity of sessions, and its state.

use coven_domain::activity::{ActivityCheckpoint, JudgedObservation, MAX_OBSERVATIONS, Observation};
use coven_domain::{SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{count, from_json, integer, parsed, sessions, to_json, unsigned};
use crate::StoreError;

/// Appends observations and deletes the oldest beyond the limit.
pub(super) fn append(
    connection: &Connection,
    session: SessionId,
    observations: &[JudgedObservation],
) -> Result<(), StoreError> {
    let Some(last) = observations.last() else { return Ok(()) };
    let key = sessions::key_of(connection, session)?.ok_or(StoreError::NotFound)?;
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO observations (session_key, number, at, source, fact, detail, verdict)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for it in observations {
        let Observation { source, fact, detail, at, .. } = &it.observation;
        insert.execute(params![
            key,
            integer(it.number),
            at.as_millis(),
            source.as_str(),
            fact.as_str(),
            detail,
            it.verdict.as_str(),
        ])?;
    }
    let kept_from = last.number.saturating_sub(MAX_OBSERVATIONS as u64);
    connection
        .prepare_cached("DELETE FROM observations WHERE session_key = ?1 AND number <= ?2")?
        .execute(params![key, integer(kept_from)])?;
    Ok(())
}

/// Oldest first.
pub(super) fn of_session(connection: &Connection, session: SessionId) -> Result<Vec<JudgedObservation>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, at, source, fact, detail, verdict FROM observations
         WHERE session_key = (SELECT key FROM sessions WHERE id = ?1) ORDER BY number LIMIT ?2",
    )?;
    let mut rows = statement.query(params![session.to_string(), count(MAX_OBSERVATIONS)])?;
    let mut observations = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |column: usize| Ok::<_, StoreError>(row.get_ref(column)?.as_str()?);
        observations.push(JudgedObservation {
            number: unsigned(row.get(0)?)?,
            observation: Observation {
                source: parsed(text(2)?)?,
                fact: parsed(text(3)?)?,
                detail: row.get(4)?,
                at: Timestamp::from_millis(row.get(1)?),
                until: None,
            },
            verdict: parsed(text(5)?)?,
        });
    }
    Ok(observations)
}

pub(super) fn put_checkpoint(
    connection: &Connection,
    session: SessionId,
    checkpoint: &ActivityCheckpoint,
) -> Result<(), StoreError> {
    let key = sessions::key_of(connection, session)?.ok_or(StoreError::NotFound)?;
    let ActivityCheckpoint { background, is_turn_over, hook_calls } = checkpoint;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO activity_checkpoints (session_key, background, is_turn_over, hook_calls)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![key, background, is_turn_over, to_json(hook_calls)])?;
    Ok(())
}

pub(super) fn checkpoint(connection: &Connection, session: SessionId) -> Result<ActivityCheckpoint, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT background, is_turn_over, hook_calls FROM activity_checkpoints
         WHERE session_key = (SELECT key FROM sessions WHERE id = ?1)",
    )?;
    let found: Option<(u32, bool, String)> =
        statement.query_row([session.to_string()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    match found {
        Some((background, is_turn_over, hook_calls)) => {
            Ok(ActivityCheckpoint { background, is_turn_over, hook_calls: from_json(&hook_calls)? })
        }
        None => Ok(ActivityCheckpoint::default()),
    }
}

pub(super) fn delete_of_session(connection: &Connection, key: i64) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM activity_checkpoints WHERE session_key = ?1")?.execute([key])?;
    connection.prepare_cached("DELETE FROM observations WHERE session_key = ?1")?.execute([key])?;
    Ok(())
}
