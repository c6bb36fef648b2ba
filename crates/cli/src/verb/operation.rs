//! `coven operation`: shows operations, which continue after the request that started them.

use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use coven_api::operation::{ListOperationsQuery, Operation};
use coven_api::routes::{Endpoint as _, GetOperation, ListOperations};
use coven_client::ClientError;
use coven_domain::Timestamp;
use coven_domain::operation::OperationState;
use coven_holder::clock;

use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::format::{age, sanitize_line, short_id};
use crate::table::Table;
use crate::{operation, output};

/// Shows operations: approvals, bulk additions, migrations and retention runs
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven operation list --status running
  coven operation show 1a2b
  coven operation wait 1a2b           exits with 0 if the operation completed

An operation continues after its command has ended. After a restart of the daemon, approvals continue;
other running operations fail as interrupted and can be started again.")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists operations, newest first
    #[command(after_help = "Examples:
  coven operation list --status running
  coven operation list --kind task.approve --json | jq -r '.items[].id'")]
    List {
        /// Filter by status: running, completed, failed, cancelled
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Filter by kind: task.approve, task.add, migrate.run, retention.run
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
        /// Filter by the id of the record that the operation is about
        #[arg(long, value_name = "ID")]
        subject: Option<String>,
        /// Number of operations to show
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
        /// Start after another page: its `next` value
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows the progress and result of an operation
    #[command(after_help = "Examples:
  coven operation show 1a2b
  coven operation show 1a2b --json | jq .progress")]
    Show {
        /// Operation id or unique prefix
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Waits for the end of an operation; exits with 0 if it completed
    #[command(after_help = "Examples:
  coven operation wait 1a2b && git push
  coven operation wait 1a2b --json | jq .result")]
    Wait {
        /// Operation id or unique prefix
        #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        match args.verb {
            Verb::List { status, kind, subject, limit, cursor, json } => {
                let query = ListOperationsQuery { status, kind, subject, limit: Some(limit), cursor };
                let request = ListOperations::request().query(&query);
                if json {
                    output::json(&link.bytes(request).await?)?;
                    return Ok(ExitCode::SUCCESS);
                }
                let page = link.call(request).await?;
                let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
                output::text(&table(&page.items, clock::now()).text(width))?;
            }
            Verb::Show { id, json: true } => output::json(&link.bytes(GetOperation::of(&id)).await?)?,
            Verb::Show { id, json: false } => {
                output::text(&page(&link.call(GetOperation::of(&id)).await?, clock::now()))?;
            }
            Verb::Wait { id, json } => {
                let found = link.call(GetOperation::of(&id)).await?;
                let ended = operation::wait(&home, &mut link, found).await?;
                match json {
                    true => output::json(&serde_json::to_vec(&ended).map_err(ClientError::from)?)?,
                    false => output::text(&page(&ended, clock::now()))?,
                }
                if ended.status != OperationState::Completed {
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn table(operations: &[Operation], now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "KIND", "STATUS", "SUBJECT", "DONE", "AGE", "MESSAGE"], &[6]);
    for it in operations {
        table.row([
            it.id.short(),
            it.kind.to_string(),
            it.status.to_string(),
            it.subject.as_deref().map_or_else(String::new, |id| short_id(id).to_owned()),
            done(it),
            age(&it.created_at.to_string(), now),
            message(it).to_owned(),
        ]);
    }
    table
}

fn done(operation: &Operation) -> String {
    let progress = &operation.progress;
    progress.total.map_or_else(|| progress.done.to_string(), |total| format!("{}/{total}", progress.done))
}

/// Returns the error of a failed operation, else its last step.
fn message(operation: &Operation) -> &str {
    operation.error.as_ref().map_or(&operation.progress.message, |error| &error.message)
}

fn page(operation: &Operation, now: Timestamp) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| text.push_str(&format!("{name:<9} {}\n", sanitize_line(value)));
    row("id", &operation.id.to_string());
    row("kind", operation.kind.as_str());
    row("status", operation.status.as_str());
    if let Some(subject) = &operation.subject {
        row("subject", subject);
    }
    row("progress", &format!("{} {}", done(operation), operation.progress.message));
    if let Some(error) = &operation.error {
        row("error", &format!("{} ({})", error.message, error.code.as_str()));
    }
    let created_at = operation.created_at.to_string();
    row("started", &format!("{} ago ({created_at})", age(&created_at, now)));
    if let Some(ended_at) = operation.ended_at {
        row("ended", &ended_at.to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use coven_api::error::ErrorDetail;
    use coven_api::operation::OperationProgress;
    use coven_domain::operation::OperationKind;

    use super::*;

    #[test]
    fn a_failed_operation_shows_its_error() {
        let at = Timestamp::from_millis(1_763_238_189_007);
        let operation = Operation {
            id: "173b747a-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("an id"),
            kind: OperationKind::TaskApprove,
            status: OperationState::Failed,
            subject: Some("9d0e747a-549b-4b6b-ae62-f1b0c3f21b86".to_owned()),
            progress: OperationProgress { done: 2, total: Some(5), message: "running check 1 of 1: make".to_owned() },
            result: None,
            error: Some(ErrorDetail {
                code: coven_api::ErrorCode::MergeFailed,
                message: "why".to_owned(),
                details: None,
            }),
            created_at: at,
            updated_at: at,
            ended_at: Some(at),
        };
        let expected = "\
id        173b747a-549b-4b6b-ae62-f1b0c3f21b86
kind      task.approve
status    failed
subject   9d0e747a-549b-4b6b-ae62-f1b0c3f21b86
progress  2/5 running check 1 of 1: make
error     why (merge_failed)
started   0s ago (2025-11-15T20:23:09.007Z)
ended     2025-11-15T20:23:09.007Z
";
        assert_eq!(page(&operation, at), expected);
        let listed = table(&[operation], at).text(None);
        assert!(listed.contains("173b747a  task.approve  failed  9d0e747a  2/5"), "{listed}");
    }
}
