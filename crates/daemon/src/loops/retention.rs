//! Deletes what has been kept long enough: at start and as often as the shortest period asks for.

use std::sync::Arc;

use coven_domain::{SessionId, Timestamp};
use coven_host::clock;
use coven_store::SweepReport;

use crate::engine::Engine;
use crate::error::EngineError;

/// Runs until the daemon stops.
pub async fn run(engine: Arc<Engine>) {
    let every = engine.config.store.sweep_every();
    loop {
        if let Err(error) = tick(&engine, clock::now()).await {
            tracing::error!(%error, "retention failed; it is tried again");
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = engine.stopped() => return,
        }
    }
}

/// Rows go in one transaction, files after the commit, leftovers of earlier times with them.
pub async fn tick(engine: &Arc<Engine>, now: Timestamp) -> Result<SweepReport, EngineError> {
    let report = engine.store.sweep(&engine.config.store.cutoffs(now), now).await?;
    engine.announce_newest().await?;
    for id in &report.sessions_deleted {
        engine.remove_files(*id).await;
    }
    sweep_leftovers(engine).await?;
    Ok(report)
}

/// Folders of sessions that the store no longer knows.
async fn sweep_leftovers(engine: &Arc<Engine>) -> Result<(), EngineError> {
    let dir = engine.home.sessions_dir();
    let found = tokio::task::spawn_blocking(move || -> Vec<SessionId> {
        let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    })
    .await
    .unwrap_or_default();
    for id in found {
        // The record comes before the folder, so a folder without record is a leftover.
        if engine.store.session(id).await?.is_none() {
            tracing::info!(session = %id, "removing a folder without a record");
            engine.remove_files(id).await;
        }
    }
    Ok(())
}
