//! A file of a few megabytes that is deleted when the disk is full, so that a kill or a sacrifice can still be stored.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use coven_host::trust;

const BYTES: usize = 4 << 20;

pub struct Ballast {
    path: PathBuf,
}

impl Ballast {
    /// Creates the file if there is space.
    pub fn at(path: &Path) -> Self {
        let ballast = Self { path: path.to_owned() };
        if let Err(error) = ballast.refill() {
            tracing::warn!(%error, "cannot create the ballast");
        }
        ballast
    }

    pub fn refill(&self) -> io::Result<()> {
        // A repository can contain a link with this name.
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

    /// Deletes the file. Returns false if there was none.
    pub fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}
