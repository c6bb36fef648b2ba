//! `coven mcp`: lets an agent ask its human and use coven, over MCP on standard input and output.
//!
//! One thread does everything. What touches a question set is done without giving way, so a set that exists is one that
//! the server knows of, and ends it when the client goes.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod ask;
mod asked;
mod daemon;
mod elicit;
mod fetch;
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

/// Between two signs of life while a human thinks: clients give up after a minute of silence.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(25);

/// Nobody reads a form and declines it in less. Agents that work off one prompt offer forms and decline them by
/// themselves, within milliseconds.
pub const HUMAN_NEEDS: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct Options {
    pub folder: QuestionFolder,
    pub questions: QuestionsConfig,
    /// Where the daemon is, for the tools about sessions; without one they say so.
    pub home: Option<Home>,
    /// Agents may start sessions and type into them.
    pub may_control: bool,
    /// The session of coven that the asking agent runs in.
    pub session: Option<String>,
    pub progress_every: Duration,
    /// A form that is declined sooner was not seen by a human, and the questions stay open.
    pub human_needs: Duration,
    pub version: &'static str,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the MCP server could not be started")]
    Runtime(#[source] std::io::Error),
    #[error("the client does not speak MCP: {0}")]
    NoMcp(String),
}

/// Serves on standard input and output until the client goes or a signal asks for the end. Nothing that was asked is left
/// pending.
pub fn serve(options: Options) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Runtime)?;
    let ended = runtime.block_on(async {
        let left = stdio::left().map_err(ServeError::Runtime)?;
        serve_on(options, (stdio::input(), stdio::output()), left).await
    });
    // A read of standard input cannot be taken back, and nobody waits for it.
    runtime.shutdown_background();
    ended
}

/// The same on any streams; `left` ends it.
pub async fn serve_on<R, W>(
    options: Options,
    (input, output): (R, W),
    left: impl Future<Output = ()>,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let server = Server::new(options);
    let asked = server.asked.clone();
    let input = Input::new(input, asked.clone());
    let served = async {
        match server.serve((input, output)).await {
            Ok(running) => {
                // Whatever the reason, the client is no longer there.
                let _ = running.waiting().await;
                Ok(())
            }
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
            Err(error) => Err(ServeError::NoMcp(error.to_string())),
        }
    };
    let gives_up = async {
        asked.left().await;
        asked.abandon_all();
        // What is quick is still answered: the client may have closed only its own end.
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = served => ended,
        () = gives_up => Ok(()),
        () = left => Ok(()),
    };
    asked.abandon_all();
    ended
}
