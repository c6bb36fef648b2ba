//! Streams to the daemon: they differ only in how they are opened.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::{Address, ClientError};

/// Limit for connecting over a network, with the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes in both directions.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

pub(crate) type BoxedTransport = Box<dyn Transport>;

pub(crate) async fn connect(address: &Address) -> Result<BoxedTransport, ClientError> {
    let unreachable = |source| ClientError::Unreachable { address: address.clone(), source };
    match address {
        Address::Unix(socket) => {
            let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
            match is_own(&stream).map_err(unreachable)? {
                true => Ok(Box::new(stream)),
                false => Err(ClientError::NotOurs { address: address.clone() }),
            }
        }
        Address::Tcp { host, port, .. } => {
            let stream = in_time(tcp(host, *port)).await.map_err(unreachable)?;
            Ok(Box::new(stream))
        }
        #[cfg(feature = "tls")]
        Address::Tls { host, port, roots, .. } => {
            let stream = in_time(async { crate::tls::connect(host, tcp(host, *port).await?, roots).await }).await;
            Ok(Box::new(stream.map_err(unreachable)?))
        }
    }
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    // Keystrokes are small writes: the kernel must not collect them.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn in_time<T>(connecting: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Connects, without an async runtime, to a socket whose peer runs as this user.
pub(crate) fn connect_blocking(socket: &Path) -> io::Result<std::os::unix::net::UnixStream> {
    let stream = std::os::unix::net::UnixStream::connect(socket)?;
    match is_own(&stream)? {
        true => Ok(stream),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "a process of another user listens there")),
    }
}

/// Returns whether the peer runs as this user. Prompts and environments are sent over the stream.
fn is_own(stream: &impl AsFd) -> io::Result<bool> {
    Ok(is_own_uid(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw()))
}

fn is_own_uid(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
}
