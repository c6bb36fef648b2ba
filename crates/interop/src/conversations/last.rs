//! Reads a conversation from its end: the last turns, the number of turns, and the state.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use coven_domain::conversation::{ConversationId, ConversationState, Line, Turn};

use super::load::parsed;
use super::{CONVERSATION, CONVERSATION_LINE, ConversationError, Conversations, Outline};

const PAGE: usize = 64 << 10;
/// Maximum number of attempts to read the end of a file that is truncated meanwhile.
const MAX_READ_ATTEMPTS: usize = 10;

/// The last turns of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastTurns {
    /// Oldest first.
    pub turns: Vec<Turn>,
    /// Number of turns before these, if known.
    pub before: Option<u64>,
}

impl Conversations {
    /// Returns the last `count` turns without reading earlier ones, or fewer if they are too large to keep in memory
    /// together. Skips lines that cannot be parsed.
    pub fn load_last(&self, id: &ConversationId, count: usize) -> Result<LastTurns, ConversationError> {
        let file = self.open_to_read(id)?;
        let unreadable = |source| ConversationError::reading(self.file(id), source);
        retry_if_truncated(|| {
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

/// Retries `read` if the file shrinks meanwhile: a writer removes an incomplete last line before it appends.
pub(super) fn retry_if_truncated<T>(mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..MAX_READ_ATTEMPTS {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            result => return result,
        }
    }
    read()
}

/// The lines of a file, last first. Keeps one line in memory at a time.
pub(super) struct Tail<'f> {
    file: &'f File,
    /// File offset of `bytes`.
    at: u64,
    /// Bytes that were read but not returned yet.
    bytes: Vec<u8>,
    page: usize,
    /// Number of bytes that may still be read.
    left: u64,
}

/// One line, including its line end if it has one.
pub(super) enum TailLine {
    Whole(Vec<u8>),
    /// Longer than the limit for a line. Its content is dropped.
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

    /// Continues from `bytes`, which were already read at offset `at`.
    pub(super) fn with(file: &'f File, at: u64, bytes: Vec<u8>, page: usize) -> Self {
        Self { file, at, bytes, page, left: u64::MAX }
    }

    /// Returns whether the last unread line has a line end. True for an empty file.
    pub(super) fn is_ended(&self) -> bool {
        self.bytes.last().is_none_or(|byte| *byte == b'\n')
    }

    pub(super) fn next_line(&mut self) -> io::Result<Option<TailLine>> {
        let mut skipped = 0;
        // Length of the prefix of `bytes` that may contain the end of the previous line.
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

    /// Returns the turn number in the last unread line, if coven wrote that line, without reading all of it.
    pub(super) fn number_at_end(&self) -> Option<u64> {
        // JSON escapes quotes inside strings, so this match can only be the last field.
        let rest = self.bytes.strip_suffix(b"}\n")?;
        let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (before, number) = rest.split_at(rest.len() - digits);
        before.strip_suffix(b",\"turns\":")?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    fn read_more(&mut self) -> io::Result<()> {
        // Read more each time, so that a long line does not take one read per page.
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

/// State of a conversation according to its last lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TailState {
    pub(super) turns: u64,
    /// `None` if only the metadata line has the status.
    pub(super) status: Option<ConversationState>,
    /// `None` if no line after the last turn sets a title.
    pub(super) title: Option<String>,
}

impl TailState {
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
                // Another tool wrote this turn without a number, so the turns must be counted.
                Ok(Some(Line::Turn(_))) => return Self::count(tail.file, tail.left),
                Ok(Some(Line::Status { status: newer, .. })) => status = status.or(Some(newer)),
                Ok(Some(Line::Rename { title: newer, .. })) => title = title.or(Some(newer)),
                _ => {}
            }
        }
    }

    fn count(file: &File, max: u64) -> io::Result<Self> {
        if file.metadata()?.len() > max {
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
