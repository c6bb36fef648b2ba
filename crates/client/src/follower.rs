//! Following a route that answers with events, across restarts of the daemon.

use std::time::Duration;

use coven_api::event::EventsQuery;
use coven_api::request::Request;
use coven_api::routes::{Endpoint, ListEvents};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{Client, ClientError, Connector, EventStream, SseEvent};

const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The daemon sends a heartbeat every 15 seconds: a stream that is silent for longer is dead.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the daemon may take to accept a subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(15);

/// Follows `/events`, or the events of another route. Subscribes again after the last event that it returned when the daemon
/// was away.
pub struct EventFollower<C, E = ListEvents> {
    connector: C,
    request: Request<E>,
    /// The number of the last event, or of the event to start after.
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
    /// Follows `/events` from an event number or a time, or from now on.
    pub fn new(connector: C, since: Option<String>) -> Self {
        // The header takes numbers only; a time is a parameter.
        let is_number = |since: &String| since.bytes().all(|byte| byte.is_ascii_digit());
        let (cursor, since) = if since.as_ref().is_some_and(is_number) { (since, None) } else { (None, since) };
        let request = ListEvents::request().query(&EventsQuery { since, ..EventsQuery::default() });
        Self::of(connector, request, cursor)
    }
}

impl<C: Connector, E: Endpoint> EventFollower<C, E> {
    /// Follows the events that answer a request, after the event of a number.
    pub fn of(connector: C, request: Request<E>, cursor: Option<String>) -> Self {
        let (now, retry_delay) = (Instant::now(), FIRST_RETRY_DELAY);
        Self { connector, request, cursor, stream: None, heard_at: now, retry_at: now, retry_delay }
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
        let opening = client.events(self.request.clone(), self.cursor.as_deref());
        timeout_at(Instant::now() + SUBSCRIBE_TIMEOUT, opening).await.unwrap_or(Err(ClientError::Silent))
    }

    fn disconnected(&mut self, why: C::Error) -> Followed<C::Error> {
        self.stream = None;
        self.retry_at = Instant::now() + self.retry_delay;
        self.retry_delay = (self.retry_delay * 2).min(MAX_RETRY_DELAY);
        Followed::Disconnected(why)
    }
}
