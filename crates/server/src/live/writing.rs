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
use crate::attach::CLOSE_TIMEOUT;

/// So many answers go before a frame of a subscription that waits.
const MAX_ANSWERS_IN_A_ROW: usize = 32;

/// Messages that are sent before the frames of subscriptions.
pub(super) enum Answer {
    Message(Message),
    /// Flushes the pong that the socket buffered when it read a ping. It has its place in the queue so that the number of
    /// buffered pongs is bounded for a client that does not read.
    Pong,
    /// Ends the connection.
    Close {
        code: u16,
        why: String,
    },
}

/// A frame of a subscription.
pub(super) struct Outgoing {
    pub outlet: Outlet,
    pub message: Message,
}

/// How the connection ends.
enum End {
    /// The reader has ended.
    ClientGone,
    Refused {
        code: u16,
        why: String,
    },
    Stopping,
}

enum Next {
    Answer(Option<Answer>),
    Output(Outgoing),
}

/// Writes until the client goes away, is refused, or the daemon stops.
pub(super) async fn write(
    engine: Arc<Engine>,
    mut client: SplitSink<WebSocket, Message>,
    mut answers: mpsc::Receiver<Answer>,
    mut outputs: mpsc::Receiver<Outgoing>,
) {
    let mut stopping = engine.stopping();
    let mut answers_in_a_row = 0;
    let end = loop {
        // A client that sends requests without end receives its output too.
        let output = (answers_in_a_row >= MAX_ANSWERS_IN_A_ROW).then(|| outputs.try_recv().ok()).flatten();
        let next = match output {
            Some(output) => Next::Output(output),
            None => tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => break End::Stopping,
                answer = answers.recv() => Next::Answer(answer),
                Some(output) = outputs.recv() => Next::Output(output),
            },
        };
        let message = match next {
            Next::Answer(answer) => {
                answers_in_a_row += 1;
                match answer {
                    Some(Answer::Message(message)) => Some(message),
                    Some(Answer::Pong) => None,
                    Some(Answer::Close { code, why }) => break End::Refused { code, why },
                    None => break End::ClientGone,
                }
            }
            Next::Output(Outgoing { outlet, message }) => {
                answers_in_a_row = 0;
                match outlet.is_closed() {
                    true => continue,
                    false => Some(message),
                }
            }
        };
        let written = match message {
            Some(message) => client.send(message).await,
            None => client.flush().await,
        };
        if let Err(error) = written {
            return tracing::debug!(%error, "a live client went away");
        }
    };
    match end {
        End::ClientGone => {}
        End::Refused { code, why } => {
            let is_sent = client.send(Message::Close(Some(CloseFrame { code, reason: why.into() }))).await.is_ok();
            if is_sent {
                // The rest of the client's message is unread. Closing now could reset the connection before the client
                // has read the reason.
                tokio::time::sleep(CLOSE_TIMEOUT).await;
            }
        }
        End::Stopping => {
            if client.send(text(&LiveMessage::Stopping {})).await.is_ok() {
                let close = CloseFrame { code: close_code::AWAY, reason: "the daemon stops".into() };
                let _ = client.send(Message::Close(Some(close))).await;
            }
        }
    }
    let _ = client.close().await;
}
