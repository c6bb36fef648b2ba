//! A file of a few megabytes that is given up when the disk is full, so that a kill or a sacrifice can still be written.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
        if fs::metadata(&self.path).is_ok_and(|it| it.len() == BYTES as u64) {
            return Ok(());
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.path)?;
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
