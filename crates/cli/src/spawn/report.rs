//! The list of conversations.

use std::process::ExitCode;

use coven_domain::conversation::{ConversationState, Summary};
use coven_holder::clock;
use coven_interop::conversations::{Conversations, Filter};
use serde_json::{Value, json};

use crate::failure::{self, Failure};
use crate::table::Table;
use crate::{format, output};

/// Number of ids that the error for an unknown id suggests.
const SUGGESTED: usize = 10;

pub fn list(
    conversations: &Conversations,
    agent: Option<String>,
    status: Option<ConversationState>,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let is_filtered = agent.is_some() || status.is_some();
    let listing = conversations.list(&Filter { agent, status })?;
    for (id, why) in &listing.broken {
        failure::print_error(&format!("skipped conversation {id}: {}", format::sanitize_line(&why.to_string())));
    }
    if as_json {
        let records: Vec<Value> = listing.conversations.iter().map(record).collect();
        let text = serde_json::to_string_pretty(&records).expect("plain data");
        output::json(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if listing.conversations.is_empty() {
        output::note(format_args!("no sessions; start one with `coven spawn -i`"));
        return Ok(ExitCode::SUCCESS);
    }
    let now = clock::now();
    let mut table = Table::new(&["SESSION_ID", "AGENT", "TURNS", "CREATED_AT", "STATUS", "LAST"], &[0, 1]);
    for it in &listing.conversations {
        table.row([
            it.id.to_string(),
            it.agent.clone().unwrap_or_else(|| "-".to_owned()),
            it.turn_count.to_string(),
            it.created_at.to_string(),
            it.status.to_string(),
            format::age(&it.last_activity_at.to_string(), now),
        ]);
    }
    let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
    output::text(&table.text(width))?;
    if is_filtered {
        output::note(format_args!("{} found", format::count(listing.conversations.len(), "session")));
    }
    Ok(ExitCode::SUCCESS)
}

fn record(summary: &Summary) -> Value {
    json!({
        "session_id": summary.id,
        "title": summary.title,
        "agent": summary.agent,
        "harness": summary.harness,
        "cwd": summary.cwd,
        "turn_count": summary.turn_count,
        "created_at": summary.created_at,
        "status": summary.status,
        "last_activity_at": summary.last_activity_at,
        "size_bytes": summary.size_bytes,
    })
}

/// Returns the error for an unknown conversation, with a list of existing ones.
pub fn not_found(conversations: &Conversations, id: &str) -> Failure {
    let listed = conversations.list(&Filter::default()).map(|listing| listing.conversations).unwrap_or_default();
    let names: Vec<String> = listed.iter().take(SUGGESTED).map(|it| it.id.to_string()).collect();
    let hint = match (names.is_empty(), listed.len() > SUGGESTED) {
        (true, _) => "No sessions exist; start one with `coven spawn -i`".to_owned(),
        (false, false) => format!("Known sessions: {}", names.join(", ")),
        (false, true) => format!("Latest sessions: {}", names.join(", ")),
    };
    Failure::failed(format!("Session not found: {id}"), hint)
}
