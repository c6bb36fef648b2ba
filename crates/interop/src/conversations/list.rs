//! Lists conversations from their first and last lines, without reading the rest.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use coven_domain::conversation::{ConversationId, ConversationState, Line, Metadata, Summary};

use super::last::{Tail, TailState, retry_if_truncated};
use super::load::{parsed, too_long};
use super::{CONVERSATION_LINE, ConversationError, Conversations, Damage, modified_at};

/// Number of bytes to read from each end of a file.
const PAGE: usize = 4 << 10;

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub agent: Option<String>,
    pub status: Option<ConversationState>,
}

#[derive(Debug, Default)]
pub struct Listing {
    /// Most recent first.
    pub conversations: Vec<Summary>,
    /// Conversations that cannot be read, with the reason. The filter does not apply to them.
    pub broken: Vec<(ConversationId, ConversationError)>,
}

impl Conversations {
    pub fn list(&self, filter: &Filter) -> Result<Listing, ConversationError> {
        let mut listing = Listing::default();
        for id in self.ids()? {
            match self.summary(&id) {
                Ok(summary) => listing.conversations.extend(Some(summary).filter(|summary| filter.admits(summary))),
                // Deleted after its name was listed.
                Err(ConversationError::NotFound { .. }) => {}
                Err(why) => listing.broken.push((id, why)),
            }
        }
        listing.conversations.sort_by(|a, b| b.last_activity_at.cmp(&a.last_activity_at).then_with(|| a.id.cmp(&b.id)));
        listing.broken.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(listing)
    }

    /// Returns the list entry of one conversation.
    pub fn summary(&self, id: &ConversationId) -> Result<Summary, ConversationError> {
        let file = self.open_to_read(id)?;
        let (first, tail, stat) = retry_if_truncated(|| read_ends(&file))
            .map_err(|source| ConversationError::reading(self.file(id), source))?;
        let last_activity_at = modified_at(&stat);
        let line = match first.len() as u64 > CONVERSATION_LINE.bytes + 1 {
            true => Err(too_long()),
            false => parsed(&first),
        };
        let metadata = match line {
            Ok(Some(Line::Metadata(metadata))) => metadata,
            // The file consists of an incomplete first line.
            Err(_) if first.len() as u64 == stat.len() && !first.ends_with(b"\n") => {
                Metadata::rebuilt(id.to_string(), last_activity_at)
            }
            line => {
                let (column, why) = match line {
                    Err(bad) => (bad.column, bad.why),
                    Ok(_) => (None, "expected the metadata line".to_owned()),
                };
                let damage = vec![Damage { line: 1, column, why }];
                return Err(ConversationError::Damaged { path: self.file(id), damage, count: 1 });
            }
        };
        Ok(Summary {
            id: id.clone(),
            title: tail.title,
            agent: metadata.agent,
            harness: metadata.harness,
            cwd: metadata.cwd,
            turn_count: tail.turns,
            created_at: metadata.created_at,
            status: tail.status.unwrap_or(metadata.status),
            last_activity_at,
            size_bytes: stat.len(),
        })
    }
}

impl Filter {
    fn admits(&self, summary: &Summary) -> bool {
        self.agent.as_ref().is_none_or(|agent| summary.agent.as_ref() == Some(agent))
            && self.status.is_none_or(|status| summary.status == status)
    }
}

/// Reads the first line and the state that the last lines describe. Truncates a first line that is too long.
fn read_ends(file: &File) -> io::Result<(Vec<u8>, TailState, std::fs::Metadata)> {
    let stat = file.metadata()?;
    let len = stat.len();
    let mut head = read_start(file, PAGE, len)?;
    // A small file fits into the first page.
    let tail = match head.len() as u64 == len {
        true => Tail::with(file, 0, head.clone(), PAGE),
        false => Tail::new(file, len, PAGE)?,
    };
    // One byte more than the longest line including its line end.
    let max = usize::try_from(CONVERSATION_LINE.bytes + 2).unwrap_or(usize::MAX);
    let mut page = PAGE;
    loop {
        if let Some(end) = head.iter().position(|byte| *byte == b'\n') {
            head.truncate(end + 1);
            break;
        }
        if head.len() as u64 >= len || head.len() >= max {
            break;
        }
        page = (page * 4).min(max);
        head = read_start(file, page, len)?;
    }
    Ok((head, TailState::of(tail.bounded())?, stat))
}

fn read_start(file: &File, page: usize, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; page.min(usize::try_from(len).unwrap_or(usize::MAX))];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
