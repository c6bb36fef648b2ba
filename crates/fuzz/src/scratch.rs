//! Temporary folders for targets that read files.

use std::fs;
use std::path::{Path, PathBuf};

thread_local! {
    static FOLDER: tempfile::TempDir =
        tempfile::Builder::new().prefix("coven-fuzz-").tempdir().expect("a temporary folder");
}

/// Creates or empties this thread's folder `name`.
pub fn fresh(name: &str) -> PathBuf {
    let path = FOLDER.with(|folder| folder.path().join(name));
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            panic!("cannot empty {}: {error}", path.display())
        }
        _ => {}
    }
    fs::create_dir_all(&path).expect("enough disk space");
    path
}

/// Writes a file and creates its parent folders.
pub fn write(path: &Path, content: &[u8]) {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).expect("enough disk space");
    }
    fs::write(path, content).expect("enough disk space");
}
