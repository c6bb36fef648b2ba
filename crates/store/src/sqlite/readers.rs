//! A pool of read-only connections, which never wait for the writer.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::open_reader;
use crate::StoreError;

pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn open(path: &Path, count: usize) -> Result<Arc<Self>, StoreError> {
        let idle = (0..count).map(|_| open_reader(path)).collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Self { idle: Mutex::new(idle), permits: Arc::new(Semaphore::new(count)) }))
    }

    pub(super) async fn take(self: &Arc<Self>) -> Reader {
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed");
        let connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Reader { connection, readers: Arc::clone(self), _permit: permit }
    }
}

/// A connection from the pool. Dropping it returns the connection, then releases the permit.
pub(super) struct Reader {
    connection: Option<Connection>,
    readers: Arc<Readers>,
    _permit: OwnedSemaphorePermit,
}

impl Deref for Reader {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("there are as many permits as connections")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.connection.take());
    }
}
