//! Reads a whole conversation without keeping it in memory: for exports, and to count turns that have no numbers.

use std::collections::VecDeque;
use std::fs::File;
use std::io;

use coven_domain::conversation::{ConversationId, ConversationState, Line, Metadata, Transcript, Turn};
use coven_files::BoundedLine;

use super::load::{self, Read, each_line, parsed};
use super::{CONVERSATION, ConversationError, Conversations, LastTurns, Notice};

/// A conversation without the text of its turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    pub metadata: Metadata,
    pub title: Option<String>,
    pub status: ConversationState,
    pub turns: u64,
}

impl From<Metadata> for Outline {
    fn from(metadata: Metadata) -> Self {
        let Transcript { metadata, title, status, .. } = Transcript::from(metadata);
        Self { metadata, title, status, turns: 0 }
    }
}

impl Outline {
    /// Reads the outline from the file.
    pub(super) fn of(file: &File) -> io::Result<Read<Self>> {
        load::read(file, |outline: &mut Self, line, _| {
            outline.status = line.status_after().unwrap_or(outline.status);
            match line {
                Line::Turn(_) => outline.turns += 1,
                Line::Rename { title, .. } => outline.title = Some(title),
                Line::Metadata(_) | Line::Status { .. } | Line::Clear { .. } | Line::Trim { .. } => {}
            }
            Ok(())
        })
    }
}

impl Conversations {
    /// Returns the conversation without the text of its turns. Takes no lock unless the file looks damaged.
    pub fn outline(&self, id: &ConversationId) -> Result<(Outline, Vec<Notice>), ConversationError> {
        self.read_consistent(id, Outline::of)
    }

    /// Passes every turn to `visit`, in order, one at a time. Skips lines that cannot be parsed.
    pub fn each_turn(
        &self,
        id: &ConversationId,
        mut visit: impl FnMut(Turn) -> io::Result<()>,
    ) -> Result<(), ConversationError> {
        let file = self.open_to_read(id)?;
        let visited = each_line(&file, |_, line| match line {
            BoundedLine::Whole(bytes) => match parsed(bytes) {
                Ok(Some(Line::Turn(turn))) => visit(turn),
                _ => Ok(()),
            },
            BoundedLine::TooLong { .. } => Ok(()),
        });
        visited.map_err(|source| ConversationError::reading(self.file(id), source))
    }

    /// Returns the last `count` of the first `before` turns, or fewer if they are too large to keep in memory together.
    pub fn load_before(&self, id: &ConversationId, count: usize, before: u64) -> Result<LastTurns, ConversationError> {
        let (mut turns, mut held, mut passed) = (VecDeque::new(), 0, 0);
        self.each_turn(id, |turn| {
            if passed == before {
                return Ok(());
            }
            passed += 1;
            held += turn.content.len() as u64;
            turns.push_back(turn);
            while turns.len() > count || (held > CONVERSATION.bytes && turns.len() > 1) {
                held -= turns.pop_front().map_or(0, |turn: Turn| turn.content.len() as u64);
            }
            Ok(())
        })?;
        Ok(LastTurns { before: Some(passed - turns.len() as u64), turns: turns.into() })
    }
}
