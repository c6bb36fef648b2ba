//! Conversations in and out: Markdown for people, JSON for programs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use coven_domain::Timestamp;
use coven_domain::conversation::{ConversationId, Role, Transcript, Turn};
use serde::{Deserialize, Serialize};

/// The context as a program reads it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Exported {
    pub session_id: String,
    #[serde(default)]
    pub agent: Option<String>,
    #[serde(default)]
    pub created_at: Option<Timestamp>,
    #[serde(default)]
    pub exported_at: Option<Timestamp>,
    pub turns: Vec<ExportedTurn>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ExportedTurn {
    pub role: Role,
    pub content: String,
    #[serde(default)]
    pub timestamp: Option<Timestamp>,
    #[serde(default)]
    pub tokens: Option<u64>,
}

pub fn markdown(id: &ConversationId, transcript: &Transcript) -> String {
    let metadata = &transcript.metadata;
    let mut text = format!("# {}\n\n", transcript.title.as_deref().unwrap_or(id.as_str()));
    let _ = writeln!(text, "- session: {id}");
    let _ = writeln!(text, "- agent: {}", metadata.agent.as_deref().unwrap_or("none"));
    let _ = writeln!(text, "- created: {}", metadata.created_at);
    let _ = writeln!(text, "- status: {}", transcript.status);
    let _ = writeln!(text, "- turns: {}", transcript.turns.len());
    for turn in &transcript.turns {
        let cut = if turn.interrupted { " (interrupted)" } else { "" };
        let _ = write!(text, "\n## {}{cut}, {}\n\n{}\n", turn.role.label(), turn.timestamp, turn.content);
    }
    text
}

pub fn json(id: &ConversationId, transcript: &Transcript, turns: &[&Turn], now: Timestamp) -> String {
    let exported = Exported {
        session_id: id.to_string(),
        agent: transcript.metadata.agent.clone(),
        created_at: Some(transcript.metadata.created_at),
        exported_at: Some(now),
        turns: turns
            .iter()
            .map(|turn| ExportedTurn {
                role: turn.role,
                content: turn.content.clone(),
                timestamp: Some(turn.timestamp),
                tokens: turn.tokens,
            })
            .collect(),
    };
    serde_json::to_string_pretty(&exported).expect("plain data")
}

/// More is nothing that /export wrote.
const MAX_IMPORT: u64 = 256 << 20;

/// The turns of such a file.
pub fn read(path: &Path, now: Timestamp) -> Result<Vec<Turn>, String> {
    let unreadable = |error| format!("{} cannot be read: {error}", path.display());
    let file = fs::metadata(path).map_err(unreadable)?;
    if !file.is_file() || file.len() > MAX_IMPORT {
        return Err(format!("{} is no file of at most {} MiB", path.display(), MAX_IMPORT >> 20));
    }
    let text = fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let exported: Exported = serde_json::from_str(&text)
        .map_err(|error| format!("{} is not what /export writes: {error}", path.display()))?;
    let turn = |it: ExportedTurn| {
        let mut turn = Turn::new(it.role, it.content, it.timestamp.unwrap_or(now));
        turn.tokens = it.tokens.or(turn.tokens);
        turn
    };
    Ok(exported.turns.into_iter().map(turn).collect())
}
