//! The loop of an attached terminal: keys to the holder, output from it, nothing in between but the detach keys.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Instant;

use coven_domain::session::ExitStatus;
use coven_holder::client::{HolderClient, HolderError};
use coven_holder::wire::{Reply, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::catch_up::CatchUp;
use super::detach::DetachScanner;
use super::modes::ModeWatch;
use super::signals::Signals;
use super::terminal::{self, RawMode, Sink};
use crate::failure::Failure;

/// So many typed bytes wait for a holder that is slow to take them; then the keyboard waits.
const MOST_OUTGOING: usize = 256 << 10;
const CTRL_C: u8 = 3;

/// How a viewing came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Detached,
    /// The log ends at `end`.
    Exited {
        status: ExitStatus,
        end: u64,
    },
    HolderGone,
    Signalled(i32),
}

/// What the viewer's keyboard is.
pub enum Keyboard {
    /// A terminal: raw, with detach keys.
    Terminal(DetachScanner),
    /// A pipe or file, forwarded until its end.
    Stream,
    /// Not read at all.
    None,
}

pub struct Viewer<'a> {
    pub holder: HolderClient,
    pub keyboard: Keyboard,
    pub raw: Option<&'a RawMode>,
    pub is_read_only: bool,
    /// Where the log stands that was shown so far.
    pub position: u64,
    pub catch_up: Option<CatchUp>,
    pub sink: Sink,
    pub watch: ModeWatch,
    outgoing: Vec<u8>,
    typed: Box<[u8]>,
    /// Far behind a flood: nothing is read until the next screen is due.
    resting_until: Option<Instant>,
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
        }
    }

    /// Paints something that stands for the log up to `position`.
    pub fn paint(&mut self, screen: &[u8], position: u64) -> Result<(), Failure> {
        self.position = position;
        self.watch.feed(screen);
        self.sink.write(screen).map_err(Failure::Output)
    }

    /// Follows the log from `position` until something ends the viewing.
    pub fn run(&mut self, signals: &mut Signals) -> Result<Ending, Failure> {
        // The loop must never wait for one side while the other has something.
        self.holder.stream().set_nonblocking(true).map_err(HolderError::Broken)?;
        self.tell_size();
        self.request(&Request::Follow { from: self.position });
        let ending = self.serve(signals);
        if let Ok(Ending::Exited { .. }) = ending {
            self.show_rest(signals)?;
        }
        ending
    }

    fn serve(&mut self, signals: &mut Signals) -> Result<Ending, Failure> {
        loop {
            match self.send_outgoing() {
                Ok(()) => {}
                // Its last words may still be in the socket.
                Err(error) if is_gone(&error) => self.outgoing.clear(),
                Err(error) => return Err(HolderError::Broken(error).into()),
            }
            let ready = self.wait(signals)?;
            if ready.signals {
                signals.hush();
                if let Some(signal) = signals.ending() {
                    return Ok(Ending::Signalled(signal));
                }
                self.heed(signals)?;
            }
            if self.resting_until.is_some_and(|until| Instant::now() >= until) {
                self.resting_until = None;
                self.jump(self.position)?;
            }
            if ready.keyboard && self.take_typed()? {
                return Ok(Ending::Detached);
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
        // A terminal that does not keep up is the reason not to read more.
        holder.set(PollFlags::IN, !self.sink.is_waiting() && self.resting_until.is_none());
        holder.set(PollFlags::OUT, !self.outgoing.is_empty());
        let mut places = vec![PollFd::new(signals, PollFlags::IN)];
        // Left out altogether, or a holder that hangs up would keep the loop spinning.
        let holder = (!holder.is_empty()).then(|| {
            places.push(PollFd::new(&self.holder, holder));
            places.len() - 1
        });
        let sink = self.sink.waits_on().map(|sink| {
            places.push(PollFd::from_borrowed_fd(sink, PollFlags::OUT));
            places.len() - 1
        });
        let listens = !matches!(self.keyboard, Keyboard::None) && self.outgoing.len() < MOST_OUTGOING;
        let keyboard = listens.then(|| {
            places.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
            places.len() - 1
        });
        let rest = self.resting_until.map(|until| {
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

    fn heed(&mut self, signals: &Signals) -> Result<(), Failure> {
        if signals.take_continued() {
            if let Some(raw) = self.raw {
                raw.again();
            }
            self.repaint()?;
        }
        if signals.take_resized() {
            self.tell_size();
        }
        Ok(())
    }

    fn tell_size(&mut self) {
        if !self.is_read_only
            && let Some((rows, cols)) = terminal::size(io::stdout())
        {
            self.request(&Request::Resize { rows, cols });
        }
    }

    /// Reads the keyboard once; true if the detach keys were typed.
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
            // What was typed before the keys still belongs to the session.
            let _ = self.holder.stream().set_nonblocking(false);
            let _ = self.send_outgoing();
        }
        Ok(is_detached)
    }

    fn take_replies(&mut self) -> Result<Option<Ending>, Failure> {
        match self.holder.fill() {
            Ok(()) => {}
            Err(HolderError::Broken(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(HolderError::Closed) => return Ok(Some(Ending::HolderGone)),
            Err(HolderError::Broken(error)) if is_gone(&error) => return Ok(Some(Ending::HolderGone)),
            Err(error) => return Err(error.into()),
        }
        while let Some(reply) = self.holder.ready()? {
            match reply {
                Reply::Data { offset, end, bytes } => self.show(offset, end, &bytes)?,
                Reply::Exited { status, end } => return Ok(Some(Ending::Exited { status, end })),
                Reply::Refused(why) => return Err(HolderError::Refused(why).into()),
                Reply::Welcome(_) | Reply::Progress { .. } | Reply::Resized { .. } | Reply::Accepted => {}
            }
        }
        Ok(None)
    }

    fn show(&mut self, offset: u64, end: u64, bytes: &[u8]) -> Result<(), Failure> {
        let behind = offset + bytes.len() as u64;
        // Frames of before a jump repeat what the new screen has already.
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
        self.watch.feed(bytes);
        self.sink.write(bytes).map_err(Failure::Output)
    }

    /// Shows the newest screen instead of everything up to it; false if there is none that is newer.
    fn jump(&mut self, behind: u64) -> Result<bool, Failure> {
        let Some((screen, offset)) = self.catch_up.as_mut().and_then(CatchUp::screen) else { return Ok(false) };
        if offset <= behind {
            return Ok(false);
        }
        self.sink.discard();
        self.paint(&screen, offset)?;
        self.request(&Request::Follow { from: offset });
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

    /// The session has ended; what its terminal has not taken yet is still shown.
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
            signals.hush();
            self.sink.flush().map_err(Failure::Output)?;
        }
        Ok(())
    }
}

/// What the loop has to look at.
struct Ready {
    signals: bool,
    holder: bool,
    sink: bool,
    keyboard: bool,
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
