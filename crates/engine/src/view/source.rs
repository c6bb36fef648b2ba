//! Where the output of a session comes from.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use coven_domain::SessionId;
use tokio::sync::watch;

use super::ViewMode;
use crate::Engine;
use crate::blocking::blocking;
use crate::error::EngineError;
use crate::live::{LiveSession, UnstoredEntries};
use crate::log_file::LogFile;
use crate::model::Model;
use crate::session::ensure_terminal;
use crate::sizes::Sizes;

/// Where a session's output comes from, and what wakes those who wait for more of it.
pub(super) struct Source {
    pub(super) dir: PathBuf,
    pub(super) live: Option<Arc<LiveSession>>,
    /// The record says that the session has ended.
    pub(super) is_over: bool,
    pub(super) sizes: Arc<Sizes>,
    pub(super) sizes_changed: watch::Receiver<usize>,
    pub(super) progress: Option<watch::Receiver<u64>>,
    pub(super) versions: Option<watch::Receiver<u64>>,
    pub(super) changes: watch::Receiver<u64>,
    live_added: watch::Receiver<()>,
}

impl Source {
    pub(super) async fn find(engine: &Engine, id: SessionId) -> Result<Self, EngineError> {
        // Subscribed before the record and the live sessions are read, so that a later change wakes the view. A session
        // becomes live after the commit that says it runs, so the record alone does not say when to look again.
        let (changes, live_added) = (engine.changes(), engine.live_added.subscribe());
        let session = engine.session(id).await?;
        ensure_terminal(&session)?;
        let (dir, live) = (engine.home.session_dir(id), engine.live_session(id));
        let sizes = match &live {
            Some(live) => live.sizes.clone(),
            None => sizes_of(dir.clone()).await,
        };
        Ok(Self {
            dir,
            is_over: live.is_none() && session.is_over(),
            sizes_changed: sizes.changes(),
            sizes,
            progress: live.as_ref().map(|live| live.progress()),
            versions: live.as_ref().and_then(|live| live.model.as_ref()).map(|model| model.versions()),
            live,
            changes,
            live_added,
        })
    }

    pub(super) fn model(&self) -> Option<&Arc<Model>> {
        self.live.as_ref()?.model.as_ref()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.is_over || self.live.as_ref().is_some_and(|live| live.has_ended())
    }

    /// Whether the session may be found running later: it is being launched, or its holder has not answered yet.
    pub(super) fn is_pending(&self) -> bool {
        self.live.is_none() && !self.is_over
    }

    /// Marks everything so far as seen.
    pub(super) fn mark_seen(&mut self) {
        self.sizes_changed.borrow_and_update();
        if let Some(progress) = &mut self.progress {
            progress.borrow_and_update();
        }
        if let Some(versions) = &mut self.versions {
            versions.borrow_and_update();
        }
    }

    /// Waits for more of the session than was marked as seen.
    pub(super) async fn more(&mut self, mode: ViewMode) {
        let Some(live) = &self.live else {
            if self.is_over {
                std::future::pending::<()>().await;
            }
            tokio::select! {
                _ = self.changes.changed() => {}
                _ = self.live_added.changed() => {}
            }
            return;
        };
        let grown = match mode {
            ViewMode::Bytes => &mut self.progress,
            ViewMode::Rows => &mut self.versions,
        };
        let has_grown = async {
            match grown {
                Some(grown) => drop(grown.changed().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = has_grown => {}
            _ = self.sizes_changed.changed() => {}
            () = live.ended() => {}
        }
    }
}

/// The sizes in a journal that nothing follows.
async fn sizes_of(dir: PathBuf) -> Arc<Sizes> {
    blocking(move || {
        let Ok(mut unstored) = UnstoredEntries::open(&dir.join(coven_holder::JOURNAL), u64::MAX) else {
            return Arc::default();
        };
        // Of a damaged journal, what can be read counts.
        let _ = unstored.read(None);
        unstored.sizes
    })
    .await
}

/// What the log has at a byte.
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// The log no longer contains this byte. It continues at `next`.
    Missing {
        next: u64,
    },
    /// The log ends here.
    Nothing,
}

pub(super) fn read_piece(log: &mut LogFile, at: u64, wanted: usize) -> io::Result<Piece> {
    let mut bytes = vec![0; wanted];
    let read = log.read_at(at, &mut bytes).and_then(|count| match count {
        0 => Ok(log.next_start(at)?.map_or(Piece::Nothing, |next| Piece::Missing { next })),
        count => {
            bytes.truncate(count);
            Ok(Piece::Bytes(bytes))
        }
    });
    match read {
        // The session has not started.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Piece::Nothing),
        read => read,
    }
}
