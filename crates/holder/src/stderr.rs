//! Standard error of a harness on pipes: its beginning and its end are kept, however much there is in between.

use std::collections::VecDeque;

use crate::journal::Record;
use crate::recorder::Recorder;

/// The beginning is written down as it comes.
const BEGINNING: u64 = 4 << 20;
/// Of what follows, this much of the end.
const END: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct Stderr {
    written: u64,
    dropped: u64,
    end: VecDeque<u8>,
}

impl Stderr {
    pub fn take(&mut self, bytes: &[u8], recorder: &mut Recorder) {
        if self.written < BEGINNING {
            self.written += bytes.len() as u64;
            return recorder.note(Record::Stderr(bytes.to_vec()));
        }
        if self.dropped == 0 && self.end.is_empty() {
            let note = "there is much on standard error; from here on only its end is kept";
            recorder.note(Record::Note(note.to_owned()));
        }
        self.end.extend(bytes);
        let excess = self.end.len().saturating_sub(END);
        self.end.drain(..excess);
        self.dropped += excess as u64;
    }

    /// The last words, before the exit is written down.
    pub fn end(&mut self, recorder: &mut Recorder) {
        if self.dropped > 0 {
            recorder.note(Record::Note(format!("{} bytes of standard error were left out", self.dropped)));
        }
        if !self.end.is_empty() {
            recorder.note(Record::Stderr(self.end.drain(..).collect()));
        }
        self.dropped = 0;
    }
}
