//! Waits for changes of records, as the daemon's events report them.

use coven_api::routes::{Endpoint as _, ListEvents};
use coven_client::{Client, ClientError, EventStream};

/// Events of some kinds from now on.
pub struct Changes {
    stream: EventStream,
    kinds: &'static [&'static str],
}

impl Changes {
    /// Follows the events whose kind has one of these prefixes. Open it before reading the record that is waited for.
    pub async fn open(client: &Client, kinds: &'static [&'static str]) -> Result<Self, ClientError> {
        let streaming = Client::connect(client.address().clone()).await?;
        Ok(Self { stream: streaming.events(ListEvents::request(), None).await?, kinds })
    }

    /// Waits for the next of these events.
    pub async fn next(&mut self) -> Result<(), ClientError> {
        loop {
            let events = self.stream.next_batch().await?.ok_or(ClientError::Closed)?;
            if events.iter().any(|event| self.kinds.iter().any(|kind| event.kind.starts_with(kind)) || event.is_gap()) {
                return Ok(());
            }
        }
    }
}
