//! What the holder does with input: hands it to the harness, and notes it in the journal where that is allowed.

use std::time::Instant;

use coven_domain::session::RecordInput;
use rustix::termios::LocalModes;

use super::Holder;
use crate::first_words::FirstWords;
use crate::journal::Record;
use crate::wire::MAX_BODY;

impl Holder {
    /// What the spec wants typed: into a pipe at once, into a terminal when the program is up.
    pub(super) fn type_first(&mut self) {
        let mut typed = std::mem::take(&mut self.spec.typed);
        if self.harness.is_terminal {
            self.first_words = FirstWords::new(typed, Instant::now());
        } else if !typed.is_empty() {
            typed.push('\n');
            self.take_pieces(typed.as_bytes());
        }
    }

    pub(super) fn take_pieces(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(MAX_BODY) {
            self.take_input(piece.to_vec(), true);
        }
    }

    /// Input that tells where it belongs: what was taken before is not taken again, whoever sends it.
    pub(super) fn take_input_at(&mut self, index: usize, offset: u64, mut bytes: Vec<u8>) {
        let Some(known) = self.input_end.checked_sub(offset) else {
            return self.viewers[index].refuse(format!("input from byte {offset}; byte {} comes next", self.input_end));
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(bytes.len());
        bytes.drain(..known);
        self.take_input(bytes, true);
    }

    pub(super) fn take_input(&mut self, bytes: Vec<u8>, is_noted: bool) {
        if self.exit.is_some() || self.harness.input.is_none() || self.is_input_closing || bytes.is_empty() {
            return;
        }
        // Asked before the bytes are written: a program that reads them may turn its echo on again at once.
        let is_kept = self.keeps_input();
        // To the harness first: whoever typed it waits for the echo.
        self.typed.push(&bytes);
        self.write_input();
        if is_noted {
            self.input_end += bytes.len() as u64;
            self.recorder.note(if is_kept { Record::Input(bytes) } else { Record::hidden(&bytes) });
        }
    }

    /// Reports whether the journal may keep what is typed now, and not only how much it is.
    fn keeps_input(&self) -> bool {
        match self.spec.record_input {
            _ if !self.harness.is_terminal => true,
            RecordInput::All => true,
            RecordInput::None => false,
            // The driver collects a line and shows none of it: a program asks for a secret. Programs that read
            // single keys turn the echo off too; they draw what is typed themselves.
            RecordInput::HiddenSecrets => rustix::termios::tcgetattr(&self.harness.output).is_ok_and(|terminal| {
                let modes = terminal.local_modes;
                !modes.contains(LocalModes::ICANON) || modes.contains(LocalModes::ECHO)
            }),
        }
    }

    pub(super) fn write_input(&mut self) {
        if let Some(input) = &self.harness.input
            && self.typed.write_to(input).is_err()
        {
            // Nobody reads it any more; the exit will tell.
            self.typed.clear();
        }
        if self.is_input_closing && self.typed.is_empty() && !self.harness.is_terminal {
            self.harness.input = None;
        }
    }
}
