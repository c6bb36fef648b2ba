//! Handles signals while the line editor reads: the editor ignores them and would wait forever for a closed terminal.

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

/// Runs `read`. A termination signal marks the conversation as interrupted, restores the terminal and ends the program.
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
            // Without events, poll only reports that the terminal is closed.
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
            // On a terminal, the line editor handles Ctrl-C.
            Some(signal) if signal != SIGINT || !is_terminal => end(writer, signal),
            _ if !is_gone => {}
            _ => end(writer, SIGHUP),
        }
    }
}

fn end(writer: &mut Writer, signal: i32) {
    let mark = Line::Status { status: ConversationState::Interrupted, timestamp: clock::now() };
    // Without this mark the file is like after a crash: valid, and --resume works.
    let _ = writer.append(&mut [mark]);
    if output::is_terminal() {
        let _ = crossterm::execute!(std::io::stdout(), DisableBracketedPaste);
        let _ = disable_raw_mode();
        let _ = output::bytes(b"\r\n");
    }
    let _ = emulate_default_handler(signal);
}
