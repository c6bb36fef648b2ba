//! Reads a conversation from its end: the last turns, how many there are, how it stands.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use coven_domain::conversation::{ConversationId, ConversationState, Line, Turn};

use super::load::parsed;
use super::{CONVERSATION, CONVERSATION_LINE, ConversationError, Conversations, Outline};

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
    /// The last `count` turns, without reading what comes before them; fewer if they are too large to be held together. Lines
    /// that cannot be read are skipped.
    pub fn load_last(&self, id: &ConversationId, count: usize) -> Result<LastTurns, ConversationError> {
        let file = self.open_to_read(id)?;
        let unreadable = |source| ConversationError::reading(self.file(id), source);
        while_it_shrinks(|| {
            let mut tail = Tail::new(&file, file.metadata()?.len(), PAGE)?;
            let (mut turns, mut is_at_start, mut held) = (Vec::new(), false, 0);
            while turns.len() < count {
                match tail.next_line()? {
                    None => {
                        is_at_start = true;
                        break;
                    }
                    Some(TailLine::Whole(line)) => {
                        held += line.len() as u64;
                        if held > CONVERSATION.bytes && !turns.is_empty() {
                            break;
                        }
                        if let Ok(Some(Line::Turn(turn))) = parsed(&line) {
                            turns.push(turn);
                        }
                    }
                    Some(TailLine::TooLong { .. }) => {}
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

/// The lines of a file, last first. Holds one line at a time.
pub(super) struct Tail<'f> {
    file: &'f File,
    /// Where the bytes begin.
    at: u64,
    /// What was read and not given out yet.
    bytes: Vec<u8>,
    page: usize,
    /// How many bytes may still be read.
    left: u64,
}

/// One line, with its line end, if it has one.
pub(super) enum TailLine {
    Whole(Vec<u8>),
    /// Longer than any line of a conversation. Its content is not kept.
    TooLong {
        bytes: u64,
    },
}

impl<'f> Tail<'f> {
    pub(super) fn new(file: &'f File, len: u64, page: usize) -> io::Result<Self> {
        let mut tail = Self { file, at: len, bytes: Vec::new(), page, left: u64::MAX };
        tail.read_more()?;
        Ok(tail)
    }

    /// Fails with `FileTooLarge` instead of reading more than the limit for whole conversations.
    pub(super) fn bounded(mut self) -> Self {
        self.left = CONVERSATION.bytes;
        self
    }

    /// Of a file whose end has been read already.
    pub(super) fn with(file: &'f File, at: u64, bytes: Vec<u8>, page: usize) -> Self {
        Self { file, at, bytes, page, left: u64::MAX }
    }

    /// Whether the last line not given out has its line end. An empty file lacks none.
    pub(super) fn is_ended(&self) -> bool {
        self.bytes.last().is_none_or(|byte| *byte == b'\n')
    }

    pub(super) fn next_line(&mut self) -> io::Result<Option<TailLine>> {
        let mut skipped = 0;
        // Of what was read, so much may hold the end of the line before.
        let mut unseen = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes).len();
        let line = loop {
            let fresh = &self.bytes[..unseen];
            // `contains` is much faster than `rposition`, and most of a long line has no line end.
            if fresh.contains(&b'\n')
                && let Some(before) = fresh.iter().rposition(|byte| *byte == b'\n')
            {
                break self.bytes.split_off(before + 1);
            }
            if self.at == 0 {
                break std::mem::take(&mut self.bytes);
            }
            if self.bytes.len() as u64 > CONVERSATION_LINE.bytes {
                skipped += self.bytes.len() as u64;
                self.bytes = Vec::new();
            }
            let held = self.bytes.len();
            self.read_more()?;
            unseen = self.bytes.len() - held;
        };
        let bytes = skipped + line.len() as u64;
        Ok(match bytes {
            0 => None,
            bytes if bytes > CONVERSATION_LINE.bytes + 1 => Some(TailLine::TooLong { bytes }),
            _ => Some(TailLine::Whole(line)),
        })
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
        self.left = self.left.checked_sub(count).ok_or(io::ErrorKind::FileTooLarge)?;
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
            let line = match tail.next_line()? {
                Some(TailLine::Whole(line)) => line,
                Some(TailLine::TooLong { .. }) => continue,
                None => return Ok(Self { turns: 0, status, title }),
            };
            match parsed(&line) {
                Ok(Some(Line::Turn(Turn { number: Some(turns), .. }))) => {
                    return Ok(Self { turns, status: status.or(Some(ConversationState::Active)), title });
                }
                // Written by another tool: there is no way but to count.
                Ok(Some(Line::Turn(_))) => return Self::counted(tail.file, tail.left),
                Ok(Some(Line::Status { status: said, .. })) => status = status.or(Some(said)),
                Ok(Some(Line::Rename { title: said, .. })) => title = title.or(Some(said)),
                _ => {}
            }
        }
    }

    fn counted(file: &File, most: u64) -> io::Result<Self> {
        if file.metadata()?.len() > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let outline = Outline::of(file)?.content;
        Ok(Self {
            turns: outline.as_ref().map_or(0, |outline| outline.turns),
            status: outline.as_ref().map(|outline| outline.status),
            title: outline.and_then(|outline| outline.title),
        })
    }
}
