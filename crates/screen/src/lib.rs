//! A terminal model of a session's output, and snapshots of it as ANSI, text and HTML.
//!
//! [`Screen`] processes a program's terminal output and returns the visible state at any time: as bytes that repaint it
//! ([`Screen::snapshot`]), as text, as styled spans or as an HTML page. It also collects the signals in
//! the output, such as titles and notifications ([`Screen::take_signals`]). It keeps no scrollback: the history is the
//! session's log, which [`TextLog`] and [`HtmlLog`] convert.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod dispatch;
mod editing;
mod frame;
mod html;
mod input_modes;
mod keyboard;
mod log;
mod model;
mod modes;
mod palette;
mod pen;
mod queries;
mod screen;
mod sgr;
mod signals;
mod snapshot;
mod spans;
mod strings;
mod tail;

pub use html::html_page;
pub use input_modes::{InputModes, MouseEvents};
pub use log::{HtmlLog, TextLog};
pub use screen::{MAX_SIDE, Screen};
pub use signals::{Progress, TerminalSignal};
pub use spans::{Color, CursorView, Span, Style, Underline};
