//! Watches the folder of question sets and stores its changes as rows and events.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use coven_domain::QuestionSetId;
use coven_interop::questions::FolderWatch;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use crate::Engine;
use crate::question_set::{IfMissing, SetScope};

/// Interval if the kernel cannot watch the folder, or the folder does not exist.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Interval if the kernel had no watch left for some set.
const SLOW_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before a failed commit is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Interval of the check for askers that died.
const CHORE_INTERVAL: Duration = Duration::from_secs(60);
/// Expired sets are removed once per this many checks.
const CLEAN_UP_EVERY: u32 = 60;

/// Runs until the daemon stops. A start does not wait for it, even if the folder has many sets.
pub async fn run(engine: Arc<Engine>) {
    tokio::select! {
        () = follow(&engine) => {}
        () = engine.stopped() => {}
    }
}

async fn follow(engine: &Engine) {
    // Before the first read, so that no change is missed.
    let mut watch = open(engine, IfMissing::Create).await;
    engine.clean_up_question_sets().await;
    let mut is_published = reconcile(engine, SetScope::Every).await;
    let mut chores = interval_at(Instant::now() + CHORE_INTERVAL, CHORE_INTERVAL);
    chores.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut chores_done = 0;
    loop {
        let pause = match &watch {
            _ if !is_published => Some(RETRY_DELAY),
            None => Some(POLL_INTERVAL),
            Some(watch) if watch.get_ref().is_blind() => Some(SLOW_POLL_INTERVAL),
            Some(_) => None,
        };
        tokio::select! {
            ids = changed(watch.as_mut()) => {
                is_published &= engine.reconcile_question_sets(&ids).await.inspect_err(log).is_ok();
                if watch.as_ref().is_some_and(|watch| watch.get_ref().is_gone()) {
                    watch = None;
                    is_published = reconcile(engine, SetScope::Unfinished).await;
                }
            }
            () = after(pause) => {
                let was_away = watch.is_none();
                if was_away {
                    // Not created again: the process that removed it may be removing its parent too.
                    watch = open(engine, IfMissing::Skip).await;
                }
                let scope = if was_away && watch.is_some() { SetScope::Every } else { SetScope::Unfinished };
                is_published = reconcile(engine, scope).await;
            }
            _ = chores.tick() => {
                chores_done += 1;
                match chores_done % CLEAN_UP_EVERY {
                    0 => engine.clean_up_question_sets().await,
                    _ => engine.abandon_orphaned_question_sets().await,
                }
            }
        }
    }
}

async fn open(engine: &Engine, missing: IfMissing) -> Option<AsyncFd<FolderWatch>> {
    let watch = engine.watch_question_sets(missing).await?;
    // SAFETY: the watch owns its descriptor, and neither closes nor replaces it while it lives.
    unsafe { AsyncFd::register_with_interest(watch, Interest::READABLE) }.ok()
}

/// Publishes all changes. Returns false if that failed.
async fn reconcile(engine: &Engine, scope: SetScope) -> bool {
    engine.reconcile_folder(scope).await.inspect_err(log).is_ok()
}

fn log(error: &crate::error::EngineError) {
    tracing::error!(%error, "cannot publish changes of question sets; retrying");
}

async fn changed(watch: Option<&mut AsyncFd<FolderWatch>>) -> Vec<QuestionSetId> {
    let Some(watch) = watch else { return pending().await };
    match watch.readable_mut().await {
        Ok(mut ready) => {
            let ids = ready.get_inner_mut().drain();
            ready.clear_ready();
            ids
        }
        // The runtime is shutting down.
        Err(_) => pending().await,
    }
}

async fn after(pause: Option<Duration>) {
    match pause {
        Some(pause) => sleep(pause).await,
        None => pending().await,
    }
}
