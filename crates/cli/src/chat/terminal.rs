//! The terminal while the chat has it, and as it was before, however the chat ends.

use std::io::{self, Write, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

/// Pasted text comes in one piece.
const ON: &[u8] = b"\x1b[?2004h";
/// A picture that was cut off is ended too.
const OFF: &[u8] = b"\x1b[?2026l\x1b[?2004l\x1b[m\x1b[?25h";

/// Whether the chat has the terminal now; a panic anywhere gives it back.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

pub struct Terminal;

impl Terminal {
    pub fn take() -> io::Result<Self> {
        restore_on_panic();
        let terminal = Self;
        terminal.retake()?;
        Ok(terminal)
    }

    /// Gives the terminal to the shell for a while.
    pub fn lend(&self) {
        give_back();
    }

    /// Makes the terminal ours again, whatever was done to it meanwhile.
    pub fn retake(&self) -> io::Result<()> {
        give_back();
        IS_TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        let mut out = stdout().lock();
        out.write_all(ON).and_then(|()| out.flush())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        // A terminal that is gone needs nothing back, and one that takes nothing must not hold us.
        let _ = crate::attach::terminal::write_within(OFF, std::time::Duration::from_millis(200));
        let _ = disable_raw_mode();
    }
}

/// The message of a panic belongs on a terminal that breaks its lines.
fn restore_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
    });
}
