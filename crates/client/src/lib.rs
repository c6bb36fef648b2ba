//! The client of the daemon: the only HTTP client of the workspace.
//!
//! A call names a route of the table and gets its response type:
//! `client.call(routes::GetSession::of(id)).await?`.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod address;
pub mod blocking;
mod body;
mod connection;
mod connector;
mod error;
mod follower;
mod live;
mod sse;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod websocket;

pub use address::{Address, Token};
pub use body::StreamingBody;
pub use connection::Client;
pub use connector::Connector;
pub use error::ClientError;
pub use follower::{EventFollower, Followed};
pub use live::{Live, LiveFrame, LiveReceiver, LiveSender};
pub use sse::{EventStream, SseEvent, SseParser};
pub use websocket::{Frame, WebSocket, WebSocketReceiver, WebSocketSender};
