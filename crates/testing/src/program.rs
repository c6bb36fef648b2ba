//! Paths of the programs under test, and reports of skipped tests.

use std::path::PathBuf;

/// Returns the path of the built `coven`: `COVEN_BIN`, else the one next to the test executables.
pub fn coven() -> PathBuf {
    match std::env::var_os("COVEN_BIN") {
        Some(path) => PathBuf::from(path),
        None => beside("coven", "cargo build --package coven"),
    }
}

pub fn fake_agent() -> PathBuf {
    beside("fake-agent", "cargo build --package coven-testing --bins")
}

fn beside(name: &str, build: &str) -> PathBuf {
    let this = std::env::current_exe().expect("own path");
    // Test executables are in `deps`, binaries in its parent folder.
    let found = this.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} is missing; build it first: {build}"))
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Reports a skipped test.
pub fn skip(test: &str, why: &str) {
    println!("SKIPPED {test}: {why}");
}
