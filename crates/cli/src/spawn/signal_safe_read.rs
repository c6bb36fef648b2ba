//! While somebody types: the line editor knows nothing of signals, and would wait for a terminal that is gone for ever.

use std::io::{IsTerminal, stdin};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;

use coven_domain::conversation::{ConversationState, Line};
use coven_holder::clock;
use coven_interop::conversations::Writer;
use crossterm::event::DisableBracketedPaste;
use crossterm::terminal::disable_raw_mode;
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT};
use signal_hook::low_level::emulate_default_handler;

use crate::attach::signals::Signals;
use crate::failure::Failure;
use crate::output;

/// Reads with `read`. What asks the program to end meanwhile ends it at once: marked in the file, the terminal as it was.
pub fn read_with_signals<T>(
    writer: &mut Writer,
    signals: &mut Signals,
    read: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (typing, typed) = UnixStream::pair().map_err(Failure::Runtime)?;
    thread::scope(|scope| {
        scope.spawn(move || watch(writer, signals, &typed));
        let line = read();
        drop(typing);
        line
    })
}

fn watch(writer: &mut Writer, signals: &mut Signals, typed: &UnixStream) {
    let input = stdin();
    let is_terminal = input.is_terminal();
    loop {
        let mut fds = vec![PollFd::new(&*signals, PollFlags::IN), PollFd::new(typed, PollFlags::IN)];
        if is_terminal {
            // Only told if it is gone.
            fds.push(PollFd::from_borrowed_fd(input.as_fd(), PollFlags::empty()));
        }
        let _ = poll(&mut fds, None);
        let is_typed = !fds[1].revents().is_empty();
        let is_gone = fds.get(2).is_some_and(|terminal| !terminal.revents().is_empty());
        drop(fds);
        if is_typed {
            return;
        }
        signals.drain();
        match signals.take_ending() {
            // Ctrl-C at the prompt of a terminal is a key.
            Some(signal) if signal != SIGINT || !is_terminal => end(writer, signal),
            _ if !is_gone => {}
            _ => end(writer, SIGHUP),
        }
    }
}

fn end(writer: &mut Writer, signal: i32) {
    let mark = Line::Status { status: ConversationState::Interrupted, timestamp: clock::now() };
    // Where it cannot be written, the file is as it would be after a crash: sound, and open to --resume.
    let _ = writer.append(&mut [mark]);
    if output::is_terminal() {
        let _ = crossterm::execute!(std::io::stdout(), DisableBracketedPaste);
        let _ = disable_raw_mode();
        let _ = output::bytes(b"\r\n");
    }
    let _ = emulate_default_handler(signal);
}
