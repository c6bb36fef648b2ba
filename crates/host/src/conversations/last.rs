//! Reads a conversation from its end: the last turns, how many there are, how it stands.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use coven_domain::conversation::{ConversationId, ConversationState, Line, Turn};

use super::load::{self, parsed};
use super::{ConversationError, Conversations};

const PAGE: usize = 64 << 10;
/// How often a look at the end is taken anew because the file became shorter meanwhile.
const LOOKS: usize = 10;

/// The last turns of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastTurns {
    /// In their order.
    pub turns: Vec<Turn>,
    /// How many come before them, if the file says so.
    pub before: Option<u64>,
}

impl Conversations {
    /// The last `count` turns, without reading what comes before them. Lines that cannot be read are passed over.
    pub fn load_last(&self, id: &ConversationId, count: usize) -> Result<LastTurns, ConversationError> {
        let file = self.open_to_read(id)?;
        let unreadable = |source| ConversationError::Unreadable { path: self.file(id), source };
        while_it_shrinks(|| {
            let mut tail = Tail::new(&file, file.metadata()?.len(), PAGE)?;
            let (mut turns, mut is_at_start) = (Vec::new(), false);
            while turns.len() < count {
                match tail.next_line()? {
                    None => {
                        is_at_start = true;
                        break;
                    }
                    Some(line) => {
                        if let Ok(Some(Line::Turn(turn))) = parsed(&line) {
                            turns.push(turn);
                        }
                    }
                }
            }
            turns.reverse();
            let numbered = turns.first().and_then(|turn| turn.number).map(|number| number.saturating_sub(1));
            Ok(LastTurns { before: if is_at_start { Some(0) } else { numbered }, turns })
        })
        .map_err(unreadable)
    }
}

/// A line that a crash left is cut off before the next one is appended: who reads just then looks again.
pub(super) fn while_it_shrinks<T>(mut look: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..LOOKS {
        match look() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            done => return done,
        }
    }
    look()
}

/// The lines of a file, last first.
pub(super) struct Tail<'f> {
    file: &'f File,
    /// Where the bytes begin.
    at: u64,
    /// What was read and not given out yet.
    bytes: Vec<u8>,
    page: usize,
}

impl<'f> Tail<'f> {
    pub(super) fn new(file: &'f File, len: u64, page: usize) -> io::Result<Self> {
        let mut tail = Self { file, at: len, bytes: Vec::new(), page };
        tail.read_more()?;
        Ok(tail)
    }

    /// Of a file whose end has been read already.
    pub(super) fn with(file: &'f File, at: u64, bytes: Vec<u8>, page: usize) -> Self {
        Self { file, at, bytes, page }
    }

    /// Whether the last line not given out has its line end. An empty file lacks none.
    pub(super) fn is_ended(&self) -> bool {
        self.bytes.last().is_none_or(|byte| *byte == b'\n')
    }

    /// With its line end, if it has one.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let body = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
            if let Some(before) = body.iter().rposition(|byte| *byte == b'\n') {
                return Ok(Some(self.bytes.split_off(before + 1)));
            }
            if self.at == 0 {
                return Ok(Some(std::mem::take(&mut self.bytes)).filter(|line| !line.is_empty()));
            }
            self.read_more()?;
        }
    }

    /// What the last line not given out says of the turns so far, if it is a turn of ours: without reading all of it.
    pub(super) fn number_at_end(&self) -> Option<u64> {
        // In a JSON text a quote inside a string has a backslash before it: this can only be the last field.
        let rest = self.bytes.strip_suffix(b"}\n")?;
        let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (before, number) = rest.split_at(rest.len() - digits);
        before.strip_suffix(b",\"turns\":")?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    fn read_more(&mut self) -> io::Result<()> {
        // More each time: a long line is not read a page at a time.
        let wanted = self.page.max(self.bytes.len()) as u64;
        let count = wanted.min(self.at);
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut bytes, self.at - count)?;
        bytes.append(&mut self.bytes);
        (self.at, self.bytes) = (self.at - count, bytes);
        Ok(())
    }
}

/// How a conversation stands by its last lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) turns: u64,
    /// None if only the first line tells.
    pub(super) status: Option<ConversationState>,
    /// None if nothing after the last turn names one.
    pub(super) title: Option<String>,
}

impl Standing {
    pub(super) fn of(mut tail: Tail<'_>) -> io::Result<Self> {
        let (mut status, mut title) = (None, None);
        loop {
            if let Some(turns) = tail.number_at_end() {
                return Ok(Self { turns, status: status.or(Some(ConversationState::Active)), title });
            }
            let Some(line) = tail.next_line()? else { return Ok(Self { turns: 0, status, title }) };
            match parsed(&line) {
                Ok(Some(Line::Turn(Turn { number: Some(turns), .. }))) => {
                    return Ok(Self { turns, status: status.or(Some(ConversationState::Active)), title });
                }
                // Written by another tool: there is no way but to count.
                Ok(Some(Line::Turn(_))) => return Self::counted(tail.file),
                Ok(Some(Line::Status { status: said, .. })) => status = status.or(Some(said)),
                Ok(Some(Line::Rename { title: said, .. })) => title = title.or(Some(said)),
                _ => {}
            }
        }
    }

    fn counted(file: &File) -> io::Result<Self> {
        let read = load::read(file)?;
        let transcript = read.transcript;
        Ok(Self {
            turns: transcript.as_ref().map_or(0, |transcript| transcript.turns.len() as u64),
            status: transcript.as_ref().map(|transcript| transcript.status),
            title: transcript.and_then(|transcript| transcript.title),
        })
    }
}
