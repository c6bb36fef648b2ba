//! `coven spawn`: conversations with an agent, turn by turn, kept as files. Needs no daemon.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use coven_domain::conversation::ConversationState;
use coven_files::{Limit, Links};
use coven_interop::conversations::Conversations;

use crate::command_line::Place;
use crate::failure::Failure;
use crate::spawn::{self, Damaged, SpawnOptions};

const TASK_FILE: Limit = Limit::new("a task file", 1 << 20);

/// Talks with an agent turn by turn; the conversation is kept and can be gone on with
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven spawn -i                              a new conversation; /help lists what can be typed
  coven spawn -i --agent qa-test --session my-review
  coven spawn --resume my-review              goes on where it ended
  coven spawn task.md --session my-task       one turn with the task in a file
  coven spawn -i -- --model opus              arguments for the agent's program
  coven spawn --list-sessions --status active
  coven spawn --delete-session my-review
  coven spawn --clean-sessions 30             deletes what nobody touched for 30 days
  AURORA_SPAWN_TOOL=codex coven spawn -i      another tool than the default

Conversations lie in ~/.aurora/spawn/sessions (AURORA_HOME), one file each. Turns run the tool's print mode.")]
pub struct Args {
    /// Start a conversation
    #[arg(long, short)]
    interactive: bool,
    /// The agent to talk to, or the filter of the list
    #[arg(long)]
    agent: Option<String>,
    /// The name of the new conversation [default: made up]
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    session: Option<String>,
    /// Go on with a conversation
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
    /// List the conversations, the most recent first
    #[arg(long, conflicts_with_all = ["interactive", "resume"])]
    list_sessions: bool,
    /// Only those in this state: active, completed or interrupted
    #[arg(long, requires = "list_sessions")]
    status: Option<ConversationState>,
    /// Print the list as JSON
    #[arg(long, requires = "list_sessions")]
    json: bool,
    /// Delete a conversation
    #[arg(long, value_name = "ID", conflicts_with_all = ["interactive", "resume", "list_sessions"])]
    delete_session: Option<String>,
    /// Delete conversations that nobody wrote to for so many days
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["interactive", "resume", "list_sessions", "delete_session"])]
    clean_sessions: Option<f64>,
    /// Ask before deleting; needs a terminal
    #[arg(long)]
    interactive_confirm: bool,
    /// Delete without asking (the default)
    #[arg(long, short, conflicts_with = "interactive_confirm")]
    yes: bool,
    /// Fail if another process is writing to the conversation
    #[arg(long)]
    no_wait: bool,
    /// Keep the good lines of a damaged file
    #[arg(long, conflicts_with = "delete_damaged")]
    recover: bool,
    /// Delete a damaged file
    #[arg(long)]
    delete_damaged: bool,
    /// Give up on a turn after so many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// File with a task to send as one message; prints the answer. Not with --interactive
    #[arg(value_name = "TASK_FILE")]
    task_file: Option<PathBuf>,
    /// Arguments for the agent's program
    #[arg(last = true, value_name = "ARGS")]
    agent_args: Vec<String>,
}

/// What a file asks for.
fn task_of(file: &Path) -> Result<String, Failure> {
    let text = coven_files::read_text(file, TASK_FILE, Links::Follow).map_err(|error| match error {
        error if error.is_not_found() => Failure::not_found(format!("there is no file {}", file.display()), ""),
        error => Failure::usage(error.to_string(), ""),
    })?;
    match text.trim() {
        "" => Err(Failure::usage(format!("{} is empty", file.display()), "Write the task into it")),
        task => Ok(task.to_owned()),
    }
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let conversations = Conversations::locate();
    if args.task_file.is_some() && (args.interactive || args.resume.is_some()) {
        return Err(Failure::failed(
            "Cannot use --interactive with task file",
            "Use either task file OR --interactive",
        ));
    }
    if args.list_sessions {
        return spawn::list(&conversations, args.agent, args.status, args.json);
    }
    let confirms = args.interactive_confirm && !args.yes;
    if let Some(id) = &args.delete_session {
        return spawn::delete(&conversations, id, confirms);
    }
    if let Some(days) = args.clean_sessions {
        return spawn::clean(&conversations, days, confirms);
    }
    if args.task_file.is_none() && !args.interactive && args.resume.is_none() {
        return Err(Failure::usage("no task was given", "Name a file with the task, or chat with --interactive"));
    }
    let task = args.task_file.as_deref().map(task_of).transpose()?;
    let damaged = match (args.recover, args.delete_damaged) {
        (true, _) => Damaged::Recover,
        (false, true) => Damaged::Delete,
        (false, false) => Damaged::Ask,
    };
    spawn::run_interactive(
        conversations,
        place,
        SpawnOptions {
            agent: args.agent,
            name: args.session,
            resume: args.resume,
            damaged,
            waits: !args.no_wait,
            task,
            timeout: args.timeout.map(std::time::Duration::from_secs),
            more_args: args.agent_args,
        },
    )
}
