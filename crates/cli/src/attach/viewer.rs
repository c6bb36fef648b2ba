//! The loop of an attached terminal: sends keys to the holder, shows its output and looks for the detach keys.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use coven_domain::session::ExitStatus;
use coven_holder::client::{HolderClient, HolderError};
use coven_holder::wire::{Reply, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::catch_up::CatchUp;
use super::detach::DetachScanner;
use super::frame::{Frame, Size};
use super::modes::ModeWatch;
use super::signals::Signals;
use super::terminal::{self, RawMode, Sink};
use crate::failure::Failure;

/// Limit of typed bytes queued for a slow holder; above it the keyboard is not read.
const MAX_OUTGOING_BYTES: usize = 256 << 10;
const CTRL_C: u8 = 3;

/// How the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewerEnd {
    Detached,
    /// The log ends at `end`.
    Exited {
        status: ExitStatus,
        end: u64,
    },
    HolderGone,
    Signalled(i32),
}

/// The input of a viewer.
pub enum Keyboard {
    /// A terminal: raw, with detach keys.
    Terminal(DetachScanner),
    /// A pipe or file, forwarded to its end.
    Stream,
    /// No input.
    None,
}

pub struct Viewer<'a> {
    pub holder: HolderClient,
    pub keyboard: Keyboard,
    pub raw: Option<&'a RawMode>,
    pub is_read_only: bool,
    /// Log offset that was shown so far.
    pub position: u64,
    pub catch_up: Option<CatchUp>,
    pub sink: Sink,
    pub watch: ModeWatch,
    outgoing: Vec<u8>,
    typed: Box<[u8]>,
    /// While far behind: the log is not read until the next screen is due.
    resting_until: Option<Instant>,
    /// Last known size of the session; `None` if the output is not a terminal.
    session_size: Option<Size>,
    /// Resize requests that the holder has not answered yet.
    unanswered_resizes: usize,
    /// Set while the session's size differs from this terminal.
    frame: Option<Frame>,
}

impl<'a> Viewer<'a> {
    pub fn new(holder: HolderClient, keyboard: Keyboard, raw: Option<&'a RawMode>, is_read_only: bool) -> Self {
        Self {
            holder,
            keyboard,
            raw,
            is_read_only,
            position: 0,
            catch_up: None,
            sink: Sink::stdout(),
            watch: ModeWatch::default(),
            outgoing: Vec::new(),
            typed: vec![0; 16 << 10].into_boxed_slice(),
            resting_until: None,
            session_size: None,
            unanswered_resizes: 0,
            frame: None,
        }
    }

    /// Shows the session on this terminal. Without --read-only the session gets the size of this terminal.
    pub fn show_on_terminal(&mut self) {
        self.session_size = Some((self.holder.welcome.rows, self.holder.welcome.cols));
        self.send_size();
    }

    /// Returns whether the session is drawn in a frame, not byte by byte.
    pub const fn is_framed(&self) -> bool {
        self.frame.is_some()
    }

    /// Returns the session's size if it differs from this terminal and no resize is pending.
    fn must_frame(&self) -> Option<Size> {
        self.session_size.filter(|size| self.unanswered_resizes == 0 && own_size().is_some_and(|own| own != *size))
    }

    const fn advice(&self) -> &'static str {
        match self.is_read_only {
            true => "another viewer sets the size",
            false => "type to use this size",
        }
    }

    /// Paints a screen that represents the log up to `position`.
    pub fn paint(&mut self, screen: &[u8], position: u64) -> Result<(), Failure> {
        self.position = position;
        match self.must_frame() {
            Some(size) => {
                self.frame = Some(Frame::new(size, screen, self.advice()));
                Ok(())
            }
            None => self.put(screen),
        }
    }

    /// Writes to the terminal.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.watch.feed(bytes);
        self.sink.write(bytes).map_err(Failure::Output)
    }

    /// Starts or ends the frame after one of the two sizes has changed.
    fn fit(&mut self) -> Result<(), Failure> {
        match (self.must_frame(), self.frame.take()) {
            (Some(size), Some(mut frame)) => {
                frame.resize(size);
                self.frame = Some(frame);
            }
            (Some(size), None) => {
                // The earlier output is only on the terminal; the daemon has the screen that results from it.
                let position = self.position;
                let screen = self.catch_up.as_mut().and_then(|catch_up| catch_up.screen_at(position));
                let mut frame = match &screen {
                    Some(screen) => Frame::new(screen.size.unwrap_or(size), &screen.ansi, self.advice()),
                    None => Frame::new(size, &[], self.advice()),
                };
                frame.resize(size);
                self.frame = Some(frame);
            }
            (None, Some(mut frame)) => {
                if let Some(size) = self.session_size {
                    frame.resize(size);
                }
                self.sink.discard();
                self.put(&frame.whole())?;
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Draws the frame if it changed and is due.
    fn paint_frame(&mut self, is_last: bool) -> Result<(), Failure> {
        let is_due = |frame: &Frame| frame.due().is_some_and(|due| is_last || due <= Instant::now());
        if !self.sink.is_waiting()
            && let Some(own) = own_size()
            && let Some(frame) = self.frame.as_mut().filter(|frame| is_due(frame))
        {
            let picture = frame.picture(own);
            self.put(&picture)?;
        }
        Ok(())
    }

    /// Follows the log from `position` until the user detaches, the session ends or a signal arrives.
    pub fn run(&mut self, signals: &mut Signals) -> Result<ViewerEnd, Failure> {
        // Non-blocking, so that neither side delays the other.
        self.holder.stream().set_nonblocking(true).map_err(HolderError::Broken)?;
        self.request(&Request::Follow { from: self.position });
        let ending = self.serve(signals);
        if let Ok(ViewerEnd::Exited { .. }) = ending {
            self.show_rest(signals)?;
            self.paint_frame(true)?;
            self.show_rest(signals)?;
        }
        ending
    }

    fn serve(&mut self, signals: &mut Signals) -> Result<ViewerEnd, Failure> {
        loop {
            match self.send_outgoing() {
                Ok(()) => {}
                // Its final replies may still be in the socket.
                Err(error) if is_gone(&error) => self.outgoing.clear(),
                Err(error) => return Err(HolderError::Broken(error).into()),
            }
            let ready = self.wait(signals)?;
            if ready.signals {
                signals.drain();
                if let Some(signal) = signals.ending() {
                    return Ok(ViewerEnd::Signalled(signal));
                }
                self.handle_signals(signals)?;
            }
            if self.resting_until.is_some_and(|until| Instant::now() >= until) {
                self.resting_until = None;
                self.jump(self.position)?;
            }
            self.paint_frame(false)?;
            if ready.keyboard && self.take_typed()? {
                return Ok(ViewerEnd::Detached);
            }
            if ready.sink {
                self.sink.flush().map_err(Failure::Output)?;
            }
            if ready.holder
                && let Some(ending) = self.take_replies()?
            {
                return Ok(ending);
            }
        }
    }

    fn wait(&self, signals: &Signals) -> Result<Ready, Failure> {
        let stdin = io::stdin();
        let mut holder = PollFlags::empty();
        // Do not read more output than the terminal can take.
        holder.set(PollFlags::IN, !self.sink.is_waiting() && self.resting_until.is_none());
        holder.set(PollFlags::OUT, !self.outgoing.is_empty());
        let mut places = vec![PollFd::new(signals, PollFlags::IN)];
        // Do not poll without events: a closed holder would wake the loop again and again.
        let holder = (!holder.is_empty()).then(|| {
            places.push(PollFd::new(&self.holder, holder));
            places.len() - 1
        });
        let sink = self.sink.waits_on().map(|sink| {
            places.push(PollFd::from_borrowed_fd(sink, PollFlags::OUT));
            places.len() - 1
        });
        let listens = !matches!(self.keyboard, Keyboard::None) && self.outgoing.len() < MAX_OUTGOING_BYTES;
        let keyboard = listens.then(|| {
            places.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
            places.len() - 1
        });
        let paint_at = self.frame.as_ref().and_then(Frame::due).filter(|_| !self.sink.is_waiting());
        let rest = [self.resting_until, paint_at].into_iter().flatten().min().map(|until| {
            let rest = until.saturating_duration_since(Instant::now());
            Timespec { tv_sec: rest.as_secs().cast_signed(), tv_nsec: i64::from(rest.subsec_nanos()) }
        });
        match poll(&mut places, rest.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Failure::Terminal(error.into())),
        }
        let is_ready = |at: usize| !places[at].revents().is_empty();
        Ok(Ready {
            signals: is_ready(0),
            holder: holder.is_some_and(|at| places[at].revents().intersects(!PollFlags::OUT))
                && !self.sink.is_waiting()
                && self.resting_until.is_none(),
            sink: sink.is_some_and(is_ready),
            keyboard: keyboard.is_some_and(is_ready),
        })
    }

    fn handle_signals(&mut self, signals: &Signals) -> Result<(), Failure> {
        if signals.take_continued() {
            if let Some(raw) = self.raw {
                raw.again();
            }
            self.repaint()?;
        }
        if signals.take_resized() {
            self.send_size();
            if self.unanswered_resizes == 0 {
                self.fit()?;
            }
        }
        Ok(())
    }

    fn send_size(&mut self) {
        if !self.is_read_only
            && let Some((rows, cols)) = own_size()
        {
            self.request(&Request::Resize { rows, cols });
            // The reply has the resulting size.
            self.request(&Request::Sync);
            self.unanswered_resizes += 1;
        }
    }

    /// Reads the keyboard once. Returns true if the detach keys were typed.
    fn take_typed(&mut self) -> Result<bool, Failure> {
        let count = match rustix::io::read(io::stdin(), &mut self.typed[..]) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return Ok(false),
            // The terminal hung up.
            Err(rustix::io::Errno::IO) => 0,
            Err(error) => return Err(Failure::Input(error.into())),
        };
        let typed = &self.typed[..count];
        let mut meant = Vec::new();
        let is_detached = match &mut self.keyboard {
            Keyboard::Terminal(_) if count == 0 => return Ok(true),
            Keyboard::Terminal(scanner) => {
                scanner.scan(typed, &mut meant) || (self.is_read_only && typed.contains(&CTRL_C))
            }
            Keyboard::Stream if count == 0 => {
                self.keyboard = Keyboard::None;
                return Ok(false);
            }
            Keyboard::Stream | Keyboard::None => {
                meant.extend_from_slice(typed);
                false
            }
        };
        if !meant.is_empty() && !self.is_read_only {
            self.request(&Request::Input(meant));
        }
        if is_detached {
            // Input before the detach keys still goes to the session.
            let _ = self.holder.stream().set_nonblocking(false);
            let _ = self.send_outgoing();
        }
        Ok(is_detached)
    }

    fn take_replies(&mut self) -> Result<Option<ViewerEnd>, Failure> {
        match self.holder.fill() {
            Ok(()) => {}
            Err(HolderError::Broken(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(HolderError::Closed) => return Ok(Some(ViewerEnd::HolderGone)),
            Err(HolderError::Broken(error)) if is_gone(&error) => return Ok(Some(ViewerEnd::HolderGone)),
            Err(error) => return Err(error.into()),
        }
        while let Some(reply) = self.holder.ready()? {
            match reply {
                Reply::Data { offset, end, bytes } => self.show(offset, end, &bytes)?,
                Reply::Exited { status, end } => return Ok(Some(ViewerEnd::Exited { status, end })),
                Reply::Refused(why) => return Err(HolderError::Refused(why).into()),
                Reply::Resized { rows, cols } => {
                    self.session_size = self.session_size.map(|_| (rows, cols));
                    if self.unanswered_resizes == 0 {
                        self.fit()?;
                    }
                }
                Reply::Accepted => {
                    self.unanswered_resizes = self.unanswered_resizes.saturating_sub(1);
                    if self.unanswered_resizes == 0 {
                        self.fit()?;
                    }
                }
                Reply::Welcome(_) | Reply::Progress { .. } => {}
            }
        }
        Ok(None)
    }

    fn show(&mut self, offset: u64, end: u64, bytes: &[u8]) -> Result<(), Failure> {
        let behind = offset + bytes.len() as u64;
        // Data from before a jump is already on the new screen.
        let Some(fresh) = behind.checked_sub(self.position).filter(|fresh| *fresh > 0) else { return Ok(()) };
        let fresh = usize::try_from(fresh).unwrap_or(usize::MAX).min(bytes.len());
        let bytes = &bytes[bytes.len() - fresh..];
        self.position = behind;
        if let Some(catch_up) = &mut self.catch_up
            && catch_up.is_due(behind, end, Instant::now())
            && self.jump(behind)?
        {
            return Ok(());
        }
        if let Some(catch_up) = &self.catch_up {
            self.resting_until = catch_up.rest_until(behind, end, Instant::now());
        }
        match &mut self.frame {
            Some(frame) => {
                frame.feed(bytes);
                Ok(())
            }
            None => self.put(bytes),
        }
    }

    /// Skips to the newest screen. Returns false if it is not newer than `behind`.
    fn jump(&mut self, behind: u64) -> Result<bool, Failure> {
        let Some(screen) = self.catch_up.as_mut().and_then(CatchUp::screen) else { return Ok(false) };
        if screen.offset <= behind {
            return Ok(false);
        }
        self.sink.discard();
        self.paint(&screen.ansi, screen.offset)?;
        self.request(&Request::Follow { from: screen.offset });
        Ok(true)
    }

    fn repaint(&mut self) -> Result<(), Failure> {
        self.jump(0).map(|_| ())
    }

    fn request(&mut self, request: &Request) {
        self.outgoing.extend_from_slice(&request.encode());
    }

    fn send_outgoing(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.holder.stream().write(&self.outgoing) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes the queued output after the session has ended.
    fn show_rest(&mut self, signals: &mut Signals) -> Result<(), Failure> {
        while let Some(sink) = self.sink.waits_on() {
            let mut places = [PollFd::from_borrowed_fd(sink, PollFlags::OUT), PollFd::new(signals, PollFlags::IN)];
            match poll(&mut places, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Failure::Terminal(error.into())),
            }
            if signals.ending().is_some() {
                return Ok(());
            }
            signals.drain();
            self.sink.flush().map_err(Failure::Output)?;
        }
        Ok(())
    }
}

/// The descriptors that are ready.
struct Ready {
    signals: bool,
    holder: bool,
    sink: bool,
    keyboard: bool,
}

fn own_size() -> Option<Size> {
    terminal::size(io::stdout())
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
