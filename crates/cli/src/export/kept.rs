//! A conversation of `coven spawn` in other forms: its file is the source, no daemon is asked.

use std::io::Write;

use coven_domain::conversation::{ConversationId, Line};
use coven_host::conversations::{ConversationError, Conversations};

use super::conversation::{PAGE_END, escaped, page_start};
use super::{Format, Target};
use crate::failure::{self, Failure};
use crate::spawn::transfer;
use crate::wording::readable;

pub fn export(
    conversations: &Conversations,
    id: &ConversationId,
    format: Format,
    target: &mut Target,
) -> Result<(), Failure> {
    let loaded = conversations.load(id).map_err(|error| match error {
        ConversationError::Damaged { .. } => Failure::failed(
            error.to_string(),
            format!("Keep its good lines with `coven spawn --resume {id} --recover`, then export it"),
        ),
        other => other.into(),
    })?;
    loaded.notices.iter().for_each(|notice| failure::say(&notice.to_string()));
    let transcript = loaded.transcript;
    let done = match format {
        Format::Text => write!(target, "{}", readable(&transfer::markdown(id, &transcript))),
        Format::Html => {
            let text = escaped(&readable(&transfer::markdown(id, &transcript)));
            write!(target, "{}{text}{PAGE_END}", page_start(transcript.title.as_deref().unwrap_or(id.as_str())))
        }
        Format::Jsonl => {
            let mut bytes = Vec::new();
            Line::Metadata(transcript.metadata).write_to(&mut bytes);
            transcript.turns.into_iter().for_each(|turn| Line::Turn(turn).write_to(&mut bytes));
            target.write_all(&bytes)
        }
        Format::Asciicast => {
            return Err(Failure::usage("a conversation has no terminal to record", "Use --format text, html or jsonl"));
        }
    };
    done.map_err(Failure::Output)
}
