//! Sends a prompt exactly once.

use coven_api::compat::PromptRequest;
use coven_api::routes::{Endpoint, PromptSession};
use coven_domain::MessageId;

use super::{content, past};
use crate::daemon_connector::{DaemonConnector, is_disconnected};
use crate::failure::Failure;

/// A daemon that goes away so often while one prompt is sent has another problem.
const TRIES: usize = 3;

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
