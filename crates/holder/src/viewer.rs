//! One client connection of a holder: its pending requests and replies and its position in the log.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::log::LogReader;
use crate::wire::{Decoder, MAX_DATA, Reply, Request, WireError, data_head};

/// With this much unsent, the holder reads no more requests until the client reads its replies.
const MAX_UNSENT: usize = 256 << 10;
/// With more unsent replies than this, the connection is closed.
const MAX_UNSENT_REPLIES: usize = 1 << 20;

pub struct Viewer {
    stream: UnixStream,
    /// The process that connected.
    pub pid: u32,
    decoder: Decoder,
    /// Input that arrived while the input queue was full. Later requests of this viewer wait too.
    paused: Option<Request>,
    unsent: Vec<u8>,
    sent: usize,
    /// The size of its terminal, if it has sent one.
    pub size: Option<(u16, u16)>,
    /// Orders viewers by activity: the one with the highest number typed or changed its size last.
    pub active_at: u64,
    has_followed: bool,
    /// Offset of the next log byte to send.
    following: Option<u64>,
    /// Open while the viewer is behind the end of the log.
    reader: Option<LogReader>,
    progress: Option<(u64, u64)>,
    /// The socket accepted no bytes at the last write.
    is_full: bool,
    pub is_handshake_done: bool,
    is_refused: bool,
    /// The client no longer reads; requests it sent before are still handled.
    is_read_closed: bool,
    is_gone: bool,
    is_exit_sent: bool,
}

impl Viewer {
    pub fn new(stream: UnixStream, pid: u32) -> Self {
        Self {
            stream,
            pid,
            decoder: Decoder::default(),
            paused: None,
            unsent: Vec::new(),
            sent: 0,
            size: None,
            active_at: 0,
            has_followed: false,
            following: None,
            reader: None,
            progress: None,
            is_full: false,
            is_handshake_done: false,
            is_refused: false,
            is_read_closed: false,
            is_gone: false,
            is_exit_sent: false,
        }
    }

    pub const fn is_following(&self) -> bool {
        self.following.is_some()
    }

    pub const fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub const fn wants_to_send(&self) -> bool {
        self.is_full || self.sent < self.unsent.len()
    }

    pub const fn accepts_requests(&self) -> bool {
        self.paused.is_none() && self.unsent.len() - self.sent < MAX_UNSENT
    }

    pub const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Puts back a request that cannot be handled now.
    pub fn pause(&mut self, request: Request) {
        self.paused = Some(request);
    }

    /// Returns the size of the viewer's terminal if it has displayed the session.
    pub fn shown_size(&self) -> Option<(u16, u16)> {
        self.size.filter(|_| self.has_followed)
    }

    pub const fn follow(&mut self, from: u64) {
        self.has_followed = true;
        if !self.is_read_closed {
            self.following = Some(from);
        }
    }

    pub const fn watch(&mut self) {
        self.progress = Some((u64::MAX, u64::MAX));
    }

    /// Reads once from the socket.
    pub fn receive(&mut self, buffer: &mut [u8]) {
        match self.stream.read(buffer) {
            Ok(0) => self.is_gone = true,
            Ok(count) => self.decoder.feed(&buffer[..count]),
            Err(error) if is_retry(&error) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// Returns the next complete request; none after a refused one.
    pub fn next_request(&mut self) -> Result<Option<Request>, WireError> {
        if self.is_refused {
            return Ok(None);
        }
        match self.paused.take() {
            Some(request) => Ok(Some(request)),
            None => self.decoder.request(),
        }
    }

    /// Sends the reason and closes the connection.
    pub fn refuse(&mut self, why: String) {
        self.queue_reply(&Reply::Refused(why));
        self.is_refused = true;
        self.is_gone = true;
    }

    pub fn queue_reply(&mut self, reply: &Reply) {
        if self.is_read_closed {
            return;
        }
        self.unsent.extend_from_slice(&reply.encode());
        self.flush();
        self.is_gone |= self.unsent.len() - self.sent > MAX_UNSENT_REPLIES;
    }

    /// Sends pending bytes until the socket is full.
    pub fn flush(&mut self) {
        self.is_full = false;
        while self.sent < self.unsent.len() {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.stop_sending(),
            }
        }
        self.sent = 0;
        if self.unsent.capacity() > MAX_DATA / 4 {
            // Do not keep a large buffer for an idle viewer.
            self.unsent = Vec::new();
        } else {
            self.unsent.clear();
        }
    }

    fn stop_sending(&mut self) {
        self.is_read_closed = true;
        self.is_full = false;
        self.unsent = Vec::new();
        self.sent = 0;
        self.following = None;
        self.reader = None;
    }

    /// Sends new output directly from the read buffer. A viewer that is behind gets it from the log later.
    pub fn push_output(&mut self, offset: u64, bytes: &[u8], end: u64) {
        if self.following != Some(offset) || self.wants_to_send() || bytes.len() > MAX_DATA {
            return;
        }
        let head = data_head(offset, end, bytes.len());
        let count = match self.stream.write_vectored(&[IoSlice::new(&head), IoSlice::new(bytes)]) {
            Ok(count) => count,
            Err(error) if is_retry(&error) => {
                self.is_full = true;
                return;
            }
            Err(_) => return self.stop_sending(),
        };
        self.following = Some(offset + bytes.len() as u64);
        // The rest of a partially sent frame must be sent before anything else.
        let (head_rest, bytes_rest) = (&head[count.min(head.len())..], &bytes[count.saturating_sub(head.len())..]);
        self.unsent.extend_from_slice(head_rest);
        self.unsent.extend_from_slice(bytes_rest);
    }

    /// Sends one frame from the log to a viewer that is behind.
    pub fn catch_up(&mut self, dir: &Path, first: u64, end: u64) {
        let Some(next) = self.following else { return };
        if self.wants_to_send() || self.is_gone {
            return;
        }
        let next = next.max(first);
        self.following = Some(next);
        if next >= end {
            self.reader = None;
            return;
        }
        let reader = self.reader.get_or_insert_with(|| LogReader::new(dir));
        let mut buffer = vec![0; MAX_DATA.min(usize::try_from(end - next).unwrap_or(MAX_DATA))];
        match reader.read_at(next, &mut buffer) {
            // Close the connection: the client can read the log files itself, and the holder must not stop for it.
            Ok(0) | Err(_) => self.is_gone = true,
            Ok(count) => self.push_output(next, &buffer[..count], end),
        }
    }

    pub fn is_behind(&self, end: u64) -> bool {
        self.following.is_some_and(|next| next < end)
    }

    /// Sends the end of the log and the number of journal records to a watching client if they changed.
    pub fn queue_progress(&mut self, (end, records): (u64, u64)) {
        if self.progress.is_some_and(|known| known != (end, records)) && !self.wants_to_send() {
            self.progress = Some((end, records));
            self.queue_reply(&Reply::Progress { end, records });
        }
    }

    /// Sends the exit as the last frame, after all output. Returns true if it is sent or the client cannot receive it.
    pub fn queue_exit(&mut self, exit: &Reply, end: u64) -> bool {
        if !self.is_handshake_done {
            return true;
        }
        if !self.is_exit_sent && !self.is_behind(end) && !self.wants_to_send() {
            self.is_exit_sent = true;
            self.queue_reply(exit);
        }
        self.is_gone || self.is_read_closed || (self.is_exit_sent && !self.wants_to_send())
    }
}

impl AsFd for Viewer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
