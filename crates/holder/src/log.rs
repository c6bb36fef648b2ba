//! Every byte a session's harness wrote: segment files named by the offset of their first byte.

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

/// The start offsets of the plain segments in a session's folder, in order.
pub fn segments(dir: &Path) -> io::Result<Vec<u64>> {
    let mut starts: Vec<u64> =
        fs::read_dir(dir)?.filter_map(|entry| segment_start(entry.ok()?.file_name().to_str()?, SUFFIX)).collect();
    starts.sort_unstable();
    Ok(starts)
}

/// The offset that a segment's file name carries.
pub fn segment_start(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_suffix(suffix)?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Appends bytes, opens new segments, drops the oldest past the bound.
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
            // A bound is only as fine as the segments that go.
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

    /// The segment that is written to now.
    pub const fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A segment was begun since the last time this was asked.
    pub const fn take_rotated(&mut self) -> bool {
        std::mem::replace(&mut self.is_rotated, false)
    }

    /// Writes as much as the current segment takes and says how much that was. A failed write leaves the end where
    /// it was and can be tried again.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut start = *self.starts.last().expect("there is always a segment");
        let mut room = self.segment_bytes.saturating_sub(self.end - start);
        if room == 0 {
            match new_segment(&self.dir, self.end) {
                Ok(file) => {
                    self.file = Arc::new(file);
                    self.starts.push(self.end);
                    self.is_rotated = true;
                    start = self.end;
                }
                // The folder was removed under us: the open file takes it, so that the harness is not held up for ever.
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

    /// Drops whole segments from the front until the rest is within the bound; tells the new first byte if any went.
    pub fn trim(&mut self) -> Option<u64> {
        let before = self.first();
        while self.starts.len() > 1 && self.end - self.starts[0] > self.max_bytes {
            let oldest = self.starts.remove(0);
            // A segment that cannot be removed now is found and removed when the session is.
            let _ = fs::remove_file(self.dir.join(segment_name(oldest)));
        }
        (self.first() != before).then(|| self.first())
    }
}

fn new_segment(dir: &Path, start: u64) -> io::Result<File> {
    // A leftover of a failed attempt at the same offset holds nothing that was counted.
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(dir.join(segment_name(start)))
}

/// A segment in a form that can be read.
pub trait Segment: Sized {
    /// The start offsets of all segments in a session's folder, in order.
    fn starts(dir: &Path) -> io::Result<Vec<u64>>;
    /// `None`: the segment was removed.
    fn open(dir: &Path, start: u64) -> io::Result<Option<Self>>;
    fn length(&self) -> io::Result<u64>;
    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// A plain segment, which may still be written.
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

/// Reads plain segments.
pub type LogReader = Reader<File>;

impl<S: Segment> Reader<S> {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), open: None }
    }

    /// The first byte that is still there and the end of the log.
    pub fn range(&self) -> io::Result<std::ops::Range<u64>> {
        let starts = S::starts(&self.dir)?;
        let (Some(first), Some(last)) = (starts.first(), starts.last()) else { return Ok(0..0) };
        let length = S::open(&self.dir, *last)?.map_or(Ok(0), |segment| segment.length())?;
        Ok(*first..last.saturating_add(length))
    }

    /// Fills `buffer` from `offset` as far as one segment or frame reaches. `Ok(0)` means: nothing there (yet).
    pub fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some((start, segment)) = &mut self.open
            && offset >= *start
        {
            let count = segment.read_at(offset - *start, buffer)?;
            if count > 0 {
                return Ok(count);
            }
        }
        // Not in the open segment: find the one that holds it, which may be newer.
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
            let count = writer.append(bytes).expect("room on disk");
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
    fn bytes_come_back_exactly_across_segments_and_while_writing() {
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
    fn past_the_bound_the_oldest_segments_go() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = LogWriter::create(dir.path(), 4096, 8192).expect("a new log");
        fill(&mut writer, &[1; 8192]);
        assert_eq!(writer.trim(), None);
        fill(&mut writer, &[1; 20_000 - 8192]);
        assert_eq!(writer.trim(), Some(12_288));
        assert_eq!(writer.trim(), None);
        assert_eq!(LogReader::new(dir.path()).range().expect("a folder"), 12_288..20_000);
        assert_eq!(LogReader::new(dir.path()).read_at(0, &mut [0; 10]).expect("gone is not an error"), 0);
    }

    #[test]
    fn an_empty_last_segment_is_an_end_and_not_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = LogWriter::create(dir.path(), 4096, u64::MAX).expect("a new log");
        fill(&mut writer, &[1; 4096]);
        File::create(dir.path().join(segment_name(4096))).expect("a torn rotation");
        assert_eq!(read_all(&mut LogReader::new(dir.path()), 0).len(), 4096);
        fill(&mut writer, &[2; 10]);
        assert_eq!(read_all(&mut LogReader::new(dir.path()), 0).len(), 4106);
    }
}
