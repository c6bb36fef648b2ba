//! Rows of `observations`: the evidence for the activity of sessions.

use coven_domain::activity::{JudgedObservation, MAX_OBSERVATIONS, Observation};
use coven_domain::{SessionId, Timestamp};
use rusqlite::{Connection, params};

use super::{count, integer, parsed, sessions, unsigned};
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

pub(super) fn delete_of_session(connection: &Connection, key: i64) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM observations WHERE session_key = ?1")?.execute([key])?;
    Ok(())
}
