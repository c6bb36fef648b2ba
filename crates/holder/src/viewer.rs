//! One connection to the holder: what it asked for and how far it has come.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::log::LogReader;
use crate::wire::{Decoder, MAX_DATA, Reply, Request, WireError, data_head};

/// Past this much unsent, its requests wait: whoever asks must also listen.
const MAX_UNSENT: usize = 256 << 10;

pub struct Viewer {
    stream: UnixStream,
    decoder: Decoder,
    unsent: Vec<u8>,
    sent: usize,
    /// The next byte of the log it wants.
    following: Option<u64>,
    reader: Option<LogReader>,
    progress: Option<(u64, u64)>,
    /// The socket took nothing the last time.
    is_full: bool,
    pub is_greeted: bool,
    is_gone: bool,
    was_told_exit: bool,
}

impl Viewer {
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            decoder: Decoder::default(),
            unsent: Vec::new(),
            sent: 0,
            following: None,
            reader: None,
            progress: None,
            is_full: false,
            is_greeted: false,
            is_gone: false,
            was_told_exit: false,
        }
    }

    pub const fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub fn leave(&mut self) {
        self.is_gone = true;
    }

    pub fn wants_to_send(&self) -> bool {
        self.is_full || self.sent < self.unsent.len()
    }

    pub fn may_ask(&self) -> bool {
        self.unsent.len() - self.sent < MAX_UNSENT
    }

    pub fn follow(&mut self, from: u64) {
        self.following = Some(from);
    }

    pub fn watch(&mut self) {
        self.progress = Some((u64::MAX, u64::MAX));
    }

    /// Reads what it asks, one socket read at a time.
    pub fn requests(&mut self, buffer: &mut [u8]) -> Result<Vec<Request>, WireError> {
        match self.stream.read(buffer) {
            Ok(0) => self.is_gone = true,
            Ok(count) => self.decoder.feed(&buffer[..count]),
            Err(error) if is_retry(&error) => {}
            Err(_) => self.is_gone = true,
        }
        let mut requests = Vec::new();
        while let Some(request) = self.decoder.request()? {
            requests.push(request);
        }
        Ok(requests)
    }

    pub fn tell(&mut self, reply: &Reply) {
        self.unsent.extend_from_slice(&reply.encode());
        self.flush();
    }

    /// Sends what waits, as far as the socket takes it.
    pub fn flush(&mut self) {
        self.is_full = false;
        while self.sent < self.unsent.len() {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_gone |= error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            }
        }
        self.sent = 0;
        if self.unsent.capacity() > MAX_DATA / 4 {
            // An idle viewer keeps no buffer.
            self.unsent = Vec::new();
        } else {
            self.unsent.clear();
        }
    }

    /// Fresh output, straight from where it was read; a viewer that is behind gets it from the log later.
    pub fn offer(&mut self, offset: u64, bytes: &[u8], end: u64) {
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
            Err(_) => {
                self.is_gone = true;
                return;
            }
        };
        self.following = Some(offset + bytes.len() as u64);
        // The rest of a frame that was cut must follow before anything else.
        let (head_rest, bytes_rest) = (&head[count.min(head.len())..], &bytes[count.saturating_sub(head.len())..]);
        self.unsent.extend_from_slice(head_rest);
        self.unsent.extend_from_slice(bytes_rest);
    }

    /// One frame of the log for a viewer that is behind; true while there is more to send.
    pub fn catch_up(&mut self, dir: &Path, first: u64, end: u64) -> bool {
        let Some(next) = self.following else { return false };
        if self.wants_to_send() || self.is_gone {
            return false;
        }
        let next = next.max(first);
        self.following = Some(next);
        if next >= end {
            return false;
        }
        let reader = self.reader.get_or_insert_with(|| LogReader::new(dir));
        let mut buffer = vec![0; MAX_DATA.min(usize::try_from(end - next).unwrap_or(MAX_DATA))];
        match reader.read_at(next, &mut buffer) {
            Ok(0) | Err(_) => {
                // It can read the log's files itself; a holder never stops for one viewer.
                self.is_gone = true;
                false
            }
            Ok(count) => {
                self.offer(next, &buffer[..count], end);
                self.is_behind(end)
            }
        }
    }

    pub fn is_behind(&self, end: u64) -> bool {
        self.following.is_some_and(|next| next < end)
    }

    /// How far log and journal have come, if it watches and does not know yet.
    pub fn tell_progress(&mut self, end: u64, records: u64) {
        if self.progress.is_some_and(|known| known != (end, records)) && !self.wants_to_send() {
            self.progress = Some((end, records));
            self.tell(&Reply::Progress { end, records });
        }
    }

    /// The last frame, once everything before it was handed to the socket; true when it has been.
    pub fn tell_exit(&mut self, exit: &Reply, end: u64) -> bool {
        if !self.was_told_exit && !self.is_behind(end) && !self.wants_to_send() {
            self.was_told_exit = true;
            self.tell(exit);
        }
        self.is_gone || (self.was_told_exit && !self.wants_to_send())
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
