//! The arguments of `coven task`.

use std::path::PathBuf;

use clap::Subcommand;

use super::task_rescue;
use crate::listing::Paging;
use crate::operation::WaitArgs;

/// Manages the tasks that agents work on, with priorities, dependencies and results
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven task add \"Fix the parser\" --type bug --priority 1 --tag core
  coven task add \"Release\" --depends-on 1a2b,3c4d
  coven task add --stdin < tasks.jsonl           many in one transaction
  coven task list --ready
  coven task list --tree --all
  coven task edit 1a2b --priority 0 --body \"It fails on tabs.\"
  coven task start 1a2b                          an agent works on it in a separate worktree
  coven task add \"Fix it\" -- --model opus       arguments after -- go to the agent
  coven task diff 1a2b                           shows its changes
  coven task approve 1a2b                        merges its changes
  coven task reject 1a2b --reason \"no tests\"
  coven task close 1a2b --reason \"done by hand\"

A line of --stdin is a JSON object with title, body, type, priority, parent, depends_on, tags, harness, args, workflow,
base_branch. Lines can refer to each other in parent and depends_on by a name in ref.")]
pub struct Args {
    #[command(subcommand)]
    pub(super) verb: AnyVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum AnyVerb {
    #[command(flatten)]
    Daemon(Box<Verb>),
    // Needs only Git.
    Rescue(task_rescue::Args),
}

/// The verbs that use the daemon.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Creates a task
    #[command(after_help = "Examples:
  coven task add \"Fix the parser\" --type bug --priority 1 --tag core
  coven task add \"Release\" --depends-on 1a2b,3c4d
  coven task add --stdin < tasks.jsonl")]
    Add {
        /// Title, one line
        #[arg(required_unless_present = "stdin")]
        title: Option<String>,
        #[command(flatten)]
        fields: Fields,
        /// Parent task: id or unique prefix
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        /// Tasks that must be closed first
        #[arg(long, value_name = "ID", value_delimiter = ',')]
        depends_on: Vec<String>,
        /// Tag; can be repeated
        #[arg(long = "tag", value_delimiter = ',')]
        tags: Vec<String>,
        /// Folder in the Git repository to work in [default: the home's project, else this folder]
        #[arg(long, value_name = "DIR")]
        repo: Option<String>,
        /// Read tasks from standard input, one JSON object per line
        #[arg(long, conflicts_with_all = ["title", "body", "kind", "priority", "parent", "depends_on", "tags", "harness", "workflow", "base", "repo", "agent_args"])]
        stdin: bool,
        /// With --stdin: print the operation and return without waiting for its end
        #[arg(long, requires = "stdin")]
        no_wait: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Arguments for the agent
        #[arg(last = true, value_name = "ARGS")]
        agent_args: Vec<String>,
    },
    /// Lists tasks that are not closed, by priority, then age
    #[command(after_help = "Examples:
  coven task list --ready
  coven task list --tree --all
  coven task list --json | jq -r '.items[].title'")]
    List {
        /// Filter by status: open, in_progress, pending_merge, blocked, closed
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Filter by type: task, bug, feature, epic
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Filter by priority: 0 to 4
        #[arg(long)]
        priority: Option<String>,
        /// Filter by tag
        #[arg(long)]
        tag: Option<String>,
        /// Filter by parent task
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        /// Show only tasks that can start now
        #[arg(long)]
        ready: bool,
        /// Include closed tasks
        #[arg(long)]
        all: bool,
        /// Show tasks as a tree
        #[arg(long, conflicts_with = "json")]
        tree: bool,
        #[command(flatten)]
        paging: Paging,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows a task, and why it cannot start
    #[command(after_help = "Examples:
  coven task show 1a2b")]
    Show {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Changes the given fields of a task
    #[command(after_help = "Examples:
  coven task edit 1a2b --priority 0 --body \"It fails on tabs.\"
  coven task edit 1a2b --repo ~/src/parser
  coven task edit 1a2b --harness \"\"        back to the default")]
    Edit {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Title, one line
        #[arg(long)]
        title: Option<String>,
        #[command(flatten)]
        fields: Fields,
        /// Parent task
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        /// Remove the parent
        #[arg(long, conflicts_with = "parent")]
        no_parent: bool,
        /// Tasks that must be closed first; replace the earlier ones
        #[arg(long, value_name = "ID", value_delimiter = ',')]
        depends_on: Vec<String>,
        /// Remove all dependencies
        #[arg(long, conflicts_with = "depends_on")]
        no_depends_on: bool,
        /// Tags; replace the earlier ones
        #[arg(long = "tag", value_delimiter = ',')]
        tags: Vec<String>,
        /// Remove all tags
        #[arg(long, conflicts_with = "tags")]
        no_tags: bool,
        /// Folder in the Git repository to work in, for a task that has not been started
        #[arg(long, value_name = "DIR")]
        repo: Option<PathBuf>,
        /// Remove the agent's arguments
        #[arg(long, conflicts_with = "agent_args")]
        no_args: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Arguments for the agent; replace the earlier ones
        #[arg(last = true, value_name = "ARGS")]
        agent_args: Vec<String>,
    },
    /// Starts tasks: an agent works on each in a separate worktree
    #[command(after_help = "Examples:
  coven task start 1a2b 3c4d
  coven task start 1a2b --harness codex --base develop
  coven task start 1a2b --repo ~/src/parser")]
    Start {
        /// Task ids or unique prefixes
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// Harness to use from now on
        #[arg(long)]
        harness: Option<String>,
        /// Branch to work from and merge into
        #[arg(long, value_name = "BRANCH")]
        base: Option<String>,
        /// Folder in the Git repository to work in, for a task that has not been started
        #[arg(long, value_name = "DIR")]
        repo: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Arguments for the agent; replace those of the tasks
        #[arg(last = true, value_name = "ARGS")]
        agent_args: Vec<String>,
    },
    /// Stops the agent of a task and returns the task to open
    #[command(after_help = "Examples:
  coven task release 1a2b")]
    Release {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Stops the agent of a task and blocks the task for a human
    #[command(after_help = "Examples:
  coven task block 1a2b --reason \"needs a decision\"

Only a task in progress can be blocked. An open task has no agent to stop; close it with
`coven task close` if it must not be started.")]
    Block {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Reason for the block
        #[arg(long)]
        reason: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Returns a blocked task to open
    #[command(after_help = "Examples:
  coven task unblock 1a2b")]
    Unblock {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows the changes of a task since its base branch, or its merged changes
    #[command(after_help = "Examples:
  coven task diff 1a2b
  coven task diff 1a2b --stat")]
    Diff {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Show only files and counts
        #[arg(long, conflicts_with = "json")]
        stat: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Merges a task into its base branch after its checks; closes a task without changes
    #[command(after_help = "Examples:
  coven task approve 1a2b 3c4d
  coven task approve 1a2b --no-wait              see `coven operation list`")]
    Approve {
        /// Task ids or unique prefixes
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        wait: WaitArgs,
        /// Print JSON, one record per line
        #[arg(long)]
        json: bool,
    },
    /// Rejects the work of a task: blocks the task and keeps its worktree
    #[command(after_help = "Examples:
  coven task reject 1a2b --reason \"no tests\"")]
    Reject {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Reason, for the next attempt
        #[arg(long)]
        reason: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Closes tasks
    #[command(after_help = "Examples:
  coven task close 1a2b --reason \"done by hand\"")]
    Close {
        /// Task ids or unique prefixes
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        /// Reason, for the history
        #[arg(long)]
        reason: Option<String>,
        /// Print JSON, one record per line
        #[arg(long)]
        json: bool,
    },
    /// Hides a task; retention deletes it later
    #[command(after_help = "Examples:
  coven task delete 1a2b
  coven task delete 1a2b --recursive")]
    Delete {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Include all subtasks
        #[arg(long)]
        recursive: bool,
        /// Print the ids as JSON
        #[arg(long)]
        json: bool,
    },
    /// Lists the changes of a task with time and author
    #[command(after_help = "Examples:
  coven task history 1a2b")]
    History {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        paging: Paging,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct Fields {
    /// Description of the work
    #[arg(long)]
    pub(super) body: Option<String>,
    /// Type: task, bug, feature or epic
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) kind: Option<String>,
    /// Priority: 0 (first) to 4 (last)
    #[arg(long, allow_negative_numbers = true)]
    pub(super) priority: Option<i64>,
    /// Harness to use
    #[arg(long)]
    pub(super) harness: Option<String>,
    /// Workflow to run
    #[arg(long)]
    pub(super) workflow: Option<String>,
    /// Branch to work from and merge into
    #[arg(long, value_name = "BRANCH")]
    pub(super) base: Option<String>,
}
