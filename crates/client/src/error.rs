//! Errors of a call to the daemon.

use coven_api::error::{ErrorBody, ErrorCode};

use crate::Address;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the daemon does not answer on {address}")]
    Unreachable { address: Address, source: std::io::Error },
    #[error("a process of another user listens on {address}; nothing was sent to it")]
    NotOurs { address: Address },
    #[error("{message}")]
    Api { status: u16, code: String, message: String, details: Option<Box<serde_json::Value>> },
    #[error("the connection to the daemon broke")]
    Broken(#[from] hyper::Error),
    #[error("the daemon closed the connection")]
    Closed,
    #[error("the daemon does not answer; see `coven daemon status`")]
    Silent,
    #[error("the WebSocket to the daemon broke")]
    WebSocket(#[source] Box<tokio_tungstenite::tungstenite::Error>),
    #[error("the daemon sent something this coven does not understand; restart it with `coven daemon restart`")]
    Decode(#[from] serde_json::Error),
    #[error("the daemon sent a binary frame that is not terminal output; restart it with `coven daemon restart`")]
    LiveFrame,
    #[error("the daemon's answer is larger than {limit} bytes; ask for a smaller page")]
    TooLarge { limit: usize },
    #[error("the request could not be written")]
    Request(#[from] hyper::http::Error),
}

impl ClientError {
    /// The exit code of a command that met it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unreachable { .. } | Self::Broken(_) | Self::Closed | Self::Silent | Self::WebSocket(_) => 5,
            Self::NotOurs { .. } => 4,
            Self::Api { code, .. } => ErrorCode::from_word(code).map_or(1, ErrorCode::exit_code),
            Self::Decode(_) | Self::LiveFrame | Self::TooLarge { .. } | Self::Request(_) => 1,
        }
    }

    pub fn is(&self, wanted: ErrorCode) -> bool {
        matches!(self, Self::Api { code, .. } if code == wanted.as_str())
    }

    /// Returns whether the connection is lost; the daemon may answer again after a restart.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Broken(_) | Self::Closed | Self::WebSocket(_))
    }

    /// Returns whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        self.is_disconnected() || matches!(self, Self::Silent | Self::Api { status: 500.., .. })
    }

    /// Reads the body of an answer that is not a success.
    pub(crate) fn from_answer(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(ErrorBody { error }) => Self::Api {
                status,
                code: error.code.as_str().to_owned(),
                message: error.message,
                details: error.details.map(Box::new),
            },
            Err(_) => Self::Api {
                status,
                code: ErrorCode::Internal.as_str().to_owned(),
                message: format!("the daemon answered with HTTP status {status} and no reason"),
                details: None,
            },
        }
    }
}
