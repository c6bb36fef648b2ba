//! Tells when nobody is at the other end any more, or when somebody wants us to end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::asked::Asked;

/// Input whose end is told at once. The SDK would first wait some seconds for the answers to what was asked, which is what
/// nobody will give.
pub struct Input<R> {
    input: R,
    asked: Arc<Asked>,
}

impl<R> Input<R> {
    pub const fn new(input: R, asked: Arc<Asked>) -> Self {
        Self { input, asked }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, has_room) = (buffer.filled().len(), buffer.remaining() > 0);
        let polled = Pin::new(&mut self.input).poll_read(context, buffer);
        let is_end = match &polled {
            Poll::Ready(Ok(())) => has_room && buffer.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_end {
            self.asked.leave();
        }
        polled
    }
}

/// Ends with a signal, or when the reader of our output has gone. The end of our input is the transport's to see: a client
/// that was killed may have left that open in a child of its own.
pub fn left() -> io::Result<impl Future<Output = ()>> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let [mut terminate, mut interrupt, mut hangup] = signals.map(signal);
    let output = rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 0)?;
    // A file is never left by its reader, and cannot be watched.
    // SAFETY: the descriptor is owned, and closed with what it is registered in.
    let output = unsafe { AsyncFd::register_with_interest(output, Interest::ERROR) }.ok();
    Ok(async move {
        tokio::select! {
            () = told(&mut terminate) => {}
            () = told(&mut interrupt) => {}
            () = told(&mut hangup) => {}
            () = unread(output.as_ref()) => {}
        }
    })
}

async fn told(signal: &mut io::Result<Signal>) {
    match signal {
        Ok(signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

async fn unread(output: Option<&AsyncFd<OwnedFd>>) {
    let Some(output) = output else { return std::future::pending().await };
    loop {
        let Ok(mut ready) = output.ready(Interest::ERROR).await else { return std::future::pending().await };
        if ready.ready().is_error() || ready.ready().is_write_closed() {
            return;
        }
        ready.clear_ready();
    }
}
