//! `/api/v1/conversations`: conversations of `coven spawn`, read-only.

use std::cmp::Reverse;

use axum::Json;
use axum::extract::State;
use coven_api::conversation::{
    BrokenConversation, ConversationListResponse, ConversationRecord, ListConversationsQuery, TurnRecord, TurnsQuery,
};
use coven_api::list::{List, ListKey, TimeCursor};
use coven_api::routes::{ListConversations, ListTurns};
use coven_domain::Timestamp;
use coven_domain::conversation::Summary;
use coven_engine::conversation::Filter;

use super::App;
use super::reply::{Id, Params};
use super::rest::{Answer, invalid, page_size, place};

const DEFAULT_LIMIT: usize = 20;

pub async fn list(
    State(app): State<App>,
    Params(query): Params<ListConversationsQuery>,
) -> Answer<Json<ConversationListResponse>> {
    let limit = page_size(query.limit, DEFAULT_LIMIT)?;
    let status = match &query.status {
        Some(word) => Some(word.parse().map_err(|_| invalid("status: active, completed or interrupted"))?),
        None => None,
    };
    let list = ListKey::of::<ListConversations>(&query);
    let last: Option<TimeCursor> = place(list, query.cursor.as_deref())?;
    let listing = app.engine.list_conversations(Filter { agent: query.agent, status }).await?;
    let total = listing.conversations.len() as u64;
    let broken = listing.broken.into_iter().map(|(id, why)| BrokenConversation { id, why: why.to_string() });
    let mut rows: Vec<Row> = listing.conversations.into_iter().map(Row::Sound).chain(broken.map(Row::Broken)).collect();
    rows.sort_by_key(|row| Reverse(row.place()));
    let rest = rows.into_iter().skip_while(|row| last.as_ref().is_some_and(|last| row.place() >= *last));
    let page = List::page(rest, limit, |row| list.cursor(row.place()));
    let (mut items, mut broken) = (Vec::new(), Vec::new());
    for row in page.items {
        match row {
            Row::Sound(summary) => items.push(ConversationRecord::from(&summary)),
            Row::Broken(file) => broken.push(file),
        }
    }
    Ok(Json(ConversationListResponse { items, next: page.next, total, broken }))
}

/// A row of the list. Files that cannot be read come last.
enum Row {
    Sound(Summary),
    Broken(BrokenConversation),
}

impl Row {
    fn place(&self) -> TimeCursor {
        match self {
            Self::Sound(summary) => TimeCursor::new(summary.last_activity_at, &summary.id),
            Self::Broken(file) => TimeCursor::new(Timestamp::from_millis(i64::MIN), &file.id),
        }
    }
}

pub async fn show(State(app): State<App>, Id(id): Id) -> Answer<Json<ConversationRecord>> {
    Ok(Json(ConversationRecord::from(&app.engine.conversation_summary(id).await?)))
}

pub async fn turns(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<TurnsQuery>,
) -> Answer<Json<List<TurnRecord>>> {
    let id = app.engine.find_conversation(&id).await?;
    let list = ListKey::below::<ListTurns>(&id, &query);
    let before: Option<u64> = place(list, query.cursor.as_deref())?;
    let last = app.engine.last_turns(id, page_size(query.limit, DEFAULT_LIMIT)?, before).await?;
    let next = last.before.filter(|count| *count > 0).map(|count| list.cursor(count));
    Ok(Json(List { items: last.turns.iter().map(TurnRecord::from).collect(), next, total: None }))
}
