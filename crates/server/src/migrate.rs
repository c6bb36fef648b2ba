//! The older coven's files over HTTP.

use axum::Json;
use axum::extract::State;
use coven_api::migrate::{MigrateCounts, MigrateLeft, MigrateRenamed, MigrateRequest, MigrateResponse};
use coven_engine::migrate::{Counts, Left};

use super::App;
use super::reply::Body;
use super::rest::Answer;

pub async fn migrate(State(app): State<App>, Body(request): Body<MigrateRequest>) -> Answer<Json<MigrateResponse>> {
    let done = app.engine.migrate(request.dry_run).await?;
    let renamed = done.renamed.into_iter().map(|(file, to)| MigrateRenamed { file, to });
    Ok(Json(MigrateResponse {
        dry_run: request.dry_run,
        taken: counts(done.taken),
        known: counts(done.known),
        left: left(done.left),
        leftovers: left(done.leftovers),
        renamed: renamed.collect(),
    }))
}

fn left(left: Vec<Left>) -> Vec<MigrateLeft> {
    left.into_iter().map(|Left { file, what, why }| MigrateLeft { file, what, why }).collect()
}

fn counts(counts: Counts) -> MigrateCounts {
    let Counts { tasks, agents, workflows, questions } = counts;
    MigrateCounts { tasks, agents, workflows, questions }
}
