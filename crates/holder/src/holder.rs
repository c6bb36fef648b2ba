//! The holder's life: keep every byte, serve its socket, write down how it ended.

mod waiting;

use std::io;
use std::ops::Range;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use coven_domain::session::ExitStatus;
use coven_domain::session::RecordInput;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus, wait};
use rustix::termios::LocalModes;

use crate::ending::{Ending, Left, signal_group};
use crate::first_words::FirstWords;
use crate::journal::Record;
use crate::pipe_rest::PipeRest;
use crate::recorder::{self, Recorder};
use crate::signals::Signals;
use crate::spec::Spec;
use crate::stage::{Harness, as_pid};
use crate::stderr::Stderr;
use crate::typed::{Typed, is_typed};
use crate::viewer::Viewer;
use crate::wire::{How, MAX_BODY, MAX_DATA, Reply, Request, VERSION, Welcome};
use crate::{SOCKET, process};

const READ_BYTES: usize = MAX_DATA;
const STDERR_BYTES: usize = 16 << 10;
/// More than a terminal can hold that nobody has read yet.
const TERMINAL_HOLDS: u64 = 1 << 20;
/// How long to wait before a terminal that the harness closed is looked at again.
const REOPEN: Duration = Duration::from_millis(100);
/// Each has two descriptors at most; beyond this they are turned away.
const MAX_VIEWERS: usize = 256;
/// How long to wait when there was no descriptor for a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// How long viewers may take to fetch the end of a finished session; the log keeps it for those who are slower.
const LINGER: Duration = Duration::from_secs(3);
/// What a harness gets when the holder itself is told to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

pub struct Holder {
    spec: Spec,
    listener: UnixListener,
    accept_at: Option<Instant>,
    signals: Signals,
    recorder: Recorder,
    harness: Harness,
    started_ticks: u64,
    viewers: Vec<Viewer>,
    buffer: Box<[u8]>,
    /// Read and not yet written: the disk refused it. Nothing more is read until it is.
    held: Range<usize>,
    typed: Typed,
    first_words: Option<FirstWords>,
    /// How many bytes of input were ever taken and noted down.
    input_end: u64,
    stderr: Stderr,
    is_input_closing: bool,
    /// How often a viewer typed or changed its size.
    activity: u64,
    /// The terminal has no other end right now, or the pipe is closed.
    is_output_closed: bool,
    pipe_rest: PipeRest,
    reopen_at: Option<Instant>,
    ending: Option<Ending>,
    left: Left,
    exit: Option<ExitStatus>,
    is_exit_noted: bool,
    linger_until: Option<Instant>,
}

impl Holder {
    pub fn new(
        spec: Spec,
        listener: UnixListener,
        signals: Signals,
        recorder: Recorder,
        harness: Harness,
        started_ticks: u64,
    ) -> Self {
        Self {
            spec,
            listener,
            accept_at: None,
            signals,
            recorder,
            harness,
            started_ticks,
            viewers: Vec::new(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            held: 0..0,
            typed: Typed::default(),
            first_words: None,
            input_end: 0,
            stderr: Stderr::default(),
            is_input_closing: false,
            activity: 0,
            is_output_closed: false,
            pipe_rest: PipeRest::default(),
            reopen_at: None,
            ending: None,
            left: Left::Harness,
            exit: None,
            is_exit_noted: false,
            linger_until: None,
        }
    }

    pub fn live(mut self) -> ExitCode {
        self.type_first();
        // It may have ended before anybody listened for signals' wake-ups.
        self.reap();
        loop {
            let found = self.wait_for_something();
            let now = Instant::now();
            if found.signal {
                self.signals.clear();
                self.reap();
                if self.signals.take_stop() {
                    self.recorder.note(Record::Note("the holder was told to stop".to_owned()));
                    self.end(How::Kill, STOP_GRACE);
                }
            }
            if found.output {
                self.read_output();
            }
            if found.stderr {
                self.read_stderr();
            }
            if found.listener {
                self.accept();
            }
            for (index, flags) in found.viewers {
                self.viewers[index].flush();
                if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && self.viewers[index].may_ask() {
                    self.serve(index);
                }
            }
            self.write_input();
            self.do_what_is_due(now);
            self.feed_viewers();
            if self.is_over(now) {
                let _ = std::fs::remove_file(self.spec.dir.join(SOCKET));
                return ExitCode::SUCCESS;
            }
        }
    }

    /// What the spec wants typed: into a pipe at once, into a terminal when the program is up.
    fn type_first(&mut self) {
        let mut typed = std::mem::take(&mut self.spec.typed);
        if self.harness.is_terminal {
            self.first_words = FirstWords::new(typed, Instant::now());
        } else if !typed.is_empty() {
            typed.push('\n');
            self.take_pieces(typed.as_bytes());
        }
    }

    fn take_pieces(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(MAX_BODY) {
            self.take_input(piece.to_vec(), true);
        }
    }

    // --- output ------------------------------------------------------------------------------------------------

    fn read_output(&mut self) {
        if !self.held.is_empty() {
            return;
        }
        let mut filled = 0;
        while filled < self.buffer.len() {
            match rustix::io::read(&self.harness.output, &mut self.buffer[filled..]) {
                Ok(0) => {
                    self.is_output_closed = true;
                    break;
                }
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // On Linux a terminal whose other end nobody holds says EIO; it may be opened again.
                Err(_) => {
                    self.is_output_closed = true;
                    if self.harness.is_terminal && self.exit.is_none() {
                        self.reopen_at = Some(Instant::now() + REOPEN);
                    }
                    break;
                }
            }
        }
        self.held = 0..filled;
        if !self.harness.is_terminal {
            self.pipe_rest.read(filled, Instant::now());
        }
        if let Some(words) = self.first_words.as_mut().filter(|_| filled > 0) {
            words.heard(Instant::now());
        }
        self.store_output();
        if self.pipe_rest.length() >= recorder::WINDOW {
            self.recorder.close_group();
        }
    }

    /// Hands what was read to the viewers who are up to date, then writes it to the log: whoever types waits for the echo.
    /// What the disk refuses stays here, and was shown a moment too early.
    fn store_output(&mut self) {
        let offset = self.recorder.end();
        if !self.held.is_empty() {
            let bytes = &self.buffer[self.held.clone()];
            for viewer in &mut self.viewers {
                viewer.offer(offset, bytes, offset + bytes.len() as u64);
            }
        }
        while !self.held.is_empty() && !self.recorder.is_refused() {
            self.held.start += self.recorder.output(&self.buffer[self.held.clone()]);
        }
    }

    /// One record of what is there now.
    fn read_stderr(&mut self) -> usize {
        let Some(stderr) = &self.harness.stderr else { return 0 };
        let mut buffer = [0; STDERR_BYTES];
        match rustix::io::read(stderr, &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => 0,
            Ok(0) | Err(_) => {
                self.harness.stderr = None;
                0
            }
            Ok(count) => {
                self.stderr.take(&buffer[..count], &mut self.recorder);
                count
            }
        }
    }

    // --- time --------------------------------------------------------------------------------------------------

    fn do_what_is_due(&mut self, now: Instant) {
        self.recorder.tick(now);
        self.store_output();
        if self.reopen_at.is_some_and(|at| now >= at) {
            self.reopen_at = None;
            self.is_output_closed = false;
            self.read_output();
        }
        if let Some((bytes, is_all)) = self.first_words.as_mut().and_then(|words| words.due(now)) {
            self.take_pieces(&bytes);
            if is_all {
                self.first_words = None;
            }
        }
        self.pipe_rest.tick(now);
        self.accept_at = self.accept_at.filter(|at| now < *at);
        let is_ended = match &mut self.ending {
            Some(ending) if !self.is_exit_noted => ending.step(self.left, now),
            _ => true,
        };
        if is_ended {
            self.note_exit(now);
        }
    }

    // --- the end -----------------------------------------------------------------------------------------------

    /// Collects the harness's status, and that of orphans that came to us.
    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == as_pid(self.harness.pid) => {
                    self.exit = Some(exit_status(status));
                    self.typed.clear();
                    self.first_words = None;
                    self.reopen_at = None;
                    // What it wrote last is read even if its terminal looked closed before.
                    self.is_output_closed = false;
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => {
                    self.left = if self.exit.is_some() { Left::Family } else { Left::Harness };
                    return;
                }
                Err(_) => {
                    self.left = Left::Nobody;
                    return;
                }
            }
        }
    }

    fn note_exit(&mut self, now: Instant) {
        let Some(status) = self.exit.filter(|_| !self.is_exit_noted) else { return };
        // Everything it wrote comes first, and a full disk is waited for.
        if !self.drain_output() || !self.drain_stderr() {
            return;
        }
        if self.ending.take().is_some() && self.left != Left::Nobody {
            self.recorder.note(Record::Note("processes of the session are still there after the kill".to_owned()));
        }
        self.stderr.end(&mut self.recorder);
        if self.recorder.finish(status) {
            self.is_exit_noted = true;
            self.linger_until = Some(now + LINGER);
        }
    }

    /// Reads what was written up to now, and not what others who hold the stream go on to write.
    fn drain_output(&mut self) -> bool {
        let in_there = match self.harness.is_terminal {
            true => TERMINAL_HOLDS,
            false => rustix::io::ioctl_fionread(&self.harness.output).unwrap_or(0),
        };
        let until = self.recorder.end() + (self.held.end - self.held.start) as u64 + in_there;
        while self.held.is_empty() && !self.is_output_closed && self.recorder.end() < until {
            let before = self.recorder.end();
            self.read_output();
            if self.held.is_empty() && self.recorder.end() == before {
                break;
            }
        }
        self.held.is_empty()
    }

    fn drain_stderr(&mut self) -> bool {
        let Some(stderr) = &self.harness.stderr else { return true };
        let mut left = usize::try_from(rustix::io::ioctl_fionread(stderr).unwrap_or(0)).unwrap_or(usize::MAX);
        while left > 0 && self.recorder.wants_input() {
            match self.read_stderr() {
                0 => return true,
                count => left = left.saturating_sub(count),
            }
        }
        left == 0
    }

    fn is_over(&mut self, now: Instant) -> bool {
        let Some(status) = self.exit.filter(|_| self.is_exit_noted) else { return false };
        let end = self.recorder.end();
        let exit = Reply::Exited { status, end };
        let mut is_told = true;
        for viewer in &mut self.viewers {
            is_told &= viewer.tell_exit(&exit, end);
        }
        is_told || self.linger_until.is_some_and(|until| now >= until)
    }

    // --- viewers -----------------------------------------------------------------------------------------------

    fn accept(&mut self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // No descriptor left, most likely: without a pause this would be asked for ever.
                Err(_) => {
                    self.accept_at = Some(Instant::now() + ACCEPT_AGAIN);
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
                viewer.refuse("too many are connected".to_owned());
            }
        }
    }

    fn feed_viewers(&mut self) {
        let (first, end, progress) = (self.recorder.first(), self.recorder.end(), self.recorder.progress());
        for viewer in &mut self.viewers {
            viewer.catch_up(&self.spec.dir, first, end);
            viewer.tell_progress(progress);
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

    /// Gives the session the size of the viewer that is in use now.
    fn make_active(&mut self, index: usize) {
        let viewer = &mut self.viewers[index];
        if let Some((rows, cols)) = viewer.size {
            self.activity += 1;
            viewer.active_at = self.activity;
            self.resize(rows, cols);
        }
    }

    /// A viewer left: if it had set the size, the one that was active before it does now. Without one the size stays.
    fn fall_back(&mut self, last_gone: u64) {
        let heir = self.viewers.iter().filter(|viewer| viewer.shown_size().is_some()).max_by_key(|it| it.active_at);
        if let Some(heir) = heir.filter(|heir| heir.active_at < last_gone)
            && let Some((rows, cols)) = heir.size
        {
            self.resize(rows, cols);
        }
    }

    fn serve(&mut self, index: usize) {
        let mut buffer = [0; 16 << 10];
        self.viewers[index].receive(&mut buffer);
        self.handle_all(index);
    }

    fn handle_all(&mut self, index: usize) {
        loop {
            match self.viewers[index].next_request() {
                Ok(Some(request)) => {
                    // Only those who type wait for a harness that does not read: anybody may still end it.
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
        if !viewer.is_greeted && !matches!(request, Request::Hello { .. }) {
            return viewer.refuse("say hello first".to_owned());
        }
        match request {
            Request::Hello { .. } => {
                viewer.is_greeted = true;
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
                viewer.tell(&Reply::Welcome(welcome));
            }
            // Shown on the terminal that it comes from, output would be new output without end.
            Request::Follow { .. } if process::comes_from(viewer.pid, std::process::id()) => {
                viewer.refuse(
                    "this terminal belongs to the session, and a session cannot be shown inside itself".to_owned(),
                );
            }
            Request::Follow { from } => viewer.follow(from),
            Request::Watch => {
                viewer.watch();
                viewer.tell_progress((self.recorder.end(), self.recorder.records()));
            }
            Request::Input(bytes) => {
                if is_typed(&bytes) {
                    self.make_active(index);
                }
                self.take_input(bytes, true);
            }
            Request::InputAt { offset, bytes } => self.take_input_at(index, offset, bytes),
            Request::Answer(bytes) => {
                // An attached terminal answers by itself, and an answer that waits for a reader is worth nothing.
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
                    signal_group(self.harness.pid, signal);
                }
            }
            Request::End { how, grace_ms } => self.end(how, Duration::from_millis(u64::from(grace_ms))),
            Request::CloseInput => self.is_input_closing = true,
            Request::Sync => {
                // Handled means: in the journal, for whoever looks there next.
                self.recorder.settle();
                self.viewers[index].tell(&Reply::Accepted);
            }
        }
    }

    /// Input that tells where it belongs: what was taken before is not taken again, whoever sends it.
    fn take_input_at(&mut self, index: usize, offset: u64, mut bytes: Vec<u8>) {
        let Some(known) = self.input_end.checked_sub(offset) else {
            return self.viewers[index].refuse(format!("input from byte {offset}; byte {} comes next", self.input_end));
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(bytes.len());
        bytes.drain(..known);
        self.take_input(bytes, true);
    }

    fn take_input(&mut self, bytes: Vec<u8>, is_noted: bool) {
        if self.exit.is_some() || self.harness.input.is_none() || self.is_input_closing || bytes.is_empty() {
            return;
        }
        // Asked before the bytes are written: a program that reads them may turn its echo on again at once.
        let is_kept = self.keeps_input();
        // To the harness first: whoever typed it waits for the echo.
        self.typed.push(&bytes);
        self.write_input();
        if is_noted {
            self.input_end += bytes.len() as u64;
            self.recorder.note(if is_kept { Record::Input(bytes) } else { Record::hidden(&bytes) });
        }
    }

    /// Reports whether the journal may keep what is typed now, and not only how much it is.
    fn keeps_input(&self) -> bool {
        match self.spec.record_input {
            _ if !self.harness.is_terminal => true,
            RecordInput::All => true,
            RecordInput::None => false,
            // The driver collects a line and shows none of it: a program asks for a secret. Programs that read
            // single keys turn the echo off too; they draw what is typed themselves.
            RecordInput::HiddenSecrets => rustix::termios::tcgetattr(&self.harness.output).is_ok_and(|terminal| {
                let modes = terminal.local_modes;
                !modes.contains(LocalModes::ICANON) || modes.contains(LocalModes::ECHO)
            }),
        }
    }

    fn write_input(&mut self) {
        if let Some(input) = &self.harness.input
            && self.typed.write_to(input).is_err()
        {
            // Nobody reads it any more; the exit will tell.
            self.typed.clear();
        }
        if self.is_input_closing && self.typed.is_empty() && !self.harness.is_terminal {
            self.harness.input = None;
        }
    }

    fn resize(&mut self, rows: u16, cols: u16) {
        let (rows, cols) = (rows.clamp(1, 1000), cols.clamp(1, 1000));
        if !self.harness.is_terminal || self.exit.is_some() || (rows, cols) == (self.spec.rows, self.spec.cols) {
            return;
        }
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        if rustix::termios::tcsetwinsize(&self.harness.output, size).is_ok() {
            (self.spec.rows, self.spec.cols) = (rows, cols);
            self.recorder.note(Record::Resize { rows, cols });
            for viewer in self.viewers.iter_mut().filter(|viewer| viewer.is_greeted) {
                viewer.tell(&Reply::Resized { rows, cols });
            }
        }
    }

    fn end(&mut self, how: How, grace: Duration) {
        if self.exit.is_some() {
            // Only what it started is left, if it was being ended at all.
            if let Some(ending) = &mut self.ending {
                ending.hurry(how, grace, Instant::now());
            }
            return;
        }
        let now = Instant::now();
        match &mut self.ending {
            Some(ending) => {
                let was_kill = ending.how == How::Kill;
                ending.hurry(how, grace, now);
                if was_kill || how == How::Finish {
                    return;
                }
            }
            None => self.ending = Some(Ending::begin(how, self.harness.pid, grace, now)),
        }
        self.recorder.note_now(Record::Kill { how, signal: Signal::TERM.as_raw() });
    }
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => ExitStatus::Signal(signal),
        (None, None) => ExitStatus::Code(1),
    }
}
