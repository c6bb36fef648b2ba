//! Viewer handling: accepts connections, sends output and handles requests.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Holder;
use crate::input_queue::is_typed;
use crate::journal::Record;
use crate::process;
use crate::termination::signal_foreground;
use crate::viewer::Viewer;
use crate::wire::{MAX_NOTE, Reply, Request, VERSION, Welcome};

/// Further connections are rejected. Each viewer uses up to two file descriptors.
const MAX_VIEWERS: usize = 256;
/// How long to wait after `accept` failed, usually for lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

impl Holder {
    pub(super) fn accept(&mut self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Probably out of file descriptors. Without a delay the loop would spin.
                Err(_) => {
                    self.accept_at = Some(Instant::now() + ACCEPT_RETRY_DELAY);
                    return;
                }
            };
            let peer = rustix::net::sockopt::socket_peercred(&stream);
            let Some(peer) = peer.ok().filter(|peer| peer.uid == rustix::process::geteuid()) else { continue };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let mut viewer = Viewer::new(stream, peer.pid.as_raw_pid().cast_unsigned());
            if self.viewers.len() < MAX_VIEWERS {
                self.viewers.push(viewer);
            } else {
                viewer.refuse("too many clients are connected to this session".to_owned());
            }
        }
    }

    pub(super) fn feed_viewers(&mut self) {
        let (first, end, progress) = (self.recorder.first(), self.recorder.end(), self.recorder.progress());
        for viewer in &mut self.viewers {
            viewer.catch_up(&self.spec.dir, first, end);
            viewer.queue_progress(progress);
        }
        for index in 0..self.viewers.len() {
            if self.viewers[index].is_paused() && self.wants_input() {
                self.handle_all(index);
            }
        }
        let gone = self.viewers.iter().filter(|viewer| viewer.is_gone() && viewer.shown_size().is_some());
        let last_gone = gone.map(|viewer| viewer.active_at).max();
        self.viewers.retain(|viewer| !viewer.is_gone());
        if let Some(last_gone) = last_gone {
            self.fall_back(last_gone);
        }
    }

    /// Resizes the session to the viewer that was just used.
    fn make_active(&mut self, index: usize) {
        let viewer = &mut self.viewers[index];
        if let Some((rows, cols)) = viewer.size {
            self.activity += 1;
            viewer.active_at = self.activity;
            self.resize(rows, cols);
        }
    }

    /// Resizes the session to the most recently active remaining viewer if a viewer that left had set the size. Without
    /// a remaining viewer the size stays.
    fn fall_back(&mut self, last_gone: u64) {
        let next = self.viewers.iter().filter(|viewer| viewer.shown_size().is_some()).max_by_key(|it| it.active_at);
        if let Some(next) = next.filter(|next| next.active_at < last_gone)
            && let Some((rows, cols)) = next.size
        {
            self.resize(rows, cols);
        }
    }

    pub(super) fn serve(&mut self, index: usize) {
        let mut buffer = [0; 16 << 10];
        self.viewers[index].receive(&mut buffer);
        self.handle_all(index);
    }

    fn handle_all(&mut self, index: usize) {
        loop {
            match self.viewers[index].next_request() {
                Ok(Some(request)) => {
                    // If the harness does not read, only input has to wait: any client can still end the session.
                    let is_input = matches!(request, Request::Input(_) | Request::InputAt { .. });
                    if is_input && !self.wants_input() {
                        return self.viewers[index].pause(request);
                    }
                    self.handle(index, request);
                }
                Ok(None) => return,
                Err(error) => return self.viewers[index].refuse(error.to_string()),
            }
        }
    }

    fn handle(&mut self, index: usize, request: Request) {
        let viewer = &mut self.viewers[index];
        if !viewer.is_handshake_done && !matches!(request, Request::Hello { .. }) {
            return viewer.refuse("the first request must be Hello".to_owned());
        }
        match request {
            Request::Hello { .. } => {
                viewer.is_handshake_done = true;
                let welcome = Welcome {
                    version: VERSION,
                    pid: self.harness.pid,
                    started_ticks: self.started_ticks,
                    first: self.recorder.first(),
                    end: self.recorder.end(),
                    records: self.recorder.records(),
                    rows: self.spec.rows,
                    cols: self.spec.cols,
                };
                viewer.queue_reply(&Reply::Welcome(welcome));
            }
            // A viewer inside the session would print the output back into the session, which loops forever.
            Request::Follow { .. } if process::comes_from(viewer.pid, std::process::id()) => {
                viewer.refuse(
                    "this terminal belongs to the session, and a session cannot be shown inside itself".to_owned(),
                );
            }
            Request::Follow { from } => viewer.follow(from),
            Request::Watch => {
                viewer.watch();
                viewer.queue_progress((self.recorder.end(), self.recorder.records()));
            }
            Request::Input(bytes) => {
                if is_typed(&bytes) {
                    self.make_active(index);
                }
                self.take_input(bytes, true);
            }
            Request::InputAt { offset, bytes } => self.take_input_at(index, offset, bytes),
            Request::TerminalReply(bytes) => {
                // An attached terminal answers such queries itself. An answer that has to be queued comes too late.
                if self.wants_input() && !self.viewers.iter().any(Viewer::is_following) {
                    self.take_input(bytes, false);
                }
            }
            Request::Resize { rows, cols } => {
                viewer.size = Some((rows, cols));
                self.make_active(index);
            }
            Request::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(number).filter(|_| self.exit.is_none()) {
                    signal_foreground(&self.harness.output, self.harness.pid, signal);
                }
            }
            Request::End { how, grace_ms } => self.end(how, Duration::from_millis(u64::from(grace_ms))),
            // A process of the session must not write its own history.
            Request::Note(_) if process::comes_from(viewer.pid, std::process::id()) => {}
            Request::Note(text) if text.len() <= MAX_NOTE => self.recorder.note(Record::Note(text)),
            Request::Note(_) => {}
            Request::CloseInput => self.is_input_closing = true,
            Request::Sync => {
                // The client may read the journal next, so write pending records to it first.
                self.recorder.flush();
                self.viewers[index].queue_reply(&Reply::Accepted);
            }
        }
    }
}
