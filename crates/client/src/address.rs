//! Addresses of a daemon.

use std::fmt;
use std::path::{Path, PathBuf};
#[cfg(feature = "tls")]
use std::sync::Arc;

/// Where a daemon listens, and the credentials that it asks for there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The home's socket. The kernel says who listens; no token is needed.
    Unix(PathBuf),
    Tcp {
        host: String,
        port: u16,
        token: Token,
    },
    /// TCP through a proxy that ends TLS.
    #[cfg(feature = "tls")]
    Tls {
        /// The name that the certificate must be valid for.
        host: String,
        port: u16,
        token: Token,
        /// Certificates in PEM; the server's certificate must be signed by one of them.
        roots: Arc<[u8]>,
    },
}

impl Address {
    /// The value of the Host header: the daemon refuses any other.
    pub(crate) fn host_header(&self) -> String {
        match self {
            Self::Unix(_) => "localhost".to_owned(),
            Self::Tcp { host, port, .. } => authority(host, *port),
            #[cfg(feature = "tls")]
            Self::Tls { host, port, .. } => authority(host, *port),
        }
    }

    pub(crate) fn token(&self) -> Option<&Token> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp { token, .. } => Some(token),
            #[cfg(feature = "tls")]
            Self::Tls { token, .. } => Some(token),
        }
    }
}

fn authority(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp { host, port, .. } => write!(f, "http://{}", authority(host, *port)),
            #[cfg(feature = "tls")]
            Self::Tls { host, port, .. } => write!(f, "https://{}", authority(host, *port)),
        }
    }
}

impl From<&Path> for Address {
    fn from(socket: &Path) -> Self {
        Self::Unix(socket.to_owned())
    }
}

impl From<PathBuf> for Address {
    fn from(socket: PathBuf) -> Self {
        Self::Unix(socket)
    }
}

impl From<&PathBuf> for Address {
    fn from(socket: &PathBuf) -> Self {
        Self::Unix(socket.clone())
    }
}

impl From<&Address> for Address {
    fn from(address: &Address) -> Self {
        address.clone()
    }
}

/// A bearer token. Its text appears in no message and no debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_host_exactly_and_never_its_token() {
        let tcp = |host: &str| Address::Tcp { host: host.to_owned(), port: 7777, token: Token::new("secret\n") };
        assert_eq!(tcp("127.0.0.1").host_header(), "127.0.0.1:7777");
        assert_eq!(tcp("::1").host_header(), "[::1]:7777");
        assert_eq!(tcp("::1").to_string(), "http://[::1]:7777");
        assert_eq!(tcp("a").token().map(Token::header).as_deref(), Some("Bearer secret"));
        assert!(!format!("{:?}", tcp("a")).contains("secret"));
    }
}
