//! A few read-only connections that take turns; they never wait for the writer.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::open_reader;
use crate::StoreError;

/// One for a long read, two for the short ones that come in meanwhile.
const READERS: usize = 3;

pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        let idle = (0..READERS).map(|_| open_reader(path)).collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(Self { idle: Mutex::new(idle), turns: Arc::new(Semaphore::new(READERS)) }))
    }

    pub(super) async fn take(self: &Arc<Self>) -> Reader {
        let turn = Arc::clone(&self.turns).acquire_owned().await.expect("the semaphore is never closed");
        let connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Reader { connection, readers: Arc::clone(self), _turn: turn }
    }
}

/// A connection on loan; it goes back when this is dropped, and only then is the turn over.
pub(super) struct Reader {
    connection: Option<Connection>,
    readers: Arc<Readers>,
    _turn: OwnedSemaphorePermit,
}

impl Deref for Reader {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("there are as many turns as connections")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.connection.take());
    }
}
