//! The tools by which an agent sees the sessions beside it and, where it may, starts and drives them.

use std::collections::BTreeMap;

use coven_api::SessionRecord;
use coven_api::agent::PromptRequest;
use coven_api::message::{MessageRecord, MessagesQuery};
use coven_api::routes::{
    CreateSession, Endpoint, GetSession, ListMessages, ListSessions, PromptSession, ReadScreen, SendInput,
};
use coven_api::session::{CreateSessionRequest, InputRequest, ListSessionsQuery};
use coven_client::Client;
use rmcp::model::CallToolResult;
use serde_json::json;

use crate::daemon::DaemonError;
use crate::reply;
use crate::server::Server;
use crate::tool::{InputArguments, ListArguments, ReadArguments, StartArguments};

/// How many messages a session's page has.
const PAGE: usize = 1000;

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
            limit: Some(limit),
            all: arguments.archived.then_some(true),
            ..ListSessionsQuery::default()
        };
        let page = self.daemon().await?.call(ListSessions::request().query(&query)).await?;
        let mut text = match page.sessions.len() {
            0 => "There are no sessions.".to_owned(),
            count => format!("{count} of {} sessions, newest first:", page.total),
        };
        for session in &page.sessions {
            text.push('\n');
            text.push_str(&line(session));
        }
        Ok(reply::told(text, json!({"sessions": page.sessions, "total": page.total})))
    }

    async fn read(&self, arguments: ReadArguments) -> Result<CallToolResult, DaemonError> {
        let wanted = bounded("messages", arguments.messages.unwrap_or(20), 200)?;
        let mut daemon = self.daemon().await?;
        let session = daemon.call(GetSession::of(&arguments.session_id)).await?;
        let head = line(&session);
        if session.channel == "acp" {
            let messages = last_messages(&mut daemon, &session.id, wanted).await?;
            let texts: Vec<String> = messages.iter().map(said).collect();
            let text = format!("{head}\n\n{}", texts.join("\n\n"));
            return Ok(reply::told(text, json!({"session": session, "messages": messages})));
        }
        let screen = daemon.call(ReadScreen::of(&session.id)).await?;
        let shown = screen.text.trim_end();
        let text = format!("{head}\n\n{shown}");
        Ok(reply::told(text, json!({"session": session, "screen": shown})))
    }

    async fn started(&self, arguments: StartArguments) -> Result<CallToolResult, DaemonError> {
        let here = || std::env::current_dir().ok().and_then(|here| here.into_os_string().into_string().ok());
        let request = CreateSessionRequest {
            harness: Some(arguments.harness),
            prompt: arguments.prompt,
            cwd: arguments.cwd.or_else(here),
            title: arguments.title,
            channel: arguments.acp.then(|| "acp".to_owned()),
            env: Some(environment()),
            ..CreateSessionRequest::default()
        };
        let session = self.daemon().await?.call(CreateSession::request().body(&request)).await?;
        Ok(reply::told(format!("started: {}", line(&session)), json!({"session": session})))
    }

    async fn sent(&self, arguments: InputArguments) -> Result<CallToolResult, DaemonError> {
        let mut daemon = self.daemon().await?;
        let session = daemon.call(GetSession::of(&arguments.session_id)).await?;
        if session.channel == "acp" {
            let body = PromptRequest { text: arguments.text };
            let accepted = daemon.call(PromptSession::of(&session.id).body(&body)).await?;
            return Ok(reply::told("the prompt was accepted".to_owned(), json!(accepted)));
        }
        let mut bytes = arguments.text.into_bytes();
        if arguments.enter {
            // What a terminal sends for the Enter key.
            bytes.push(b'\r');
        }
        let accepted = daemon.call(SendInput::of(&session.id).body(&InputRequest::of(&bytes))).await?;
        Ok(reply::told("typed".to_owned(), json!(accepted)))
    }
}

fn result(result: Result<CallToolResult, DaemonError>) -> CallToolResult {
    result.unwrap_or_else(|error| reply::error(error.to_string()))
}

fn bounded(name: &str, value: usize, most: usize) -> Result<usize, DaemonError> {
    match (1..=most).contains(&value) {
        true => Ok(value),
        false => Err(DaemonError::Refused(format!("{name} must be 1 to {most}, not {value}"))),
    }
}

/// The daemon's own settings are not the agent's to pass on.
fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).filter(|(name, _)| !name.starts_with("COVEN_")).collect()
}

fn line(session: &SessionRecord) -> String {
    let short: String = session.id.chars().take(8).collect();
    format!("{short}  {}  {}  {}  {}", session.status, session.harness, session.cwd, session.title)
}

async fn last_messages(daemon: &mut Client, id: &str, wanted: usize) -> Result<Vec<MessageRecord>, DaemonError> {
    let mut last: Vec<MessageRecord> = Vec::new();
    let mut after = 0;
    loop {
        let query = MessagesQuery { after: Some(after), limit: Some(PAGE) };
        let page = daemon.call(ListMessages::of(id).query(&query)).await?;
        let is_last = page.messages.len() < PAGE;
        last.extend(page.messages);
        let excess = last.len().saturating_sub(wanted);
        last.drain(..excess);
        if is_last || page.next <= after {
            return Ok(last);
        }
        after = page.next;
    }
}

/// A message as text; what is not text as the data it is.
fn said(message: &MessageRecord) -> String {
    let text = message.content["text"].as_str().map_or_else(|| message.content.to_string(), str::to_owned);
    format!("{}: {text}", message.role)
}
