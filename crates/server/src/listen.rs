//! Accepts connections, with limits on their number and on the time of a request's header.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use coven_api::error::ErrorDetail;
use coven_api::{ErrorBody, ErrorCode};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

/// Limits of a transport.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of open connections; further ones get a 503.
    pub connections: usize,
    /// Time until the header of the next request has arrived; a connection that is idle for longer is closed.
    pub header_time: Duration,
}

/// The Unix socket: only processes of this user get here. Programs keep a connection open between requests.
pub const SOCKET: Limits = Limits { connections: 1024, header_time: Duration::from_secs(600) };
/// TCP: clients without the token can connect too.
pub const TCP: Limits = Limits { connections: 256, header_time: Duration::from_secs(30) };

/// The message for a client over the limit.
const FULL: &str = "too many connections are open; close some of them and try again";

/// Serves connections until `stopping` turns true and those that are open have ended. Handlers find the address of the
/// client among the extensions of their request.
pub async fn serve<L>(mut listener: L, router: Router, limits: Limits, mut stopping: watch::Receiver<bool>)
where
    L: Listener,
    L::Addr: Clone + Send + Sync,
{
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    let stop = stopping.clone();
    loop {
        tokio::select! {
            (io, address) = listener.accept() => match room.clone().try_acquire_owned() {
                Ok(permit) => {
                    let io = Counted { io, _permit: permit };
                    connections.spawn(converse(io, address, router.clone(), limits.header_time, stop.clone()));
                }
                Err(_) => turn_away(io).await,
            },
            Some(_) = connections.join_next() => {}
            () = until_true(&mut stopping) => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
    // WebSockets have left their tasks here. They still send that the daemon stops, and close.
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let _ = room.acquire_many(all).await;
}

async fn until_true(flag: &mut watch::Receiver<bool>) {
    // A sender that is gone has stopped as well.
    let _ = flag.wait_for(|is_true| *is_true).await;
}

/// Answers the requests of one connection.
async fn converse<T, A>(
    io: Counted<T>,
    address: A,
    router: Router,
    header_time: Duration,
    mut stop: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Clone + Send + Sync + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(address.clone());
        router.clone().oneshot(request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header_time);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service).with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = until_true(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// Responds before it reads, because the client may never send a byte.
async fn turn_away(mut io: impl AsyncWrite + Unpin) {
    tracing::warn!("a connection was refused: {FULL}");
    let error = ErrorDetail { code: ErrorCode::Unavailable, message: FULL.to_owned(), details: None };
    let body = serde_json::to_string(&ErrorBody { error }).expect("plain data");
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    // The buffer of a new socket has room for it, so this does not wait for the client.
    let _ = tokio::time::timeout(Duration::from_millis(100), io.write_all(answer.as_bytes())).await;
}

/// A connection that counts until it is closed, even after an upgrade to a WebSocket.
struct Counted<T> {
    io: T,
    _permit: OwnedSemaphorePermit,
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, into)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    use axum::routing::get;
    use tokio::net::TcpListener;

    use super::*;

    /// Starts a server with these limits; it stops with the runtime.
    fn listening(runtime: &tokio::runtime::Runtime, limits: Limits) -> SocketAddr {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("bound");
        let router = Router::new().route("/", get(|| async { "hello" }));
        let stopping = watch::Sender::new(false);
        runtime.spawn(async move {
            serve(listener, router, limits, stopping.subscribe()).await;
        });
        address
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        stream
    }

    /// Reads until the server closes the connection.
    fn rest(mut stream: TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("the server closes it in time");
        text
    }

    #[test]
    fn a_connection_that_does_not_finish_its_header_is_closed() {
        let runtime = runtime();
        let address = listening(&runtime, Limits { connections: 8, header_time: Duration::from_millis(50) });
        let silent = connect(address);
        let mut half = connect(address);
        half.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n").expect("it is open");
        assert!(!rest(silent).contains("200 OK"));
        assert!(!rest(half).contains("200 OK"));
    }

    #[test]
    fn one_connection_too_many_is_refused_until_another_one_ends() {
        let runtime = runtime();
        let address = listening(&runtime, Limits { connections: 1, header_time: Duration::from_secs(60) });
        let mut first = connect(address);
        // Answered: from now on it counts.
        first.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").expect("it is open");
        first.read_exact(&mut [0; 12]).expect("an answer");
        let refused = rest(connect(address));
        assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("too many connections"), "{refused}");
        drop(first);
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        loop {
            let mut next = connect(address);
            // It is refused before this is read, and the bytes may come too late.
            let _ = next.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            let mut text = String::new();
            if next.read_to_string(&mut text).is_ok() && text.starts_with("HTTP/1.1 200 ") {
                break;
            }
            assert!(std::time::Instant::now() < deadline, "there is room again: {text}");
        }
    }
}
