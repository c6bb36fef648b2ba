//! The tools by which an agent sees the sessions beside it and, where it may, starts and drives them.

use std::collections::BTreeMap;

use coven_api::agent::{PromptRequest, PromptResponse};
use coven_api::message::{MessageRecord, MessagesResponse};
use coven_api::session::{AcceptedResponse, CreateSessionRequest, InputRequest, SessionListResponse};
use coven_api::{SessionRecord, route};
use coven_client::Client;
use rmcp::model::CallToolResult;
use serde_json::{Value, json};

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
        let query = route::query(&[
            ("status", arguments.status),
            ("limit", Some(limit.to_string())),
            ("all", arguments.archived.then(|| "true".to_owned())),
        ]);
        let page: SessionListResponse = self.daemon().await?.get(&format!("/api/v1/sessions{query}")).await?;
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
        let session: SessionRecord = daemon.get(&route::session(&arguments.session_id, "")).await?;
        let head = line(&session);
        if session.channel == "acp" {
            let messages = last_messages(&mut daemon, &session.id, wanted).await?;
            let texts: Vec<String> = messages.iter().map(said).collect();
            let text = format!("{head}\n\n{}", texts.join("\n\n"));
            return Ok(reply::told(text, json!({"session": session, "messages": messages})));
        }
        let screen: Value = daemon.get(&route::session(&session.id, "/screen")).await?;
        let shown = screen["text"].as_str().unwrap_or_default().trim_end();
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
        let session: SessionRecord = self.daemon().await?.post("/api/v1/sessions", &request).await?;
        Ok(reply::told(format!("started: {}", line(&session)), json!({"session": session})))
    }

    async fn sent(&self, arguments: InputArguments) -> Result<CallToolResult, DaemonError> {
        let mut daemon = self.daemon().await?;
        let session: SessionRecord = daemon.get(&route::session(&arguments.session_id, "")).await?;
        if session.channel == "acp" {
            let body = PromptRequest { text: arguments.text };
            let accepted: PromptResponse = daemon.post(&route::session(&session.id, "/prompt"), &body).await?;
            return Ok(reply::told("the prompt was accepted".to_owned(), json!(accepted)));
        }
        let mut bytes = arguments.text.into_bytes();
        if arguments.enter {
            // What a terminal sends for the Enter key.
            bytes.push(b'\r');
        }
        let accepted: AcceptedResponse =
            daemon.post(&route::session(&session.id, "/input"), &InputRequest::of(&bytes)).await?;
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
        let query = route::query(&[("after", Some(after.to_string())), ("limit", Some(PAGE.to_string()))]);
        let page: MessagesResponse = daemon.get(&route::session(id, &format!("/messages{query}"))).await?;
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
