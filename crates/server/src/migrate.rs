//! The older coven's files over HTTP.

use axum::extract::State;
use coven_api::migrate::{MigrateCounts, MigrateLeft, MigrateRenamed, MigrateRequest, MigrateResponse};
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
        taken: counts(done.taken),
        known: counts(done.known),
        left: left(done.left),
        leftovers: left(done.leftovers),
        renamed: renamed.collect(),
    }
}

fn left(left: Vec<SkippedItem>) -> Vec<MigrateLeft> {
    left.into_iter().map(|SkippedItem { file, what, why }| MigrateLeft { file, what, why }).collect()
}

fn counts(counts: Counts) -> MigrateCounts {
    let Counts { tasks, agents, workflows, questions } = counts;
    MigrateCounts { tasks, agents, workflows, questions }
}
