//! Does what the user asked for: one request to the daemon, one sentence if it failed.

use std::path::Path;
use std::time::Duration;

use coven_api::ErrorCode;
use coven_api::compat::PromptRequest;
use coven_api::routes::{
    ArchiveSession, Endpoint, FinishSession, KillSession, PromptSession, SacrificeSession, SendInput, StartSession,
};
use coven_api::session::{InputRequest, StartSessionRequest};
use coven_client::{Client, ClientError};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::report::{Request, What};
use crate::failure::Failure;

/// Longer than any grace period a finishing session is given by default.
const DEADLINE: Duration = Duration::from_secs(60);

/// `typing` keeps lines in the order they were typed: they are sent one at a time.
pub async fn perform(socket: &Path, request: &Request, typing: &Mutex<()>) -> Result<(), String> {
    let _turn = match request.what {
        What::Input(_) => Some(typing.lock().await),
        _ => None,
    };
    match timeout(DEADLINE, send(socket, request)).await {
        Ok(answer) => answer.map_err(sentence),
        Err(_) => Err("the daemon does not answer; see `coven daemon status`, then try again".to_owned()),
    }
}

/// What happened and what to do next.
pub fn sentence(error: ClientError) -> String {
    Failure::from(error).sentence()
}

async fn send(socket: &Path, request: &Request) -> Result<(), ClientError> {
    let mut client = Client::connect(socket).await?;
    let id = &request.id;
    match &request.what {
        What::Input(line) => {
            let input = InputRequest::of(format!("{line}\r").as_bytes());
            match client.call(SendInput::of(id).body(&input)).await {
                // A line to a session without a terminal is a prompt.
                Err(error) if error.is(ErrorCode::SessionConflict) => {
                    let prompt = PromptRequest { text: line.clone() };
                    client.call(PromptSession::of(id).body(&prompt)).await.map(drop)
                }
                answer => answer.map(drop),
            }
        }
        What::Start { rows, cols } => {
            let start =
                StartSessionRequest { now: None, env: Some(environment()), rows: Some(*rows), cols: Some(*cols) };
            client.call(StartSession::of(id).body(&start)).await.map(drop)
        }
        What::Finish => client.call(FinishSession::of(id)).await.map(drop),
        What::Kill => client.call(KillSession::of(id)).await.map(drop),
        What::Archive => client.call(ArchiveSession::of(id)).await.map(drop),
        What::Sacrifice => client.call(SacrificeSession::of(id)).await.map(drop),
    }
}

/// The environment of the shell that asks: the harness gets it, nothing stores it.
fn environment() -> std::collections::BTreeMap<String, String> {
    std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?))).collect()
}
