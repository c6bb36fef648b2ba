//! Turns an error into a message with advice, and into an exit code.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use coven_api::ErrorCode;
use coven_client::ClientError;
use coven_harness::settings_file::InstallError;
use coven_holder::client::HolderError;
use coven_host::config::ConfigError;
use coven_host::daemon_start::StartError;
use coven_host::git::GitError;
use coven_host::home::HomeError;
use coven_host::trust::TrustError;
use coven_interop::conversations::ConversationError;
use coven_interop::questions::QuestionError;
use coven_store::StoreError;

use crate::{output, verb};

/// Exit code: wrong usage or an invalid config.
pub const USAGE: u8 = 2;
/// Exit code: the named thing does not exist.
pub const NOT_FOUND: u8 = 3;
/// Exit code: the state of the thing does not allow it.
pub const REFUSED: u8 = 4;
/// Exit code: the daemon is unreachable, or the store is locked.
pub const UNAVAILABLE: u8 = 5;
/// Exit code: the time limit passed, as `timeout` reports it.
const TIMED_OUT: u8 = 124;
/// Exit code that a shell reports for SIGINT.
const INTERRUPTED: u8 = 130;

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Holder(#[from] HolderError),
    #[error(transparent)]
    Questions(#[from] QuestionError),
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Mcp(#[from] coven_mcp::ServeError),
    #[error("{what}")]
    Usage { what: String, hint: String },
    #[error("{what}")]
    Refused { what: String, hint: String },
    #[error("{what}")]
    NotFound { what: String, hint: String },
    #[error("{what}")]
    Unavailable { what: String, hint: String },
    #[error("{what}")]
    Failed { what: String, hint: String },
    /// The user stopped the command; the daemon continues its work.
    #[error("{what}")]
    Interrupted { what: String, hint: String },
    /// The user's time limit passed before what the command waits for happened.
    #[error("{what}")]
    TimedOut { what: String, hint: String },
    #[error("cannot write the output")]
    Output(#[source] io::Error),
    #[error("cannot read the input")]
    Input(#[source] io::Error),
    #[error("cannot set up the terminal")]
    Terminal(#[source] io::Error),
    #[error("cannot use {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot start the async runtime")]
    Runtime(#[source] io::Error),
}

impl Failure {
    pub fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), hint: hint.into() }
    }

    pub fn refused(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused { what: what.into(), hint: hint.into() }
    }

    pub fn not_found(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::NotFound { what: what.into(), hint: hint.into() }
    }

    pub fn failed(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), hint: hint.into() }
    }

    pub fn unavailable(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unavailable { what: what.into(), hint: hint.into() }
    }

    /// Returns whether the daemon answered 404.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Client(ClientError::Api { status: 404, .. }))
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Client(error) => error.exit_code(),
            Self::Home(error) => error.exit_code(),
            Self::Config(_) | Self::Usage { .. } => USAGE,
            Self::Conversation(ConversationError::BadId(_) | ConversationError::Ambiguous { .. }) => USAGE,
            Self::Conversation(
                ConversationError::Exists { .. } | ConversationError::Busy { .. } | ConversationError::InUse { .. },
            ) => REFUSED,
            Self::Install(InstallError::NoHome | InstallError::Malformed { .. }) => USAGE,
            Self::Install(InstallError::Moved { .. }) => REFUSED,
            Self::NotFound { .. } => NOT_FOUND,
            Self::Refused { .. } | Self::Holder(HolderError::Refused(_)) => REFUSED,
            Self::Start(error) => error.exit_code(),
            Self::Questions(error) => question_code(error),
            Self::Interrupted { .. } => INTERRUPTED,
            Self::TimedOut { .. } => TIMED_OUT,
            Self::Unavailable { .. } | Self::Store(StoreError::Locked) => UNAVAILABLE,
            Self::Store(_)
            | Self::Holder(_)
            | Self::Conversation(_)
            | Self::Install(_)
            | Self::Mcp(_)
            | Self::Trust(_)
            | Self::Git(_)
            | Self::Failed { .. }
            | Self::Output(_)
            | Self::Input(_)
            | Self::Terminal(_)
            | Self::File { .. }
            | Self::Runtime(_) => 1,
        }
    }

    /// Advice on what to do next; empty if the message already contains it.
    fn hint(&self) -> String {
        match self {
            Self::Client(error) => client_hint(error).to_owned(),
            Self::Store(error) => verb::db::hint(error).to_owned(),
            Self::Questions(error) => question_hint(error).to_owned(),
            Self::Usage { hint, .. }
            | Self::NotFound { hint, .. }
            | Self::Refused { hint, .. }
            | Self::Unavailable { hint, .. }
            | Self::Interrupted { hint, .. }
            | Self::TimedOut { hint, .. }
            | Self::Failed { hint, .. } => hint.clone(),
            Self::Holder(HolderError::Refused(_)) => "See `coven attach --help`".to_owned(),
            Self::Holder(_) => "See how the session ended with `coven show <id>`".to_owned(),
            Self::Terminal(_) => "Run the command in a terminal, or redirect its output".to_owned(),
            Self::Runtime(_) => "Close some files or processes, then retry".to_owned(),
            Self::Conversation(ConversationError::Damaged { .. }) => {
                "Keep the good lines with --recover, or delete it with --delete-damaged".to_owned()
            }
            Self::Install(InstallError::Malformed { .. }) => "Fix the file and retry".to_owned(),
            Self::Install(InstallError::Moved { .. }) => "Retry".to_owned(),
            Self::Home(_) | Self::Config(_) | Self::Start(_) => String::new(),
            Self::Conversation(_) | Self::Install(_) | Self::Mcp(_) | Self::Trust(_) | Self::Git(_) => String::new(),
            Self::Output(_) | Self::Input(_) | Self::File { .. } => String::new(),
        }
    }

    /// The full message: what failed, why, what to do next.
    pub fn sentence(&self) -> String {
        let mut what = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // A transparent error is its own cause.
            if !what.contains(&text) {
                what.push_str(": ");
                what.push_str(&text);
            }
            cause = error.source();
        }
        let hint = self.hint();
        let what = what.trim_end_matches(['.', '\n']);
        match hint.trim_end_matches('.') {
            "" => format!("{what}."),
            hint => format!("{what}. {hint}."),
        }
    }
}

fn question_code(error: &QuestionError) -> u8 {
    match error {
        QuestionError::BadQuestions(_) | QuestionError::BadAnswers(_) | QuestionError::Ambiguous { .. } => USAGE,
        QuestionError::NotFound { .. } => NOT_FOUND,
        QuestionError::AlreadyFinished { .. } | QuestionError::Full { .. } | QuestionError::NoAnswers { .. } => REFUSED,
        QuestionError::Missing { .. }
        | QuestionError::Malformed { .. }
        | QuestionError::Contradiction { .. }
        | QuestionError::Lock { .. }
        | QuestionError::AtomicWrite(_)
        | QuestionError::Unreadable { .. }
        | QuestionError::Unwritable { .. }
        | QuestionError::Watch { .. } => 1,
    }
}

fn question_hint(error: &QuestionError) -> &'static str {
    match error {
        QuestionError::NotFound { .. } => "List the sets with `coven questions list --all`",
        QuestionError::AlreadyFinished { .. } => "See its result with `coven questions history`",
        QuestionError::Lock { .. } => "Another program is writing it; retry in a moment",
        QuestionError::Missing { .. } | QuestionError::Malformed { .. } | QuestionError::Contradiction { .. } => {
            "Remove it with `coven questions dismiss`"
        }
        _ => "",
    }
}

fn client_hint(error: &ClientError) -> &'static str {
    match error {
        ClientError::Unreachable { .. } => {
            "Start it with `coven daemon start`; see why it stopped with `coven daemon logs`"
        }
        ClientError::NotOurs { .. } => "Choose another home with --home",
        ClientError::Broken(_) | ClientError::Closed | ClientError::WebSocket(_) => {
            "See why it stopped with `coven daemon logs`"
        }
        ClientError::Silent
        | ClientError::Decode(_)
        | ClientError::LiveFrame
        | ClientError::TooLarge { .. }
        | ClientError::Request(_) => "",
        // The daemon's advice is more specific.
        ClientError::Api { message, .. } if message.contains("`coven ") => "",
        ClientError::Api { code, .. } => match ErrorCode::from_word(code) {
            Some(ErrorCode::SessionNotFound) => "List the sessions with `coven sessions --all`",
            Some(ErrorCode::SessionNotLive) => "View it with `coven attach <id>`",
            Some(ErrorCode::UnknownHarness) => "List them with `coven harness list`",
            Some(ErrorCode::RepoNotFound) => "List them with `coven repo list`",
            Some(ErrorCode::RepoInUse) => "List them with `coven sessions`",
            Some(ErrorCode::InboxItemNotFound) => {
                "List pending items with `coven inbox`, all items with `coven inbox --all`"
            }
            Some(ErrorCode::QuestionBroken) => "Remove it with `coven questions dismiss`",
            Some(ErrorCode::AlreadyAnswered) => "See the answer with `coven inbox --all`",
            Some(ErrorCode::TooManySessions) => {
                "End one with `coven finish <id>`, or raise agents.maxSessions in the config"
            }
            Some(ErrorCode::Internal) => "See details with `coven daemon logs`",
            _ => "",
        },
    }
}

/// Prints the failure on standard error and returns the exit code.
pub fn end(failure: Failure) -> ExitCode {
    match &failure {
        // The reader closed the pipe, as in `coven sessions | head`.
        Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        _ => {
            print_error(&failure.sentence());
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Prints a message on standard error.
pub fn print_error(message: &str) {
    output::note(format_args!("coven: {message}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: ErrorCode, message: &str) -> Failure {
        let (code, message) = (code.as_str().to_owned(), message.to_owned());
        Failure::Client(ClientError::Api { status: 400, code, message, details: None })
    }

    #[test]
    fn a_message_has_the_problem_and_the_advice() {
        let unknown = api(ErrorCode::SessionNotFound, "no session has the id abc");
        assert_eq!(unknown.sentence(), "no session has the id abc. List the sessions with `coven sessions --all`.");
        assert_eq!(unknown.exit_code(), 3);
    }

    #[test]
    fn the_cause_appears_once() {
        let gone = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let failure =
            Failure::Client(ClientError::Unreachable { address: PathBuf::from("/h/coven.sock").into(), source: gone });
        let sentence = failure.sentence();
        assert!(
            sentence.starts_with("the daemon does not answer on /h/coven.sock: no such file. Start it"),
            "{sentence}"
        );
        assert_eq!(failure.exit_code(), UNAVAILABLE);
    }

    #[test]
    fn each_class_of_failure_has_its_exit_code() {
        assert_eq!(Failure::usage("no", "").exit_code(), USAGE);
        assert_eq!(api(ErrorCode::UnknownHarness, "x").exit_code(), USAGE);
        assert_eq!(api(ErrorCode::SessionRunning, "x").exit_code(), REFUSED);
        assert_eq!(Failure::failed("no", "").exit_code(), 1);
        assert_eq!(Failure::from(QuestionError::NotFound { id: "x".into() }).exit_code(), NOT_FOUND);
        assert_eq!(Failure::from(QuestionError::Full { max: 1 }).exit_code(), REFUSED);
    }
}
