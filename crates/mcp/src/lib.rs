//! `coven mcp`: an MCP server on standard input and output that lets an agent ask the user questions and use coven.
//!
//! Runs on one thread. Creating and registering a question set has no await point in between, so the server knows every
//! set that it has created, and abandons it when the client disconnects.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod ask;
mod daemon;
mod elicit;
mod fetch;
mod pending;
mod progress;
mod reply;
mod server;
mod session_tools;
mod stdio;
mod tool;

use std::time::Duration;

use coven_host::config::QuestionsConfig;
use coven_host::home::Home;
use coven_interop::questions::QuestionFolder;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::server::Server;
use crate::stdio::Input;

/// Interval between progress notifications: clients time out after a minute without any.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(25);

/// Minimum time for a user to read and decline a form. Agents that process a single prompt offer forms but decline them
/// automatically, within milliseconds.
pub const HUMAN_NEEDS: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct Options {
    pub folder: QuestionFolder,
    pub questions: QuestionsConfig,
    /// Home of the daemon for the session tools, which return an error without one.
    pub home: Option<Home>,
    /// Whether agents may start sessions and type into them.
    pub may_control: bool,
    /// Id of the coven session in which the agent is running.
    pub session: Option<String>,
    pub progress_every: Duration,
    /// A form declined sooner was not declined by a user, so the questions stay open.
    pub min_human_response: Duration,
    pub version: &'static str,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot start the MCP server")]
    Runtime(#[source] std::io::Error),
    #[error("the MCP handshake with the client failed: {0}")]
    NoMcp(String),
}

/// Serves on standard input and output until the client disconnects or a signal arrives. Leaves no question set of this
/// client pending.
pub fn serve(options: Options) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Runtime)?;
    let ended = runtime.block_on(async {
        let shutdown = stdio::shutdown().map_err(ServeError::Runtime)?;
        serve_on(options, (stdio::input(), stdio::output()), shutdown).await
    });
    // In the background, because a blocking read of standard input cannot be cancelled.
    runtime.shutdown_background();
    ended
}

/// Like [`serve`], but on any streams and until `shutdown` completes.
pub async fn serve_on<R, W>(
    options: Options,
    (input, output): (R, W),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let server = Server::new(options);
    let pending = server.pending.clone();
    let input = Input::new(input, pending.clone());
    let served = async {
        match server.serve((input, output)).await {
            Ok(running) => {
                // Regardless of the reason, the client has disconnected.
                let _ = running.waiting().await;
                Ok(())
            }
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
            Err(error) => Err(ServeError::NoMcp(error.to_string())),
        }
    };
    let abandoned = async {
        pending.disconnected().await;
        pending.abandon_all();
        // Keep serving quick calls: the client may have closed only its output.
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = served => ended,
        () = abandoned => Ok(()),
        () = shutdown => Ok(()),
    };
    pending.abandon_all();
    ended
}
