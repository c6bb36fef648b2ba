//! A folder for targets that read files.

use std::fs;
use std::path::{Path, PathBuf};

thread_local! {
    static FOLDER: tempfile::TempDir = tempfile::Builder::new().prefix("coven-fuzz-").tempdir().expect("room for files");
}

/// This thread's empty folder of that name.
pub fn fresh(name: &str) -> PathBuf {
    let path = FOLDER.with(|folder| folder.path().join(name));
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            panic!("cannot empty {}: {error}", path.display())
        }
        _ => {}
    }
    fs::create_dir_all(&path).expect("room for files");
    path
}

/// Writes a file, with the folders above it.
pub fn write(path: &Path, content: &[u8]) {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).expect("room for files");
    }
    fs::write(path, content).expect("room for files");
}
