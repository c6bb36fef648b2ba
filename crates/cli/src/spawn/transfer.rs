//! Exports and imports conversations: Markdown for people, JSON for programs.

use std::fmt::Write as _;
use std::path::Path;

use coven_domain::Timestamp;
use coven_domain::conversation::{ConversationId, Transcript, Turn, TurnRole};
use coven_files::{Limit, Links, ReadError};
use coven_interop::conversations::Outline;
use serde::{Deserialize, Serialize};

/// The JSON form of the context.
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
    pub role: TurnRole,
    pub content: String,
    #[serde(default)]
    pub timestamp: Option<Timestamp>,
    #[serde(default)]
    pub tokens: Option<u64>,
}

pub fn markdown(id: &ConversationId, transcript: &Transcript) -> String {
    let outline = Outline {
        metadata: transcript.metadata.clone(),
        title: transcript.title.clone(),
        status: transcript.status,
        turns: transcript.turns.len() as u64,
    };
    let turns = transcript.turns.iter().map(markdown_turn);
    std::iter::once(markdown_head(id, &outline)).chain(turns).collect()
}

/// Formats the heading before the turns.
pub fn markdown_head(id: &ConversationId, outline: &Outline) -> String {
    let Outline { metadata, title, status, turns } = outline;
    let mut text = format!("# {}\n\n", title.as_deref().unwrap_or(id.as_str()));
    let _ = writeln!(text, "- session: {id}");
    let _ = writeln!(text, "- agent: {}", metadata.agent.as_deref().unwrap_or("none"));
    let _ = writeln!(text, "- created: {}", metadata.created_at);
    let _ = writeln!(text, "- status: {status}");
    let _ = writeln!(text, "- turns: {turns}");
    text
}

pub fn markdown_turn(turn: &Turn) -> String {
    let cut = if turn.interrupted { " (interrupted)" } else { "" };
    format!("\n## {}{cut}, {}\n\n{}\n", turn.role.label(), turn.timestamp, turn.content)
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

/// Size limit of an import, as large as an export can be.
pub const IMPORT: Limit = Limit::new("a file for `/import`", 64 << 20);

/// Reads the turns of an exported file.
pub fn read(path: &Path, now: Timestamp) -> Result<Vec<Turn>, String> {
    let text = coven_files::read(path, IMPORT, Links::Follow).map_err(|error| match error {
        ReadError::Io { path, source } => format!("cannot read {}: {source}", path.display()),
        error => error.to_string(),
    })?;
    let exported: Exported = serde_json::from_slice(&text)
        .map_err(|error| format!("{} is not a file from /export: {error}", path.display()))?;
    let turn = |it: ExportedTurn| {
        let mut turn = Turn::new(it.role, it.content, it.timestamp.unwrap_or(now));
        turn.tokens = it.tokens.or(turn.tokens);
        turn
    };
    Ok(exported.turns.into_iter().map(turn).collect())
}
