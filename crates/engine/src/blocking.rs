//! Work that waits for the disk, a lock or another program.

/// Runs the work on a thread of the blocking pool. A panic in the work continues in the caller.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
        // The runtime is shutting down and drops the caller at its next chance.
        Err(_) => std::future::pending().await,
    }
}
