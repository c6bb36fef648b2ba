//! Following `/events` across restarts of the daemon.

use std::time::Duration;

use coven_api::event::EventsQuery;
use coven_api::routes::{Endpoint, ListEvents};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{Client, ClientError, Connector, EventStream, SseEvent};

const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The daemon sends a heartbeat every 15 seconds: a stream that is silent for longer is dead.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// Follows the events of a daemon. Subscribes again after the last event that it returned when the daemon was away.
pub struct EventFollower<C> {
    connector: C,
    /// The number of the last event, or where the caller wants to start; from now on if empty.
    cursor: Option<String>,
    stream: Option<EventStream>,
    heard_at: Instant,
    retry_at: Instant,
    retry_delay: Duration,
}

#[derive(Debug)]
pub enum Followed<F> {
    /// A subscription started, for the first time or after the daemon was away.
    Connected,
    /// Events that arrived together, in order. After an event that `is_gap`, read the state again.
    Events(Vec<SseEvent>),
    /// The daemon is away; the follower tries again after a delay that grows.
    Disconnected(F),
}

impl<C: Connector> EventFollower<C> {
    /// Follows from an event number or a time, or from now on.
    pub fn new(connector: C, since: Option<String>) -> Self {
        let now = Instant::now();
        Self { connector, cursor: since, stream: None, heard_at: now, retry_at: now, retry_delay: FIRST_RETRY_DELAY }
    }

    /// Returns what happened next. Only a refusal by the daemon is an error: it would refuse again. Cancel-safe.
    pub async fn next(&mut self) -> Result<Followed<C::Error>, C::Error> {
        let Some(stream) = &mut self.stream else {
            sleep_until(self.retry_at).await;
            return self.subscribe().await;
        };
        loop {
            let lost = match timeout_at(self.heard_at + SILENCE_TIMEOUT, stream.next_batch()).await {
                Ok(Ok(Some(events))) => {
                    self.heard_at = Instant::now();
                    if let Some(id) = events.iter().rev().find_map(|event| event.id.as_ref()) {
                        self.cursor = Some(id.clone());
                    }
                    match events.is_empty() {
                        true => continue,
                        false => return Ok(Followed::Events(events)),
                    }
                }
                Ok(Ok(None)) => ClientError::Closed,
                Ok(Err(error)) => error,
                Err(_) => ClientError::Silent,
            };
            return Ok(self.disconnected(lost.into()));
        }
    }

    /// Drops the subscription: `next` opens a new one, which continues after the last event, and reports `Connected`.
    pub fn resubscribe(&mut self) {
        self.stream = None;
        self.retry_at = Instant::now() + self.retry_delay;
    }

    async fn subscribe(&mut self) -> Result<Followed<C::Error>, C::Error> {
        let client = match self.connector.connect().await {
            Ok(client) => client,
            Err(error) => return Ok(self.disconnected(error)),
        };
        match self.open(client).await {
            Ok(stream) => {
                self.stream = Some(stream);
                self.heard_at = Instant::now();
                self.retry_delay = FIRST_RETRY_DELAY;
                Ok(Followed::Connected)
            }
            Err(error @ ClientError::Api { status: 400..500, .. }) => Err(error.into()),
            Err(error) => Ok(self.disconnected(error.into())),
        }
    }

    async fn open(&self, client: Client) -> Result<EventStream, ClientError> {
        // The header takes numbers only; a time is a parameter.
        let (last, since) = match self.cursor.as_deref() {
            Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => (Some(number), None),
            other => (None, other.map(str::to_owned)),
        };
        let request = ListEvents::request().query(&EventsQuery { since, ..EventsQuery::default() });
        let opening = client.events(request, last);
        timeout_at(Instant::now() + SILENCE_TIMEOUT, opening).await.unwrap_or(Err(ClientError::Silent))
    }

    fn disconnected(&mut self, why: C::Error) -> Followed<C::Error> {
        self.stream = None;
        self.retry_at = Instant::now() + self.retry_delay;
        self.retry_delay = (self.retry_delay * 2).min(MAX_RETRY_DELAY);
        Followed::Disconnected(why)
    }
}
