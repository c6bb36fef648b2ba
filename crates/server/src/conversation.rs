//! `/api/v1/conversations`: conversations of `coven spawn`, read-only.

use std::cmp::Reverse;

use axum::Json;
use axum::extract::State;
use coven_api::conversation::{
    BrokenConversation, ConversationListResponse, ConversationRecord, ListConversationsQuery, TurnRecord, TurnsQuery,
};
use coven_api::list::{BadCursor, List, TimeCursor};
use coven_domain::conversation::Summary;
use coven_engine::conversation::Filter;

use super::App;
use super::reply::{Id, Params};
use super::rest::{Answer, cursor, invalid, page_size};

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
    let last = cursor::<TimeCursor>(query.cursor.as_deref())?;
    let listing = app.engine.list_conversations(Filter { agent: query.agent, status }).await?;
    let total = listing.conversations.len() as u64;
    let place = |it: &Summary| TimeCursor::new(it.last_activity_at, &it.id);
    let mut conversations = listing.conversations;
    conversations.sort_by_key(|it| Reverse(place(it)));
    let rest = conversations.iter().skip_while(|it| last.as_ref().is_some_and(|last| place(it) >= *last));
    let List { items, next, .. } = List::page(rest, limit, |it| place(it).to_string()).map(ConversationRecord::from);
    let broken = listing.broken.into_iter().map(|(id, why)| BrokenConversation { id, why: why.to_string() }).collect();
    Ok(Json(ConversationListResponse { items, next, total, broken }))
}

pub async fn show(State(app): State<App>, Id(id): Id) -> Answer<Json<ConversationRecord>> {
    Ok(Json(ConversationRecord::from(&app.engine.conversation_summary(id).await?)))
}

pub async fn turns(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<TurnsQuery>,
) -> Answer<Json<List<TurnRecord>>> {
    let before = cursor::<u64>(query.cursor.as_deref()).map_err(|_| invalid(BadCursor.to_string()))?;
    let last = app.engine.last_turns(id, page_size(query.limit, DEFAULT_LIMIT)?, before).await?;
    let next = last.before.filter(|count| *count > 0).map(|count| count.to_string());
    Ok(Json(List { items: last.turns.iter().map(TurnRecord::from).collect(), next, total: None }))
}
