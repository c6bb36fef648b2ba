//! Work that waits for the disk, a lock or another program.

use std::any::Any;

/// Runs the work on a thread of the blocking pool. A panic in the work continues in the caller.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = run(Box::new(|| Box::new(work()))).await;
    *done.downcast().expect("the box holds what the work returned")
}

type Work = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

/// One type of work for all, so that tokio's code for a task is compiled once.
async fn run(work: Work) -> Box<dyn Any + Send> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
        // The runtime is shutting down and drops the caller at its next chance.
        Err(_) => std::future::pending().await,
    }
}
