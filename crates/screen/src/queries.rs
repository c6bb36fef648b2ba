//! Answers to terminal queries, for sessions without an attached terminal that could answer them.

use crate::model::Model;
use crate::modes::{ORIGIN, SYNCHRONIZED};

/// Maximum size of pending answers. Answers beyond it are dropped.
const MAX_REPLIES: usize = 64 * 1024;

impl Model {
    pub(crate) fn reply(&mut self, bytes: &[u8]) {
        if self.replies.len() + bytes.len() <= MAX_REPLIES {
            self.replies.extend_from_slice(bytes);
        }
    }

    /// DA1 to DA3: a generic VT220 with colours.
    pub(crate) fn identify(&mut self, level: Option<u8>) {
        match level {
            None => self.reply(b"\x1b[?62;22c"),
            Some(b'>') => self.reply(b"\x1b[>0;277;0c"),
            Some(b'=') => self.reply(b"\x1bP!|00000000\x1b\\"),
            Some(_) => {}
        }
    }

    /// XTVERSION.
    pub(crate) fn report_version(&mut self) {
        let version = env!("CARGO_PKG_VERSION");
        self.reply(format!("\x1bP>|coven({version})\x1b\\").as_bytes());
    }

    /// DSR: status, cursor position and colour scheme (dark).
    pub(crate) fn report_status(&mut self, what: u16, is_private: bool) {
        let (mut row, col) = self.cursor_point();
        if self.origin {
            row = row.saturating_sub(self.margins.0);
        }
        let (row, col) = (row + 1, col + 1);
        match (what, is_private) {
            (5, false) => self.reply(b"\x1b[0n"),
            (6, false) => self.reply(format!("\x1b[{row};{col}R").as_bytes()),
            (6, true) => self.reply(format!("\x1b[?{row};{col};1R").as_bytes()),
            (996, true) => self.reply(b"\x1b[?997;1n"),
            _ => {}
        }
    }

    /// DECRQM of a private mode.
    pub(crate) fn report_private_mode(&mut self, number: u16) {
        let state = match number {
            ORIGIN => Some(self.origin),
            47 | 1047 | 1049 => Some(self.is_alternate()),
            // Supported, but output is never delayed.
            SYNCHRONIZED => Some(false),
            // Forwarded to viewers, but not implemented by the model.
            2027 | 2048 => None,
            _ => self.modes.get(number),
        };
        self.reply(format!("\x1b[?{number};{}$y", mode_state(state)).as_bytes());
    }

    /// DECRQM of an ANSI mode.
    pub(crate) fn report_mode(&mut self, number: u16) {
        let state = match number {
            4 => Some(self.modes.insert),
            20 => Some(self.modes.new_line),
            _ => None,
        };
        self.reply(format!("\x1b[{number};{}$y", mode_state(state)).as_bytes());
    }

    pub(crate) fn report_keyboard(&mut self) {
        let flags = self.keyboard[self.active()].flags();
        self.reply(format!("\x1b[?{flags}u").as_bytes());
    }

    pub(crate) fn report_modify_other_keys(&mut self) {
        let level = self.modes.modify_other_keys;
        self.reply(format!("\x1b[>4;{level}m").as_bytes());
    }

    pub(crate) fn report_size(&mut self) {
        let (rows, cols) = (self.rows(), self.cols());
        self.reply(format!("\x1b[8;{rows};{cols}t").as_bytes());
    }
}

fn mode_state(state: Option<bool>) -> u8 {
    match state {
        None => 0,
        Some(true) => 1,
        Some(false) => 2,
    }
}
