//! A file of a few megabytes that is given up when the disk is full, so that a kill or a sacrifice can still be written.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use coven_host::trust;

const BYTES: usize = 4 << 20;

pub struct Ballast {
    path: PathBuf,
}

impl Ballast {
    /// Takes its place if there is room.
    pub fn at(path: &Path) -> Self {
        let ballast = Self { path: path.to_owned() };
        if let Err(error) = ballast.refill() {
            tracing::warn!(%error, "there is no room for the ballast");
        }
        ballast
    }

    pub fn refill(&self) -> io::Result<()> {
        // A repository can bring a link of this name.
        let mut file = trust::open_own(&self.path)?;
        if file.metadata()?.len() == BYTES as u64 {
            return Ok(());
        }
        file.set_len(0)?;
        let written = file.write_all(&vec![0; BYTES]);
        if written.is_err() {
            let _ = fs::remove_file(&self.path);
        }
        written
    }

    /// Makes room; true if there was any to make.
    pub fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}
