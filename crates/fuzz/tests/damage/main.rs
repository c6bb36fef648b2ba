//! Random damage to every kind of file, in 500 seeded copies each. Reading a copy returns an error or only undamaged
//! content.

mod database;
mod files;
mod recordings;

use std::path::Path;

/// Creates a folder, in memory if possible: hundreds of copies are written and synced.
fn folder() -> tempfile::TempDir {
    let shared = Path::new("/dev/shm");
    match shared.is_dir() {
        true => tempfile::tempdir_in(shared),
        false => tempfile::tempdir(),
    }
    .expect("a folder")
}
