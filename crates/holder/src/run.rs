//! The holder's life: start the harness, keep every byte, serve its socket, write down how it ended.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use coven_domain::Timestamp;
use coven_domain::session::ExitStatus;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus, wait};

use crate::client::bind_socket;
use crate::ending::{Ending, signal_group};
use crate::journal::{JournalWriter, Record, Stamped};
use crate::log::LogWriter;
use crate::spec::{Ready, Spec};
use crate::stage::{self, Harness};
use crate::syncer::Syncer;
use crate::viewer::Viewer;
use crate::wire::{How, Reply, Request, VERSION, Welcome};
use crate::{JOURNAL, SOCKET, process};

/// What was read is on its way to the disk after this long: with the sync itself that stays within 10 ms.
const WINDOW: Duration = Duration::from_millis(7);
const WINDOW_BYTES: u64 = 1 << 20;
/// Past this much that is written and not synced, the harness waits for the disk.
const MAX_BACKLOG: u64 = 64 << 20;
const MAX_QUEUED_INPUT: usize = 1 << 20;
const READ_BYTES: usize = 64 << 10;
/// How long to wait before a full disk is tried again, or a closed terminal is looked at again.
const RETRY: Duration = Duration::from_millis(100);
/// How long viewers may take to fetch the end of a finished session; the log keeps it for those who are slower.
const LINGER: Duration = Duration::from_secs(3);

/// The hidden subcommand: reads its spec from standard input, answers on standard output, then lives on by itself.
pub fn run() -> ExitCode {
    let ready = match start() {
        Ok((holder, ready)) => {
            answer(&ready);
            return holder.live();
        }
        Err(reason) => Ready::Failed { reason },
    };
    answer(&ready);
    ExitCode::FAILURE
}

fn answer(ready: &Ready) {
    let mut line = serde_json::to_string(ready).expect("plain data");
    line.push('\n');
    let mut stdout = io::stdout().lock();
    // If nobody listens any more the daemon was killed; the next one finds us by our socket.
    let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

fn start() -> Result<(Holder, Ready), String> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(|error| format!("the holder was told nothing: {error}"))?;
    let spec: Spec = serde_json::from_str(&text).map_err(|error| format!("the holder was told nonsense: {error}"))?;
    drop(text);
    // Away from the daemon's session and group; already a leader is as good.
    let _ = rustix::process::setsid();
    // Orphans of the harness come to us, so that a kill can find them.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));

    let in_folder = |error: io::Error| format!("the session's folder cannot be used: {error}");
    let listener = bind_socket(&spec.dir).map_err(in_folder)?;
    listener.set_nonblocking(true).map_err(in_folder)?;
    let mut journal = JournalWriter::create(&spec.dir.join(JOURNAL)).map_err(in_folder)?;
    let log = LogWriter::create(&spec.dir, spec.segment_bytes, spec.max_output_bytes).map_err(in_folder)?;
    let syncer = Syncer::start().map_err(in_folder)?;

    let launched = stage::launch(&spec)
        .map_err(|error| format!("{} could not be started: {error}", spec.argv.first().map_or("", String::as_str)))
        .and_then(|harness| match process::identity(harness.pid) {
            Ok(identity) => Ok((harness, identity)),
            Err(error) => Err(format!("the harness's process cannot be seen: {error}")),
        });
    let (harness, identity) = match launched {
        Ok(launched) => launched,
        Err(reason) => {
            let record = Record::LaunchFailed(reason.clone());
            let _ = journal.append(&Stamped { at: now_ms(), offset: 0, record });
            let _ = journal.file().sync_data();
            let _ = std::fs::remove_file(spec.dir.join(SOCKET));
            return Err(reason);
        }
    };
    let ready = Ready::Running {
        holder: std::process::id(),
        pid: identity.pid,
        started_ticks: identity.started_ticks,
        boot_id: identity.boot_id.clone(),
    };
    let mut holder = Holder::new(spec, listener, journal, log, syncer, harness, identity.started_ticks);
    holder.note(Record::Start {
        pid: identity.pid,
        started_ticks: identity.started_ticks,
        rows: holder.spec.rows,
        cols: holder.spec.cols,
        boot_id: identity.boot_id,
    });
    holder.sync_folder();
    if !holder.spec.typed.is_empty() {
        let typed = format!("{}\n", holder.spec.typed).into_bytes();
        holder.take_input(typed, true);
    }
    Ok((holder, ready))
}

/// Output that was read since the last record of it.
#[derive(Debug, Clone, Copy)]
struct Window {
    start: u64,
    at: Timestamp,
    closes_at: Instant,
}

struct Holder {
    spec: Spec,
    listener: UnixListener,
    journal: JournalWriter,
    log: LogWriter,
    syncer: Syncer,
    harness: Harness,
    started_ticks: u64,
    viewers: Vec<Viewer>,
    buffer: Box<[u8]>,
    /// Read and not yet written: the disk refused it. Nothing more is read until it is.
    held: std::ops::Range<usize>,
    window: Option<Window>,
    /// Records the disk refused, in order.
    waiting: Vec<Stamped>,
    dirty: Vec<Arc<File>>,
    dirty_bytes: u64,
    queued_input: Vec<u8>,
    is_input_closing: bool,
    /// The terminal has no other end right now, or the pipe is closed.
    is_output_closed: bool,
    retry_at: Option<Instant>,
    ending: Option<Ending>,
    exit: Option<ExitStatus>,
    is_exit_noted: bool,
    linger_until: Option<Instant>,
    last_at: Timestamp,
    has_spoken: bool,
}

impl Holder {
    fn new(
        spec: Spec,
        listener: UnixListener,
        journal: JournalWriter,
        log: LogWriter,
        syncer: Syncer,
        harness: Harness,
        started_ticks: u64,
    ) -> Self {
        Self {
            spec,
            listener,
            journal,
            log,
            syncer,
            harness,
            started_ticks,
            viewers: Vec::new(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            held: 0..0,
            window: None,
            waiting: Vec::new(),
            dirty: Vec::new(),
            dirty_bytes: 0,
            queued_input: Vec::new(),
            is_input_closing: false,
            is_output_closed: false,
            retry_at: None,
            ending: None,
            exit: None,
            is_exit_noted: false,
            linger_until: None,
            last_at: Timestamp::default(),
            has_spoken: false,
        }
    }

    fn live(mut self) -> ExitCode {
        loop {
            let ready = self.wait_for_something();
            let now = Instant::now();
            if ready.has_ended {
                self.reap();
            }
            if ready.output || ready.has_ended {
                self.read_output();
            }
            if ready.stderr || ready.has_ended {
                self.read_stderr();
            }
            if ready.listener {
                self.accept();
            }
            for (index, asks) in ready.viewers.into_iter().enumerate() {
                if asks.contains(PollFlags::OUT) {
                    self.viewers[index].flush();
                }
                if asks.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                    self.serve(index);
                }
            }
            self.write_input();
            self.feed_viewers();
            self.do_what_is_due(now);
            self.viewers.retain(|viewer| !viewer.is_gone());
            if self.is_over(now) {
                let _ = std::fs::remove_file(self.spec.dir.join(SOCKET));
                return ExitCode::SUCCESS;
            }
        }
    }

    // --- waiting -----------------------------------------------------------------------------------------------

    fn wants_output(&self) -> bool {
        self.held.is_empty() && !self.is_output_closed && !self.is_exit_noted && self.syncer.backlog() < MAX_BACKLOG
    }

    fn wait_for_something(&self) -> Found {
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(5 + self.viewers.len());
        let mut add = |fd: BorrowedFd<'_>, flags: PollFlags| {
            // SAFETY: every descriptor belongs to self and outlives the poll; an unwanted one only gets no flags.
            let fd: BorrowedFd<'_> = unsafe { BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&fd)) };
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        let when = |wanted: bool, flags: PollFlags| if wanted { flags } else { PollFlags::empty() };
        add(self.listener.as_fd(), PollFlags::IN);
        // Nothing wanted of it: a hang-up would be reported all the same, so it is left out by polling the listener.
        let idle = self.listener.as_fd();
        let has_queue = !self.queued_input.is_empty();
        let wants_output = self.wants_output();
        let output = if wants_output { self.harness.output.as_fd() } else { idle };
        add(output, when(wants_output, PollFlags::IN));
        let exit = if self.exit.is_none() { self.harness.pidfd.as_fd() } else { idle };
        add(exit, when(self.exit.is_none(), PollFlags::IN));
        let stderr = self.harness.stderr.as_ref().filter(|_| self.exit.is_none() && self.waiting.is_empty());
        add(stderr.map_or(idle, AsFd::as_fd), when(stderr.is_some(), PollFlags::IN));
        let input = self.harness.input.as_ref().filter(|_| has_queue && self.exit.is_none());
        add(input.map_or(idle, AsFd::as_fd), when(input.is_some(), PollFlags::OUT));
        let may_ask = self.queued_input.len() < MAX_QUEUED_INPUT;
        for viewer in &self.viewers {
            let flags = when(viewer.may_ask() && may_ask, PollFlags::IN) | when(viewer.wants_to_send(), PollFlags::OUT);
            add(viewer.as_fd(), flags);
        }
        let timeout = self.next_deadline().map(|at| {
            let wait = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: i64::from(wait.subsec_nanos()) }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) | Err(_) => return Found::default(),
            Ok(_) => {}
        }
        let got: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        let any = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        Found {
            listener: got[0].contains(PollFlags::IN),
            output: wants_output && got[1].intersects(any),
            has_ended: self.exit.is_none() && got[2].contains(PollFlags::IN),
            stderr: stderr.is_some() && got[3].intersects(any),
            viewers: got[5..].to_vec(),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let soon = || Some(Instant::now() + Duration::from_millis(5));
        [
            self.window.map(|window| window.closes_at),
            self.retry_at,
            self.ending.as_ref().filter(|_| !self.is_exit_noted).map(|it| it.next_deadline(self.exit.is_some())),
            self.linger_until,
            // The disk is behind: look again soon.
            (self.syncer.backlog() >= MAX_BACKLOG).then(soon).flatten(),
            // Somebody is behind and their socket has room: go on at once.
            self.viewers
                .iter()
                .any(|viewer| viewer.is_behind(self.log.end()) && !viewer.wants_to_send())
                .then(Instant::now),
        ]
        .into_iter()
        .flatten()
        .min()
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
                        self.retry_at = Some(Instant::now() + RETRY);
                    }
                    break;
                }
            }
        }
        if filled > 0 {
            self.held = 0..filled;
            self.store_output();
        }
    }

    /// Writes what was read to the log, then hands it to the viewers who are up to date.
    fn store_output(&mut self) {
        while !self.held.is_empty() {
            let offset = self.log.end();
            if self.window.is_none() {
                let at = self.stamp();
                self.window = Some(Window { start: offset, at, closes_at: Instant::now() + WINDOW });
            }
            match self.log.append(&self.buffer[self.held.clone()]) {
                Ok(count) => {
                    let bytes = &self.buffer[self.held.start..self.held.start + count];
                    let end = self.log.end();
                    for viewer in &mut self.viewers {
                        viewer.offer(offset, bytes, end);
                    }
                    self.held.start += count;
                    self.dirty_bytes += count as u64;
                    let file = self.log.file();
                    if !self.dirty.last().is_some_and(|last| Arc::ptr_eq(last, &file)) {
                        self.dirty.push(file);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A full disk: the harness waits with us until there is room.
                Err(_) => {
                    self.retry_at = Some(Instant::now() + RETRY);
                    return;
                }
            }
        }
    }

    fn read_stderr(&mut self) {
        loop {
            let Some(stderr) = &self.harness.stderr else { return };
            let mut buffer = [0; 4096];
            match rustix::io::read(stderr, &mut buffer) {
                Ok(0) => self.harness.stderr = None,
                Ok(count) => self.note(Record::Stderr(buffer[..count].to_vec())),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.harness.stderr = None,
            }
        }
    }

    // --- records -----------------------------------------------------------------------------------------------

    /// Now, but never before what was already written down.
    fn stamp(&mut self) -> Timestamp {
        self.last_at = now_ms().not_before(self.last_at);
        self.last_at
    }

    fn note(&mut self, record: Record) {
        self.close_window();
        let (at, offset) = (self.stamp(), self.log.end());
        self.append(Stamped { at, offset, record });
        self.sync();
    }

    fn append(&mut self, record: Stamped) {
        // Behind a record that waits for room, everything waits: the order is the truth.
        if !self.waiting.is_empty() || self.journal.append(&record).is_err() {
            self.waiting.push(record);
            self.retry_at = Some(Instant::now() + RETRY);
        }
    }

    /// Writes down the output since the last record.
    fn close_window(&mut self) {
        let Some(window) = self.window else { return };
        let length = self.log.end() - window.start;
        self.window = None;
        if length > 0 {
            self.append(Stamped { at: window.at, offset: window.start, record: Record::Output { length } });
            if let Some(first) = self.log.trim() {
                let (at, offset) = (self.stamp(), self.log.end());
                self.append(Stamped { at, offset, record: Record::Truncated { first } });
            }
        }
    }

    fn sync(&mut self) {
        let files = std::mem::take(&mut self.dirty);
        if files.len() > 1 {
            self.sync_folder();
        }
        self.syncer.request(files.into_iter().chain([self.journal.file()]), std::mem::take(&mut self.dirty_bytes));
        self.tell_progress();
    }

    fn tell_progress(&mut self) {
        let (end, records) = (self.log.end(), self.journal.records());
        for viewer in &mut self.viewers {
            viewer.tell_progress(end, records);
        }
    }

    /// New files get their names onto the disk too.
    fn sync_folder(&self) {
        if let Ok(folder) = File::open(&self.spec.dir) {
            self.syncer.request([Arc::new(folder), self.log.file(), self.journal.file()], 0);
        }
    }

    // --- time --------------------------------------------------------------------------------------------------

    fn do_what_is_due(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            self.try_again();
        }
        let is_first = !self.has_spoken && self.window.is_some();
        if let Some(window) = self.window
            && (is_first || now >= window.closes_at || self.log.end() - window.start >= WINDOW_BYTES)
        {
            // The first output is told at once: somebody waits for it.
            self.has_spoken = true;
            self.close_window();
            self.sync();
        }
        if let Some(reason) = self.syncer.take_failure() {
            self.note(Record::Note(format!("the disk did not take the log: {reason}")));
        }
        let is_ended = match &mut self.ending {
            Some(ending) if !self.is_exit_noted => ending.step(self.exit.is_some(), now),
            _ => true,
        };
        if is_ended {
            self.note_exit(now);
        }
    }

    fn try_again(&mut self) {
        self.store_output();
        while let Some(record) = self.waiting.first() {
            if self.journal.append(record).is_err() {
                self.retry_at = Some(Instant::now() + RETRY);
                return;
            }
            self.waiting.remove(0);
        }
        if self.is_output_closed && self.harness.is_terminal && self.exit.is_none() {
            self.is_output_closed = false;
            self.read_output();
        }
        self.tell_progress();
    }

    // --- the end -----------------------------------------------------------------------------------------------

    /// Collects the harness's status, and that of orphans that came to us.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == stage::as_pid(self.harness.pid) {
                self.exit = Some(exit_status(status));
                // What it wrote last is read even if its terminal looked closed before.
                self.is_output_closed = false;
            }
        }
    }

    fn note_exit(&mut self, now: Instant) {
        let Some(status) = self.exit.filter(|_| !self.is_exit_noted) else { return };
        // Everything it wrote comes first: read until nothing is left, and wait for a full disk.
        while self.held.is_empty() && !self.is_output_closed {
            let before = self.log.end();
            self.read_output();
            if self.log.end() == before && self.held.is_empty() {
                break;
            }
        }
        if !self.held.is_empty() {
            return;
        }
        self.read_stderr();
        self.note(Record::Exit(status));
        if !self.waiting.is_empty() {
            self.waiting.retain(|waiting| !matches!(waiting.record, Record::Exit(_)));
            return;
        }
        self.syncer.flush();
        self.is_exit_noted = true;
        self.linger_until = Some(now + LINGER);
        self.feed_viewers();
    }

    fn is_over(&mut self, now: Instant) -> bool {
        let Some(status) = self.exit.filter(|_| self.is_exit_noted) else { return false };
        let end = self.log.end();
        let exit = Reply::Exited { status, end };
        let mut is_told = true;
        for viewer in &mut self.viewers {
            is_told &= viewer.tell_exit(&exit, end);
        }
        is_told || self.linger_until.is_some_and(|until| now >= until)
    }

    // --- viewers -----------------------------------------------------------------------------------------------

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let is_ours =
                rustix::net::sockopt::socket_peercred(&stream).is_ok_and(|peer| peer.uid == rustix::process::geteuid());
            if is_ours && stream.set_nonblocking(true).is_ok() {
                self.viewers.push(Viewer::new(stream));
            }
        }
    }

    fn feed_viewers(&mut self) {
        let (first, end) = (self.log.first(), self.log.end());
        for viewer in &mut self.viewers {
            viewer.catch_up(&self.spec.dir, first, end);
        }
    }

    fn serve(&mut self, index: usize) {
        let mut buffer = [0; 16 << 10];
        match self.viewers[index].requests(&mut buffer) {
            Ok(requests) => {
                for request in requests {
                    self.handle(index, request);
                }
            }
            Err(error) => {
                self.viewers[index].tell(&Reply::Refused(error.to_string()));
                self.viewers[index].leave();
            }
        }
    }

    fn handle(&mut self, index: usize, request: Request) {
        let viewer = &mut self.viewers[index];
        if !viewer.is_greeted && !matches!(request, Request::Hello { .. }) {
            viewer.tell(&Reply::Refused("say hello first".to_owned()));
            viewer.leave();
            return;
        }
        match request {
            Request::Hello { .. } => {
                viewer.is_greeted = true;
                let welcome = Welcome {
                    version: VERSION,
                    pid: self.harness.pid,
                    started_ticks: self.started_ticks,
                    first: self.log.first(),
                    end: self.log.end(),
                    records: self.journal.records(),
                    rows: self.spec.rows,
                    cols: self.spec.cols,
                };
                viewer.tell(&Reply::Welcome(welcome));
            }
            Request::Follow { from } => viewer.follow(from),
            Request::Watch => {
                viewer.watch();
                viewer.tell_progress(self.log.end(), self.journal.records());
            }
            Request::Input(bytes) => self.take_input(bytes, true),
            Request::Answer(bytes) => self.take_input(bytes, false),
            Request::Resize { rows, cols } => self.resize(rows, cols),
            Request::Signal(number) => {
                if let Some(signal) = Signal::from_named_raw(number).filter(|_| self.exit.is_none()) {
                    signal_group(self.harness.pid, signal);
                }
            }
            Request::End { how, grace_ms } => self.end(how, Duration::from_millis(u64::from(grace_ms))),
            Request::CloseInput => self.is_input_closing = true,
            Request::Sync => viewer.tell(&Reply::Accepted),
        }
    }

    fn take_input(&mut self, bytes: Vec<u8>, is_noted: bool) {
        if self.exit.is_some() || bytes.is_empty() {
            return;
        }
        // To the harness first: whoever typed it waits for the echo.
        self.queued_input.extend_from_slice(&bytes);
        self.write_input();
        if is_noted {
            self.note_input(bytes);
        }
    }

    /// Written down with the window's sync and not with one of its own: typing must stay quick.
    fn note_input(&mut self, bytes: Vec<u8>) {
        self.close_window();
        let (at, offset) = (self.stamp(), self.log.end());
        self.append(Stamped { at, offset, record: Record::Input(bytes) });
        self.window = Some(Window { start: offset, at, closes_at: Instant::now() + WINDOW });
    }

    fn write_input(&mut self) {
        while let (false, Some(input)) = (self.queued_input.is_empty(), &self.harness.input) {
            match rustix::io::write(input, &self.queued_input) {
                Ok(count) => drop(self.queued_input.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // Nobody reads it any more; the exit will tell.
                Err(_) => self.queued_input.clear(),
            }
        }
        if self.is_input_closing && self.queued_input.is_empty() && !self.harness.is_terminal {
            self.harness.input = None;
        }
    }

    fn resize(&mut self, rows: u16, cols: u16) {
        let (rows, cols) = (rows.clamp(1, 1000), cols.clamp(1, 1000));
        if !self.harness.is_terminal || (rows, cols) == (self.spec.rows, self.spec.cols) {
            return;
        }
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        if rustix::termios::tcsetwinsize(&self.harness.output, size).is_ok() {
            (self.spec.rows, self.spec.cols) = (rows, cols);
            self.note(Record::Resize { rows, cols });
            for viewer in &mut self.viewers {
                viewer.tell(&Reply::Resized { rows, cols });
            }
        }
    }

    fn end(&mut self, how: How, grace: Duration) {
        if self.exit.is_some() {
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
        self.note(Record::Kill { how, signal: Signal::TERM.as_raw() });
    }
}

/// What a wait found ready.
#[derive(Debug, Default)]
struct Found {
    listener: bool,
    output: bool,
    has_ended: bool,
    stderr: bool,
    viewers: Vec<PollFlags>,
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => ExitStatus::Signal(signal),
        (None, None) => ExitStatus::Code(1),
    }
}

fn now_ms() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
