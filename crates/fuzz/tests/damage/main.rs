//! Random damage to every kind of file: 500 seeded copies each. A copy gives an error or what was whole before it was damaged.

mod database;
mod files;
mod recordings;

use std::path::Path;

/// A folder in memory where there is such a place: half a thousand copies are written and synced.
fn folder() -> tempfile::TempDir {
    let shared = Path::new("/dev/shm");
    match shared.is_dir() {
        true => tempfile::tempdir_in(shared),
        false => tempfile::tempdir(),
    }
    .expect("a folder")
}
