//! Gives out ready tasks, if the config says so, and looks after claims that ran out and merges that nobody is at.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use coven_domain::{TaskId, Timestamp};

use crate::Engine;
use crate::error::EngineError;

const LONGEST_LOOK: Duration = Duration::from_secs(5);
const SHORTEST_LOOK: Duration = Duration::from_millis(100);
/// Tasks that could not be begun, and how they were then: they are left alone until they change.
type Refused = HashMap<TaskId, Timestamp>;

/// Runs until the daemon stops.
pub async fn run(engine: Arc<Engine>) {
    let every = (engine.config.store.lease() / 4).clamp(SHORTEST_LOOK, LONGEST_LOOK);
    let (mut refused, mut changes) = (Refused::new(), engine.changes());
    loop {
        if let Err(error) = engine.release_lost_claims().await {
            tracing::error!(%error, "claims that ran out could not be looked at");
        }
        if let Err(error) = engine.merge_approved().await {
            tracing::error!(%error, "approved tasks could not be looked at");
        }
        if engine.config.scheduler.auto_start
            && let Err(error) = tick(&engine, &mut refused).await
        {
            tracing::error!(%error, "ready tasks could not be given out; it is tried again");
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = engine.stopped() => return,
            // Something changed: a task may be ready, or done.
            () = something_changed(&mut changes), if engine.config.scheduler.auto_start => {}
        }
    }
}

/// Waits for a change, and lets those that follow closely be one with it.
async fn something_changed(changes: &mut tokio::sync::watch::Receiver<u64>) {
    let _ = changes.changed().await;
    tokio::time::sleep(SHORTEST_LOOK).await;
    changes.borrow_and_update();
}

/// Begins ready tasks until as many are worked on as may be.
async fn tick(engine: &Arc<Engine>, refused: &mut Refused) -> Result<(), EngineError> {
    let limit = u64::from(engine.config.scheduler.max_concurrent_agents);
    loop {
        let mut tx = engine.store.begin().await?;
        if tx.tasks_in_progress().await? >= limit {
            return Ok(());
        }
        // One more than cannot be begun: if there is another, it is among them.
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
                tracing::warn!(task = %task.id, %error, "a ready task could not be begun");
                engine.report_problem(&format!("task {} cannot be begun: {error}", task.id.short()));
                refused.insert(task.id, task.updated_at);
            }
        }
    }
}
