//! `/migrate`: imports the files of an older coven.

use axum::extract::State;
use coven_api::migrate::{MigrateCounts, MigrateRenamed, MigrateRequest, MigrateResponse, MigrateSkipped};
use coven_engine::migrate::{Counts, Migrated, SkippedItem};

use super::App;
use super::operation::Started;
use super::reply::Body;
use super::rest::Answer;

pub async fn migrate(State(app): State<App>, Body(request): Body<MigrateRequest>) -> Answer<Started> {
    Ok(Started(app.engine.start_migrate(request.dry_run).await?))
}

pub(super) fn response(done: Migrated, dry_run: bool) -> MigrateResponse {
    let renamed = done.renamed.into_iter().map(|(file, to)| MigrateRenamed { file, to });
    MigrateResponse {
        dry_run,
        imported: counts(done.taken),
        already_present: counts(done.known),
        skipped: skipped(done.left),
        leftovers: skipped(done.leftovers),
        renamed: renamed.collect(),
    }
}

fn skipped(items: Vec<SkippedItem>) -> Vec<MigrateSkipped> {
    items.into_iter().map(|SkippedItem { file, what, why }| MigrateSkipped { file, what, why }).collect()
}

fn counts(counts: Counts) -> MigrateCounts {
    let Counts { tasks, agents, workflows, questions } = counts;
    MigrateCounts { tasks, agents, workflows, questions }
}
