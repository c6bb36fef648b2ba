//! WebSocket attach: binary frames are the terminal's bytes both ways, text frames are control messages in JSON.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use coven_api::ErrorCode;
use coven_api::session::AttachQuery;
use coven_domain::SessionId;
use coven_engine::Engine;
use coven_engine::attach::{MAX_INPUT, ViewerEvent, ViewerInput, ViewerOutput, ViewerRequest};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::App;
use super::reply::{ApiError, Id, Params};

/// Errors about malformed messages that wait for a client to read them; later ones are dropped.
const MAX_PROBLEMS: usize = 16;
/// Pongs that wait for a client to read them. When there are more, no further message of the client is read.
const MAX_PONGS: usize = 256;
/// How long a stopping daemon waits for a client to take its last message.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

type ToClient = SplitSink<WebSocket, Message>;

/// A control message of a client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Control {
    Resize { rows: u16, cols: u16 },
    Input { data: String },
}

/// A parsed text frame of a client.
pub fn typed(text: &str) -> Result<ViewerRequest, serde_json::Error> {
    serde_json::from_str(text).map(|control| match control {
        Control::Resize { rows, cols } => ViewerRequest::Resize { rows, cols },
        Control::Input { data } => ViewerRequest::Input(data.into_bytes()),
    })
}

pub async fn attach(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<AttachQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let id = app.engine.find_session(&id).await?;
    let (output, input) = app.engine.attach(id).await?;
    let upgrade = upgradable(upgrade)?;
    let engine = app.engine.clone();
    Ok(upgrade.max_frame_size(MAX_INPUT).max_message_size(MAX_INPUT).on_upgrade(move |socket| async move {
        if let Err(error) = relay(&engine, id, query, socket, output, input).await {
            tracing::debug!(session = %id, %error, "an attached client went away");
        }
    }))
}

/// Rejects a request that is not a WebSocket upgrade.
pub(crate) fn upgradable(
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<WebSocketUpgrade, ApiError> {
    upgrade.map_err(|rejection| {
        let problem = format!("this route needs a WebSocket upgrade: {}", rejection.body_text());
        ApiError::new(ErrorCode::InvalidRequest, problem)
    })
}

/// Output and input are two tasks: a client that does not read its output can still type, resize and interrupt.
async fn relay(
    engine: &Arc<Engine>,
    id: SessionId,
    query: AttachQuery,
    socket: WebSocket,
    output: ViewerOutput,
    input: ViewerInput,
) -> Result<(), axum::Error> {
    let _watching = engine.watch(id);
    let (mut to_client, from_client) = socket.split();
    let (tell_problem, problems) = mpsc::channel(MAX_PROBLEMS);
    let (pongs, unsent_pongs) = mpsc::channel(MAX_PONGS);
    let is_read_only = query.read_only.unwrap_or(false);
    let (start, started) = oneshot::channel();
    let sending = async {
        let from = paint(engine, id, query.from, &mut to_client).await?;
        // The painted screen comes first; what follows it is asked for by the side that writes to the session.
        let _ = start.send(from);
        send_output(engine, output, problems, unsent_pongs, to_client).await
    };
    tokio::select! {
        ended = sending => ended,
        ended = take_input(from_client, input, started, tell_problem, pongs, is_read_only) => ended,
        () = async {
            engine.stopped().await;
            tokio::time::sleep(CLOSE_TIMEOUT).await;
        } => Ok(()),
    }
}

/// Sends the screen if the client wants one. Returns the log offset after it.
async fn paint(engine: &Engine, id: SessionId, from: Option<u64>, client: &mut ToClient) -> Result<u64, axum::Error> {
    if let Some(from) = from {
        return Ok(from);
    }
    let Some(snapshot) = engine.live_snapshot(id).await else { return Ok(0) };
    let screen = json!({"type": "screen", "offset": snapshot.offset, "rows": snapshot.rows, "cols": snapshot.cols});
    client.send(Message::Text(screen.to_string().into())).await?;
    client.send(Message::Binary(Bytes::from(snapshot.ansi))).await?;
    Ok(snapshot.offset)
}

/// Sends the session's output to the client until one of them ends.
async fn send_output(
    engine: &Engine,
    mut output: ViewerOutput,
    mut problems: mpsc::Receiver<String>,
    mut pongs: mpsc::Receiver<()>,
    mut client: ToClient,
) -> Result<(), axum::Error> {
    loop {
        tokio::select! {
            shown = output.next() => match shown.map_err(axum::Error::new)? {
                ViewerEvent::Output(bytes) => client.send(Message::Binary(bytes)).await?,
                ViewerEvent::Resized { rows, cols } => {
                    let size = json!({"type": "resize", "rows": rows, "cols": cols});
                    client.send(Message::Text(size.to_string().into())).await?;
                }
                ViewerEvent::Exited { code, end } => {
                    let exit = json!({"type": "exit", "exit_code": code, "offset": end});
                    return close_with(&mut client, exit).await;
                }
                ViewerEvent::Refused(why) => {
                    return close_with(&mut client, json!({"type": "error", "message": why})).await;
                }
                // This connection requests no receipts.
                ViewerEvent::Received => {}
                ViewerEvent::Gone => return close_with(&mut client, json!({"type": "gone"})).await,
            },
            Some(problem) = problems.recv() => {
                let problem = json!({"type": "error", "message": problem});
                client.send(Message::Text(problem.to_string().into())).await?;
            }
            // The socket buffered it when it read the ping.
            Some(()) = pongs.recv() => client.flush().await?,
            () = engine.stopped() => return close_with(&mut client, json!({"type": "daemon_stopping"})).await,
        }
    }
}

/// Sends the client's input to the session until the client disconnects.
async fn take_input(
    mut client: SplitStream<WebSocket>,
    mut input: ViewerInput,
    mut started: oneshot::Receiver<u64>,
    problems: mpsc::Sender<String>,
    pongs: mpsc::Sender<()>,
    is_read_only: bool,
) -> Result<(), axum::Error> {
    let mut is_following = false;
    loop {
        let sent = tokio::select! {
            from = &mut started, if !is_following => {
                is_following = true;
                match from {
                    Ok(from) => input.follow(from).await,
                    Err(_) => Ok(()),
                }
            }
            message = client.next() => {
                let Some(message) = message else { return Ok(()) };
                let typed = match message? {
                    Message::Binary(bytes) => Some(ViewerRequest::Input(bytes.to_vec())),
                    Message::Text(text) => match typed(&text) {
                        Ok(typed) => Some(typed),
                        Err(error) => {
                            // A client that does not read them loses them.
                            let _ = problems.try_send(error.to_string());
                            None
                        }
                    },
                    Message::Close(_) => return Ok(()),
                    Message::Ping(_) => {
                        let _ = pongs.send(()).await;
                        None
                    }
                    Message::Pong(_) => None,
                };
                match typed.filter(|_| !is_read_only) {
                    Some(typed) => input.send(typed).await,
                    None => Ok(()),
                }
            }
        };
        sent.map_err(axum::Error::new)?;
    }
}

async fn close_with(client: &mut ToClient, last: serde_json::Value) -> Result<(), axum::Error> {
    client.send(Message::Text(last.to_string().into())).await?;
    client.send(Message::Close(None)).await
}
