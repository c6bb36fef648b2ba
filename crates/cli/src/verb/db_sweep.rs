//! `coven db sweep`: deletes rows whose retention period has ended.

use std::process::ExitCode;

use coven_api::operation::Operation;
use coven_api::retention::{RetentionRequest, RetentionResponse};
use coven_api::routes::{Endpoint, RunRetention};
use coven_domain::query::SweepReport;
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
        let mut deleted = match DaemonClient::running(&home).await? {
            Some(mut link) => sweep(&home, &mut link, args.dry_run).await?,
            // A daemon would sweep when it starts.
            None if args.dry_run => RetentionResponse::new(preview(&home).await?, true),
            None => {
                let before = preview(&home).await?;
                merge(before, sweep(&home, &mut DaemonClient::open(&home).await?, false).await?)
            }
        };
        match args.json {
            true => print_json(&serde_json::to_vec(&deleted).map_err(coven_client::ClientError::from)?)?,
            false => output::text(&text(&mut deleted))?,
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
async fn preview(home: &Home) -> Result<SweepReport, Failure> {
    let config = coven_host::config::read(home)?;
    // Opening a missing store would create it.
    if !home.db().exists() {
        return Ok(SweepReport::default());
    }
    // A preview must not migrate the store.
    if migrations::status(home.db()).map_err(Failure::Store)?.iter().any(|step| step.applied_at.is_none()) {
        return Err(Failure::refused("the store has an older schema", "Run `coven db migrate` first"));
    }
    let store = SqliteStore::open(home.db(), coven_server::event::render).map_err(Failure::Store)?;
    let previewed = retention::preview(&store, &config.store, clock::now()).await;
    previewed.map_err(|error| Failure::failed(error.to_string(), "See `coven doctor`"))
}

/// Merges the sweep at daemon start, which deletes the previewed records, with the requested one.
fn merge(previewed: SweepReport, mut swept: RetentionResponse) -> RetentionResponse {
    let sessions = previewed.sessions_deleted.iter().map(ToString::to_string).collect();
    let previewed_ids = [
        previewed.tasks_soft_deleted,
        previewed.tasks_deleted,
        previewed.agents_deleted,
        sessions,
        previewed.workflows_deleted,
        previewed.questions_deleted,
    ];
    for ((count, ids), mut earlier) in swept.lists_mut().into_iter().zip(previewed_ids) {
        *count = (*count).max(ids.len());
        // A sweep is one transaction: if the requested one deleted a previewed record, it came first and deleted all.
        if !ids.iter().any(|id| earlier.contains(id)) {
            *count += earlier.len();
            earlier.append(ids);
            *ids = earlier;
        }
    }
    swept.truncate();
    swept.events_deleted = swept.events_deleted.max(previewed.events_deleted);
    swept.operations_deleted = swept.operations_deleted.max(previewed.operations_deleted);
    swept
}

fn text(deleted: &mut RetentionResponse) -> String {
    let kinds = [
        "tasks hidden",
        "tasks deleted",
        "agents deleted",
        "sessions deleted",
        "workflows deleted",
        "questions deleted",
    ];
    let mut text = String::new();
    for (what, (count, ids)) in kinds.into_iter().zip(deleted.lists_mut()) {
        // An older daemon sends no counts, and all ids.
        let count = (*count).max(ids.len());
        text.push_str(&format!("{what:<18} {count}\n"));
        ids.iter().for_each(|id| text.push_str(&format!("  {id}\n")));
        if ids.len() < count {
            text.push_str(&format!("  and {} more\n", count - ids.len()));
        }
    }
    text.push_str(&format!("{:<18} {}\n", "operations deleted", deleted.operations_deleted));
    text.push_str(&format!("{:<18} {}\n", "events deleted", deleted.events_deleted));
    if deleted.is_truncated && !deleted.dry_run {
        text.push_str("the events retention.swept list all ids: coven events --json\n");
    }
    if deleted.dry_run {
        text.push_str("nothing was deleted: --dry-run\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(range: std::ops::Range<u32>) -> Vec<String> {
        range.map(|nth| format!("t{nth}")).collect()
    }

    fn report(soft_deleted: std::ops::Range<u32>) -> SweepReport {
        SweepReport { tasks_soft_deleted: ids(soft_deleted), events_deleted: 7, ..SweepReport::default() }
    }

    #[test]
    fn deleted_records_are_counted_and_listed() {
        let text = text(&mut RetentionResponse::new(report(0..2), true));
        assert!(text.starts_with("tasks hidden       2\n  t0\n  t1\n"), "{text}");
        assert!(text.ends_with("events deleted     7\nnothing was deleted: --dry-run\n"), "{text}");
    }

    #[test]
    fn a_large_sweep_lists_the_first_ids_and_counts_the_rest() {
        let text = text(&mut RetentionResponse::new(report(0..250), false));
        assert!(text.starts_with("tasks hidden       250\n  t0\n"), "{text}");
        assert!(text.contains("  t99\n  and 150 more\ntasks deleted      0\n"), "{text}");
        assert!(text.ends_with("the events retention.swept list all ids: coven events --json\n"), "{text}");
    }

    #[test]
    fn merging_counts_every_record_once() {
        let merged = |previewed, swept| {
            let merged = merge(report(previewed), RetentionResponse::new(report(swept), false));
            (merged.counts.tasks_soft_deleted, merged.tasks_soft_deleted, merged.is_truncated)
        };
        // The daemon's own sweep came first, then the requested one.
        assert_eq!(merged(0..2, 2..3), (3, ids(0..3), false));
        assert_eq!(merged(0..150, 150..300), (300, ids(0..100), true));
        // The requested sweep came first.
        assert_eq!(merged(0..2, 0..3), (3, ids(0..3), false));
        assert_eq!(merged(0..150, 0..151), (151, ids(0..100), true));
    }
}
