//! What a subscription sends: events, or a session's view, translated into messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::extract::ws::Message;
use coven_api::live::{LiveCursor, LiveMessage, LiveRow, MAX_DATA, OutputHeader};
use coven_domain::SessionId;
use coven_engine::view::{CursorView, ScreenContent, ScreenView, ViewControl, ViewRequest, ViewUpdate};
use coven_engine::{Engine, EngineError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::events::follow_events;
use super::writing::Outgoing;
use super::{error_message, text};
use crate::reply::ApiError;
use crate::screen;

/// What a subscription is on.
pub(super) enum Topic {
    Events { since: Option<u64> },
    Session { session: SessionId, wanted: ViewRequest },
}

/// The way of a subscription to the writer.
#[derive(Clone)]
pub(super) struct Outlet {
    pub id: u32,
    output: mpsc::Sender<Outgoing>,
    readers: Arc<Semaphore>,
    state: Arc<AtomicU8>,
}

impl Outlet {
    const OPEN: u8 = 0;
    /// Its last message was sent.
    const OVER: u8 = 1;
    /// The client unsubscribed: unsent output is dropped.
    const CLOSED: u8 = 2;

    pub fn new(id: u32, output: mpsc::Sender<Outgoing>, readers: Arc<Semaphore>) -> Self {
        Self { id, output, readers, state: Arc::new(AtomicU8::new(Self::OPEN)) }
    }

    pub fn close(&self) {
        self.state.store(Self::CLOSED, Ordering::Release);
    }

    pub fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == Self::CLOSED
    }

    /// Reports whether the id is free for another subscription.
    pub fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) != Self::OPEN
    }

    /// Waits until few other subscriptions of the connection hold output in memory. Views do this by themselves.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.readers.clone().acquire_owned().await.ok()
    }

    /// Waits for the writer to take the message.
    pub async fn send(&self, message: Message) {
        let _ = self.output.send(Outgoing { outlet: self.clone(), message }).await;
    }

    async fn send_last(&self, message: LiveMessage) {
        // Set first: the client may use the id again as soon as it has the message.
        let _ = self.state.compare_exchange(Self::OPEN, Self::OVER, Ordering::AcqRel, Ordering::Acquire);
        self.send(text(&message)).await;
    }

    async fn fail(&self, error: EngineError) {
        self.send_last(error_message(Some(self.id), None, ApiError::from(error))).await;
    }
}

/// Sends what a subscription is on until it ends. Stopped from outside when the client unsubscribes or goes away.
pub(super) async fn follow(engine: Arc<Engine>, topic: Topic, control: Option<Arc<ViewControl>>, outlet: Outlet) {
    let followed = match topic {
        Topic::Events { since } => follow_events(&engine, since, &outlet).await,
        Topic::Session { session, wanted } => {
            follow_session(&engine, session, wanted, control.unwrap_or_default(), &outlet).await
        }
    };
    if let Err(error) = followed {
        outlet.fail(error).await;
    }
}

async fn follow_session(
    engine: &Arc<Engine>,
    session: SessionId,
    wanted: ViewRequest,
    control: Arc<ViewControl>,
    outlet: &Outlet,
) -> Result<(), EngineError> {
    let mut view = engine.view_session(session, wanted, control).await?;
    let _watching = engine.watch(session);
    while let Some(update) = view.next().await? {
        match update {
            ViewUpdate::Output { offset, bytes } => {
                debug_assert!(bytes.len() <= MAX_DATA);
                let mut frame = Vec::with_capacity(OutputHeader::BYTES + bytes.len());
                frame.extend_from_slice(&OutputHeader { id: outlet.id, offset }.encode());
                frame.extend_from_slice(&bytes);
                outlet.send(Message::Binary(frame.into())).await;
            }
            ViewUpdate::Exited { code, end } => {
                outlet.send_last(LiveMessage::Exit { id: outlet.id, exit_code: code, offset: end }).await;
            }
            other => outlet.send(text(&message(outlet.id, other))).await,
        }
    }
    Ok(())
}

fn message(id: u32, update: ViewUpdate) -> LiveMessage {
    match update {
        ViewUpdate::Started { offset } => LiveMessage::Subscribed { id, offset },
        ViewUpdate::Screen(screen) => painted(id, screen),
        ViewUpdate::Rows { offset, cursor, changed } => {
            let changed =
                changed.into_iter().map(|(row, spans)| LiveRow { row: row as u16, spans: screen::line(spans) });
            LiveMessage::Rows { id, offset, cursor: self::cursor(cursor), changed: changed.collect() }
        }
        ViewUpdate::Lagging { offset, end } => LiveMessage::Lagging { id, offset, end },
        ViewUpdate::Jumped { from, to } => LiveMessage::Jump { id, from, to },
        ViewUpdate::Resized { rows, cols } => LiveMessage::Resize { id, rows, cols },
        ViewUpdate::Output { .. } | ViewUpdate::Exited { .. } => unreachable!("these are sent in their own way"),
    }
}

fn painted(id: u32, screen: ScreenView) -> LiveMessage {
    let (data, lines) = match screen.content {
        ScreenContent::Ansi(text) => (Some(text), None),
        ScreenContent::Lines(lines) => (None, Some(lines.into_iter().map(screen::line).collect())),
    };
    let ScreenView { offset, rows, cols, title, .. } = screen;
    LiveMessage::Screen { id, offset, rows, cols, title, cursor: cursor(screen.cursor), data, lines }
}

fn cursor(cursor: CursorView) -> LiveCursor {
    LiveCursor { row: cursor.row, col: cursor.col, visible: cursor.visible }
}
