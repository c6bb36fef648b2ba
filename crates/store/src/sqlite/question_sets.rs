//! Rows of `question_sets`.

use coven_domain::question_set::QuestionSetSummary;
use coven_domain::{QuestionSetId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::parsed;
use crate::StoreError;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, state, session_id, title, question_count, created_at, modified_at FROM question_sets ",
            $rest
        )
    };
}

pub(super) fn put(connection: &Connection, set: &QuestionSetSummary) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO question_sets
             (id, state, session_id, title, question_count, created_at, modified_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            set.id.to_string(),
            set.state.as_str(),
            set.session.map(|id| id.to_string()),
            set.title,
            set.question_count,
            set.created_at.as_millis(),
            set.modified_at.as_millis(),
        ])?;
    Ok(())
}

/// The row as it was, now gone.
pub(super) fn take(connection: &Connection, id: QuestionSetId) -> Result<QuestionSetSummary, StoreError> {
    let set = {
        let mut statement = connection.prepare_cached(select!("WHERE id = ?1"))?;
        let mut rows = statement.query([id.to_string()])?;
        rows.next()?.map(from_row).transpose()?.ok_or(StoreError::NotFound)?
    };
    connection.prepare_cached("DELETE FROM question_sets WHERE id = ?1")?.execute([id.to_string()])?;
    Ok(set)
}

/// Oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<QuestionSetSummary>, StoreError> {
    let mut statement = connection.prepare_cached(select!("ORDER BY created_at, id"))?;
    let mut rows = statement.query([])?;
    let mut sets = Vec::new();
    while let Some(row) = rows.next()? {
        sets.push(from_row(row)?);
    }
    Ok(sets)
}

fn from_row(row: &Row<'_>) -> Result<QuestionSetSummary, StoreError> {
    Ok(QuestionSetSummary {
        id: parsed(row.get_ref(0)?.as_str()?)?,
        state: parsed(row.get_ref(1)?.as_str()?)?,
        session: row.get_ref(2)?.as_str_or_null()?.map(parsed).transpose()?,
        title: row.get(3)?,
        question_count: row.get(4)?,
        created_at: Timestamp::from_millis(row.get(5)?),
        modified_at: Timestamp::from_millis(row.get(6)?),
    })
}
