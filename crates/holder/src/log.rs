//! The log: all output of a session's harness, in segment files named after the offset of their first byte.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coven_files::Links;

pub const SUFFIX: &str = ".log";

pub fn segment_name(start: u64) -> String {
    format!("{start:016x}{SUFFIX}")
}

/// Returns the start offsets of the uncompressed segments in a session's folder, sorted.
pub fn segments(dir: &Path) -> io::Result<Vec<u64>> {
    let mut starts: Vec<u64> =
        fs::read_dir(dir)?.filter_map(|entry| segment_start(entry.ok()?.file_name().to_str()?, SUFFIX)).collect();
    starts.sort_unstable();
    Ok(starts)
}

/// Parses the start offset from a segment's file name.
pub fn segment_start(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_suffix(suffix)?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Appends bytes, starts new segments and deletes the oldest ones beyond the size limit.
#[derive(Debug)]
pub struct LogWriter {
    dir: PathBuf,
    file: Arc<File>,
    starts: Vec<u64>,
    end: u64,
    is_rotated: bool,
    segment_bytes: u64,
    max_bytes: u64,
}

impl LogWriter {
    pub fn create(dir: &Path, segment_bytes: u64, max_bytes: u64) -> io::Result<Self> {
        Ok(Self {
            dir: dir.to_owned(),
            file: Arc::new(new_segment(dir, 0)?),
            starts: vec![0],
            end: 0,
            is_rotated: false,
            // Trimming deletes whole segments, so keep them small relative to the limit.
            segment_bytes: segment_bytes.min(max_bytes / 8).max(4096),
            max_bytes,
        })
    }

    pub const fn end(&self) -> u64 {
        self.end
    }

    pub fn first(&self) -> u64 {
        self.starts[0]
    }

    /// Returns the current segment.
    pub const fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Reports whether a segment was started since the last call.
    pub const fn take_rotated(&mut self) -> bool {
        std::mem::replace(&mut self.is_rotated, false)
    }

    /// Writes as much as fits into the current segment and returns the number of bytes written. A failed write does not
    /// move the end and can be retried.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut start = *self.starts.last().expect("a log has at least one segment");
        let mut room = self.segment_bytes.saturating_sub(self.end - start);
        if room == 0 {
            match new_segment(&self.dir, self.end) {
                Ok(file) => {
                    self.file = Arc::new(file);
                    self.starts.push(self.end);
                    self.is_rotated = true;
                    start = self.end;
                }
                // The folder was deleted: keep writing to the open file so that the harness is not blocked forever.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            room = self.segment_bytes;
        }
        let piece = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let written = self.file.write_at(piece, self.end - start)?;
        self.end += written as u64;
        Ok(written)
    }

    /// Deletes the oldest segments until the log is within its size limit. Returns the new first offset if it changed.
    pub fn trim(&mut self) -> Option<u64> {
        let before = self.first();
        while self.starts.len() > 1 && self.end - self.starts[0] > self.max_bytes {
            let oldest = self.starts.remove(0);
            // A segment that cannot be deleted now is deleted with the session.
            let _ = fs::remove_file(self.dir.join(segment_name(oldest)));
        }
        (self.first() != before).then(|| self.first())
    }
}

fn new_segment(dir: &Path, start: u64) -> io::Result<File> {
    // Truncate: a file left by a failed attempt contains no bytes that were reported as written.
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(dir.join(segment_name(start)))
}

/// A readable segment, compressed or not.
pub trait Segment: Sized {
    /// Returns the start offsets of all segments in a session's folder, sorted.
    fn starts(dir: &Path) -> io::Result<Vec<u64>>;
    /// Opens a segment; `None` if it was deleted.
    fn open(dir: &Path, start: u64) -> io::Result<Option<Self>>;
    fn length(&self) -> io::Result<u64>;
    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// An uncompressed segment, which may still grow.
impl Segment for File {
    fn starts(dir: &Path) -> io::Result<Vec<u64>> {
        segments(dir)
    }

    fn open(dir: &Path, start: u64) -> io::Result<Option<Self>> {
        match coven_files::open(&dir.join(segment_name(start)), Links::Refuse) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buffer, at)
    }
}

/// Reads a log across its segments.
#[derive(Debug)]
pub struct Reader<S> {
    dir: PathBuf,
    open: Option<(u64, S)>,
}

/// Reads uncompressed segments.
pub type LogReader = Reader<File>;

impl<S: Segment> Reader<S> {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), open: None }
    }

    /// Returns the offsets of the first byte kept and of the end.
    pub fn range(&self) -> io::Result<std::ops::Range<u64>> {
        let starts = S::starts(&self.dir)?;
        let (Some(first), Some(last)) = (starts.first(), starts.last()) else { return Ok(0..0) };
        let length = S::open(&self.dir, *last)?.map_or(Ok(0), |segment| segment.length())?;
        Ok(*first..last.saturating_add(length))
    }

    /// Reads from `offset`, at most to the end of one segment or frame. Returns 0 if the log has no bytes there (yet).
    pub fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some((start, segment)) = &mut self.open
            && offset >= *start
        {
            let count = segment.read_at(offset - *start, buffer)?;
            if count > 0 {
                return Ok(count);
            }
        }
        // Not in the open segment: find the one that contains the offset, which may be newer.
        let starts = S::starts(&self.dir)?;
        let Some(start) = starts.iter().rev().find(|start| **start <= offset).copied() else { return Ok(0) };
        if self.open.as_ref().is_some_and(|(open, _)| *open == start) {
            return Ok(0);
        }
        let Some(mut segment) = S::open(&self.dir, start)? else { return Ok(0) };
        let count = segment.read_at(offset - start, buffer)?;
        self.open = Some((start, segment));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(writer: &mut LogWriter, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = writer.append(bytes).expect("enough disk space");
            bytes = &bytes[count..];
        }
    }

    fn read_all(reader: &mut LogReader, from: u64) -> Vec<u8> {
        let (mut out, mut buffer) = (Vec::new(), [0; 1000]);
        loop {
            match reader.read_at(from + out.len() as u64, &mut buffer).expect("readable") {
                0 => return out,
                count => out.extend_from_slice(&buffer[..count]),
            }
        }
    }

    #[test]
    fn bytes_are_read_back_exactly_across_segments_and_while_writing() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = LogWriter::create(dir.path(), 4096, u64::MAX).expect("a new log");
        let mut reader = LogReader::new(dir.path());
        let bytes: Vec<u8> = (0..20_000u32).map(|n| (n * 31 % 251) as u8).collect();
        for piece in bytes.chunks(777) {
            fill(&mut writer, piece);
            let end = writer.end() as usize;
            assert_eq!(read_all(&mut reader, 0), bytes[..end]);
        }
        assert_eq!(segments(dir.path()).expect("a folder"), [0, 4096, 8192, 12288, 16384]);
        assert_eq!(reader.range().expect("a folder"), 0..20_000);
        assert_eq!(read_all(&mut reader, 9_999), bytes[9_999..]);
    }

    #[test]
    fn deletes_the_oldest_segments_beyond_the_limit() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = LogWriter::create(dir.path(), 4096, 8192).expect("a new log");
        fill(&mut writer, &[1; 8192]);
        assert_eq!(writer.trim(), None);
        fill(&mut writer, &[1; 20_000 - 8192]);
        assert_eq!(writer.trim(), Some(12_288));
        assert_eq!(writer.trim(), None);
        assert_eq!(LogReader::new(dir.path()).range().expect("a folder"), 12_288..20_000);
        assert_eq!(LogReader::new(dir.path()).read_at(0, &mut [0; 10]).expect("deleted bytes are not an error"), 0);
    }

    #[test]
    fn an_empty_last_segment_ends_the_log_without_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = LogWriter::create(dir.path(), 4096, u64::MAX).expect("a new log");
        fill(&mut writer, &[1; 4096]);
        File::create(dir.path().join(segment_name(4096))).expect("a torn rotation");
        assert_eq!(read_all(&mut LogReader::new(dir.path()), 0).len(), 4096);
        fill(&mut writer, &[2; 10]);
        assert_eq!(read_all(&mut LogReader::new(dir.path()), 0).len(), 4106);
    }
}
