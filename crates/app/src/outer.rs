//! The terminal that the app runs in: taken at the start, given back however the app ends.

use std::io::{self, BufWriter, Stdout, Write, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange, KeyboardEnhancementFlags,
    PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode, supports_keyboard_enhancement,
};
use crossterm::{execute, queue};
use ratatui::backend::{Backend as _, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use signal_hook::consts::SIGTSTP;
use signal_hook::low_level::raise;

use crate::frame::canvas::CursorPlace;

const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l";
/// A larger selection would block the terminal.
const MAX_COPIED_BYTES: usize = 1 << 20;

/// The app has the terminal now; a panic in any thread gives it back.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
static HAS_KEYBOARD_FLAGS: AtomicBool = AtomicBool::new(false);

pub struct Outer {
    backend: CrosstermBackend<BufWriter<Stdout>>,
    painted: Buffer,
    frame: Buffer,
    cursor: Option<CursorPlace>,
    has_mouse: bool,
}

impl Outer {
    pub fn take(has_mouse: bool) -> io::Result<Self> {
        restore_on_panic();
        let taken = enter(has_mouse).and_then(|()| size());
        if taken.is_err() {
            give_back();
        }
        let area = taken?;
        Ok(Self {
            backend: CrosstermBackend::new(BufWriter::with_capacity(64 << 10, stdout())),
            painted: Buffer::empty(area),
            frame: Buffer::empty(area),
            cursor: None,
            has_mouse,
        })
    }

    /// Paints the cells that changed, as one update of the terminal. An unchanged frame writes nothing.
    pub fn draw(&mut self, area: Rect, render: impl FnOnce(&mut Buffer) -> Option<CursorPlace>) -> io::Result<()> {
        if !IS_TAKEN.load(Ordering::SeqCst) {
            return Err(io::Error::other("it was given back after a panic"));
        }
        if self.painted.area != area {
            self.frame = Buffer::empty(area);
            self.forget(area)?;
        }
        self.frame.reset();
        let cursor = render(&mut self.frame);
        let changes = self.painted.diff(&self.frame);
        if !changes.is_empty() || cursor != self.cursor {
            queue!(self.backend, BeginSynchronizedUpdate, Hide)?;
            self.backend.draw(changes.into_iter())?;
            if let Some(place) = cursor {
                queue!(self.backend, MoveTo(place.x, place.y), Print(format!("\x1b[{} q", place.shape)), Show)?;
            }
            queue!(self.backend, EndSynchronizedUpdate)?;
            io::Write::flush(&mut self.backend)?;
        }
        self.cursor = cursor;
        std::mem::swap(&mut self.painted, &mut self.frame);
        Ok(())
    }

    /// The next drawing writes every cell.
    pub fn forget(&mut self, area: Rect) -> io::Result<()> {
        self.painted = Buffer::empty(area);
        self.cursor = None;
        queue!(self.backend, SetAttribute(Attribute::Reset), Clear(ClearType::All))?;
        io::Write::flush(&mut self.backend)
    }

    /// Stops the program like any other; returns when the shell continues it.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        raise(SIGTSTP)?;
        self.retake()
    }

    /// Takes the terminal again and sets all modes anew.
    pub fn retake(&mut self) -> io::Result<()> {
        give_back();
        enter(self.has_mouse)?;
        self.forget(self.painted.area)
    }

    pub fn ring(&mut self) -> io::Result<()> {
        queue!(self.backend, Print('\u{7}'))?;
        io::Write::flush(&mut self.backend)
    }

    /// Puts a text on the clipboard of the terminal (OSC 52).
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let end = text.floor_char_boundary(MAX_COPIED_BYTES);
        let encoded = STANDARD.encode(&text[..end]);
        queue!(self.backend, Print(format!("\x1b]52;c;{encoded}\x07")))?;
        io::Write::flush(&mut self.backend)
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter(has_mouse: bool) -> io::Result<()> {
    IS_TAKEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, EnableFocusChange)?;
    if has_mouse {
        execute!(stdout(), Print(MOUSE_ON))?;
    }
    Ok(())
}

/// The size of the terminal.
pub fn size() -> io::Result<Rect> {
    let (width, height) = crossterm::terminal::size()?;
    Ok(Rect { x: 0, y: 0, width, height })
}

/// Turns the kitty keyboard protocol on where the terminal has it. Reads the terminal's answer, so only the thread that
/// reads keys may call it. Terminals that are not known to answer are not asked: the wait for them would delay the first keys.
pub fn enable_keyboard_flags() -> io::Result<()> {
    let names = ["TERM", "TERM_PROGRAM"].map(|name| std::env::var(name).unwrap_or_default().to_lowercase());
    let is_known = |known: &str| names.iter().any(|name| name.contains(known));
    if !["kitty", "ghostty", "foot", "wezterm", "alacritty", "iterm", "rio", "contour"].into_iter().any(is_known) {
        return Ok(());
    }
    if supports_keyboard_enhancement()? && IS_TAKEN.load(Ordering::SeqCst) {
        HAS_KEYBOARD_FLAGS.store(true, Ordering::SeqCst);
        execute!(stdout(), PushKeyboardEnhancementFlags(KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES))?;
    }
    Ok(())
}

fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let mut out = stdout();
        // A terminal that is gone needs nothing back.
        if HAS_KEYBOARD_FLAGS.swap(false, Ordering::SeqCst) {
            let _ = execute!(out, PopKeyboardEnhancementFlags);
        }
        let _ = execute!(
            out,
            DisableFocusChange,
            DisableBracketedPaste,
            Print(MOUSE_OFF),
            Print("\x1b[0 q"),
            LeaveAlternateScreen,
            Show
        );
        let _ = disable_raw_mode();
        let _ = out.flush();
    }
}

/// The message of a panic would vanish with the alternate screen, so that is left first.
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
