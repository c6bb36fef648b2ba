//! `/api/v1/live`: one task reads a client's messages, another writes to it. A small queue of answers goes first. Each
//! subscription has its own task, and only [`MAX_READERS`] of them hold output in memory at a time.

mod events;
mod following;
mod typing;
mod writing;

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use coven_api::ErrorCode;
use coven_api::live::{DEFAULT_WINDOW, LiveMessage, LiveMode, LiveOnLag, LiveRequest, LiveTopic, VERSION};
use coven_domain::SessionId;
use coven_engine::Engine;
use coven_engine::attach::ViewerRequest;
use coven_engine::view::{OnLag, ViewControl, ViewMode, ViewRequest};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use serde::Deserialize;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio_tungstenite::tungstenite;

use super::App;
use super::attach::{CLOSE_TIMEOUT, upgradable};
use super::reply::ApiError;
use following::{Outlet, Topic};
use typing::Typing;
use writing::{Answer, Outgoing};

/// The longest message of a client. The first frame over this size ends the connection, before its data is read.
const MAX_MESSAGE: usize = 1 << 20;
const MAX_SUBSCRIPTIONS: usize = 256;
/// Tasks of a connection: its subscriptions, and ended ones whose last message the client has not read yet. When there
/// are more, no further message of the client is read.
const MAX_FOLLOWERS: usize = 2 * MAX_SUBSCRIPTIONS;
/// Answers that wait for a client to read them. When there are more, no further message of the client is read: a client
/// that sends requests must also read.
const MAX_ANSWERS: usize = 256;
/// The longest text of an error. Texts quote the client's message, which may be long.
const MAX_ERROR_TEXT: usize = 400;
/// Subscriptions of a connection that read output at a time: one whose frame is written, and one that prepares the next.
const MAX_READERS: usize = 2;

pub async fn live(
    State(app): State<App>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = upgradable(upgrade)?;
    let upgrade = upgrade.max_frame_size(MAX_MESSAGE).max_message_size(MAX_MESSAGE);
    Ok(upgrade.on_upgrade(move |socket| serve(app.engine, socket)))
}

async fn serve(engine: Arc<Engine>, socket: WebSocket) {
    let (to_client, from_client) = socket.split();
    let (answers, answered) = mpsc::channel(MAX_ANSWERS);
    let (output, outputs) = mpsc::channel(1);
    let mut writer = JoinSet::new();
    writer.spawn(writing::write(engine.clone(), to_client, answered, outputs));
    let mut connection = Connection {
        typing: Typing::new(engine.clone(), answers.clone()),
        engine,
        answers,
        output,
        readers: Arc::new(Semaphore::new(MAX_READERS)),
        subscriptions: HashMap::new(),
        followers: JoinSet::new(),
    };
    let engine = connection.engine.clone();
    let event_number = engine.hub().last();
    connection.answer(LiveMessage::Welcome { version: VERSION, event_number }).await;
    tokio::select! {
        () = connection.read(from_client) => {}
        // The reader may be waiting for a client that does not read its answers.
        () = async {
            engine.stopped().await;
            tokio::time::sleep(CLOSE_TIMEOUT).await;
        } => {}
    }
    let Connection { mut followers, typing, answers, output, .. } = connection;
    followers.shutdown().await;
    drop((answers, output));
    let write_rest = async {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, writer.join_next()).await;
        writer.abort_all();
    };
    // Input that the client sent before it went away is still delivered.
    tokio::join!(write_rest, typing.finish());
}

struct Connection {
    engine: Arc<Engine>,
    answers: mpsc::Sender<Answer>,
    output: mpsc::Sender<Outgoing>,
    readers: Arc<Semaphore>,
    subscriptions: HashMap<u32, Subscription>,
    followers: JoinSet<()>,
    typing: Typing,
}

struct Subscription {
    outlet: Outlet,
    /// Of a session.
    control: Option<Arc<ViewControl>>,
    /// The session whose bytes it sends.
    terminal: Option<SessionId>,
    follower: AbortHandle,
}

impl Connection {
    /// Reads until the client goes away. Nothing here waits for output.
    async fn read(&mut self, mut client: SplitStream<WebSocket>) {
        loop {
            let message = tokio::select! {
                message = client.next() => message,
                Some(_) = self.followers.join_next() => continue,
            };
            match message {
                Some(Ok(Message::Text(text))) => self.take(&text).await,
                Some(Ok(Message::Binary(_))) => {
                    let why = "a client sends text frames only; type with {\"type\":\"input\"}";
                    self.refuse((None, None), invalid(why)).await;
                }
                Some(Ok(Message::Ping(_))) => {
                    let _ = self.answers.send(Answer::Pong).await;
                }
                Some(Ok(Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) | None => return,
                Some(Err(error)) => {
                    let (code, why) = close_reason(&error);
                    self.refuse((None, None), invalid(why.clone())).await;
                    let _ = self.answers.send(Answer::Close { code, why }).await;
                    return;
                }
            }
        }
    }

    async fn take(&mut self, text: &str) {
        let request = match parse(text) {
            Ok(request) => request,
            Err(error) => return self.refuse(subject_of(text), error).await,
        };
        let subject = request.subject();
        if let Err(error) = self.handle(request).await {
            self.refuse(subject, error).await;
        }
    }

    async fn handle(&mut self, request: LiveRequest) -> Result<(), ApiError> {
        check_scope(&request)?;
        match request {
            LiveRequest::Subscribe { id, topic, since, session_id, mode, from, window, on_lag, .. } => {
                let topic = match (topic, session_id) {
                    (LiveTopic::Events, None) if (mode, from, window, on_lag) == (None, None, None, None) => {
                        Topic::Events { since }
                    }
                    (LiveTopic::Events, _) => return Err(invalid("events take `since` and nothing else")),
                    (LiveTopic::Session, Some(session)) if since.is_none() => {
                        Topic::Session { session, wanted: wanted(mode, from, window, on_lag)? }
                    }
                    (LiveTopic::Session, Some(_)) => return Err(invalid("a session takes `from` instead of `since`")),
                    (LiveTopic::Session, None) => return Err(invalid("give the session_id to subscribe to")),
                };
                self.subscribe(id, topic).await
            }
            LiveRequest::Ack { id, offset, .. } => self
                .control(id)?
                .ack(offset)
                .map_err(|sent| invalid(format!("byte {offset} was not sent; an ack of at most {sent} is possible"))),
            LiveRequest::Jump { id, .. } => {
                self.control(id)?.jump();
                Ok(())
            }
            LiveRequest::Unsubscribe { id, .. } => {
                let gone = self.subscriptions.remove(&id).ok_or_else(|| not_subscribed(id))?;
                gone.follower.abort();
                // The writer drops unsent output, so this is the last message of the subscription.
                gone.outlet.close();
                self.answer(LiveMessage::Unsubscribed { id }).await;
                Ok(())
            }
            LiveRequest::Input { session_id, request, data, data_base64 } => {
                let input = coven_api::session::InputRequest { data, data_base64 };
                let bytes = input.bytes().map_err(invalid)?;
                self.type_in(session_id, request, ViewerRequest::Input(bytes))
            }
            LiveRequest::Resize { session_id, request, rows, cols } => {
                super::rest::check_size(rows, cols)?;
                self.type_in(session_id, request, ViewerRequest::Resize { rows, cols })
            }
            LiveRequest::Signal { session_id, request, signal } => self.typing.signal(session_id, request, signal),
        }
    }

    fn type_in(&mut self, session: SessionId, request: Option<u64>, typed: ViewerRequest) -> Result<(), ApiError> {
        let is_terminal = self.subscriptions.values().any(|known| known.terminal == Some(session));
        self.typing.send(session, request, typed, is_terminal)
    }

    async fn subscribe(&mut self, id: u32, topic: Topic) -> Result<(), ApiError> {
        if self.subscriptions.get(&id).is_some_and(|known| !known.outlet.is_over()) {
            let why = format!("subscription {id} is in use; unsubscribe it, or choose another id");
            return Err(ApiError::new(ErrorCode::AlreadySubscribed, why));
        }
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            self.subscriptions.retain(|_, known| !known.outlet.is_over());
        }
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            let why = format!("a connection has at most {MAX_SUBSCRIPTIONS} subscriptions; unsubscribe one");
            return Err(ApiError::new(ErrorCode::TooManySubscriptions, why));
        }
        while self.followers.len() >= MAX_FOLLOWERS {
            self.followers.join_next().await;
        }
        let outlet = Outlet::new(id, self.output.clone(), self.readers.clone());
        let control =
            matches!(topic, Topic::Session { .. }).then(|| Arc::new(ViewControl::sharing(self.readers.clone())));
        let terminal = match &topic {
            Topic::Session { session, wanted } if wanted.mode == ViewMode::Bytes => Some(*session),
            Topic::Session { .. } | Topic::Events { .. } => None,
        };
        let following = following::follow(self.engine.clone(), topic, control.clone(), outlet.clone());
        let follower = self.followers.spawn(following);
        self.subscriptions.insert(id, Subscription { outlet, control, terminal, follower });
        Ok(())
    }

    fn control(&self, id: u32) -> Result<&ViewControl, ApiError> {
        let known = self.subscriptions.get(&id).ok_or_else(|| not_subscribed(id))?;
        known.control.as_deref().ok_or_else(|| invalid(format!("subscription {id} is on events, which have no window")))
    }

    async fn refuse(&self, (id, request): (Option<u32>, Option<u64>), error: ApiError) {
        self.answer(error_message(id, request, error)).await;
    }

    async fn answer(&self, message: LiveMessage) {
        // Fails only when the writer has ended, and then the client is gone.
        let _ = self.answers.send(Answer::Message(text(&message))).await;
    }
}

/// Returns the close code and the reason for a client whose bytes are not valid WebSocket messages.
fn close_reason(error: &axum::Error) -> (u16, String) {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<tungstenite::Error>());
    match source {
        Some(tungstenite::Error::Capacity(_)) => {
            (close_code::SIZE, format!("the message is too long; at most {MAX_MESSAGE} bytes are accepted"))
        }
        Some(tungstenite::Error::Utf8(_)) => (close_code::INVALID, "a text frame must be valid UTF-8".to_owned()),
        _ => (close_code::PROTOCOL, format!("the connection cannot continue: {error}")),
    }
}

/// Every caller has every scope today. This is the place where a message will be refused to one that lacks its scope.
fn check_scope(request: &LiveRequest) -> Result<(), ApiError> {
    let _needed = request.scope();
    Ok(())
}

fn wanted(
    mode: Option<LiveMode>,
    from: Option<u64>,
    window: Option<u64>,
    on_lag: Option<LiveOnLag>,
) -> Result<ViewRequest, ApiError> {
    let window = window.unwrap_or(DEFAULT_WINDOW);
    if window == 0 {
        return Err(invalid("window: must be at least 1"));
    }
    let mode = match mode.unwrap_or_default() {
        LiveMode::Bytes => ViewMode::Bytes,
        LiveMode::Rows => ViewMode::Rows,
    };
    let on_lag = match on_lag.unwrap_or_default() {
        LiveOnLag::Jump => OnLag::Jump,
        LiveOnLag::Wait => OnLag::Wait,
    };
    Ok(ViewRequest { mode, from, window, on_lag })
}

fn parse(text: &str) -> Result<LiveRequest, ApiError> {
    // Serde would also fill a message from an array, by position.
    if !text.trim_start().starts_with('{') {
        return Err(invalid("a message is a JSON object"));
    }
    serde_json::from_str(text).map_err(|error| invalid(format!("the message is not valid: {error}")))
}

/// What a message that cannot be understood is about, as far as it says so.
fn subject_of(text: &str) -> (Option<u32>, Option<u64>) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Subject {
        id: serde_json::Value,
        request: serde_json::Value,
    }
    let Subject { id, request } = serde_json::from_str(text).unwrap_or_default();
    (id.as_u64().and_then(|id| u32::try_from(id).ok()), request.as_u64())
}

/// An error for the client. Its text is cut to a bounded length.
fn error_message(id: Option<u32>, request: Option<u64>, error: ApiError) -> LiveMessage {
    let mut error = error.into_detail();
    if error.message.len() > MAX_ERROR_TEXT {
        error.message.truncate(error.message.floor_char_boundary(MAX_ERROR_TEXT));
        error.message.push('…');
    }
    LiveMessage::Error { id, request, error }
}

fn invalid(why: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, why)
}

fn not_subscribed(id: u32) -> ApiError {
    ApiError::new(ErrorCode::NotSubscribed, format!("this connection has no subscription {id}"))
}

fn text(message: &LiveMessage) -> Message {
    Message::Text(serde_json::to_string(message).expect("plain data to memory").into())
}
