//! WebSocket attach: binary frames are the terminal's bytes both ways, text frames are control messages in JSON.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use coven_api::{ErrorBody, ErrorCode};
use coven_domain::SessionId;
use coven_holder::wire::{Decoder, MAX_BODY, Reply, Request, VERSION};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::App;
use super::reply::{ApiError, Id, Params};
use crate::engine::Engine;
use crate::engine::ending::must_be_live;
use crate::engine::session::must_have_terminal;
use crate::error::EngineError;

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

async fn relay(
    engine: &Engine,
    id: SessionId,
    query: AttachQuery,
    mut socket: WebSocket,
    mut holder: UnixStream,
) -> Result<(), axum::Error> {
    let from = match query.from {
        Some(from) => from,
        None => match engine.live_shot(id).await {
            Some(shot) => {
                let screen = json!({"type": "screen", "offset": shot.offset, "rows": shot.rows, "cols": shot.cols});
                socket.send(Message::Text(screen.to_string().into())).await?;
                socket.send(Message::Binary(Bytes::from(shot.ansi))).await?;
                shot.offset
            }
            None => 0,
        },
    };
    let hello = [Request::Hello { version: VERSION }.encode(), Request::Follow { from }.encode()].concat();
    holder.write_all(&hello).await.map_err(axum::Error::new)?;
    let is_read_only = query.read_only.unwrap_or(false);
    let (mut decoder, mut buffer) = (Decoder::default(), vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = holder.read(&mut buffer) => {
                let count = read.map_err(axum::Error::new)?;
                if count == 0 {
                    return goodbye(&mut socket, json!({"type": "gone"})).await;
                }
                decoder.feed(&buffer[..count]);
                while let Some(reply) = decoder.reply().map_err(axum::Error::new)? {
                    match reply {
                        Reply::Data { bytes, .. } => socket.send(Message::Binary(bytes.into())).await?,
                        Reply::Resized { rows, cols } => {
                            let size = json!({"type": "resize", "rows": rows, "cols": cols});
                            socket.send(Message::Text(size.to_string().into())).await?;
                        }
                        Reply::Exited { status, end } => {
                            let exit = json!({"type": "exit", "exit_code": status.code(), "offset": end});
                            return goodbye(&mut socket, exit).await;
                        }
                        Reply::Welcome(_) | Reply::Progress { .. } | Reply::Accepted | Reply::Refused(_) => {}
                    }
                }
            }
            message = socket.recv() => {
                let request = match message {
                    None => return Ok(()),
                    Some(message) => match message? {
                        Message::Binary(bytes) => Some(Request::Input(bytes.to_vec())),
                        Message::Text(text) => match serde_json::from_str(&text) {
                            Ok(Control::Resize { rows, cols }) => Some(Request::Resize { rows, cols }),
                            Ok(Control::Input { data }) => Some(Request::Input(data.into_bytes())),
                            Err(error) => {
                                let problem = json!({"type": "error", "message": error.to_string()});
                                socket.send(Message::Text(problem.to_string().into())).await?;
                                None
                            }
                        },
                        Message::Close(_) => return Ok(()),
                        Message::Ping(_) | Message::Pong(_) => None,
                    },
                };
                if let Some(request) = request.filter(|_| !is_read_only) {
                    holder.write_all(&request.encode()).await.map_err(axum::Error::new)?;
                }
            }
            () = engine.stopped() => return goodbye(&mut socket, json!({"type": "daemon_stopping"})).await,
        }
    }
}

async fn goodbye(socket: &mut WebSocket, last: serde_json::Value) -> Result<(), axum::Error> {
    socket.send(Message::Text(last.to_string().into())).await?;
    socket.send(Message::Close(None)).await
}
