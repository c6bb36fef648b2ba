//! Input handling: writes input to the harness and records it in the journal if the settings allow it.

use std::time::Instant;

use coven_domain::session::RecordInput;
use rustix::termios::LocalModes;

use super::Holder;
use crate::initial_input::InitialInput;
use crate::journal::Record;
use crate::wire::MAX_BODY;

impl Holder {
    /// Sends the spec's initial input: to a pipe immediately, to a terminal once the program is ready.
    pub(super) fn type_first(&mut self) {
        let mut typed = std::mem::take(&mut self.spec.typed);
        if self.harness.is_terminal {
            self.initial_input = InitialInput::new(typed, Instant::now());
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

    /// Accepts input with an offset and skips the bytes that were already accepted, from any client.
    pub(super) fn take_input_at(&mut self, index: usize, offset: u64, mut bytes: Vec<u8>) {
        let Some(known) = self.input_end.checked_sub(offset) else {
            let next = self.input_end;
            return self.viewers[index].refuse(format!("input starts at byte {offset}, but byte {next} is next"));
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(bytes.len());
        bytes.drain(..known);
        self.take_input(bytes, true);
    }

    pub(super) fn take_input(&mut self, bytes: Vec<u8>, is_recorded: bool) {
        if self.exit.is_some() || self.harness.input.is_none() || self.is_input_closing || bytes.is_empty() {
            return;
        }
        // Check before writing: a program that reads a password may turn the echo back on immediately.
        let is_kept = self.keeps_input();
        // Write to the harness first: the user is waiting for the echo.
        self.input_queue.push(&bytes);
        self.write_input();
        if is_recorded {
            self.input_end += bytes.len() as u64;
            self.recorder.note(if is_kept { Record::Input(bytes) } else { Record::hidden(&bytes) });
        }
    }

    /// Reports whether the journal may store the input itself and not only its length.
    fn keeps_input(&self) -> bool {
        match self.spec.record_input {
            _ if !self.harness.is_terminal => true,
            RecordInput::All => true,
            RecordInput::None => false,
            // Line mode without echo means that a program asks for a secret. Programs that read single keys also turn
            // the echo off, but display the input themselves.
            RecordInput::HiddenSecrets => rustix::termios::tcgetattr(&self.harness.output).is_ok_and(|terminal| {
                let modes = terminal.local_modes;
                !modes.contains(LocalModes::ICANON) || modes.contains(LocalModes::ECHO)
            }),
        }
    }

    pub(super) fn write_input(&mut self) {
        if let Some(input) = &self.harness.input
            && self.input_queue.write_to(input).is_err()
        {
            // The harness closed its input; its exit will be recorded.
            self.input_queue.clear();
        }
        if self.is_input_closing && self.input_queue.is_empty() && !self.harness.is_terminal {
            self.harness.input = None;
        }
    }
}
