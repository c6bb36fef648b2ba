//! Starts ready tasks if the config says so, and handles expired claims and unfinished merges.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use coven_domain::{TaskId, Timestamp};

use crate::Engine;
use crate::error::EngineError;

const MAX_INTERVAL: Duration = Duration::from_secs(5);
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// Tasks that failed to start, with their update time: they are skipped until they change.
type Refused = HashMap<TaskId, Timestamp>;

/// Runs until the daemon stops.
pub async fn run(engine: Arc<Engine>) {
    let every = (engine.config.store.lease() / 4).clamp(MIN_INTERVAL, MAX_INTERVAL);
    let (mut refused, mut changes) = (Refused::new(), engine.changes());
    loop {
        if let Err(error) = engine.release_lost_claims().await {
            tracing::error!(%error, "cannot handle expired claims; retrying");
        }
        if let Err(error) = engine.merge_approved().await {
            tracing::error!(%error, "cannot resume approved merges; retrying");
        }
        if engine.config.scheduler.auto_start
            && let Err(error) = tick(&engine, &mut refused).await
        {
            tracing::error!(%error, "cannot start ready tasks; retrying");
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = engine.stopped() => return,
            // A task may be ready or done.
            () = something_changed(&mut changes), if engine.config.scheduler.auto_start => {}
        }
    }
}

/// Waits for a change, and a moment longer to combine it with those that follow.
async fn something_changed(changes: &mut tokio::sync::watch::Receiver<u64>) {
    let _ = changes.changed().await;
    tokio::time::sleep(MIN_INTERVAL).await;
    changes.borrow_and_update();
}

/// Starts ready tasks until the limit is reached.
async fn tick(engine: &Arc<Engine>, refused: &mut Refused) -> Result<(), EngineError> {
    let limit = u64::from(engine.config.scheduler.max_concurrent_agents);
    loop {
        // The agent would only wait too, and a task that becomes ready meanwhile may have a higher priority.
        if engine.launch_queue.len() > 0 {
            return Ok(());
        }
        let mut tx = engine.store.begin().await?;
        if tx.tasks_in_progress().await? >= limit {
            return Ok(());
        }
        // One more than those that failed: if another task is ready, it is among them.
        let ready = tx.ready_tasks(refused.len() + 1).await?;
        drop(tx);
        refused.retain(|id, _| ready.iter().any(|task| task.id == *id));
        let Some(task) = ready.into_iter().find(|task| refused.get(&task.id) != Some(&task.updated_at)) else {
            return Ok(());
        };
        match engine.start_task(&task.id.to_string(), Some("scheduler".to_owned()), None).await {
            Ok(_) | Err(EngineError::TaskNotReady { .. }) => {}
            Err(EngineError::TooManyTasks { .. }) => return Ok(()),
            Err(error @ (EngineError::Store(_) | EngineError::Stopping)) => return Err(error),
            Err(error) => {
                tracing::warn!(task = %task.id, %error, "cannot start a ready task");
                engine.report_problem(&format!("cannot start task {}: {error}", task.id.short()));
                refused.insert(task.id, task.updated_at);
            }
        }
    }
}
