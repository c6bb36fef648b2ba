//! A blocking client of a holder, and the way to its socket for asynchronous ones.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::SOCKET;
use crate::wire::{Decoder, Reply, Request, VERSION, Welcome, WireError};

#[derive(Debug, thiserror::Error)]
pub enum HolderError {
    #[error("the holder does not answer")]
    Unreachable(#[source] io::Error),
    #[error("the connection to the holder broke")]
    Broken(#[from] io::Error),
    #[error("the holder speaks another language")]
    Protocol(#[from] WireError),
    #[error("the holder closed the connection")]
    Closed,
    #[error("the holder refused: {0}")]
    Refused(String),
}

/// Connects through the folder's descriptor: a socket's path may have 107 bytes only, a home's may be longer.
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
        stream.write_all(&Request::Hello { version: VERSION }.encode())?;
        let mut client = Self {
            stream,
            decoder: Decoder::default(),
            buffer: vec![0; 64 << 10].into_boxed_slice(),
            welcome: Welcome { version: 0, pid: 0, started_ticks: 0, first: 0, end: 0, records: 0, rows: 0, cols: 0 },
        };
        match client.next()? {
            Reply::Welcome(welcome) => client.welcome = welcome,
            Reply::Refused(why) => return Err(HolderError::Refused(why)),
            _ => return Err(HolderError::Protocol(WireError::Malformed(64))),
        }
        Ok(client)
    }

    pub fn send(&mut self, request: &Request) -> Result<(), HolderError> {
        Ok(self.stream.write_all(&request.encode())?)
    }

    /// The next reply; waits for it.
    pub fn next(&mut self) -> Result<Reply, HolderError> {
        loop {
            if let Some(reply) = self.decoder.reply()? {
                return Ok(reply);
            }
            self.fill()?;
        }
    }

    /// A reply that is already here, after the socket was found readable and `fill` was called.
    pub fn ready(&mut self) -> Result<Option<Reply>, HolderError> {
        Ok(self.decoder.reply()?)
    }

    /// Reads once from the socket.
    pub fn fill(&mut self) -> Result<(), HolderError> {
        match self.stream.read(&mut self.buffer)? {
            0 => Err(HolderError::Closed),
            count => {
                self.decoder.feed(&self.buffer[..count]);
                Ok(())
            }
        }
    }

    /// Sends and waits until the holder took it; data that comes in between is dropped, so use it on a connection that follows nothing.
    pub fn request(&mut self, request: &Request) -> Result<(), HolderError> {
        self.send(request)?;
        self.send(&Request::Sync)?;
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
