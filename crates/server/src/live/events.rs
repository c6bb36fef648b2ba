//! Events of a live connection: the bytes of the feed, each in a message.

use coven_api::live::LiveMessage;
use coven_engine::events::Next;
use coven_engine::{Engine, EngineError};

use super::following::Outlet;
use super::text;
use crate::event::append_json;

/// How many events are read from the store at a time.
const PAGE: usize = 100;

/// Sends events after `since`, or only new ones, until the client unsubscribes.
pub(super) async fn follow_events(engine: &Engine, since: Option<u64>, outlet: &Outlet) -> Result<(), EngineError> {
    let mut newest = engine.hub().subscribe();
    let mut cursor = since.unwrap_or_else(|| engine.hub().last());
    outlet.send(text(&LiveMessage::Subscribed { id: outlet.id, offset: cursor })).await;
    let kept = engine.event_range().await?;
    if since.is_some() && (cursor.saturating_add(1) < kept.start || cursor >= kept.end) {
        cursor = tell_gap(engine, outlet).await?;
    }
    loop {
        // Marked as seen before reading: events that are published later end the wait.
        newest.borrow_and_update();
        let turn = outlet.turn().await;
        match engine.hub().json_after(cursor) {
            Next::Events { events, cursor: after } => {
                for (_, json) in events {
                    send(outlet, &json).await;
                }
                cursor = after;
            }
            Next::TooOld => cursor = send_stored(engine, cursor, outlet).await?,
            Next::Nothing => {
                drop(turn);
                if newest.changed().await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// Sends a page of events that have left the feed's memory; returns the cursor after them.
async fn send_stored(engine: &Engine, cursor: u64, outlet: &Outlet) -> Result<u64, EngineError> {
    let events = engine.events_after(cursor, PAGE).await?;
    // They may have expired since the cursor was checked.
    let has_expired = cursor.saturating_add(1) < engine.event_range().await?.start;
    let Some(last) = events.last().filter(|_| !has_expired) else { return tell_gap(engine, outlet).await };
    let mut json = Vec::new();
    for event in &events {
        json.clear();
        append_json(event, &mut json);
        send(outlet, &json).await;
    }
    Ok(last.number)
}

/// Tells that events were lost; returns the cursor to continue from.
async fn tell_gap(engine: &Engine, outlet: &Outlet) -> Result<u64, EngineError> {
    let event_number = engine.event_range().await?.end.saturating_sub(1);
    outlet.send(text(&LiveMessage::Gap { id: outlet.id, event_number })).await;
    Ok(event_number)
}

async fn send(outlet: &Outlet, json: &[u8]) {
    let event = std::str::from_utf8(json).expect("the feed is JSON, which is UTF-8");
    outlet.send(axum::extract::ws::Message::Text(LiveMessage::event_text(outlet.id, event).into())).await;
}
