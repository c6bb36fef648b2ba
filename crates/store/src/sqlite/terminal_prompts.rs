//! Rows of `questions`: terminal prompts of tasks' agents.

use coven_domain::terminal_prompt::TerminalPrompt;
use coven_domain::{QuestionId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use serde::{Deserialize, Serialize};

use super::{RowsAfter, behind, count, from_json, parsed, to_json};
use crate::StoreError;
use coven_domain::query::TerminalPromptQuery;

const COLUMNS: &str = "id, agent_id, state, questions, answers, created_at, updated_at, answered_at";

/// The columns `questions` and `answers`.
#[derive(Serialize, Deserialize)]
struct StoredPrompt {
    prompt: String,
    offset: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredAnswer {
    text: String,
    delivered: bool,
}

pub(super) fn put(connection: &Connection, question: &TerminalPrompt) -> Result<(), StoreError> {
    let asked = [StoredPrompt { prompt: question.prompt.clone(), offset: question.offset }];
    let answered =
        question.answer.as_ref().map(|text| StoredAnswer { text: text.clone(), delivered: question.is_delivered });
    connection
        .prepare_cached(
            "INSERT INTO questions (id, agent_id, state, questions, answers, created_at, updated_at, answered_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (id) DO UPDATE SET state = ?3, answers = ?5, updated_at = ?7, answered_at = ?8",
        )?
        .execute(params![
            question.id.to_string(),
            question.agent.to_string(),
            question.state.as_str(),
            to_json(&asked),
            answered.as_ref().map(to_json),
            question.created_at.as_millis(),
            question.updated_at.as_millis(),
            question.answered_at.map(Timestamp::as_millis),
        ])?;
    Ok(())
}

pub(super) fn by_id(connection: &Connection, id: QuestionId) -> Result<Option<TerminalPrompt>, StoreError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM questions WHERE id = ?1"))?;
    let mut rows = statement.query([id.to_string()])?;
    rows.next()?.map(from_row).transpose()
}

pub(super) fn rows_after(
    connection: &Connection,
    row: i64,
    limit: usize,
) -> Result<RowsAfter<TerminalPrompt>, StoreError> {
    let sql = format!("SELECT {COLUMNS}, rowid FROM questions WHERE rowid > ?1 ORDER BY rowid LIMIT ?2");
    super::rows_after(connection, &sql, row, limit, from_row, |_| 0)
}

/// Oldest first.
pub(super) fn list(connection: &Connection, query: &TerminalPromptQuery) -> Result<Vec<TerminalPrompt>, StoreError> {
    let (condition, values): (_, Vec<Value>) = match query {
        TerminalPromptQuery::Open => {
            ("state = 'pending' OR (state = 'completed' AND answers ->> '$.delivered' = 0)", Vec::new())
        }
        // The engine admits only hex digits and dashes, so the pattern needs no escaping.
        TerminalPromptQuery::Prefix(prefix) => ("id LIKE ?1", vec![format!("{prefix}%").into()]),
        TerminalPromptQuery::Page(page) => {
            let (at, id) = behind(page.after.as_ref());
            let session: Value = page.session.map_or(Value::Null, |id| id.to_string().into());
            let values =
                vec![page.include_settled.into(), session, at.into(), id.to_owned().into(), count(page.limit).into()];
            (
                "(?1 OR state = 'pending')
                 AND (?2 IS NULL OR agent_id IN (SELECT id FROM agents WHERE session_id = ?2))
                 AND (created_at, id) > (?3, ?4)",
                values,
            )
        }
    };
    let limit = if matches!(query, TerminalPromptQuery::Page(_)) { "LIMIT ?5" } else { "" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM questions WHERE {condition} ORDER BY created_at, id {limit}"
    ))?;
    let mut rows = statement.query(params_from_iter(&values))?;
    let mut questions = Vec::new();
    while let Some(row) = rows.next()? {
        questions.push(from_row(row)?);
    }
    Ok(questions)
}

fn from_row(row: &Row<'_>) -> Result<TerminalPrompt, StoreError> {
    let asked: Vec<serde_json::Value> = from_json(row.get_ref(3)?.as_str()?)?;
    // A row imported from an older tool may have other fields.
    let asked = asked.into_iter().next().unwrap_or_default();
    let text = |name: &str| asked.get(name).and_then(|it| it.as_str()).unwrap_or_default().to_owned();
    let answered: Option<serde_json::Value> = row.get_ref(4)?.as_str_or_null()?.map(from_json).transpose()?;
    let answer = answered.as_ref().and_then(|it| it.get("text")).and_then(|it| it.as_str()).map(str::to_owned);
    Ok(TerminalPrompt {
        id: parsed(row.get_ref(0)?.as_str()?)?,
        agent: parsed(row.get_ref(1)?.as_str()?)?,
        state: parsed(row.get_ref(2)?.as_str()?)?,
        prompt: text("prompt"),
        offset: asked.get("offset").and_then(serde_json::Value::as_u64).unwrap_or(0),
        answer,
        is_delivered: answered.and_then(|it| it.get("delivered")?.as_bool()).unwrap_or(false),
        created_at: Timestamp::from_millis(row.get(5)?),
        updated_at: Timestamp::from_millis(row.get(6)?),
        answered_at: row.get::<_, Option<i64>>(7)?.map(Timestamp::from_millis),
    })
}
