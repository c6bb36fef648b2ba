//! The committed inputs of each target, in `corpus/<target>/<name>`.

use std::fs;
use std::path::{Path, PathBuf};

pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// Returns every input of a target with its file name, sorted by name.
pub fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = folder(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.expect("a readable folder").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = fs::read(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
            (name, bytes)
        })
        .collect();
    inputs.sort();
    inputs
}
