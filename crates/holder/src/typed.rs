//! Input on its way to the harness.

use std::os::fd::AsFd;

use rustix::io::Errno;

/// Past this much, whoever types waits.
const FULL: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Typed {
    bytes: Vec<u8>,
    written: usize,
}

impl Typed {
    pub const fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    pub const fn is_full(&self) -> bool {
        self.bytes.len() - self.written >= FULL
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Writes as far as the harness takes it. An error means that nobody reads there any more.
    pub fn write_to(&mut self, harness: impl AsFd) -> Result<(), Errno> {
        while !self.is_empty() {
            match rustix::io::write(&harness, &self.bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if self.written > FULL {
                        self.bytes.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.written = 0;
        // A large paste is gone and so is its memory.
        if self.bytes.capacity() > 4096 {
            self.bytes = Vec::new()
        } else {
            self.bytes.clear()
        }
        Ok(())
    }
}
