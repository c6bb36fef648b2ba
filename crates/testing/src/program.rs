//! Where the programs under test are, and what cannot be tested on this machine.

use std::path::PathBuf;

/// The built `coven`: `COVEN_BIN`, else the one beside the test executables.
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
    // Test executables lie in `deps`, binaries one above.
    let found = this.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("there is no {name}; build it first: {build}"))
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says by name what was not tested here.
pub fn skip(test: &str, why: &str) {
    println!("SKIPPED {test}: {why}");
}
