//! The holder's event loop: logs every byte of output, serves the socket and records the exit.

mod input;
mod viewers;
mod waiting;

use std::ops::Range;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use coven_domain::session::ExitStatus;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus, wait};

use crate::SOCKET;
use crate::child::{Harness, as_pid};
use crate::initial_input::InitialInput;
use crate::input_queue::InputQueue;
use crate::journal::Record;
use crate::pipe_backoff::PipeBackoff;
use crate::recorder::{self, Recorder};
use crate::signals::Signals;
use crate::spec::Spec;
use crate::stderr::Stderr;
use crate::termination::{Survivors, Termination};
use crate::viewer::Viewer;
use crate::wire::{EndMode, MAX_DATA, Reply};

const READ_BYTES: usize = MAX_DATA;
/// How much output is read between two looks for requests. In a flood a whole buffer takes longer than handling ^C.
const REQUEST_CHECK_BYTES: usize = 8 << 10;
const STDERR_BYTES: usize = 16 << 10;
/// Upper bound on the unread output that the kernel buffers for a terminal.
const MAX_TERMINAL_BUFFER: u64 = 1 << 20;
/// How long to wait before reading again from a terminal that the harness closed.
const REOPEN_DELAY: Duration = Duration::from_millis(100);
/// How long viewers may take to fetch the end of a finished session; slower ones read it from the log.
const LINGER_TIMEOUT: Duration = Duration::from_secs(3);
/// Grace period of the harness when the holder itself receives SIGTERM.
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
    /// Range of `buffer` that is read but not yet in the log because a write failed. Reading resumes once it is empty.
    held: Range<usize>,
    input_queue: InputQueue,
    initial_input: Option<InitialInput>,
    /// Number of input bytes accepted and recorded so far.
    input_end: u64,
    stderr: Stderr,
    is_input_closing: bool,
    /// Counts the times a viewer typed or changed its size.
    activity: u64,
    /// No process has the other end of the terminal open, or the pipe is closed.
    is_output_closed: bool,
    pipe_backoff: PipeBackoff,
    reopen_at: Option<Instant>,
    termination: Option<Termination>,
    survivors: Survivors,
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
            input_queue: InputQueue::default(),
            initial_input: None,
            input_end: 0,
            stderr: Stderr::default(),
            is_input_closing: false,
            activity: 0,
            is_output_closed: false,
            pipe_backoff: PipeBackoff::default(),
            reopen_at: None,
            termination: None,
            survivors: Survivors::Harness,
            exit: None,
            is_exit_noted: false,
            linger_until: None,
        }
    }

    pub fn run(mut self) -> ExitCode {
        self.type_first();
        // The harness may have exited before the first poll.
        self.reap();
        loop {
            let found = self.poll_events();
            let now = Instant::now();
            if found.signal {
                self.signals.clear();
                self.reap();
                if self.signals.take_stop() {
                    self.recorder.note(Record::Note("the holder received SIGTERM".to_owned()));
                    self.end(EndMode::Kill, STOP_GRACE);
                }
            }
            // Requests come before output: a user who presses ^C in a flood waits for one batch of output at most.
            for (index, flags) in found.viewers {
                self.viewers[index].flush();
                if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
                    && self.viewers[index].accepts_requests()
                {
                    self.serve(index);
                }
            }
            self.write_input();
            if found.output {
                self.read_output();
            }
            if found.stderr {
                self.read_stderr();
            }
            if found.listener {
                self.accept();
            }
            self.run_due_timers(now);
            self.feed_viewers();
            if self.is_over(now) {
                let _ = std::fs::remove_file(self.spec.dir.join(SOCKET));
                return ExitCode::SUCCESS;
            }
        }
    }

    // --- output ------------------------------------------------------------------------------------------------

    fn read_output(&mut self) {
        if !self.held.is_empty() {
            return;
        }
        let (mut filled, mut check_at) = (0, REQUEST_CHECK_BYTES);
        while filled < self.buffer.len() {
            // Only of terminals: a short read of a pipe would count as a slow stream and delay the next one.
            if self.harness.is_terminal && filled >= check_at {
                if self.has_request() {
                    break;
                }
                check_at = filled + REQUEST_CHECK_BYTES;
            }
            match rustix::io::read(&self.harness.output, &mut self.buffer[filled..]) {
                Ok(0) => {
                    self.is_output_closed = true;
                    break;
                }
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // Linux returns EIO while no process has the other end of the terminal open; it may be opened again.
                Err(_) => {
                    self.is_output_closed = true;
                    if self.harness.is_terminal && self.exit.is_none() {
                        self.reopen_at = Some(Instant::now() + REOPEN_DELAY);
                    }
                    break;
                }
            }
        }
        self.held = 0..filled;
        if !self.harness.is_terminal {
            self.pipe_backoff.read(filled, Instant::now());
        }
        if let Some(input) = self.initial_input.as_mut().filter(|_| filled > 0) {
            input.on_output(Instant::now());
        }
        self.store_output();
        if self.pipe_backoff.length() >= recorder::WINDOW {
            self.recorder.close_group();
        }
    }

    /// Sends the output to viewers that are up to date, then writes it to the log: a user who types is waiting for the
    /// echo. If the write fails, the output stays in `held`; viewers have seen it before it is in the log.
    fn store_output(&mut self) {
        let offset = self.recorder.end();
        if !self.held.is_empty() {
            let bytes = &self.buffer[self.held.clone()];
            for viewer in &mut self.viewers {
                viewer.push_output(offset, bytes, offset + bytes.len() as u64);
            }
        }
        while !self.held.is_empty() && !self.recorder.is_refused() {
            self.held.start += self.recorder.output(&self.buffer[self.held.clone()]);
        }
    }

    /// Records the standard error that is available now and returns its length.
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

    fn run_due_timers(&mut self, now: Instant) {
        self.recorder.tick(now);
        self.store_output();
        if self.reopen_at.is_some_and(|at| now >= at) {
            self.reopen_at = None;
            self.is_output_closed = false;
            self.read_output();
        }
        if let Some((bytes, is_all)) = self.initial_input.as_mut().and_then(|input| input.due(now)) {
            self.take_pieces(&bytes);
            if is_all {
                self.initial_input = None;
            }
        }
        self.pipe_backoff.tick(now);
        self.accept_at = self.accept_at.filter(|at| now < *at);
        let is_ended = match &mut self.termination {
            Some(ending) if !self.is_exit_noted => ending.step(self.survivors, now),
            _ => true,
        };
        if is_ended {
            self.journal_exit(now);
        }
    }

    // --- the end -----------------------------------------------------------------------------------------------

    /// Reaps the harness and the orphans that were reparented to the holder.
    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == as_pid(self.harness.pid) => {
                    self.exit = Some(exit_status(status));
                    self.input_queue.clear();
                    self.initial_input = None;
                    self.reopen_at = None;
                    // Read the harness's last output even if its terminal looked closed before.
                    self.is_output_closed = false;
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => {
                    self.survivors = if self.exit.is_some() { Survivors::Descendants } else { Survivors::Harness };
                    return;
                }
                Err(_) => {
                    self.survivors = Survivors::None;
                    return;
                }
            }
        }
    }

    fn journal_exit(&mut self, now: Instant) {
        let Some(status) = self.exit.filter(|_| !self.is_exit_noted) else { return };
        // The exit record comes after all output. On a full disk it is retried later.
        if !self.drain_output() || !self.drain_stderr() {
            return;
        }
        if self.termination.take().is_some() && self.survivors != Survivors::None {
            self.recorder.note(Record::Note("some processes of the session survived the kill".to_owned()));
        }
        self.stderr.end(&mut self.recorder);
        if self.recorder.finish(status) {
            self.is_exit_noted = true;
            self.linger_until = Some(now + LINGER_TIMEOUT);
        }
    }

    /// Reads the output written so far, but not output that surviving processes keep writing to the same stream.
    fn drain_output(&mut self) -> bool {
        let unread = match self.harness.is_terminal {
            true => MAX_TERMINAL_BUFFER,
            false => rustix::io::ioctl_fionread(&self.harness.output).unwrap_or(0),
        };
        let until = self.recorder.end() + (self.held.end - self.held.start) as u64 + unread;
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
        let mut is_sent = true;
        for viewer in &mut self.viewers {
            is_sent &= viewer.queue_exit(&exit, end);
        }
        is_sent || self.linger_until.is_some_and(|until| now >= until)
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
            for viewer in self.viewers.iter_mut().filter(|viewer| viewer.is_handshake_done) {
                viewer.queue_reply(&Reply::Resized { rows, cols });
            }
        }
    }

    fn end(&mut self, how: EndMode, grace: Duration) {
        if self.exit.is_some() {
            // Only descendants remain. Without an earlier request, they keep running.
            if let Some(ending) = &mut self.termination {
                ending.escalate(how, grace, Instant::now());
            }
            return;
        }
        let now = Instant::now();
        match &mut self.termination {
            Some(ending) => {
                let was_kill = ending.how == EndMode::Kill;
                ending.escalate(how, grace, now);
                if was_kill || how == EndMode::Finish {
                    return;
                }
            }
            None => self.termination = Some(Termination::start(how, self.harness.pid, grace, now)),
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
