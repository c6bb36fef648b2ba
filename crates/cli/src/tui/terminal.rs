//! The terminal while the browser has it, and as it was before, however the browser ends.

use std::io::{self, Stdout, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::execute;
use crossterm::style::Print;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Size;
use signal_hook::consts::SIGTSTP;
use signal_hook::low_level::raise;

// Clicks and the wheel, not every movement: those would be hundreds of reports a second for nothing.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

/// Whether the browser has the terminal now; a panic anywhere gives it back.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

pub struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<Stdout>>,
}

impl Terminal {
    pub fn take() -> io::Result<Self> {
        restore_on_panic();
        let taken = enter().and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(stdout())));
        match taken {
            Ok(inner) => Ok(Self { inner }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Stops us like any program; returns when the shell continues us.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        raise(SIGTSTP)?;
        self.retake()
    }

    /// Makes the terminal ours again, whatever was done to it meanwhile.
    pub fn retake(&mut self) -> io::Result<()> {
        give_back();
        enter()?;
        self.forget()
    }

    pub fn size(&self) -> io::Result<Size> {
        self.inner.size()
    }

    pub fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if !IS_TAKEN.load(Ordering::SeqCst) {
            return Err(io::Error::other("it was given back after a panic"));
        }
        self.inner.draw(render).map(drop)
    }

    /// The next drawing writes every cell.
    pub fn forget(&mut self) -> io::Result<()> {
        self.inner.clear()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> io::Result<()> {
    IS_TAKEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Print(MOUSE_ON), EnableBracketedPaste)
}

fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        // A terminal that is gone needs nothing back.
        let _ = execute!(stdout(), DisableBracketedPaste, Print(MOUSE_OFF), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// The message of a panic would vanish with the alternate screen, so the screen is left before it is written.
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
