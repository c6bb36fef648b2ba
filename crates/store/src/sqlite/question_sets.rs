//! Rows of `question_sets`.

use coven_domain::question_set::{QuestionSet, QuestionSetSummary, title_of};
use coven_domain::{QuestionSetId, SessionId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::{RowsAfter, count, from_json, parsed, to_json};
use crate::StoreError;

/// A query for complete rows, with columns in the order of [`from_row`].
macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT id, state, session_id, created_at, modified_at, content, rowid FROM question_sets ", $rest)
    };
}

pub(super) fn put(connection: &Connection, set: &QuestionSet) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO question_sets
             (id, state, session_id, title, question_count, created_at, modified_at, content)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            set.id.to_string(),
            set.state.as_str(),
            set.asking_session().map(|id| id.to_string()),
            title_of(&set.questions),
            count(set.questions.len()),
            set.created_at.as_millis(),
            set.modified_at.as_millis(),
            to_json(set),
        ])?;
    Ok(())
}

/// Deletes the row and returns it.
pub(super) fn take(connection: &Connection, id: QuestionSetId) -> Result<QuestionSet, StoreError> {
    let set = {
        let mut statement = connection.prepare_cached(select!("WHERE id = ?1"))?;
        let mut rows = statement.query([id.to_string()])?;
        rows.next()?.map(from_row).transpose()?.ok_or(StoreError::NotFound)?
    };
    connection.prepare_cached("DELETE FROM question_sets WHERE id = ?1")?.execute([id.to_string()])?;
    Ok(set)
}

pub(super) fn rows_after(
    connection: &Connection,
    row: i64,
    limit: usize,
) -> Result<RowsAfter<QuestionSet>, StoreError> {
    const SQL: &str = select!("WHERE rowid > ?1 ORDER BY rowid LIMIT ?2");
    let bytes_of = |set: &QuestionSet| set.questions.iter().map(|question| question.prompt.len()).sum();
    super::rows_after(connection, SQL, row, limit, from_row, bytes_of)
}

/// Oldest first.
pub(super) fn summaries(connection: &Connection) -> Result<Vec<QuestionSetSummary>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, state, session_id, title, created_at, content IS NOT NULL FROM question_sets
         ORDER BY created_at, id",
    )?;
    let mut rows = statement.query([])?;
    let mut sets = Vec::new();
    while let Some(row) = rows.next()? {
        sets.push(QuestionSetSummary {
            id: parsed(row.get_ref(0)?.as_str()?)?,
            state: parsed(row.get_ref(1)?.as_str()?)?,
            session: row.get_ref(2)?.as_str_or_null()?.map(parsed).transpose()?,
            title: row.get(3)?,
            created_at: Timestamp::from_millis(row.get(4)?),
            is_whole: row.get(5)?,
        });
    }
    Ok(sets)
}

fn from_row(row: &Row<'_>) -> Result<QuestionSet, StoreError> {
    if let Some(content) = row.get_ref(5)?.as_str_or_null()? {
        return from_json(content);
    }
    let session: Option<SessionId> = row.get_ref(2)?.as_str_or_null()?.map(parsed).transpose()?;
    Ok(QuestionSet {
        id: parsed(row.get_ref(0)?.as_str()?)?,
        questions: Vec::new(),
        state: parsed(row.get_ref(1)?.as_str()?)?,
        created_at: Timestamp::from_millis(row.get(3)?),
        modified_at: Timestamp::from_millis(row.get(4)?),
        call_id: None,
        working_directory: None,
        session: session.map(|id| id.to_string()),
        answered_by: None,
        rejection_reason: None,
        abandon_reason: None,
        answers: None,
    })
}
