//! Standard input and output; detects when the client disconnects or a signal arrives.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use coven_files::{Limit, ReadError};
use rustix::fs::FileType;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::pending::PendingSets;

pub const MESSAGE: Limit = Limit::new("a message to `coven mcp`", 16 << 20);

/// Input that reports its end immediately. The SDK would first wait some seconds for pending calls, which can no longer
/// be answered.
pub struct Input<R> {
    input: R,
    pending: Arc<PendingSets>,
    /// Number of bytes since the last line break.
    line: u64,
}

impl<R> Input<R> {
    pub const fn new(input: R, pending: Arc<PendingSets>) -> Self {
        Self { input, pending, line: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, has_room) = (buffer.filled().len(), buffer.remaining() > 0);
        let mut polled = Pin::new(&mut self.input).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = polled {
            let fresh = &buffer.filled()[before..];
            self.line = match fresh.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => (fresh.len() - end - 1) as u64,
                None => self.line + fresh.len() as u64,
            };
            // The SDK buffers a line until it ends, so an endless line must be rejected.
            if self.line > MESSAGE.bytes {
                note(format_args!("stopping: {}", ReadError::LongStream { limit: MESSAGE }));
                // A failed read must not return bytes.
                buffer.set_filled(before);
                polled = Poll::Ready(Err(ReadError::LongStream { limit: MESSAGE }.into()));
            }
        }
        let is_end = match &polled {
            Poll::Ready(Ok(())) => has_room && buffer.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_end {
            self.pending.disconnect();
        }
        polled
    }
}

/// Opens standard input. A pipe or socket, which clients use, is read without an extra thread.
pub fn input() -> Box<dyn AsyncRead + Send + Unpin> {
    let own = || {
        let fd = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 0)?;
        let input: Box<dyn AsyncRead + Send + Unpin> = match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
            FileType::Fifo => Box::new(pipe::Receiver::from_owned_fd(fd)?),
            FileType::Socket => Box::new(socket(fd)?),
            _ => Box::new(tokio::io::stdin()),
        };
        Ok::<_, io::Error>(input)
    };
    own().unwrap_or_else(|_| Box::new(tokio::io::stdin()))
}

/// Opens standard output, likewise.
pub fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let own = || {
        let fd = rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 0)?;
        let output: Box<dyn AsyncWrite + Send + Unpin> = match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode)
        {
            FileType::Fifo => Box::new(pipe::Sender::from_owned_fd(fd)?),
            FileType::Socket => Box::new(socket(fd)?),
            _ => Box::new(tokio::io::stdout()),
        };
        Ok::<_, io::Error>(output)
    };
    own().unwrap_or_else(|_| Box::new(tokio::io::stdout()))
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = std::os::unix::net::UnixStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Writes a line to standard error, which clients usually log. Errors are ignored.
pub fn note(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "coven mcp: {text}");
}

/// Completes on a signal, or when the reader of standard output is gone. The end of standard input is not enough: a
/// child of a killed client may keep it open.
pub fn shutdown() -> io::Result<impl Future<Output = ()>> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let [mut terminate, mut interrupt, mut hangup] = signals.map(signal);
    let output = rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 0)?;
    // Registration fails for a regular file, which has no reader.
    // SAFETY: the `AsyncFd` owns the descriptor and closes it when dropped.
    let output = unsafe { AsyncFd::register_with_interest(output, Interest::ERROR) }.ok();
    Ok(async move {
        tokio::select! {
            () = received(&mut terminate) => {}
            () = received(&mut interrupt) => {}
            () = received(&mut hangup) => {}
            () = reader_closed(output.as_ref()) => {}
        }
    })
}

async fn received(signal: &mut io::Result<Signal>) {
    match signal {
        Ok(signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

async fn reader_closed(output: Option<&AsyncFd<OwnedFd>>) {
    let Some(output) = output else { return std::future::pending().await };
    loop {
        let Ok(mut ready) = output.ready(Interest::ERROR).await else { return std::future::pending().await };
        if ready.ready().is_error() || ready.ready().is_write_closed() {
            return;
        }
        ready.clear_ready();
    }
}

#[cfg(test)]
mod tests {
    use coven_interop::questions::QuestionFolder;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn an_endless_message_is_refused_at_the_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let pending = PendingSets::new(QuestionFolder::at(folder.path().join("sessions")));
        let mut input = Input::new(tokio::io::repeat(b'x'), pending.clone());
        let mut kept = Vec::new();
        let error = input.read_to_end(&mut kept).await.expect_err("an endless message");
        assert_eq!(error.to_string(), "the input is larger than 16 MiB, the limit for a message to `coven mcp`");
        pending.disconnected().await;

        let lines = [vec![b'x'; 10 << 20], b"\n".to_vec()].concat().repeat(3);
        let mut input = Input::new(&lines[..], pending);
        kept.clear();
        assert_eq!(input.read_to_end(&mut kept).await.expect("every line is within the limit"), lines.len());
    }
}
