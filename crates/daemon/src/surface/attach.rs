//! WebSocket attach: binary frames are the terminal's bytes both ways, text frames are control messages in JSON.

use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use coven_api::{ErrorBody, ErrorCode};
use coven_domain::SessionId;
use coven_holder::wire::{Decoder, MAX_BODY, Reply, Request, VERSION};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::App;
use super::reply::{ApiError, Id, Params};
use crate::engine::Engine;
use crate::engine::ending::must_be_live;
use crate::engine::session::must_have_terminal;
use crate::error::EngineError;

/// So many complaints about malformed messages wait for a client to read them; later ones are dropped.
const MOST_PROBLEMS: usize = 16;
/// How long a stopping daemon waits for a client to take its last message.
const GOODBYE_WITHIN: Duration = Duration::from_millis(500);

type ToClient = SplitSink<WebSocket, Message>;

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AttachQuery {
    /// The first byte of the log wanted; without it the screen is painted first and the stream goes on from there.
    pub from: Option<u64>,
    pub read_only: Option<bool>,
}

/// What a client says in a text frame.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Control {
    Resize { rows: u16, cols: u16 },
    Input { data: String },
}

/// What a text frame of a client asks of the holder.
pub fn control_request(text: &str) -> Result<Request, serde_json::Error> {
    serde_json::from_str(text).map(|control| match control {
        Control::Resize { rows, cols } => Request::Resize { rows, cols },
        Control::Input { data } => Request::Input(data.into_bytes()),
    })
}

/// Attaches to a running session.
#[utoipa::path(get, path = "/api/v1/sessions/{id}/attach", params(("id" = String, Path), AttachQuery), responses((status = 101, description = "WebSocket"), (status = 404, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub async fn attach(
    State(app): State<App>,
    Id(id): Id,
    Params(query): Params<AttachQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let id = app.engine.find_session(&id).await?;
    let session = app.engine.session(id).await?;
    must_have_terminal(&session)?;
    must_be_live(&session)?;
    let upgrade = upgrade.map_err(|rejection| {
        let problem = format!("this route speaks WebSocket: {}", rejection.body_text());
        ApiError::new(ErrorCode::InvalidRequest, problem)
    })?;
    let dir = app.engine.home.session_dir(id);
    let holder = coven_holder::client::connect_socket(&dir)
        .and_then(|stream| stream.set_nonblocking(true).map(|()| stream))
        .and_then(UnixStream::from_std)
        .map_err(|_| EngineError::HolderGone(id))?;
    let engine = app.engine.clone();
    Ok(upgrade.max_message_size(MAX_BODY).on_upgrade(move |socket| async move {
        if let Err(error) = relay(&engine, id, query, socket, holder).await {
            tracing::debug!(session = %id, %error, "an attached client went away");
        }
    }))
}

/// Output and input are two tasks: a client that does not read its output can still type, resize and interrupt.
async fn relay(
    engine: &Engine,
    id: SessionId,
    query: AttachQuery,
    socket: WebSocket,
    holder: UnixStream,
) -> Result<(), axum::Error> {
    let (mut to_client, from_client) = socket.split();
    let (from_holder, mut to_holder) = holder.into_split();
    let (tell_problem, problems) = mpsc::channel(MOST_PROBLEMS);
    let is_read_only = query.read_only.unwrap_or(false);
    to_holder.write_all(&Request::Hello { version: VERSION }.encode()).await.map_err(axum::Error::new)?;
    let (start, started) = oneshot::channel();
    let output = async {
        let from = paint(engine, id, query.from, &mut to_client).await?;
        // The painted screen comes first; what follows it is asked for by the side that writes to the holder.
        let _ = start.send(from);
        send_output(engine, from_holder, problems, to_client).await
    };
    tokio::select! {
        ended = output => ended,
        ended = take_input(from_client, to_holder, started, tell_problem, is_read_only) => ended,
        () = async {
            engine.stopped().await;
            tokio::time::sleep(GOODBYE_WITHIN).await;
        } => Ok(()),
    }
}

/// Sends the screen where the client wants one; returns the byte of the log that follows it.
async fn paint(engine: &Engine, id: SessionId, from: Option<u64>, client: &mut ToClient) -> Result<u64, axum::Error> {
    if let Some(from) = from {
        return Ok(from);
    }
    let Some(shot) = engine.live_shot(id).await else { return Ok(0) };
    let screen = json!({"type": "screen", "offset": shot.offset, "rows": shot.rows, "cols": shot.cols});
    client.send(Message::Text(screen.to_string().into())).await?;
    client.send(Message::Binary(Bytes::from(shot.ansi))).await?;
    Ok(shot.offset)
}

/// What the holder says goes to the client, until one of them ends.
async fn send_output(
    engine: &Engine,
    mut holder: OwnedReadHalf,
    mut problems: mpsc::Receiver<String>,
    mut client: ToClient,
) -> Result<(), axum::Error> {
    let (mut decoder, mut buffer) = (Decoder::default(), vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = holder.read(&mut buffer) => {
                let count = read.map_err(axum::Error::new)?;
                if count == 0 {
                    return goodbye(&mut client, json!({"type": "gone"})).await;
                }
                decoder.feed(&buffer[..count]);
                while let Some(reply) = decoder.reply().map_err(axum::Error::new)? {
                    match reply {
                        Reply::Data { bytes, .. } => client.send(Message::Binary(bytes.into())).await?,
                        Reply::Resized { rows, cols } => {
                            let size = json!({"type": "resize", "rows": rows, "cols": cols});
                            client.send(Message::Text(size.to_string().into())).await?;
                        }
                        Reply::Exited { status, end } => {
                            let exit = json!({"type": "exit", "exit_code": status.code(), "offset": end});
                            return goodbye(&mut client, exit).await;
                        }
                        Reply::Refused(why) => {
                            return goodbye(&mut client, json!({"type": "error", "message": why})).await;
                        }
                        Reply::Welcome(_) | Reply::Progress { .. } | Reply::Accepted => {}
                    }
                }
            }
            Some(problem) = problems.recv() => {
                let problem = json!({"type": "error", "message": problem});
                client.send(Message::Text(problem.to_string().into())).await?;
            }
            () = engine.stopped() => return goodbye(&mut client, json!({"type": "daemon_stopping"})).await,
        }
    }
}

/// What the client sends goes to the holder, until the client goes away.
async fn take_input(
    mut client: SplitStream<WebSocket>,
    mut holder: OwnedWriteHalf,
    mut started: oneshot::Receiver<u64>,
    problems: mpsc::Sender<String>,
    is_read_only: bool,
) -> Result<(), axum::Error> {
    let mut is_following = false;
    loop {
        let request = tokio::select! {
            from = &mut started, if !is_following => {
                is_following = true;
                from.ok().map(|from| Request::Follow { from })
            }
            message = client.next() => match message {
                None => return Ok(()),
                Some(message) => match message? {
                    Message::Binary(bytes) => Some(Request::Input(bytes.to_vec())),
                    Message::Text(text) => match control_request(&text) {
                        Ok(request) => Some(request),
                        Err(error) => {
                            // A client that does not read them loses them.
                            let _ = problems.try_send(error.to_string());
                            None
                        }
                    },
                    Message::Close(_) => return Ok(()),
                    Message::Ping(_) | Message::Pong(_) => None,
                }
                .filter(|_| !is_read_only),
            },
        };
        if let Some(request) = request {
            holder.write_all(&request.encode()).await.map_err(axum::Error::new)?;
        }
    }
}

async fn goodbye(client: &mut ToClient, last: serde_json::Value) -> Result<(), axum::Error> {
    client.send(Message::Text(last.to_string().into())).await?;
    client.send(Message::Close(None)).await
}
