//! Does what the user asked for: one request to the daemon, one sentence if it failed.

use std::path::Path;
use std::time::Duration;

use coven_api::agent::PromptRequest;
use coven_api::session::{InputRequest, StartSessionRequest};
use coven_api::{ErrorCode, SessionRecord};
use coven_client::{Client, ClientError};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::report::{Request, What};
use crate::failure::Failure;
use crate::route;

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
    let path = |verb: &str| route::session(&request.id, verb);
    let none = json!({});
    match &request.what {
        What::Input(line) => {
            let input = InputRequest::of(format!("{line}\r").as_bytes());
            match client.post::<Value>(&path("/input"), &input).await {
                // A line to a session without a terminal is a prompt.
                Err(error) if error.is(ErrorCode::SessionRefused) => {
                    let prompt = PromptRequest { text: line.clone() };
                    client.post::<Value>(&path("/prompt"), &prompt).await.map(drop)
                }
                answer => answer.map(drop),
            }
        }
        What::Start { rows, cols } => {
            let start = StartSessionRequest { env: Some(environment()), rows: Some(*rows), cols: Some(*cols) };
            client.post::<SessionRecord>(&path("/start"), &start).await.map(drop)
        }
        What::Finish => client.post::<Value>(&path("/finish"), &none).await.map(drop),
        What::Kill => client.post::<Value>(&path("/kill"), &none).await.map(drop),
        What::Archive => client.post::<Value>(&path("/archive"), &none).await.map(drop),
        What::Sacrifice => client.delete::<Value>(&path("")).await.map(drop),
    }
}

/// The environment of the shell that asks: the harness gets it, nothing stores it.
fn environment() -> std::collections::BTreeMap<String, String> {
    std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?))).collect()
}
