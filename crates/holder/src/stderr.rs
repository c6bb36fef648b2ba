//! Records the standard error of a harness on pipes: the first 4 MiB and the last 64 KiB.

use std::collections::VecDeque;

use crate::journal::Record;
use crate::recorder::Recorder;

/// Standard error up to this size is recorded as it arrives.
const MAX_HEAD_BYTES: u64 = 4 << 20;
/// Of the rest, this much is kept from the end.
const MAX_TAIL_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct Stderr {
    written: u64,
    dropped: u64,
    end: VecDeque<u8>,
}

impl Stderr {
    pub fn take(&mut self, bytes: &[u8], recorder: &mut Recorder) {
        if self.written < MAX_HEAD_BYTES {
            self.written += bytes.len() as u64;
            return recorder.note(Record::Stderr(bytes.to_vec()));
        }
        if self.dropped == 0 && self.end.is_empty() {
            let note = "standard error exceeds 4 MiB; of the rest only the last 64 KiB are kept";
            recorder.note(Record::Note(note.to_owned()));
        }
        self.end.extend(bytes);
        let excess = self.end.len().saturating_sub(MAX_TAIL_BYTES);
        self.end.drain(..excess);
        self.dropped += excess as u64;
    }

    /// Records the kept end; call it before the exit is recorded.
    pub fn end(&mut self, recorder: &mut Recorder) {
        if self.dropped > 0 {
            recorder.note(Record::Note(format!("{} bytes of standard error were dropped", self.dropped)));
        }
        if !self.end.is_empty() {
            recorder.note(Record::Stderr(self.end.drain(..).collect()));
        }
        self.dropped = 0;
    }
}
