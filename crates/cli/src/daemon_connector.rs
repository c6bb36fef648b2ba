//! Reconnects for programs that outlive a daemon, and starts the daemon where that is allowed.

use std::path::PathBuf;

use coven_client::{Client, ClientError, Connector};
use coven_host::daemon_start;
use coven_host::home::Home;

use crate::failure::Failure;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DaemonConnector {
    socket: PathBuf,
    /// The home whose daemon to start on demand; `None` if this program must not start it.
    home: Option<Home>,
}

impl DaemonConnector {
    pub fn to(home: &Home) -> Result<Self, Failure> {
        Ok(Self { socket: home.socket()?, home: Some(home.clone()) })
    }

    /// Connects; starts the daemon if it is not running.
    pub async fn open(&self) -> Result<Client, Failure> {
        self.connect().await
    }
}

impl Connector for DaemonConnector {
    type Error = Failure;

    async fn connect(&self) -> Result<Client, Failure> {
        match (Client::connect(&self.socket).await, &self.home) {
            (Err(ClientError::Unreachable { .. }), Some(home)) => {
                let home = home.clone();
                // Starting waits for the daemon; other tasks of this thread continue meanwhile.
                let starting = tokio::task::spawn_blocking(move || daemon_start::ensure_running(&home, &[]));
                let started = starting.await.map_err(|error| Failure::Runtime(std::io::Error::other(error)))??;
                Ok(Client::connect(&started.socket).await?)
            }
            (client, _) => Ok(client?),
        }
    }
}

/// Returns whether the daemon may answer again after a restart.
pub fn is_disconnected(failure: &Failure) -> bool {
    matches!(failure, Failure::Client(error) if error.is_disconnected())
}
