//! Connects to the daemon, and starts it if it is not running.

use coven_client::{Client, ClientError};
use coven_host::daemon_start::{self, StartError};

use crate::server::Server;
use crate::stdio;

#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error("no coven home found; set COVEN_HOME or HOME")]
    NoHome,
    #[error(transparent)]
    Home(#[from] coven_host::HomeError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{0}")]
    Refused(String),
}

impl Server {
    pub async fn daemon(&self) -> Result<Client, DaemonError> {
        let home = self.options.home.as_ref().ok_or(DaemonError::NoHome)?;
        match Client::connect(&home.socket()?).await {
            Err(ClientError::Unreachable { .. }) => {
                let home = home.clone();
                // On another thread, because starting takes a while and other calls must not wait for it.
                let started = tokio::task::spawn_blocking(move || daemon_start::ensure_running(&home, &[]));
                let started = started.await.expect("ensure_running does not panic")?;
                started.notices.iter().for_each(|notice| stdio::note(format_args!("{notice}")));
                Ok(Client::connect(&started.socket).await?)
            }
            connected => Ok(connected?),
        }
    }
}
