//! Exports a conversation of `coven spawn` from its file, without a daemon.

use std::io::Write;

use coven_domain::conversation::{ConversationId, Line, Turn};
use coven_interop::conversations::{ConversationError, Conversations};

use super::conversation::{PAGE_END, escaped, page_start};
use super::{Format, Target};
use crate::failure::{self, Failure};
use crate::format::readable;
use crate::spawn::transfer;

/// Writes one turn in the chosen format.
type WriteTurn = fn(Turn) -> Vec<u8>;

pub fn export(
    conversations: &Conversations,
    id: &ConversationId,
    format: Format,
    target: &mut Target,
) -> Result<(), Failure> {
    let (outline, notices) = conversations.outline(id).map_err(|error| match error {
        ConversationError::Damaged { .. } => Failure::failed(
            error.to_string(),
            format!("Recover its intact lines with `coven spawn --resume {id} --recover`, then export it"),
        ),
        other => other.into(),
    })?;
    notices.iter().for_each(|notice| failure::print_error(&notice.to_string()));
    let head = transfer::markdown_head(id, &outline);
    let title = outline.title.as_deref().unwrap_or(id.as_str());
    let (head, turn, end): (Vec<u8>, WriteTurn, &str) = match format {
        Format::Text => (readable(&head).into(), |turn| readable(&transfer::markdown_turn(&turn)).into(), ""),
        Format::Html => (
            (page_start(title) + &escaped(&readable(&head))).into(),
            |turn| escaped(&readable(&transfer::markdown_turn(&turn))).into(),
            PAGE_END,
        ),
        Format::Jsonl => (line(&Line::Metadata(outline.metadata)), |turn| line(&Line::Turn(turn)), ""),
        Format::Asciicast => {
            return Err(Failure::usage("a conversation has no terminal recording", "Use --format text, html or jsonl"));
        }
    };
    target.write_all(&head).map_err(Failure::Output)?;
    // One turn at a time: a conversation may be larger than memory.
    let mut written = Ok(());
    conversations.each_turn(id, |it| {
        if written.is_ok() {
            written = target.write_all(&turn(it));
        }
        Ok(())
    })?;
    written.and_then(|()| target.write_all(end.as_bytes())).map_err(Failure::Output)
}

fn line(line: &Line) -> Vec<u8> {
    let mut bytes = Vec::new();
    line.write_to(&mut bytes);
    bytes
}
