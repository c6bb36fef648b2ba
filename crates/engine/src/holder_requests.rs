//! Sends requests to a holder, each on its own connection, so blocked input never delays a kill.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use coven_domain::SessionId;
use coven_holder::SOCKET;
use coven_holder::wire::{Decoder, Reply, Request, VERSION};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::Engine;
use crate::error::EngineError;

/// Timeout of a request.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(10);

impl Engine {
    /// Sends requests and waits until the holder has handled them.
    pub(crate) async fn send_to_holder(&self, id: SessionId, requests: &[Request]) -> Result<(), EngineError> {
        self.send_to_holder_within(id, requests, HOLDER_TIMEOUT).await
    }

    pub(super) async fn send_to_holder_within(
        &self,
        id: SessionId,
        requests: &[Request],
        limit: Duration,
    ) -> Result<(), EngineError> {
        let dir = self.home.session_dir(id);
        match tokio::time::timeout(limit, send_requests(&dir, requests)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                tracing::debug!(session = %id, %error, "cannot reach a holder");
                Err(EngineError::HolderGone(id))
            }
            Err(_) => Err(EngineError::HolderBusy(id)),
        }
    }
}

pub(super) async fn connect(dir: &Path) -> io::Result<UnixStream> {
    // Through the folder's descriptor, because a socket path is limited to 107 bytes.
    let folder = File::open(dir)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd())).await
}

pub(super) async fn send_requests(dir: &Path, requests: &[Request]) -> io::Result<()> {
    let mut stream = connect(dir).await?;
    let mut frames = Request::Hello { version: VERSION }.encode();
    requests.iter().for_each(|request| frames.extend(request.encode()));
    frames.extend(Request::Sync.encode());
    stream.write_all(&frames).await?;
    let (mut decoder, mut buffer) = (Decoder::default(), [0; 1024]);
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => decoder.feed(&buffer[..count]),
        }
        while let Some(reply) = decoder.reply().map_err(io::Error::other)? {
            match reply {
                Reply::Accepted => return Ok(()),
                Reply::Exited { .. } | Reply::Refused(_) => return Err(io::ErrorKind::ConnectionAborted.into()),
                Reply::Welcome(_) | Reply::Data { .. } | Reply::Progress { .. } | Reply::Resized { .. } => {}
            }
        }
    }
}
