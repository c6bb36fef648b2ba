//! Deletes expired records, at start and at an interval derived from the shortest period.

use std::collections::HashSet;
use std::sync::Arc;

use coven_domain::operation::{Operation, OperationKind};
use coven_domain::query::SweepReport;
use coven_domain::retention::Cutoffs;
use coven_domain::{SessionId, Timestamp};
use coven_holder::clock;
use coven_host::config;
use coven_host::config::StoreConfig;
use coven_store::Store;
use serde_json::Value;

use crate::Engine;
use crate::error::EngineError;
use crate::operation::{OperationResult, Reporter};

/// Records, logs, worktrees.
const STEPS: u64 = 3;

/// Runs until the daemon stops.
pub async fn run(engine: Arc<Engine>) {
    let every = engine.config.store.sweep_every();
    loop {
        let now = clock::now();
        if let Err(error) = tick(&engine, &engine.config.store.cutoffs(now), now, &Reporter::default()).await {
            tracing::error!(%error, "retention failed; the daemon retries");
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = engine.stopped() => return,
        }
    }
}

/// Deletes rows in one transaction, then files, including those that earlier passes left. A failed sweep does not
/// stop the rest.
async fn tick(
    engine: &Arc<Engine>,
    cutoffs: &Cutoffs,
    now: Timestamp,
    report: &Reporter,
) -> Result<SweepReport, EngineError> {
    engine.restore_ballast();
    report.step(0, Some(STEPS), "deleting expired records");
    let swept = engine.store.sweep(cutoffs, now).await;
    if let Some(number) = swept.as_ref().ok().and_then(|report| report.event_number) {
        engine.note_change(number);
    }
    report.step(1, Some(STEPS), "deleting logs");
    for id in swept.iter().flat_map(|report| &report.sessions_deleted) {
        engine.remove_files(*id).await;
    }
    sweep_leftovers(engine).await?;
    report.step(2, Some(STEPS), "removing worktrees");
    engine.sweep_worktrees().await?;
    Ok(swept?)
}

/// Starts the operation that deletes expired records now. It reads the periods from the config file again, so that new
/// ones can be tried before the daemon restarts.
pub async fn start(engine: &Arc<Engine>, dry_run: bool) -> Result<Operation, EngineError> {
    let (home, now) = (engine.home.clone(), clock::now());
    let config = tokio::task::spawn_blocking(move || config::read(&home)).await;
    let config = config.map_err(|_| EngineError::Stopping)?.map_err(|error| EngineError::Invalid(error.to_string()))?;
    let run = async move |engine: Arc<Engine>, report: Reporter| {
        let report = match dry_run {
            true => preview(&*engine.store, &config.store, now).await?,
            false => tick(&engine, &config.store.cutoffs(now), now, &report).await?,
        };
        Ok(Some(OperationResult::Swept { report, dry_run }))
    };
    engine.start_operation(OperationKind::RetentionRun, run).await
}

/// Returns what would be deleted now, without deleting it.
pub async fn preview(store: &dyn Store, periods: &StoreConfig, now: Timestamp) -> Result<SweepReport, EngineError> {
    Ok(store.sweep_preview(&periods.cutoffs(now), now).await?)
}

/// Deletes folders of sessions whose deletion is committed. A folder that the store never knew is reported and not
/// changed: after the store was lost, it may be all that is left.
async fn sweep_leftovers(engine: &Arc<Engine>) -> Result<(), EngineError> {
    let dir = engine.home.sessions_dir();
    let found = tokio::task::spawn_blocking(move || -> Vec<SessionId> {
        let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    })
    .await
    .unwrap_or_default();
    let mut unknown = Vec::new();
    for id in found {
        if engine.store.session(id).await?.is_none() {
            unknown.push(id);
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let deleted = deleted_sessions(engine).await?;
    for id in unknown {
        let is_held = coven_holder::client::connect_socket(&engine.home.session_dir(id)).is_ok();
        match deleted.contains(&id.to_string()) && !is_held {
            true => {
                tracing::info!(session = %id, "removing the remaining files of a deleted session");
                engine.remove_files(id).await;
            }
            false => {
                engine.report_problem(&format!("the folder of session {id} has no record; coven did not change it"))
            }
        }
    }
    Ok(())
}

/// Returns the ids of sessions that the events report as deleted.
async fn deleted_sessions(engine: &Engine) -> Result<HashSet<String>, EngineError> {
    let mut deleted = HashSet::new();
    let mut cursor = 0;
    loop {
        let events = engine.store.events_after(cursor, 1000).await?;
        let Some(last) = events.last().map(|event| event.number) else { return Ok(deleted) };
        cursor = last;
        for event in events {
            match event.kind.as_str() {
                "session.sacrificed" => drop(deleted.insert(event.subject)),
                "retention.swept" => {
                    let payload: Value = serde_json::from_str(&event.payload).unwrap_or_default();
                    let ids = payload["sessions_deleted"].as_array().into_iter().flatten();
                    deleted.extend(ids.filter_map(|id| id.as_str().map(str::to_owned)));
                }
                _ => {}
            }
        }
    }
}
