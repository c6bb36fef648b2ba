//! `coven spawn`: chats with an agent turn by turn, saved as files. Needs no daemon.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use coven_domain::conversation::ConversationState;
use coven_files::{Limit, Links};
use coven_interop::conversations::Conversations;

use crate::command_line::Place;
use crate::failure::Failure;
use crate::spawn::{self, Damaged, SpawnOptions};

const TASK_FILE: Limit = Limit::new("a task file", 1 << 20);

/// Chats with an agent turn by turn; conversations are saved and can be resumed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven spawn -i                              a new conversation; /help lists the commands
  coven spawn -i --agent qa-test --session my-review
  coven spawn --resume my-review              resumes a conversation
  coven spawn task.md --session my-task       sends the task in a file as one turn
  coven spawn -i -- --model opus              arguments for the agent's program
  coven spawn --list-sessions --status active
  coven spawn --delete-session my-review
  coven spawn --clean-sessions 30             deletes conversations unchanged for 30 days
  AURORA_SPAWN_TOOL=codex coven spawn -i      uses another tool than the default

Conversations are files in ~/.aurora/spawn/sessions (AURORA_HOME). Turns use the tool's print mode.")]
pub struct Args {
    /// Start an interactive conversation
    #[arg(long, short)]
    interactive: bool,
    /// Agent definition to use, or filter for --list-sessions
    #[arg(long)]
    agent: Option<String>,
    /// Id of the new conversation [default: generated]
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    session: Option<String>,
    /// Resume a conversation
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
    /// List conversations, most recent first
    #[arg(long, conflicts_with_all = ["interactive", "resume"])]
    list_sessions: bool,
    /// Filter by status: active, completed or interrupted
    #[arg(long, requires = "list_sessions")]
    status: Option<ConversationState>,
    /// Print JSON
    #[arg(long, requires = "list_sessions")]
    json: bool,
    /// Delete a conversation
    #[arg(long, value_name = "ID", conflicts_with_all = ["interactive", "resume", "list_sessions"])]
    delete_session: Option<String>,
    /// Delete conversations unchanged for this many days
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["interactive", "resume", "list_sessions", "delete_session"])]
    clean_sessions: Option<f64>,
    /// Ask for confirmation before deleting; needs a terminal
    #[arg(long)]
    interactive_confirm: bool,
    /// Delete without confirmation (the default)
    #[arg(long, short, conflicts_with = "interactive_confirm")]
    yes: bool,
    /// Fail if another process is writing to the conversation
    #[arg(long)]
    no_wait: bool,
    /// Recover the intact lines of a damaged file
    #[arg(long, conflicts_with = "delete_damaged")]
    recover: bool,
    /// Delete a damaged file
    #[arg(long)]
    delete_damaged: bool,
    /// Timeout of a turn in seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// File with a task to send as one message; prints the answer
    #[arg(value_name = "TASK_FILE")]
    task_file: Option<PathBuf>,
    /// Arguments for the agent's program
    #[arg(last = true, value_name = "ARGS")]
    agent_args: Vec<String>,
}

/// Reads a task file.
fn read_task(file: &Path) -> Result<String, Failure> {
    let text = coven_files::read_text(file, TASK_FILE, Links::Follow).map_err(|error| match error {
        error if error.is_not_found() => Failure::not_found(format!("file {} does not exist", file.display()), ""),
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
    let task = args.task_file.as_deref().map(read_task).transpose()?;
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
