//! The splits of the panes, kept in a file so that they survive a restart.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::pane::panes::Layout;
use crate::world::Subject;

/// A larger file is not ours.
const MAX_BYTES: usize = 16 << 10;

#[derive(Serialize, Deserialize)]
struct Kept {
    layout: Layout,
    /// What each pane but the first shows.
    panes: Vec<(usize, KeptSubject)>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptSubject {
    Session(String),
    Item(String),
    Task(String),
}

/// Restores the layout of a file. Returns the text that the file would have now.
pub fn restore(app: &mut App, file: &Path) -> String {
    let read = fs::read(file).ok().filter(|bytes| bytes.len() <= MAX_BYTES);
    if let Some(Kept { layout, panes }) = read.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        let subject = |kept| match kept {
            KeptSubject::Session(id) => id.parse().ok().map(Subject::Session),
            KeptSubject::Item(id) => Some(Subject::Item(id)),
            KeptSubject::Task(id) => id.parse().ok().map(Subject::Task),
        };
        let panes = panes.into_iter().filter_map(|(pane, kept)| Some((pane, subject(kept)?))).collect();
        app.restore_layout(layout, panes);
    }
    write(app)
}

/// Returns the layout as the text of its file.
pub fn write(app: &App) -> String {
    let kept = |subject: &Subject| match subject {
        Subject::Session(id) => KeptSubject::Session(id.to_string()),
        Subject::Item(id) => KeptSubject::Item(id.clone()),
        Subject::Task(id) => KeptSubject::Task(id.to_string()),
    };
    let others = app.panes.iter().filter(|(id, _)| **id != 0);
    let panes = others.filter_map(|(id, pane)| Some((*id, kept(pane.subject.as_ref()?)))).collect();
    serde_json::to_string(&Kept { layout: app.layout.clone(), panes }).unwrap_or_default()
}

/// Replaces the file, so that a reader finds the old layout or the new one.
pub fn save(file: &Path, layout: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, layout)?;
    fs::rename(new, file)
}
