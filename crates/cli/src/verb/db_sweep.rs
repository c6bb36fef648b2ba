//! `coven db sweep`: deletes rows whose retention period has ended.

use std::process::ExitCode;

use coven_api::operation::Operation;
use coven_api::retention::{RetentionRequest, RetentionResponse};
use coven_api::routes::{Endpoint, RunRetention};
use coven_engine::loops::retention;
use coven_holder::clock;
use coven_host::home::Home;
use coven_store::SqliteStore;
use coven_store::sqlite::migrations;

use super::print_json;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::operation::{self, WaitArgs};
use crate::output;

/// Deletes expired records now; the daemon also does this every hour
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven db sweep --dry-run            lists what would be deleted
  coven db sweep --dry-run --json | jq .events_deleted

Uses store.taskRetentionDays and similar settings of the current config: try new values with --dry-run
before the daemon uses them. See `coven config schema`.")]
pub struct Args {
    /// List what would be deleted, without deleting it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    wait: WaitArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        if args.wait.no_wait {
            let started = start(&mut DaemonClient::open(&home).await?, args.dry_run).await?;
            return operation::print_started(&started, args.json).map(|()| ExitCode::SUCCESS);
        }
        let deleted = match DaemonClient::running(&home).await? {
            Some(mut link) => sweep(&home, &mut link, args.dry_run).await?,
            // A daemon would sweep when it starts.
            None if args.dry_run => preview(&home).await?,
            None => {
                let before = preview(&home).await?;
                merge(before, sweep(&home, &mut DaemonClient::open(&home).await?, false).await?)
            }
        };
        match args.json {
            true => print_json(&serde_json::to_vec(&deleted).map_err(coven_client::ClientError::from)?)?,
            false => output::text(&text(&deleted))?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn start(link: &mut DaemonClient, dry_run: bool) -> Result<Operation, Failure> {
    Ok(link.call(RunRetention::request().body(&RetentionRequest { dry_run })).await?)
}

async fn sweep(home: &Home, link: &mut DaemonClient, dry_run: bool) -> Result<RetentionResponse, Failure> {
    let started = start(link, dry_run).await?;
    operation::result(home, link, started).await
}

/// Computes the result without a daemon, from the current config.
async fn preview(home: &Home) -> Result<RetentionResponse, Failure> {
    let config = coven_host::config::read(home)?;
    // Opening a missing store would create it.
    if !home.db().exists() {
        return Ok(RetentionResponse { dry_run: true, ..RetentionResponse::default() });
    }
    // A preview must not migrate the store.
    if migrations::status(home.db()).map_err(Failure::Store)?.iter().any(|step| step.applied_at.is_none()) {
        return Err(Failure::refused("the store has an older schema", "Run `coven db migrate` first"));
    }
    let store = SqliteStore::open(home.db(), coven_server::event::render).map_err(Failure::Store)?;
    let previewed = retention::preview(&store, &config.store, clock::now()).await;
    let previewed = previewed.map(|report| RetentionResponse::new(report, true));
    previewed.map_err(|error| Failure::failed(error.to_string(), "See `coven doctor`"))
}

/// Merges the sweep at daemon start with the requested one.
fn merge(mut started: RetentionResponse, asked: RetentionResponse) -> RetentionResponse {
    fn add(all: &mut Vec<String>, more: Vec<String>) {
        all.extend(more);
        all.sort();
        all.dedup();
    }
    add(&mut started.tasks_soft_deleted, asked.tasks_soft_deleted);
    add(&mut started.tasks_deleted, asked.tasks_deleted);
    add(&mut started.agents_deleted, asked.agents_deleted);
    add(&mut started.sessions_deleted, asked.sessions_deleted);
    add(&mut started.workflows_deleted, asked.workflows_deleted);
    add(&mut started.questions_deleted, asked.questions_deleted);
    started.events_deleted = started.events_deleted.max(asked.events_deleted);
    started.operations_deleted = started.operations_deleted.max(asked.operations_deleted);
    RetentionResponse { dry_run: false, ..started }
}

fn text(deleted: &RetentionResponse) -> String {
    let lists = [
        ("tasks hidden", &deleted.tasks_soft_deleted),
        ("tasks deleted", &deleted.tasks_deleted),
        ("agents deleted", &deleted.agents_deleted),
        ("sessions deleted", &deleted.sessions_deleted),
        ("workflows deleted", &deleted.workflows_deleted),
        ("questions deleted", &deleted.questions_deleted),
    ];
    let mut text = String::new();
    for (what, ids) in lists {
        text.push_str(&format!("{what:<18} {}\n", ids.len()));
        ids.iter().for_each(|id| text.push_str(&format!("  {id}\n")));
    }
    text.push_str(&format!("{:<18} {}\n", "operations deleted", deleted.operations_deleted));
    text.push_str(&format!("{:<18} {}\n", "events deleted", deleted.events_deleted));
    if deleted.dry_run {
        text.push_str("nothing was deleted: --dry-run\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_records_are_counted_and_listed() {
        let deleted = RetentionResponse {
            dry_run: true,
            tasks_soft_deleted: vec!["a".into(), "b".into()],
            events_deleted: 7,
            ..RetentionResponse::default()
        };
        let text = text(&deleted);
        assert!(text.starts_with("tasks hidden       2\n  a\n  b\n"), "{text}");
        assert!(text.ends_with("events deleted     7\nnothing was deleted: --dry-run\n"), "{text}");
    }
}
