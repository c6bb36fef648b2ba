//! A blocking holder client, and the socket connection that asynchronous clients share.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use crate::SOCKET;
use crate::wire::{Decoder, Reply, Request, VERSION, Welcome, WireError};

/// How long a holder may take to send its `Welcome`.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum HolderError {
    #[error("cannot connect to the holder")]
    Unreachable(#[source] io::Error),
    #[error("lost the connection to the holder")]
    Broken(#[from] io::Error),
    #[error("invalid frame from the holder; it may use an incompatible protocol version")]
    Protocol(#[from] WireError),
    #[error("the holder closed the connection")]
    Closed,
    #[error("the holder rejected the request: {0}")]
    Refused(String),
}

/// Connects through the folder's descriptor: a socket path is limited to 107 bytes, and the coven home's path may be
/// longer.
pub fn connect_socket(session_dir: &Path) -> io::Result<UnixStream> {
    let dir = File::open(session_dir)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()))
}

pub(crate) fn bind_socket(session_dir: &Path) -> io::Result<UnixListener> {
    let dir = File::open(session_dir)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()))
}

pub struct HolderClient {
    stream: UnixStream,
    decoder: Decoder,
    buffer: Box<[u8]>,
    pub welcome: Welcome,
}

impl HolderClient {
    pub fn connect(session_dir: &Path) -> Result<Self, HolderError> {
        let mut stream = connect_socket(session_dir).map_err(HolderError::Unreachable)?;
        // The kernel accepts connections for a stopped (SIGSTOP) holder, which then never replies.
        stream.set_read_timeout(Some(WELCOME_TIMEOUT))?;
        match stream.write_all(&Request::Hello { version: VERSION }.encode()) {
            // The holder closed the connection first; its reason is still readable.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            result => result?,
        }
        let mut client = Self {
            stream,
            decoder: Decoder::default(),
            buffer: vec![0; 64 << 10].into_boxed_slice(),
            welcome: Welcome { version: 0, pid: 0, started_ticks: 0, first: 0, end: 0, records: 0, rows: 0, cols: 0 },
        };
        match client.next()? {
            Reply::Welcome(welcome) => client.welcome = welcome,
            Reply::Refused(why) => return Err(HolderError::Refused(why)),
            Reply::Exited { .. } => return Err(HolderError::Closed),
            Reply::Data { .. } | Reply::Progress { .. } | Reply::Resized { .. } | Reply::Accepted => {
                return Err(HolderError::Protocol(WireError::Malformed(64)));
            }
        }
        client.stream.set_read_timeout(None)?;
        Ok(client)
    }

    pub fn send(&mut self, request: &Request) -> Result<(), HolderError> {
        Ok(self.stream.write_all(&request.encode())?)
    }

    /// Waits for the next reply.
    #[expect(clippy::should_implement_trait, reason = "a broken connection is an error, not the end of an iterator")]
    pub fn next(&mut self) -> Result<Reply, HolderError> {
        loop {
            if let Some(reply) = self.decoder.reply()? {
                return Ok(reply);
            }
            self.fill()?;
        }
    }

    /// Returns a reply that is already buffered; call `fill` first when the socket is readable.
    pub fn ready(&mut self) -> Result<Option<Reply>, HolderError> {
        Ok(self.decoder.reply()?)
    }

    /// Reads once from the socket.
    pub fn fill(&mut self) -> Result<(), HolderError> {
        loop {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(HolderError::Closed),
                Ok(count) => {
                    self.decoder.feed(&self.buffer[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(HolderError::Broken(error)),
            }
        }
    }

    /// Sends a request and waits until the holder has handled it. Drops other replies that arrive in between, so do not
    /// use it on a connection that follows the log.
    pub fn request(&mut self, request: &Request) -> Result<(), HolderError> {
        // One write: if the request ends the harness, its exit cannot arrive between the two frames.
        self.stream.write_all(&[request.encode(), Request::Sync.encode()].concat())?;
        loop {
            match self.next()? {
                Reply::Accepted => return Ok(()),
                Reply::Refused(why) => return Err(HolderError::Refused(why)),
                Reply::Exited { .. } => return Err(HolderError::Closed),
                Reply::Welcome(_) | Reply::Data { .. } | Reply::Progress { .. } | Reply::Resized { .. } => {}
            }
        }
    }

    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }
}

impl AsFd for HolderClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
