//! Rows of `requests`: permissions, questions and terminal prompts of agents.

use coven_domain::query::{RequestQuery, RequestScope, WaitingItem, WaitingQuery};
use coven_domain::question::{Question, QuestionAnswer};
use coven_domain::request::{
    AnsweredBy, PermissionOption, Request, RequestAnswer, RequestBody, RequestKind, RequestState, input_title,
};
use coven_domain::{RequestId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use serde::{Deserialize, Serialize};

use super::{RowsAfter, behind, count, from_json, parsed, sessions, tasks, to_json};
use crate::StoreError;

macro_rules! select {
    ($rest:literal) => {
        select!("", $rest)
    };
    ($more:literal, $rest:literal) => {
        concat!(
            "SELECT requests.id, sessions.id, agent_id, kind, source, requests.state, requests.title, body, answer, \
             answered_by, requests.created_at, requests.updated_at, answered_at",
            $more,
            " FROM requests LEFT JOIN sessions ON sessions.key = requests.session_key ",
            $rest
        )
    };
}

/// The column `body`, by kind.
#[derive(Serialize, Deserialize)]
struct StoredPermission {
    options: Vec<PermissionOption>,
    tool_call: serde_json::Value,
}

#[derive(Serialize, Deserialize)]
struct StoredQuestions {
    questions: Vec<Question>,
}

#[derive(Serialize, Deserialize)]
struct StoredPrompt {
    prompt: String,
    offset: u64,
}

/// The column `answer`, by kind.
#[derive(Serialize, Deserialize)]
struct StoredOption {
    option: String,
}

#[derive(Serialize, Deserialize)]
struct StoredAnswers {
    answers: Vec<QuestionAnswer>,
}

#[derive(Serialize, Deserialize)]
struct StoredLine {
    text: String,
    delivered: bool,
}

pub(super) fn put(connection: &Connection, request: &Request) -> Result<(), StoreError> {
    let key = match request.session {
        Some(session) => Some(sessions::key_of(connection, session)?.ok_or(StoreError::NotFound)?),
        None => None,
    };
    let body = match &request.body {
        RequestBody::Permission { options, tool_call } => {
            to_json(&StoredPermission { options: options.clone(), tool_call: tool_call.clone() })
        }
        RequestBody::Question { questions } => to_json(&StoredQuestions { questions: questions.clone() }),
        RequestBody::Input { prompt, offset } => to_json(&StoredPrompt { prompt: prompt.clone(), offset: *offset }),
    };
    let answer = request.answer.as_ref().map(|answer| match answer {
        RequestAnswer::Option(option) => to_json(&StoredOption { option: option.clone() }),
        RequestAnswer::Answers(answers) => to_json(&StoredAnswers { answers: answers.clone() }),
        RequestAnswer::Line { text, is_delivered } => {
            to_json(&StoredLine { text: text.clone(), delivered: *is_delivered })
        }
    });
    connection
        .prepare_cached(
            "INSERT INTO requests (id, session_key, agent_id, kind, source, state, title, body, answer, answered_by,
                 created_at, updated_at, answered_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
             ON CONFLICT (id) DO UPDATE SET state = ?6, answer = ?9, answered_by = ?10, updated_at = ?12,
                 answered_at = ?13",
        )?
        .execute(params![
            request.id.to_string(),
            key,
            request.agent.map(|agent| agent.to_string()),
            request.kind().as_str(),
            request.source.as_str(),
            request.state.as_str(),
            request.title,
            body,
            answer,
            request.answered_by.map(|by| by.to_string()),
            request.created_at.as_millis(),
            request.updated_at.as_millis(),
            request.answered_at.map(Timestamp::as_millis),
        ])?;
    Ok(())
}

/// Deletes the requests of a session that is being deleted. Those of a task's agent stay with the agent.
pub(super) fn delete_of_session(connection: &Connection, key: i64) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM requests WHERE session_key = ?1 AND agent_id IS NULL")?.execute([key])?;
    connection.prepare_cached("UPDATE requests SET session_key = NULL WHERE session_key = ?1")?.execute([key])?;
    Ok(())
}

pub(super) fn by_id(connection: &Connection, id: RequestId) -> Result<Option<Request>, StoreError> {
    let mut statement = connection.prepare_cached(select!("WHERE requests.id = ?1"))?;
    let mut rows = statement.query([id.to_string()])?;
    rows.next()?.map(from_row).transpose()
}

/// Returns questions and terminal prompts in row order.
pub(super) fn rows_after(connection: &Connection, row: i64, limit: usize) -> Result<RowsAfter<Request>, StoreError> {
    const SQL: &str = select!(
        ", requests.rowid",
        "WHERE requests.rowid > ?1 AND kind <> 'permission' ORDER BY requests.rowid LIMIT ?2"
    );
    super::rows_after(connection, SQL, row, limit, from_row, |_| 0)
}

/// Oldest first.
pub(super) fn list(connection: &Connection, query: &RequestQuery) -> Result<Vec<Request>, StoreError> {
    let (at, id) = behind(query.after.as_ref());
    let session = query.session.map_or(Value::Null, |id| id.to_string().into());
    let limit = query.limit.map_or(-1, count);
    let values: Vec<Value> = vec![session, kinds(&query.kinds), at.into(), id.to_owned().into(), limit.into()];
    // Each condition is spelled out, so that SQLite can use the partial index for it.
    let state = match query.scope {
        RequestScope::Pending => "requests.state = 'pending'",
        RequestScope::Unfinished => {
            "(requests.state = 'pending'
                 OR (kind = 'input' AND requests.state = 'answered' AND answer ->> '$.delivered' = 0))"
        }
        RequestScope::All => "1",
    };
    const SELECT: &str = select!("");
    let mut statement = connection.prepare_cached(&format!(
        "{SELECT} WHERE {state} AND (?1 IS NULL OR sessions.id = ?1)
             AND (?2 IS NULL OR kind IN (SELECT value FROM json_each(?2)))
             AND (requests.created_at, requests.id) > (?3, ?4)
         ORDER BY requests.created_at, requests.id LIMIT ?5"
    ))?;
    let mut rows = statement.query(params_from_iter(&values))?;
    let mut requests = Vec::new();
    while let Some(row) = rows.next()? {
        requests.push(from_row(row)?);
    }
    Ok(requests)
}

/// A page of requests and tasks that need a human, oldest first.
pub(super) fn waiting(connection: &Connection, query: &WaitingQuery) -> Result<Vec<WaitingItem>, StoreError> {
    let (at, id) = behind(query.after.as_ref());
    let session = query.session.map(|id| id.to_string());
    let has_tasks = query.kinds.is_empty() && query.session.is_none();
    let mut statement = connection.prepare_cached(
        "SELECT is_request, id FROM (
             SELECT 1 AS is_request, requests.id, created_at AS at FROM requests
             WHERE (?1 OR state = 'pending') AND (?3 IS NULL OR kind IN (SELECT value FROM json_each(?3)))
                 AND (?2 IS NULL OR session_key = (SELECT key FROM sessions WHERE sessions.id = ?2))
                 AND (created_at, id) > (?4, ?5)
             UNION ALL
             SELECT 0, id, updated_at FROM tasks
             WHERE ?6 AND state IN ('pending_merge', 'blocked') AND deleted_at IS NULL
                 AND (updated_at, id) > (?4, ?5)
                 AND NOT EXISTS (SELECT 1 FROM workflows WHERE task_id = tasks.id AND state = 'pending_merge'
                     AND progress ->> '$.approval' IS NOT NULL))
         ORDER BY at, id LIMIT ?7",
    )?;
    let values = params![query.include_settled, session, kinds(&query.kinds), at, id, has_tasks, count(query.limit)];
    items(connection, statement.query(values)?)
}

/// The requests, and the tasks that need a human, whose id starts with `prefix`.
pub(super) fn with_prefix(connection: &Connection, prefix: &str, limit: usize) -> Result<Vec<WaitingItem>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT 1, id FROM requests WHERE id >= ?1 AND id < ?2
         UNION ALL
         SELECT 0, id FROM tasks WHERE id >= ?1 AND id < ?2
             AND state IN ('pending_merge', 'blocked') AND deleted_at IS NULL
         LIMIT ?3",
    )?;
    // Every character of an id sorts before `g`.
    let (first, end) = (prefix.to_ascii_lowercase(), format!("{}g", prefix.to_ascii_lowercase()));
    items(connection, statement.query(params![first, end, count(limit)])?)
}

fn items(connection: &Connection, mut rows: rusqlite::Rows<'_>) -> Result<Vec<WaitingItem>, StoreError> {
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        let (is_request, id): (bool, _) = (row.get(0)?, row.get_ref(1)?.as_str()?);
        items.extend(match is_request {
            true => by_id(connection, parsed(id)?)?.map(|it| WaitingItem::Request(Box::new(it))),
            false => tasks::by_id(connection, parsed(id)?)?.map(|it| WaitingItem::Task(Box::new(it))),
        });
    }
    Ok(items)
}

/// The kinds as a JSON list; null for all.
fn kinds(kinds: &[RequestKind]) -> Value {
    if kinds.is_empty() { Value::Null } else { to_json(kinds).into() }
}

fn from_row(row: &Row<'_>) -> Result<Request, StoreError> {
    let text = |column: usize| Ok::<_, StoreError>(row.get_ref(column)?.as_str()?);
    let text_or_null = |column: usize| Ok::<_, StoreError>(row.get_ref(column)?.as_str_or_null()?);
    let (kind, body, answer) = (parsed(text(3)?)?, text(7)?, text_or_null(8)?);
    let (body, answer) = match kind {
        RequestKind::Permission => {
            let StoredPermission { options, tool_call } = from_json(body)?;
            let answer = answer.map(from_json::<StoredOption>).transpose()?;
            (RequestBody::Permission { options, tool_call }, answer.map(|it| RequestAnswer::Option(it.option)))
        }
        RequestKind::Question => {
            let StoredQuestions { questions } = from_json(body)?;
            let answer = answer.map(from_json::<StoredAnswers>).transpose()?;
            (RequestBody::Question { questions }, answer.map(|it| RequestAnswer::Answers(it.answers)))
        }
        RequestKind::Input => {
            let StoredPrompt { prompt, offset } = from_json(body)?;
            let answer = answer.map(from_json::<StoredLine>).transpose()?;
            let line = |it: StoredLine| RequestAnswer::Line { text: it.text, is_delivered: it.delivered };
            (RequestBody::Input { prompt, offset }, answer.map(line))
        }
    };
    let title = match &body {
        RequestBody::Input { prompt, .. } => input_title(prompt),
        RequestBody::Permission { .. } | RequestBody::Question { .. } => row.get(6)?,
    };
    Ok(Request {
        id: parsed(text(0)?)?,
        session: text_or_null(1)?.map(parsed).transpose()?,
        agent: text_or_null(2)?.map(parsed).transpose()?,
        source: parsed(text(4)?)?,
        state: parsed::<RequestState>(text(5)?)?,
        title,
        body,
        answer,
        answered_by: text_or_null(9)?.map(parsed::<AnsweredBy>).transpose()?,
        created_at: Timestamp::from_millis(row.get(10)?),
        updated_at: Timestamp::from_millis(row.get(11)?),
        answered_at: row.get::<_, Option<i64>>(12)?.map(Timestamp::from_millis),
    })
}
