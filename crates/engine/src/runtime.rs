//! Starts tasks as boxed futures. Tokio's code for a task is compiled for every type of future and for both kinds of
//! runtime; a boxed future has one type per result, which keeps the binary small.

use std::pin::Pin;

use tokio::runtime::{EnterGuard, Handle};
use tokio::task::JoinHandle;

/// A handle of a runtime.
pub(crate) struct Runtime(Handle);

impl Runtime {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// Starts a task on this runtime.
    pub(crate) fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.0.spawn(boxed(task))
    }

    /// Makes this runtime the current one of the thread.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.0.enter()
    }
}

/// Starts a task on the current runtime.
pub(crate) fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(boxed(task))
}

fn boxed<T>(task: impl Future<Output = T> + Send + 'static) -> Pin<Box<dyn Future<Output = T> + Send>> {
    Box::pin(task)
}
