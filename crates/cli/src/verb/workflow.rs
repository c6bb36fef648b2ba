//! `coven workflow`: shows and controls workflow runs, and checks workflow files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use coven_api::list::List;
use coven_api::routes::{CancelWorkflow, Endpoint, GetWorkflow, ListSteps, ListWorkflows, RetryWorkflow};
use coven_api::task::{StartTaskRequest, TaskTransitionRequest};
use coven_api::workflow::ListWorkflowsQuery;
use coven_client::ClientError;
use coven_domain::workflow::WorkflowState;
use coven_files::{Links, ReadError};
use coven_holder::clock;
use coven_host::home::{Home, WORKFLOW_FILE};
use coven_workflow::{BUILT_IN, Problem, WorkflowDefinition};
use serde_json::json;

use super::workflow_text::{self, RunView};
use super::{environment, print_json, task_text};
use crate::changes::Changes;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::listing::{self, Paging};
use crate::output;

/// Shows and controls workflow runs, and checks workflow files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven workflow list --status running
  coven workflow show 1a2b            by run id or task id
  coven workflow cancel 1a2b          also stops its process
  coven workflow retry 1a2b           retries the failed step
  coven workflow lint                 checks all files in grimoires/ of the home
  coven workflow lint ./careful.yaml

A file NAME.yaml in grimoires/ is the workflow NAME; `implement` is built in: an agent, then a merge with review.
See docs/workflows.md for the format.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists workflow runs, newest first
    #[command(after_help = "Examples:
  coven workflow list --status running
  coven workflow list --task 1a2b")]
    List {
        /// Filter by status: running, blocked, pending_merge, completed, failed, cancelled
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Filter by task id
        #[arg(long, value_name = "ID")]
        task: Option<String>,
        #[command(flatten)]
        paging: Paging,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows a workflow run with its steps
    #[command(after_help = "Examples:
  coven workflow show 1a2b")]
    Show {
        /// Run id, task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Lists the steps of a workflow run with their output
    #[command(after_help = "Examples:
  coven workflow steps 1a2b --json | jq '.items[].status'")]
    Steps {
        /// Run id, task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        paging: Paging,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Cancels a workflow run and stops its process; the task can start again
    #[command(after_help = "Examples:
  coven workflow cancel 1a2b")]
    Cancel {
        /// Run id, task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Retries the step that failed or blocked a workflow run
    #[command(after_help = "Examples:
  coven workflow retry 1a2b")]
    Retry {
        /// Run id, task id or unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Checks workflow files and prints errors with line numbers
    #[command(after_help = "Examples:
  coven workflow lint
  coven workflow lint ./careful.yaml --json")]
    Lint {
        /// Workflow names or files [default: all in grimoires/ of the home]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

fn width() -> Option<usize> {
    output::terminal_size().map(|(_, cols)| usize::from(cols))
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let request = TaskTransitionRequest { reason: None, by: super::task::by_session() };
    match args.verb {
        Verb::Lint { files, json } => lint(&home, files, json),
        Verb::List { status, task, paging, json } => block_on(async {
            let query = ListWorkflowsQuery { status, task, ..ListWorkflowsQuery::default() };
            let request = ListWorkflows::request().query(&query);
            let mut link = DaemonClient::open(&home).await?;
            if json {
                return listing::print_json(&mut link, request, paging).await.map(|()| ExitCode::SUCCESS);
            }
            let runs = listing::items(&mut link, request, paging).await?;
            output::text(&workflow_text::table(&runs, clock::now()).text(width()))?;
            Ok(ExitCode::SUCCESS)
        }),
        Verb::Steps { id, paging, json } => block_on(async {
            let mut link = DaemonClient::open(&home).await?;
            if json {
                let printed = listing::print_json(&mut link, ListSteps::of(&id), paging).await;
                return printed.map(|()| ExitCode::SUCCESS);
            }
            let steps = listing::items(&mut link, ListSteps::of(&id), paging).await?;
            output::text(&workflow_text::step_table(&steps, |_| String::new()).text(width()))?;
            Ok(ExitCode::SUCCESS)
        }),
        Verb::Show { id, json } => block_on(async {
            let mut link = DaemonClient::open(&home).await?;
            if json {
                return link.print_json(GetWorkflow::of(&id)).await.map(|()| ExitCode::SUCCESS);
            }
            let found = RunView::read(&mut link, &id).await?;
            output::text(&workflow_text::page(&found, clock::now()))?;
            Ok(ExitCode::SUCCESS)
        }),
        Verb::Cancel { id, json } => block_on(async {
            let mut link = DaemonClient::open(&home).await?;
            let mut ended = link.call(CancelWorkflow::of(&id).body(&request)).await?;
            if ended.status == WorkflowState::Running {
                let mut changes = Changes::open(&link, &["workflow."]).await?;
                loop {
                    ended = link.call(GetWorkflow::of(&ended.id.to_string())).await?;
                    if ended.status != WorkflowState::Running {
                        break;
                    }
                    changes.next().await?;
                }
            }
            match json {
                true => print_json(&serde_json::to_vec(&ended).map_err(ClientError::from)?)?,
                false => {
                    // Cancelling during a merge stops only the merge.
                    let what = if ended.status == WorkflowState::PendingMerge {
                        "merge stopped, still pending review"
                    } else {
                        "cancelled"
                    };
                    output::line(format_args!("{what}: {} {}", ended.id.short(), ended.name))?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }),
        Verb::Retry { id, json } => block_on(async {
            let mut link = DaemonClient::open(&home).await?;
            let env = Some(environment());
            let request = StartTaskRequest { by: super::task::by_session(), env, ..StartTaskRequest::default() };
            let retried = link.call(RetryWorkflow::of(&id).body(&request)).await?;
            match json {
                true => print_json(&serde_json::to_vec(&retried).map_err(ClientError::from)?)?,
                false => {
                    let step = retried.workflow.step_name.as_deref().unwrap_or("its step");
                    output::line(format_args!("retrying {step}: {}", task_text::line(&retried.task)))?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }),
    }
}

/// Checks workflow files, without a daemon.
fn lint(home: &Home, named: Vec<PathBuf>, as_json: bool) -> Result<ExitCode, Failure> {
    let files = match named.is_empty() {
        true => all_of(home),
        false => named.into_iter().map(|name| file_of(home, name)).collect(),
    };
    let mut found: Vec<(PathBuf, Result<WorkflowDefinition, Vec<Problem>>)> = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let read = match coven_files::read_text(&file, WORKFLOW_FILE, Links::Refuse) {
            Ok(text) => WorkflowDefinition::parse(&name, &text),
            Err(_) if file.as_os_str() == BUILT_IN.0 => Ok(WorkflowDefinition::built_in()),
            Err(ReadError::Io { source, .. }) => {
                Err(vec![Problem { line: 0, text: format!("cannot read the file: {source}") }])
            }
            Err(error) => Err(vec![Problem { line: 0, text: error.to_string() }]),
        };
        found.push((file, read));
    }
    let is_valid = found.iter().all(|(_, read)| read.is_ok());
    if as_json {
        output::record(&List::whole(found.iter().map(|(file, read)| report(file, read)).collect()))?;
    } else if found.is_empty() {
        let folder = home.path().join("grimoires");
        output::line(format_args!("no workflow files in {}; `implement` is built in", folder.display()))?;
    } else {
        for (file, read) in &found {
            match read {
                Ok(read) => {
                    let (count, file) = (read.flatten().len(), file.display());
                    output::line(format_args!("{file}: valid, {count} step{}", if count == 1 { "" } else { "s" }))?;
                }
                Err(problems) => {
                    for problem in problems {
                        let place = if problem.line == 0 { String::new() } else { format!(":{}", problem.line) };
                        output::line(format_args!("{}{place}: {}", file.display(), problem.text))?;
                    }
                }
            }
        }
    }
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn report(file: &Path, read: &Result<WorkflowDefinition, Vec<Problem>>) -> serde_json::Value {
    let problems = read.as_ref().err().map(Vec::as_slice).unwrap_or_default();
    let problems: Vec<_> = problems.iter().map(|it| json!({ "line": it.line, "text": it.text })).collect();
    json!({ "file": file.to_string_lossy(), "sound": read.is_ok(), "problems": problems })
}

fn all_of(home: &Home) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.path().join("grimoires"));
    let mut files: Vec<PathBuf> = entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "yaml" || ending == "yml"));
    files.sort();
    files
}

/// Returns an existing file, else the file of the workflow with that name.
fn file_of(home: &Home, named: PathBuf) -> PathBuf {
    if named.exists() {
        return named;
    }
    let known = ["yaml", "yml"].map(|ending| home.path().join("grimoires").join(&named).with_extension(ending));
    known.into_iter().find(|file| file.exists()).unwrap_or(named)
}
