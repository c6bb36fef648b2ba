//! Standard output for people and programs: locked, written once, and a reader that leaves is no error.
//! `line`, `text` and `note` make foreign text harmless; `bytes` and `json` write what they are given.

use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};

use crate::failure::Failure;
use crate::format::readable;

/// Writes one line for people.
pub fn line(line: Arguments<'_>) -> Result<(), Failure> {
    text(&format!("{line}\n"))
}

/// Writes text for people. Nothing in it acts on their terminal.
pub fn text(text: &str) -> Result<(), Failure> {
    bytes(readable(text).as_bytes())
}

/// Writes bytes as they are.
pub fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// A JSON text as it came, and the end of its line.
pub fn json(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Prints a record or a page that this program built, in the daemon's form.
pub fn record(value: &impl serde::Serialize) -> Result<(), Failure> {
    json(&serde_json::to_vec(value).expect("plain data"))
}

/// One line to a person, beside the output.
pub fn note(text: Arguments<'_>) {
    // Nothing is left to tell if standard error is gone too.
    let _ = io::stderr().lock().write_all(readable(&format!("{text}\n")).as_bytes());
}

/// Whether a person wants colours, and the terminal has them.
pub fn has_colours() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !is_set("NO_COLOR") && !is_dumb
}

pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether a full-screen program can be shown and take keys: a terminal on both sides that can move its cursor.
pub fn has_screen() -> bool {
    is_terminal() && io::stdin().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Rows and columns of the terminal behind standard output, if there is one.
pub fn terminal_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// Standard input and output become the terminal if they lead elsewhere: for what only makes sense on a screen.
pub fn onto_terminal() -> Result<(), Failure> {
    if is_terminal() && io::stdin().is_terminal() {
        return Ok(());
    }
    let terminal = std::fs::File::options().read(true).write(true).open("/dev/tty").map_err(|_| {
        Failure::usage("there is no terminal to open the browser on", "Use `--plain` or `--json` for a list")
    })?;
    let failed = |error: rustix::io::Errno| Failure::Terminal(error.into());
    if !is_terminal() {
        rustix::stdio::dup2_stdout(&terminal).map_err(failed)?;
    }
    if !io::stdin().is_terminal() {
        rustix::stdio::dup2_stdin(&terminal).map_err(failed)?;
    }
    Ok(())
}
