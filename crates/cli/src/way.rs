//! The way to the daemon for something that outlives it: looks for it again, and starts it if it must.

use std::path::{Path, PathBuf};

use coven_client::{Client, ClientError, Connector};
use coven_host::daemon_start;
use coven_host::home::Home;

use crate::failure::Failure;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Way {
    socket: PathBuf,
    /// Whose daemon is started if none answers; nothing if that is not ours to do.
    home: Option<Home>,
}

impl Way {
    pub fn to(home: &Home) -> Result<Self, Failure> {
        Ok(Self { socket: home.socket()?, home: Some(home.clone()) })
    }

    /// To a daemon that somebody else starts.
    #[cfg(test)]
    pub fn to_socket(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), home: None }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Connects; starts the daemon if it does not run.
    pub async fn open(&self) -> Result<Client, Failure> {
        self.connect().await
    }
}

impl Connector for Way {
    type Error = Failure;

    async fn connect(&self) -> Result<Client, Failure> {
        match (Client::connect(&self.socket).await, &self.home) {
            (Err(ClientError::Unreachable { .. }), Some(home)) => {
                let home = home.clone();
                // Starting waits for the daemon's first word: others of this thread go on meanwhile.
                let starting = tokio::task::spawn_blocking(move || daemon_start::ensure_running(&home, &[]));
                let started = starting.await.map_err(|error| Failure::Runtime(std::io::Error::other(error)))??;
                Ok(Client::connect(&started.socket).await?)
            }
            (client, _) => Ok(client?),
        }
    }
}

/// Whether it is worth looking for the daemon again.
pub fn is_disconnected(failure: &Failure) -> bool {
    matches!(failure, Failure::Client(error) if error.is_disconnected())
}
