//! Attaches viewers to a running session: live output and input.

use std::io;

use bytes::Bytes;
use coven_domain::SessionId;
use coven_holder::wire::{Decoder, Reply, Request, VERSION};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::Engine;
use crate::error::EngineError;
use crate::session::ensure_terminal;
use crate::termination::ensure_live;

/// Maximum bytes of one input.
pub const MAX_INPUT: usize = coven_holder::wire::MAX_BODY;

/// What the engine sends to a viewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewerEvent {
    Output(Bytes),
    Resized {
        rows: u16,
        cols: u16,
    },
    Exited {
        code: i32,
        end: u64,
    },
    /// The session has received everything before [`ViewerInput::ask_receipt`].
    Received,
    /// The holder refused the viewer, with the reason.
    Refused(String),
    /// The session's holder has gone.
    Gone,
}

/// Input of a viewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewerRequest {
    Input(Vec<u8>),
    Resize { rows: u16, cols: u16 },
}

pub struct ViewerOutput {
    holder: OwnedReadHalf,
    decoder: Decoder,
    buffer: Vec<u8>,
}

pub struct ViewerInput {
    holder: OwnedWriteHalf,
}

impl Engine {
    /// Connects a viewer. Output starts with [`ViewerInput::follow`].
    pub async fn attach(&self, id: SessionId) -> Result<(ViewerOutput, ViewerInput), EngineError> {
        let session = self.session(id).await?;
        ensure_terminal(&session)?;
        ensure_live(&session)?;
        let gone = |_| EngineError::HolderGone(id);
        let holder = coven_holder::client::connect_socket(&self.home.session_dir(id))
            .and_then(|stream| stream.set_nonblocking(true).map(|()| stream))
            .and_then(UnixStream::from_std)
            .map_err(gone)?;
        let (reading, mut writing) = holder.into_split();
        writing.write_all(&Request::Hello { version: VERSION }.encode()).await.map_err(gone)?;
        let output = ViewerOutput { holder: reading, decoder: Decoder::default(), buffer: vec![0; 64 << 10] };
        Ok((output, ViewerInput { holder: writing }))
    }
}

impl ViewerOutput {
    /// Returns the next event. Cancel-safe.
    pub async fn next(&mut self) -> io::Result<ViewerEvent> {
        loop {
            while let Some(reply) = self.decoder.reply().map_err(io::Error::other)? {
                match reply {
                    Reply::Data { bytes, .. } => return Ok(ViewerEvent::Output(bytes.into())),
                    Reply::Resized { rows, cols } => return Ok(ViewerEvent::Resized { rows, cols }),
                    Reply::Exited { status, end } => return Ok(ViewerEvent::Exited { code: status.code(), end }),
                    Reply::Refused(why) => return Ok(ViewerEvent::Refused(why)),
                    Reply::Accepted => return Ok(ViewerEvent::Received),
                    Reply::Welcome(_) | Reply::Progress { .. } => {}
                }
            }
            match self.holder.read(&mut self.buffer).await? {
                0 => return Ok(ViewerEvent::Gone),
                count => self.decoder.feed(&self.buffer[..count]),
            }
        }
    }
}

impl ViewerInput {
    /// Starts the output at this log offset.
    pub async fn follow(&mut self, from: u64) -> io::Result<()> {
        self.holder.write_all(&Request::Follow { from }.encode()).await
    }

    /// Requests [`ViewerEvent::Received`] once everything sent so far was handled.
    pub async fn ask_receipt(&mut self) -> io::Result<()> {
        self.holder.write_all(&Request::Sync.encode()).await
    }

    pub async fn send(&mut self, typed: ViewerRequest) -> io::Result<()> {
        let request = match typed {
            ViewerRequest::Input(bytes) => Request::Input(bytes),
            ViewerRequest::Resize { rows, cols } => Request::Resize { rows, cols },
        };
        self.holder.write_all(&request.encode()).await
    }
}
