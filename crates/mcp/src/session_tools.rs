//! Tools with which an agent reads other sessions and, if allowed, starts them and sends input.

use std::collections::BTreeMap;

use coven_api::compat::PromptRequest;
use coven_api::list::{BadCursor, ListKey};
use coven_api::message::{MessageRecord, MessagesQuery};
use coven_api::routes::{
    CreateSession, Endpoint, GetSession, ListMessages, ListSessions, PromptSession, ReadScreen, SendInput,
};
use coven_api::screen::ScreenQuery;
use coven_api::session::{CreateSessionRequest, InputRequest, ListSessionsQuery};
use coven_api::{List, SessionRecord};
use coven_client::Client;
use coven_domain::SessionId;
use coven_domain::activity::Activity;
use coven_domain::session::Channel;
use rmcp::model::CallToolResult;
use serde_json::json;

use crate::daemon::DaemonError;
use crate::reply;
use crate::server::Server;
use crate::tool::{InputArguments, ListArguments, ReadArguments, StartArguments};

impl Server {
    pub async fn list_sessions(&self, arguments: ListArguments) -> CallToolResult {
        result(self.listed(arguments).await)
    }

    pub async fn read_session(&self, arguments: ReadArguments) -> CallToolResult {
        result(self.read(arguments).await)
    }

    pub async fn start_session(&self, arguments: StartArguments) -> CallToolResult {
        result(self.started(arguments).await)
    }

    pub async fn send_input(&self, arguments: InputArguments) -> CallToolResult {
        result(self.sent(arguments).await)
    }

    async fn listed(&self, arguments: ListArguments) -> Result<CallToolResult, DaemonError> {
        let limit = bounded("limit", arguments.limit.unwrap_or(20), 100)?;
        let query = ListSessionsQuery {
            status: arguments.status,
            activity: arguments.activity,
            limit: Some(limit),
            all: arguments.archived.then_some(true),
            cursor: arguments.cursor,
            ..ListSessionsQuery::default()
        };
        let page = self.daemon().await?.call(ListSessions::request().query(&query)).await?;
        let mut text = match page.items.len() {
            0 => "No sessions found.".to_owned(),
            count => format!("{count} of {} sessions, newest first:", page.total.unwrap_or(count as u64)),
        };
        for session in &page.items {
            text.push('\n');
            text.push_str(&line(session));
        }
        Ok(reply::text_result(text, json!(page)))
    }

    async fn read(&self, arguments: ReadArguments) -> Result<CallToolResult, DaemonError> {
        let limit = bounded("limit", arguments.limit.unwrap_or(20), 200)?;
        let mut daemon = self.daemon().await?;
        let session = daemon.call(GetSession::of(&arguments.session_id)).await?;
        let list = ListKey::new(&["messages", &session.id.to_string()]);
        let before = list.place(arguments.cursor.as_deref());
        let before = before.map_err(|error: BadCursor| DaemonError::Refused(error.to_string()))?;
        let head = line(&session);
        if session.channel == Channel::Acp {
            let List { items, next, .. } = messages(&mut daemon, session.id, list, limit, before).await?;
            let texts: Vec<String> = items.iter().map(format_message).collect();
            let text = format!("{head}\n\n{}", texts.join("\n\n"));
            return Ok(reply::text_result(text, json!({"session": session, "items": items, "next": next})));
        }
        // An agent reads it, not the user.
        let query = ScreenQuery { look: Some(false), ..ScreenQuery::default() };
        let screen = daemon.call(ReadScreen::of(&session.id.to_string()).query(&query)).await?;
        let shown = screen.text.trim_end();
        let text = format!("{head}\n\n{shown}");
        Ok(reply::text_result(text, json!({"session": session, "screen": shown})))
    }

    async fn started(&self, arguments: StartArguments) -> Result<CallToolResult, DaemonError> {
        let here = || std::env::current_dir().ok().and_then(|here| here.into_os_string().into_string().ok());
        let request = CreateSessionRequest {
            harness: Some(arguments.harness),
            prompt: arguments.prompt,
            cwd: arguments.cwd.or_else(here),
            title: arguments.title,
            channel: arguments.acp.then(|| "acp".to_owned()),
            now: arguments.now.then_some(true),
            env: Some(environment()),
            ..CreateSessionRequest::default()
        };
        let session = self.daemon().await?.call(CreateSession::request().body(&request)).await?;
        let text = match session.queued_launch() {
            Some(queued) => format!("waits for its launch, {}: {}", queued.describe(), line(&session)),
            None => format!("started: {}", line(&session)),
        };
        Ok(reply::text_result(text, json!({"session": session})))
    }

    async fn sent(&self, arguments: InputArguments) -> Result<CallToolResult, DaemonError> {
        let mut daemon = self.daemon().await?;
        let session = daemon.call(GetSession::of(&arguments.session_id)).await?;
        if session.channel == Channel::Acp {
            let body = PromptRequest { text: arguments.text };
            let accepted = daemon.call(PromptSession::of(&session.id.to_string()).body(&body)).await?;
            return Ok(reply::text_result("prompt accepted".to_owned(), json!(accepted)));
        }
        let mut bytes = arguments.text.into_bytes();
        if arguments.enter {
            // The byte that a terminal sends for the Enter key.
            bytes.push(b'\r');
        }
        let accepted = daemon.call(SendInput::of(&session.id.to_string()).body(&InputRequest::of(&bytes))).await?;
        Ok(reply::text_result("typed".to_owned(), json!(accepted)))
    }
}

fn result(result: Result<CallToolResult, DaemonError>) -> CallToolResult {
    result.unwrap_or_else(|error| reply::error(error.to_string()))
}

fn bounded(name: &str, value: usize, max: usize) -> Result<usize, DaemonError> {
    match (1..=max).contains(&value) {
        true => Ok(value),
        false => Err(DaemonError::Refused(format!("{name} must be between 1 and {max}, not {value}"))),
    }
}

/// Returns the environment for a new session, without coven's own variables.
fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).filter(|(name, _)| !name.starts_with("COVEN_")).collect()
}

fn line(session: &SessionRecord) -> String {
    let short = session.id.short();
    let mut text = format!("{short}  {}  {}  {}  {}", session.status, session.harness, session.cwd, session.title);
    if let Some(activity) = session.activity.filter(|activity| *activity != Activity::Unknown) {
        text.push_str(&format!("  {activity}"));
        if let Some(detail) = &session.activity_detail {
            text.push_str(&format!(": {detail}"));
        }
    }
    text
}

/// Returns the last messages before a number, oldest first. `next` leads to the earlier messages.
async fn messages(
    daemon: &mut Client,
    id: SessionId,
    list: ListKey,
    limit: usize,
    before: Option<u64>,
) -> Result<List<MessageRecord>, DaemonError> {
    // One more than requested shows whether there are earlier ones.
    let query = MessagesQuery::last(limit + 1, before);
    let mut items = daemon.call(ListMessages::of(&id.to_string()).query(&query)).await?.items;
    let excess = items.len().saturating_sub(limit);
    items.drain(..excess);
    let next = items.first().filter(|_| excess > 0).map(|first| list.cursor(first.number));
    Ok(List { items, next, total: None })
}

/// Formats a message; content that is not text is shown as JSON.
fn format_message(message: &MessageRecord) -> String {
    let text = match message.content.text() {
        Some(text) => text.text.clone(),
        None => serde_json::to_string(&message.content).expect("records are plain data"),
    };
    format!("{}: {text}", message.role)
}
