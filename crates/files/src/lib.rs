//! Reads files that another program, an agent or a repository can write.
//!
//! Every such read goes through [`read`] or [`open`]: a fifo cannot hang it, a link cannot redirect it where the format
//! forbids links, and a large file cannot exhaust memory.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod lines;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

pub use lines::{BoundedLine, Lines, read_stream, read_stream_text};

/// Maximum size of a file, a stream or a line that a reader accepts. Limits are named constants; `docs/config.md` lists
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// What the limit applies to, as it appears in the error: "a config file".
    pub what: &'static str,
    pub bytes: u64,
}

impl Limit {
    pub const fn new(what: &'static str, bytes: u64) -> Self {
        Self { what, bytes }
    }
}

/// Writes only the size: "1 MiB".
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            bytes if bytes >= 1 << 30 && bytes % (1 << 30) == 0 => write!(f, "{} GiB", bytes >> 30),
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// How to handle a path whose last component is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Follow,
    Refuse,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{} cannot be read", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is a symbolic link, which is not allowed here; replace it with a regular file", path.display())]
    Link { path: PathBuf },
    #[error("{} is {kind}, not a regular file; remove it", path.display())]
    NotRegular { path: PathBuf, kind: &'static str },
    #[error("{} is larger than {limit}, the limit for {}", path.display(), limit.what)]
    TooLarge { path: PathBuf, limit: Limit },
    #[error("{} is not valid UTF-8", path.display())]
    NotText { path: PathBuf },
    #[error("the input is larger than {limit}, the limit for {}", limit.what)]
    LongStream { limit: Limit },
}

impl ReadError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::Io { source, .. } => source.kind(),
            ReadError::Link { .. } | ReadError::NotRegular { .. } => io::ErrorKind::InvalidInput,
            ReadError::TooLarge { .. } | ReadError::LongStream { .. } => io::ErrorKind::FileTooLarge,
            ReadError::NotText { .. } => io::ErrorKind::InvalidData,
        };
        match error {
            // Callers add the path themselves, so return the operating system's error unchanged.
            ReadError::Io { source, .. } => source,
            error => Self::new(kind, error),
        }
    }
}

/// Opens a regular file for reading.
pub fn open(path: &Path, links: Links) -> Result<File, ReadError> {
    // Without NONBLOCK, opening a fifo would wait for its writer.
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = match opened {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) if links == Links::Refuse && path.is_symlink() => {
            return Err(ReadError::Link { path: path.to_owned() });
        }
        // A socket cannot be opened at all.
        Err(rustix::io::Errno::NXIO) => {
            return Err(ReadError::NotRegular { path: path.to_owned(), kind: "a socket" });
        }
        Err(error) => return Err(ReadError::Io { path: path.to_owned(), source: error.into() }),
    };
    ensure_regular(&file, path)?;
    Ok(file)
}

/// Reads a whole regular file of at most `limit` bytes.
pub fn read(path: &Path, limit: Limit, links: Links) -> Result<Vec<u8>, ReadError> {
    read_opened(open(path, links)?, path, limit)
}

/// Reads a whole regular UTF-8 file of at most `limit` bytes.
pub fn read_text(path: &Path, limit: Limit, links: Links) -> Result<String, ReadError> {
    String::from_utf8(read(path, limit, links)?).map_err(|_| ReadError::NotText { path: path.to_owned() })
}

/// Reads the rest of an open file, at most `limit` bytes. `path` is only used in errors.
pub fn read_opened(file: File, path: &Path, limit: Limit) -> Result<Vec<u8>, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    // A sparse file can claim any size: check before reserving memory.
    let length = file.metadata().map_err(io)?.len();
    if length > limit.bytes {
        return Err(ReadError::TooLarge { path: path.to_owned(), limit });
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // The file may grow while it is read.
    file.take(limit.bytes + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limit.bytes {
        return Err(ReadError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// Returns an error unless the open file is a regular file. `path` is only used in errors.
pub fn ensure_regular(file: &File, path: &Path) -> Result<(), ReadError> {
    let stat =
        rustix::fs::fstat(file).map_err(|error| ReadError::Io { path: path.to_owned(), source: error.into() })?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a folder",
        FileType::Fifo => "a fifo",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Socket => "a socket",
        FileType::Symlink | FileType::Unknown => "of an unknown kind",
    };
    Err(ReadError::NotRegular { path: path.to_owned(), kind })
}

#[cfg(test)]
mod tests;
