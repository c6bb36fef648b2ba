//! The arguments of `coven task`.

use std::path::PathBuf;

use clap::Subcommand;

use super::task_rescue;
use crate::listing::Paging;
use crate::operation::WaitArgs;

/// Keeps the tasks that agents work on: what is to be done, in which order, and what became of it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven task add \"Fix the parser\" --type bug --priority 1 --tag core
  coven task add \"Release\" --depends-on 1a2b,3c4d
  coven task add --stdin < tasks.jsonl           many at once, all or none
  coven task list --ready
  coven task list --tree --all
  coven task edit 1a2b --priority 0 --body \"It fails on tabs.\"
  coven task start 1a2b                          an agent works on it in a worktree of its own
  coven task add \"Fix it\" -- --model opus       arguments after -- go to the agent
  coven task diff 1a2b                           what it changed
  coven task approve 1a2b                        merge it
  coven task reject 1a2b --reason \"no tests\"
  coven task close 1a2b --reason \"done by hand\"

A line of --stdin is an object with title, body, type, priority, parent, depends_on, tags, harness, args, workflow, base_branch;
with a ref of its own, other lines may name it in parent and depends_on.")]
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

/// The verbs that ask the daemon.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Makes a task
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
        /// The task it is a part of: its id or a unique beginning of it
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        /// The tasks that must be closed first
        #[arg(long, value_name = "ID", value_delimiter = ',')]
        depends_on: Vec<String>,
        /// A word to find it by; may be repeated
        #[arg(long = "tag", value_delimiter = ',')]
        tags: Vec<String>,
        /// A folder in the Git repository that it is about [default: the home's project, else this folder]
        #[arg(long, value_name = "DIR")]
        repo: Option<String>,
        /// Read tasks from standard input, one JSON object per line
        #[arg(long, conflicts_with_all = ["title", "body", "kind", "priority", "parent", "depends_on", "tags", "harness", "workflow", "base", "repo", "agent_args"])]
        stdin: bool,
        /// With --stdin: start it and print the operation, without waiting for its end
        #[arg(long, requires = "stdin")]
        no_wait: bool,
        /// Print the record
        #[arg(long)]
        json: bool,
        /// Arguments for the agent
        #[arg(last = true, value_name = "ARGS")]
        agent_args: Vec<String>,
    },
    /// Lists tasks by priority, then age; without the closed ones
    #[command(after_help = "Examples:
  coven task list --ready
  coven task list --tree --all
  coven task list --json | jq -r '.items[].title'")]
    List {
        /// Only these: open, in_progress, pending_merge, blocked, closed
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Only these: task, bug, feature, epic
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Only these: 0 to 4
        #[arg(long)]
        priority: Option<String>,
        /// Only tasks with this tag
        #[arg(long)]
        tag: Option<String>,
        /// Only those right below this one
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        /// Only what can be begun now
        #[arg(long)]
        ready: bool,
        /// The closed ones too
        #[arg(long)]
        all: bool,
        /// Each below the one it is a part of
        #[arg(long, conflicts_with = "json")]
        tree: bool,
        #[command(flatten)]
        paging: Paging,
        /// Print the records
        #[arg(long)]
        json: bool,
    },
    /// Shows a task, and why it cannot be begun
    #[command(after_help = "Examples:
  coven task show 1a2b")]
    Show {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print the record
        #[arg(long)]
        json: bool,
    },
    /// Changes a task; what is not given stays as it is
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
        /// The task it is a part of
        #[arg(long, value_name = "ID")]
        parent: Option<String>,
        /// It is a part of no other
        #[arg(long, conflicts_with = "parent")]
        no_parent: bool,
        /// All the tasks that must be closed first, in place of those before
        #[arg(long, value_name = "ID", value_delimiter = ',')]
        depends_on: Vec<String>,
        /// It waits for nothing
        #[arg(long, conflicts_with = "depends_on")]
        no_depends_on: bool,
        /// All its tags, in place of those before
        #[arg(long = "tag", value_delimiter = ',')]
        tags: Vec<String>,
        /// It has no tags
        #[arg(long, conflicts_with = "tags")]
        no_tags: bool,
        /// Folder in the Git repository to work in, for a task that has not been started
        #[arg(long, value_name = "DIR")]
        repo: Option<PathBuf>,
        /// Remove the agent's arguments
        #[arg(long, conflicts_with = "agent_args")]
        no_args: bool,
        /// Print the record
        #[arg(long)]
        json: bool,
        /// Arguments for the agent; replace the earlier ones
        #[arg(last = true, value_name = "ARGS")]
        agent_args: Vec<String>,
    },
    /// Gives tasks to agents: each works in a worktree of its own
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
        /// Print what was written
        #[arg(long)]
        json: bool,
        /// Arguments for the agent; replace the tasks' own
        #[arg(last = true, value_name = "ARGS")]
        agent_args: Vec<String>,
    },
    /// Ends whoever works on a task; it can be begun again
    #[command(after_help = "Examples:
  coven task release 1a2b")]
    Release {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print the record
        #[arg(long)]
        json: bool,
    },
    /// Ends whoever works on a task; it waits for a human
    #[command(after_help = "Examples:
  coven task block 1a2b --reason \"needs a decision\"")]
    Block {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Why, for whoever looks at it
        #[arg(long)]
        reason: Option<String>,
        /// Print the record
        #[arg(long)]
        json: bool,
    },
    /// Lets a blocked task be begun again
    #[command(after_help = "Examples:
  coven task unblock 1a2b")]
    Unblock {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print the record
        #[arg(long)]
        json: bool,
    },
    /// Shows what a task changed since it left its base; for a merged task, what was merged
    #[command(after_help = "Examples:
  coven task diff 1a2b
  coven task diff 1a2b --stat")]
    Diff {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Only the files and how much of them
        #[arg(long, conflicts_with = "json")]
        stat: bool,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Merges a task's work into its base, after its checks; closes a task that changed nothing
    #[command(after_help = "Examples:
  coven task approve 1a2b 3c4d
  coven task approve 1a2b --no-wait              see `coven operation list`")]
    Approve {
        /// Task ids or unique prefixes
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        wait: WaitArgs,
        /// Print the records, one per line
        #[arg(long)]
        json: bool,
    },
    /// Blocks a task whose work is not good enough; its worktree stays
    #[command(after_help = "Examples:
  coven task reject 1a2b --reason \"no tests\"")]
    Reject {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// What is wrong, for whoever tries again
        #[arg(long)]
        reason: String,
        /// Print the record
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
        /// Why, for the history
        #[arg(long)]
        reason: Option<String>,
        /// Print the records, one per line
        #[arg(long)]
        json: bool,
    },
    /// Hides a task; retention takes it later
    #[command(after_help = "Examples:
  coven task delete 1a2b
  coven task delete 1a2b --recursive")]
    Delete {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// With everything below it
        #[arg(long)]
        recursive: bool,
        /// Print the ids
        #[arg(long)]
        json: bool,
    },
    /// Shows what changed, when and by whom
    #[command(after_help = "Examples:
  coven task history 1a2b")]
    History {
        /// Task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        paging: Paging,
        /// Print the records
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct Fields {
    /// What exactly is to be done
    #[arg(long)]
    pub(super) body: Option<String>,
    /// task, bug, feature or epic
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) kind: Option<String>,
    /// 0 (first) to 4 (last)
    #[arg(long, allow_negative_numbers = true)]
    pub(super) priority: Option<i64>,
    /// The harness that works on it
    #[arg(long)]
    pub(super) harness: Option<String>,
    /// The workflow it goes through
    #[arg(long)]
    pub(super) workflow: Option<String>,
    /// The branch it is cut from and merged into
    #[arg(long, value_name = "BRANCH")]
    pub(super) base: Option<String>,
}
