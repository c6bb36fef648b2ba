//! `/api/v1/conversations`: those of `coven spawn`, to be read.

use axum::Json;
use axum::extract::State;
use coven_api::conversation::{
    BrokenConversation, ConversationListResponse, ConversationRecord, ListConversationsQuery, TurnListResponse,
    TurnRecord, TurnsQuery,
};
use coven_engine::conversation::Filter;

use super::App;
use super::reply::{Id, Params};
use super::rest::{Answer, invalid, page_size};

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
    let listing = app.engine.list_conversations(Filter { agent: query.agent, status }).await?;
    let shown = listing.conversations.iter().skip(query.offset.unwrap_or(0)).take(limit);
    let broken = listing.broken.iter().map(|(id, why)| BrokenConversation { id: id.to_string(), why: why.to_string() });
    Ok(Json(ConversationListResponse {
        conversations: shown.map(ConversationRecord::from).collect(),
        total: listing.conversations.len(),
        broken: broken.collect(),
    }))
}

pub async fn show(State(app): State<App>, Id(id): Id) -> Answer<Json<ConversationRecord>> {
    Ok(Json(ConversationRecord::from(&app.engine.conversation_summary(id).await?)))
}

pub async fn turns(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<TurnsQuery>,
) -> Answer<Json<TurnListResponse>> {
    let last = app.engine.last_turns(id, page_size(query.limit, DEFAULT_LIMIT)?, query.before).await?;
    Ok(Json(TurnListResponse { turns: last.turns.iter().map(TurnRecord::from).collect(), before: last.before }))
}
