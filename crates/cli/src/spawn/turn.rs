//! Shows one turn: a spinner until the first output, then the answer while it arrives. Ctrl-C interrupts it.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coven_host::print_mode::{Cancel, TurnDone, TurnError, TurnSpec, run_turn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::painter::Painter;
use crate::attach::signals::Signals;
use crate::failure::Failure;
use crate::output;

const SPINNER: [&str; 8] = ["⣾", "⣽", "⣻", "⢿", "⡿", "⣟", "⣯", "⣷"];
const FRAME: Duration = Duration::from_millis(120);

/// How a turn ended, and whether a signal asked the program to exit.
pub struct Ran {
    pub done: Result<TurnDone, TurnError>,
    pub must_exit: bool,
}

pub fn run(spec: &TurnSpec<'_>, signals: &mut Signals) -> Result<Ran, Failure> {
    let cancel = Cancel::new().map_err(Failure::Runtime)?;
    let (running, ended) = UnixStream::pair().map_err(Failure::Runtime)?;
    let (has_output, must_exit) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut painter = Painter::new();
    let mut broken = None;
    let done = std::thread::scope(|scope| {
        scope.spawn(|| watch(signals, &ended, &cancel, &has_output, &must_exit));
        let done = run_turn(
            spec,
            |text| {
                if !has_output.swap(true, Ordering::SeqCst) {
                    wipe();
                }
                if let Err(failure) = painter.piece(text) {
                    // The output is closed.
                    broken.get_or_insert(failure);
                    cancel.cancel();
                }
            },
            &cancel,
        );
        drop(running);
        done
    });
    if !has_output.load(Ordering::SeqCst) {
        wipe();
    }
    if let Some(failure) = broken {
        return Err(failure);
    }
    if has_output.load(Ordering::SeqCst) {
        painter.finish()?;
    }
    Ok(Ran { done, must_exit: must_exit.load(Ordering::SeqCst) })
}

/// Shows the spinner and handles signals until the turn has ended.
fn watch(signals: &mut Signals, ended: &UnixStream, cancel: &Cancel, has_output: &AtomicBool, must_exit: &AtomicBool) {
    let has_spinner = output::is_terminal();
    let mut frame = 0;
    loop {
        let spins = has_spinner && !has_output.load(Ordering::SeqCst);
        if spins {
            let mut out = std::io::stdout().lock();
            let _ = write!(out, "\r{} thinking …", SPINNER[frame % SPINNER.len()]).and_then(|()| out.flush());
            frame += 1;
        }
        let pause = spins.then(|| Timespec::try_from(FRAME).expect("a short time"));
        let mut fds = [PollFd::new(&*signals, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        let polled = poll(&mut fds, pause.as_ref());
        let [_, ended] = fds.map(|fd| fd.revents());
        if !ended.is_empty() || matches!(polled, Err(error) if error != rustix::io::Errno::INTR) {
            return;
        }
        if let Some(signal) = signals.take_ending() {
            // Ctrl-C ends only the turn; other signals also end the program.
            must_exit.store(signal != signal_hook::consts::SIGINT, Ordering::SeqCst);
            cancel.cancel();
        }
        signals.drain();
    }
}

fn wipe() {
    if output::is_terminal() {
        let _ = output::bytes(b"\r\x1b[2K");
    }
}
