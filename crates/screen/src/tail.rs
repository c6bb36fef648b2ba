//! Tracks which received bytes the parser has not acted on yet.
//!
//! An ESC always starts a new sequence, regardless of the bytes before it. So only the bytes after the last ESC matter,
//! and most of the input is skipped.

/// Maximum length of a control string; real titles and links are far shorter.
const MAX_STRING: usize = 16 * 1024;

/// Maximum length of a control sequence. The parser drops sequences with more than 32 parameters anyway.
const MAX_SEQUENCE: usize = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    Escape,
    EscapeIntermediate,
    Csi,
    Osc,
    DcsHeader,
    DcsBody,
    /// Inside an APC, PM or SOS string, whose content the model does not use.
    Swallowed,
}

#[derive(Debug, Default)]
pub(crate) struct Tail {
    state: State,
    /// The unfinished sequence.
    bytes: Vec<u8>,
    overflowed: bool,
}

impl Tail {
    /// Returns the bytes that bring another parser into the same state.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reports whether the next byte is text.
    pub(crate) fn is_empty(&self) -> bool {
        self.state == State::Ground
    }

    /// Returns the number of bytes at the start of `piece` that only extend an overlong string.
    pub(crate) fn unwanted(&self, piece: &[u8]) -> usize {
        if !self.overflowed {
            return 0;
        }
        let ends = |byte: &u8| matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b);
        piece.iter().position(ends).unwrap_or(piece.len())
    }

    /// Records bytes that were passed to the parser. Returns true when an overlong string has just ended.
    pub(crate) fn observe(&mut self, piece: &[u8]) -> bool {
        let was_overlong = self.overflowed;
        let rest = match last_escape(piece) {
            Some(at) => {
                self.start(State::Escape);
                self.bytes.push(0x1b);
                &piece[at + 1..]
            }
            None => piece,
        };
        let mut rest = rest.iter();
        while self.state != State::Ground
            && let Some(&byte) = rest.next()
        {
            self.step(byte);
        }
        was_overlong && !self.overflowed && self.state == State::Ground
    }

    fn start(&mut self, state: State) {
        self.state = state;
        self.bytes.clear();
        self.overflowed = false;
    }

    fn step(&mut self, byte: u8) {
        use State::*;
        match (self.state, byte) {
            (_, 0x18 | 0x1a) | (Osc, 0x07) => self.start(Ground),
            // The parser has already executed or dropped controls inside a sequence.
            (_, 0x00..=0x1f) => {}
            (Osc, _) => self.push(byte, MAX_STRING),
            (Swallowed, _) | (_, 0x7f..) => {}
            (Escape, b'[') => self.enter(Csi, byte),
            (Escape, b']') => self.enter(Osc, byte),
            (Escape, b'P') => self.enter(DcsHeader, byte),
            (Escape, b'X' | b'^' | b'_') => self.enter(Swallowed, byte),
            (Escape, 0x20..=0x2f) => self.enter(EscapeIntermediate, byte),
            (EscapeIntermediate, 0x20..=0x2f) => self.push(byte, MAX_SEQUENCE),
            (Csi | DcsHeader, 0x20..=0x3f) => self.push(byte, MAX_SEQUENCE),
            (DcsHeader, _) => self.enter(DcsBody, byte),
            (DcsBody, _) => self.push(byte, MAX_SEQUENCE),
            (Escape | EscapeIntermediate | Csi, _) => self.start(Ground),
            (Ground, _) => {}
        }
    }

    fn enter(&mut self, state: State, byte: u8) {
        self.state = state;
        self.bytes.push(byte);
    }

    fn push(&mut self, byte: u8, max_len: usize) {
        if self.bytes.len() < max_len {
            self.bytes.push(byte);
        } else if self.state == State::Osc {
            self.overflowed = true;
        }
    }
}

/// Returns the position of the last ESC. Checking 64 bytes at a time lets the compiler vectorize the comparison.
fn last_escape(bytes: &[u8]) -> Option<usize> {
    let mut end = bytes.len();
    for block in bytes.rchunks(64) {
        end -= block.len();
        if block.iter().fold(false, |found, byte| found | (*byte == 0x1b)) {
            return block.iter().rposition(|byte| *byte == 0x1b).map(|at| end + at);
        }
    }
    None
}

/// The start of a character whose remaining bytes have not arrived yet.
///
/// It is withheld from the parser, which drops a byte if a character received in two parts is followed by the start of
/// another one.
#[derive(Debug, Default)]
pub(crate) struct HeldCharacter {
    bytes: [u8; 3],
    len: usize,
}

/// Result of completing a held character.
pub(crate) enum Completed {
    /// More bytes are needed.
    Not,
    /// The character is complete and uses `taken` bytes of the piece.
    With { character: Vec<u8>, taken: usize },
    /// The next bytes do not belong to the character.
    Never { broken: Vec<u8>, taken: usize },
}

impl HeldCharacter {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Joins the held bytes with the start of `piece`.
    pub(crate) fn complete(&mut self, piece: &[u8]) -> Completed {
        let mut bytes = self.bytes().to_vec();
        self.len = 0;
        for (taken, byte) in (1..).zip(piece) {
            bytes.push(*byte);
            if std::str::from_utf8(&bytes).is_ok() {
                return Completed::With { character: bytes, taken };
            }
            if !is_cut_short(&bytes) {
                bytes.pop();
                return Completed::Never { broken: bytes, taken: taken - 1 };
            }
        }
        self.len = bytes.len();
        self.bytes[..self.len].copy_from_slice(&bytes);
        Completed::Not
    }

    /// Holds an incomplete character at the end of `piece` and returns the rest.
    pub(crate) fn hold_back<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let longest = piece.len().min(3);
        for len in 1..=longest {
            let (rest, end) = piece.split_at(piece.len() - len);
            if end[0] >= 0xc2 && is_cut_short(end) {
                self.bytes[..len].copy_from_slice(end);
                self.len = len;
                return rest;
            }
        }
        piece
    }
}

fn is_cut_short(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}
