//! `coven workflow`: the steps that tasks go through.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use coven_api::routes::{CancelWorkflow, Endpoint, GetWorkflow, ListSteps, ListWorkflows, RetryWorkflow};
use coven_api::task::{StartTaskRequest, TaskMoveRequest};
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

/// Shows how tasks go through their workflows, and checks workflow files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven workflow list --status running
  coven workflow show 1a2b            by its id or its task's
  coven workflow cancel 1a2b          ends its process too
  coven workflow retry 1a2b           repeats the step that failed
  coven workflow lint                 every file in the home's folder grimoires
  coven workflow lint ./careful.yaml

A file NAME.yaml in grimoires/ is the workflow NAME; `implement` is built in: an agent, then a merge with review.
docs/workflows.md has the format.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists runs, newest first
    #[command(after_help = "Examples:
  coven workflow list --status running
  coven workflow list --task 1a2b")]
    List {
        /// Only these: running, blocked, pending_merge, completed, failed, cancelled
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Only those of this task
        #[arg(long, value_name = "ID")]
        task: Option<String>,
        #[command(flatten)]
        paging: Paging,
        /// Print the records
        #[arg(long)]
        json: bool,
    },
    /// Shows a run with its steps, by its id or its task's
    #[command(after_help = "Examples:
  coven workflow show 1a2b")]
    Show {
        /// Id of the run or of its task, or a unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print the record
        #[arg(long)]
        json: bool,
    },
    /// Lists the steps of a run with their output
    #[command(after_help = "Examples:
  coven workflow steps 1a2b --json | jq '.items[].status'")]
    Steps {
        /// Id of the run or of its task, or a unique prefix
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        paging: Paging,
        /// Print the records
        #[arg(long)]
        json: bool,
    },
    /// Ends a run and its process; the task can be begun again
    #[command(after_help = "Examples:
  coven workflow cancel 1a2b")]
    Cancel {
        /// Id of the run or of its task, or a unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print the record
        #[arg(long)]
        json: bool,
    },
    /// Repeats the step that failed or blocked a run
    #[command(after_help = "Examples:
  coven workflow retry 1a2b")]
    Retry {
        /// Id of the run or of its task, or a unique prefix
        #[arg(value_name = "ID")]
        id: String,
        /// Print what was written
        #[arg(long)]
        json: bool,
    },
    /// Tells what is wrong with workflow files, with line numbers
    #[command(after_help = "Examples:
  coven workflow lint
  coven workflow lint ./careful.yaml --json")]
    Lint {
        /// Names of workflows, or files [default: all in the home's folder grimoires]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print what was found as JSON
        #[arg(long)]
        json: bool,
    },
}

fn width() -> Option<usize> {
    output::terminal_size().map(|(_, cols)| usize::from(cols))
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let request = TaskMoveRequest { reason: None, by: super::task::by_session() };
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
                    // During a merge only that is stopped.
                    let what = if ended.status == WorkflowState::PendingMerge {
                        "not merged, still to be reviewed"
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
            let begun = link.call(RetryWorkflow::of(&id).body(&request)).await?;
            match json {
                true => print_json(&serde_json::to_vec(&begun).map_err(ClientError::from)?)?,
                false => {
                    let step = begun.workflow.step_name.as_deref().unwrap_or("its step");
                    output::line(format_args!("goes on at {step}: {}", task_text::line(&begun.task)))?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }),
    }
}

/// Needs no daemon: a file is a file.
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
                Err(vec![Problem { line: 0, text: format!("cannot be read: {source}") }])
            }
            Err(error) => Err(vec![Problem { line: 0, text: error.to_string() }]),
        };
        found.push((file, read));
    }
    let is_sound = found.iter().all(|(_, read)| read.is_ok());
    if as_json {
        let report: Vec<serde_json::Value> = found.iter().map(|(file, read)| report(file, read)).collect();
        print_json(&serde_json::to_vec(&report).map_err(ClientError::from)?)?;
    } else if found.is_empty() {
        let folder = home.path().join("grimoires");
        output::line(format_args!("there are no workflow files in {}; `implement` is built in", folder.display()))?;
    } else {
        for (file, read) in &found {
            match read {
                Ok(read) => {
                    let (count, file) = (read.flatten().len(), file.display());
                    output::line(format_args!("{file}: sound, {count} step{}", if count == 1 { "" } else { "s" }))?;
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
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(1) })
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

/// A file that is there, else the workflow of that name.
fn file_of(home: &Home, named: PathBuf) -> PathBuf {
    if named.exists() {
        return named;
    }
    let known = ["yaml", "yml"].map(|ending| home.path().join("grimoires").join(&named).with_extension(ending));
    known.into_iter().find(|file| file.exists()).unwrap_or(named)
}
