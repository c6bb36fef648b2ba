//! Does what was asked for: one request to the daemon, one sentence if it failed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coven_api::ErrorCode;
use coven_api::compat::PromptRequest;
use coven_api::inbox::{AnswerRequest, InboxItem};
use coven_api::message::{ConfigOptionRequest, ModeRequest};
use coven_api::routes::{AnswerInboxItem, CancelTurn, ChangeMode, ChangeOption, Endpoint, PromptSession};
use coven_client::{Client, ClientError};
use coven_domain::MessageId;
use tokio::time::timeout;

use super::report::{Answer, Chosen, Request};
use super::{content, past};
use crate::daemon_connector::{DaemonConnector, is_disconnected};
use crate::failure::Failure;

const DEADLINE: Duration = Duration::from_secs(60);
/// A daemon that goes away so often while one prompt is sent has another problem.
const TRIES: usize = 3;

pub async fn perform(
    connector: &DaemonConnector,
    id: &str,
    request: &Request,
    seen: &AtomicU64,
) -> Result<Answer, String> {
    match timeout(DEADLINE, send(connector, id, request, seen)).await {
        Ok(answer) => answer.map_err(|failure| failure.sentence()),
        Err(_) => Err("the daemon does not answer; see `coven daemon status`, then try again".to_owned()),
    }
}

async fn send(connector: &DaemonConnector, id: &str, request: &Request, seen: &AtomicU64) -> Result<Answer, Failure> {
    match request {
        Request::Prompt(text) => prompt(connector, id, text, seen.load(Ordering::Relaxed)).await.map(Answer::Accepted),
        Request::Cancel => match connector.open().await?.call(CancelTurn::of(id)).await {
            // The turn was over before it could be cancelled.
            Err(error) if error.is(ErrorCode::SessionConflict) => Ok(Answer::Done),
            answer => Ok(answer.map(|_| Answer::Done)?),
        },
        Request::Mode(mode) => {
            let body = ModeRequest { mode_id: mode.clone() };
            Ok(connector.open().await?.call(ChangeMode::of(id).body(&body)).await.map(|_| Answer::Done)?)
        }
        Request::Config { id: option, value } => {
            let body = ConfigOptionRequest { config_id: option.clone(), value: value.clone() };
            Ok(connector.open().await?.call(ChangeOption::of(id).body(&body)).await.map(|_| Answer::Done)?)
        }
        Request::Answer { question, answer } => {
            let item = self::answer(&mut connector.open().await?, question, answer).await?;
            Ok(Answer::Settled(Box::new(item)))
        }
    }
}

pub async fn answer(client: &mut Client, question: &str, chosen: &Chosen) -> Result<InboxItem, ClientError> {
    let body = match chosen {
        Chosen::Option(id) => AnswerRequest { option: Some(id.clone()), ..AnswerRequest::default() },
        Chosen::Allow => AnswerRequest { decision: Some("allow".to_owned()), ..AnswerRequest::default() },
        Chosen::Deny => AnswerRequest { decision: Some("deny".to_owned()), ..AnswerRequest::default() },
    };
    client.call(AnswerInboxItem::of(question).body(&body)).await
}

/// Sends a prompt once, also when the daemon goes away meanwhile: what it wrote down says whether it had arrived.
pub async fn prompt(connector: &DaemonConnector, id: &str, text: &str, after: u64) -> Result<MessageId, Failure> {
    let body = PromptRequest { text: text.to_owned() };
    let mut tries = 0;
    loop {
        tries += 1;
        let mut client = connector.open().await?;
        match client.call(PromptSession::of(id).body(&body)).await {
            Ok(accepted) => return Ok(accepted.message_id),
            Err(error) => {
                let failure = Failure::from(error);
                if !is_disconnected(&failure) || tries == TRIES {
                    return Err(failure);
                }
            }
        }
        let mut found = None;
        past::read(&mut connector.open().await?, id, after, |message| {
            if content::prompt(&message) == Some(text) {
                found = Some(message.message_id);
            }
            Ok(())
        })
        .await?;
        if let Some(message_id) = found {
            return Ok(message_id);
        }
    }
}
