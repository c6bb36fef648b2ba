//! The writing side of a live connection: answers first, then the subscriptions in turn.

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use coven_api::live::LiveMessage;
use coven_engine::Engine;
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use tokio::sync::mpsc;

use super::following::Outlet;
use super::text;

/// A frame of a subscription.
pub(super) struct Outgoing {
    pub outlet: Outlet,
    pub message: Message,
}

/// Writes until the client goes away, or says goodbye when the daemon stops.
pub(super) async fn write(
    engine: Arc<Engine>,
    mut client: SplitSink<WebSocket, Message>,
    mut answers: mpsc::Receiver<Message>,
    mut outputs: mpsc::Receiver<Outgoing>,
) {
    let mut stopping = engine.stopping();
    let is_stopping = loop {
        let message = tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => break true,
            answer = answers.recv() => match answer {
                Some(answer) => answer,
                // The reader has ended.
                None => break false,
            },
            Some(Outgoing { outlet, message }) = outputs.recv() => match outlet.is_closed() {
                true => continue,
                false => message,
            },
        };
        if let Err(error) = client.send(message).await {
            return tracing::debug!(%error, "a live client went away");
        }
    };
    // A client that is gone needs no goodbye.
    if is_stopping && client.send(text(&LiveMessage::Stopping {})).await.is_ok() {
        let close = CloseFrame { code: close_code::AWAY, reason: "the daemon stops".into() };
        let _ = client.send(Message::Close(Some(close))).await;
    }
    let _ = client.close().await;
}
