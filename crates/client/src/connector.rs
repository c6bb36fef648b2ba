//! Connecting again and again, for programs that outlive a daemon.

use crate::{Address, Client, ClientError};

/// Opens connections to one daemon. An implementation may start the daemon when nothing answers.
pub trait Connector {
    type Error: From<ClientError>;

    fn connect(&self) -> impl Future<Output = Result<Client, Self::Error>> + Send;
}

impl Connector for Address {
    type Error = ClientError;

    async fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(self).await
    }
}

impl<C: Connector> Connector for &C {
    type Error = C::Error;

    fn connect(&self) -> impl Future<Output = Result<Client, C::Error>> + Send {
        C::connect(self)
    }
}
