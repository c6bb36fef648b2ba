//! Writes to standard output and standard error.
//! `line`, `text` and `note` replace control characters in foreign text; `bytes` and `json` write their input unchanged.

use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};

use crate::failure::Failure;
use crate::format::readable;

/// Writes one line for people.
pub fn line(line: Arguments<'_>) -> Result<(), Failure> {
    text(&format!("{line}\n"))
}

/// Writes text for people, without control characters that could act on their terminal.
pub fn text(text: &str) -> Result<(), Failure> {
    bytes(readable(text).as_bytes())
}

/// Writes bytes unchanged.
pub fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Writes JSON text unchanged, and a newline.
pub fn json(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Writes a record that this program built, in the daemon's JSON form.
pub fn record(value: &impl serde::Serialize) -> Result<(), Failure> {
    json(&serde_json::to_vec(value).expect("plain data"))
}

/// Writes one line for people to standard error.
pub fn note(text: Arguments<'_>) {
    // Nothing is left to report a failure of standard error.
    let _ = io::stderr().lock().write_all(readable(&format!("{text}\n")).as_bytes());
}

/// Returns whether the user wants colours and the terminal supports them.
pub fn has_colours() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !is_set("NO_COLOR") && !is_dumb
}

pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns whether a full-screen program can run: standard input and output are a terminal that can move its cursor.
pub fn has_screen() -> bool {
    is_terminal() && io::stdin().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns rows and columns of the terminal on standard output, if it is one.
pub fn terminal_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// Redirects standard input and output to the terminal, for full-screen programs.
pub fn onto_terminal() -> Result<(), Failure> {
    if is_terminal() && io::stdin().is_terminal() {
        return Ok(());
    }
    let terminal = std::fs::File::options().read(true).write(true).open("/dev/tty").map_err(|_| {
        Failure::usage("cannot open the browser without a terminal", "Use `--plain` or `--json` for a list")
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
