//! Keeps the records on a screen up to date with the daemon, across restarts of the daemon.

use std::path::Path;
use std::time::Duration;

use coven_client::{Address, Client, ClientError, EventFollower, Followed, SseEvent};
use tokio::time::timeout;

use crate::failure::Failure;

/// A daemon that does not answer within this time counts as unreachable.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// The records on a screen.
pub trait Mirror {
    /// Called when the daemon is connected.
    async fn connected(&mut self) -> Result<(), Stop>;

    /// Reads all records.
    async fn read(&mut self, client: &mut Client) -> Result<(), Stop>;

    /// Reads the records of these events. Returns false if all records must be read.
    async fn apply(&mut self, client: &mut Client, events: &[SseEvent]) -> Result<bool, Stop>;

    /// Returns when the user asks to reload all records.
    async fn wanted(&mut self) -> Result<(), Stop> {
        std::future::pending().await
    }

    /// Called with advice when the connection is lost.
    async fn lost(&mut self, why: String) -> Result<(), Stop>;
}

/// Why reading the records stopped.
pub enum Stop {
    Daemon(ClientError),
    /// The screen was closed.
    Left,
}

impl<E: Into<ClientError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Daemon(error.into())
    }
}

/// Follows the daemon until the screen is closed.
pub async fn follow(socket: &Path, mirror: &mut impl Mirror) {
    let address = Address::from(socket);
    let mut follower = EventFollower::new(&address, None);
    let mut client = None;
    loop {
        match step(&address, &mut follower, &mut client, mirror).await {
            Ok(()) => {}
            Err(Stop::Left) => return,
            Err(Stop::Daemon(error)) => {
                client = None;
                follower.resubscribe();
                if mirror.lost(advice(error)).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn step(
    address: &Address,
    follower: &mut EventFollower<&Address>,
    client: &mut Option<Client>,
    mirror: &mut impl Mirror,
) -> Result<(), Stop> {
    let happened = tokio::select! {
        happened = follower.next() => Some(happened?),
        wanted = mirror.wanted(), if client.is_some() => wanted.map(|()| None)?,
    };
    let is_current = match (happened, client.as_mut()) {
        // The subscription starts before the records are read, so no change falls in between.
        (Some(Followed::Connected), _) => {
            *client = Some(Client::connect(address).await?);
            mirror.connected().await?;
            false
        }
        (Some(Followed::Events(events)), Some(client)) => mirror.apply(client, &events).await?,
        (Some(Followed::Disconnected(error)), _) => return Err(error.into()),
        (Some(Followed::Events(_)) | None, _) => false,
    };
    match client {
        Some(client) if !is_current => mirror.read(client).await,
        _ => Ok(()),
    }
}

/// Waits for a response, or returns an error after the timeout.
pub async fn in_time<T>(asked: impl Future<Output = Result<T, ClientError>>) -> Result<T, Stop> {
    timeout(ANSWER_TIMEOUT, asked).await.unwrap_or(Err(ClientError::Silent)).map_err(Stop::Daemon)
}

fn advice(error: ClientError) -> String {
    match error {
        ClientError::Unreachable { .. } | ClientError::Broken(_) | ClientError::Closed => {
            "start it with `coven daemon start`".to_owned()
        }
        ClientError::Silent => "the daemon does not answer; see `coven daemon status`".to_owned(),
        error => Failure::from(error).sentence(),
    }
}
