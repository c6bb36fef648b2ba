//! One connection to the holder: what it asked for and how far it has come.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::log::LogReader;
use crate::wire::{Decoder, MAX_DATA, Reply, Request, WireError, data_head};

/// Past this much unsent, its requests wait: whoever asks must also listen.
const MAX_UNSENT: usize = 256 << 10;
/// Past this much that was told to it and not read, it is given up.
const GIVE_UP: usize = 1 << 20;

pub struct Viewer {
    stream: UnixStream,
    /// The process that connected.
    pub pid: u32,
    decoder: Decoder,
    /// Input that came while the harness's queue was full; what follows it waits too.
    paused: Option<Request>,
    unsent: Vec<u8>,
    sent: usize,
    /// The size of its terminal, if it has sent one.
    pub size: Option<(u16, u16)>,
    /// Orders viewers by use: the one with the greatest number typed or changed its size last.
    pub active_at: u64,
    has_followed: bool,
    /// The next byte of the log it wants.
    following: Option<u64>,
    /// Open while it is behind.
    reader: Option<LogReader>,
    progress: Option<(u64, u64)>,
    /// The socket took nothing the last time.
    is_full: bool,
    pub is_greeted: bool,
    is_refused: bool,
    /// It closed its end; what it asked before that still counts.
    is_deaf: bool,
    is_gone: bool,
    was_told_exit: bool,
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
            is_greeted: false,
            is_refused: false,
            is_deaf: false,
            is_gone: false,
            was_told_exit: false,
        }
    }

    /// Nothing more comes from it.
    pub const fn is_following(&self) -> bool {
        self.following.is_some()
    }

    pub const fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub const fn wants_to_send(&self) -> bool {
        self.is_full || self.sent < self.unsent.len()
    }

    pub const fn may_ask(&self) -> bool {
        self.paused.is_none() && self.unsent.len() - self.sent < MAX_UNSENT
    }

    pub const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Puts a request back that cannot be handled now.
    pub fn pause(&mut self, request: Request) {
        self.paused = Some(request);
    }

    /// The size of a terminal that shows the session.
    pub fn shown_size(&self) -> Option<(u16, u16)> {
        self.size.filter(|_| self.has_followed)
    }

    pub const fn follow(&mut self, from: u64) {
        self.has_followed = true;
        if !self.is_deaf {
            self.following = Some(from);
        }
    }

    pub const fn watch(&mut self) {
        self.progress = Some((u64::MAX, u64::MAX));
    }

    /// One read from the socket.
    pub fn receive(&mut self, buffer: &mut [u8]) {
        match self.stream.read(buffer) {
            Ok(0) => self.is_gone = true,
            Ok(count) => self.decoder.feed(&buffer[..count]),
            Err(error) if is_retry(&error) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// The next whole request; none after one that was refused.
    pub fn next_request(&mut self) -> Result<Option<Request>, WireError> {
        if self.is_refused {
            return Ok(None);
        }
        match self.paused.take() {
            Some(request) => Ok(Some(request)),
            None => self.decoder.request(),
        }
    }

    /// The last word to somebody who does not keep to the protocol.
    pub fn refuse(&mut self, why: String) {
        self.tell(&Reply::Refused(why));
        self.is_refused = true;
        self.is_gone = true;
    }

    pub fn tell(&mut self, reply: &Reply) {
        if self.is_deaf {
            return;
        }
        self.unsent.extend_from_slice(&reply.encode());
        self.flush();
        self.is_gone |= self.unsent.len() - self.sent > GIVE_UP;
    }

    /// Sends what waits, as far as the socket takes it.
    pub fn flush(&mut self) {
        self.is_full = false;
        while self.sent < self.unsent.len() {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.give_up_telling(),
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

    fn give_up_telling(&mut self) {
        self.is_deaf = true;
        self.is_full = false;
        self.unsent = Vec::new();
        self.sent = 0;
        self.following = None;
        self.reader = None;
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
            Err(_) => return self.give_up_telling(),
        };
        self.following = Some(offset + bytes.len() as u64);
        // The rest of a frame that was cut must follow before anything else.
        let (head_rest, bytes_rest) = (&head[count.min(head.len())..], &bytes[count.saturating_sub(head.len())..]);
        self.unsent.extend_from_slice(head_rest);
        self.unsent.extend_from_slice(bytes_rest);
    }

    /// One frame of the log for a viewer that is behind.
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
            // It can read the log's files itself; a holder never stops for one viewer.
            Ok(0) | Err(_) => self.is_gone = true,
            Ok(count) => self.offer(next, &buffer[..count], end),
        }
    }

    pub fn is_behind(&self, end: u64) -> bool {
        self.following.is_some_and(|next| next < end)
    }

    /// How far log and journal have come, if it watches and does not know yet.
    pub fn tell_progress(&mut self, (end, records): (u64, u64)) {
        if self.progress.is_some_and(|known| known != (end, records)) && !self.wants_to_send() {
            self.progress = Some((end, records));
            self.tell(&Reply::Progress { end, records });
        }
    }

    /// The last frame, once everything before it was handed to the socket; true when it has been.
    pub fn tell_exit(&mut self, exit: &Reply, end: u64) -> bool {
        if !self.is_greeted {
            return true;
        }
        if !self.was_told_exit && !self.is_behind(end) && !self.wants_to_send() {
            self.was_told_exit = true;
            self.tell(exit);
        }
        self.is_gone || self.is_deaf || (self.was_told_exit && !self.wants_to_send())
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
