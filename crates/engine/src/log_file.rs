//! Reads a session's log, plain or compressed. A compressed segment is a sequence of small frames followed by an index,
//! so that a read at any offset unpacks one frame.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use coven_files::{Limit, Links};
use coven_holder::log::{Reader, SUFFIX, Segment, segment_name, segment_start, segments};

const PACKED: &str = ".log.zst";
const FRAME_BYTES: usize = 256 << 10;
/// Larger than a frame, because incompressible bytes grow a little.
pub const FRAME: Limit = Limit::new("a compressed frame of a session's log", 512 << 10);
/// Four bytes per frame: far more than a segment can have.
pub const INDEX: Limit = Limit::new("the index of a compressed segment", 1 << 20);
const MAGIC: &[u8; 8] = b"covenz01";
/// Raw length, number of frames, magic.
const FOOTER: usize = 8 + 4 + 8;
const LEVEL: i32 = 3;
/// Smaller segments are not compressed.
pub const WORTH_PACKING: u64 = 4096;

/// Reads the log of a running or ended session.
pub struct LogFile {
    dir: PathBuf,
    reader: Reader<Stored>,
}

enum Stored {
    Plain(File),
    Packed(Packed),
}

struct Packed {
    file: File,
    raw_length: u64,
    /// File offset of each frame, and the end of the last one.
    starts: Vec<u64>,
    unpacked: Option<(usize, Vec<u8>)>,
}

impl LogFile {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), reader: Reader::new(dir) }
    }

    /// Returns the range of bytes in the log; empty without a log.
    pub fn range(&self) -> io::Result<std::ops::Range<u64>> {
        match self.reader.range() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0..0),
            found => found,
        }
    }

    /// Returns the byte range of each segment, in order. A segment that cannot be read has an empty range.
    pub fn pieces(&self) -> io::Result<Vec<std::ops::Range<u64>>> {
        let starts = match Stored::starts(&self.dir) {
            Ok(starts) => starts,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let length = |start| Stored::open(&self.dir, start).ok()??.length().ok();
        Ok(starts.into_iter().map(|start| start..start.saturating_add(length(start).unwrap_or(0))).collect())
    }

    /// Returns the start of the first segment after `offset`.
    pub fn next_start(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Stored::starts(&self.dir)?.into_iter().find(|start| *start > offset))
    }

    /// Reads up to the end of a segment or frame. Returns 0 if there is nothing at `offset` yet.
    pub fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read_at(offset, buffer)
    }

    /// Returns the bytes of a range, or fewer if some are missing.
    pub fn read_range(&mut self, from: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match self.read_at(from + filled as u64, &mut bytes[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

impl Segment for Stored {
    /// A segment that exists in both forms counts once.
    fn starts(dir: &Path) -> io::Result<Vec<u64>> {
        let mut starts: Vec<u64> = fs::read_dir(dir)?
            .filter_map(|entry| {
                let name = entry.ok()?.file_name();
                let name = name.to_str()?;
                segment_start(name, SUFFIX).or_else(|| segment_start(name, PACKED))
            })
            .collect();
        starts.sort_unstable();
        starts.dedup();
        Ok(starts)
    }

    fn open(dir: &Path, start: u64) -> io::Result<Option<Self>> {
        // Plain first: while both exist, the packed one may be incomplete.
        if let Some(file) = <File as Segment>::open(dir, start)? {
            return Ok(Some(Self::Plain(file)));
        }
        match Packed::open(&dir.join(packed_name(start))) {
            Ok(packed) => Ok(Some(Self::Packed(packed))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn length(&self) -> io::Result<u64> {
        match self {
            Self::Plain(file) => file.length(),
            Self::Packed(packed) => Ok(packed.raw_length),
        }
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => Segment::read_at(file, at, buffer),
            Self::Packed(packed) => packed.read_at(at, buffer),
        }
    }
}

impl Packed {
    fn open(path: &Path) -> io::Result<Self> {
        let file = coven_files::open(path, Links::Refuse)?;
        let length = file.metadata()?.len();
        let footer_at = length.checked_sub(FOOTER as u64).ok_or_else(damaged)?;
        let mut footer = [0; FOOTER];
        file.read_exact_at(&mut footer, footer_at)?;
        let (raw, rest) = footer.split_first_chunk::<8>().expect("the footer is longer");
        let (count, magic) = rest.split_first_chunk::<4>().expect("the footer is longer");
        let count = u32::from_le_bytes(*count) as usize;
        let index_bytes = count as u64 * 4;
        let is_sound = magic == MAGIC && index_bytes <= INDEX.bytes;
        let index_at = footer_at.checked_sub(index_bytes).filter(|_| is_sound).ok_or_else(damaged)?;
        let mut index = vec![0; count * 4];
        file.read_exact_at(&mut index, index_at)?;
        let mut starts = vec![0];
        for size in index.as_chunks::<4>().0 {
            starts.push(starts[starts.len() - 1] + u64::from(u32::from_le_bytes(*size)));
        }
        let raw_length = u64::from_le_bytes(*raw);
        let longest = zstd::zstd_safe::compress_bound(FRAME_BYTES) as u64;
        let is_sound = starts.last() == Some(&index_at)
            && raw_length.div_ceil(FRAME_BYTES as u64) == count as u64
            && starts.windows(2).all(|pair| pair[1] - pair[0] <= longest);
        match is_sound {
            true => Ok(Self { file, raw_length, starts, unpacked: None }),
            false => Err(damaged()),
        }
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if at >= self.raw_length {
            return Ok(0);
        }
        let (frame, within) = ((at / FRAME_BYTES as u64) as usize, (at % FRAME_BYTES as u64) as usize);
        if self.unpacked.as_ref().is_none_or(|(index, _)| *index != frame) {
            // The length that the file claims may be more than its frames hold.
            let (Some(start), Some(end)) = (self.starts.get(frame), self.starts.get(frame + 1)) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a compressed segment is damaged"));
            };
            if end - start > FRAME.bytes {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame of a compressed segment is too large"));
            }
            let mut packed = vec![0; (end - start) as usize];
            self.file.read_exact_at(&mut packed, self.starts[frame])?;
            let bytes = zstd::bulk::decompress(&packed, FRAME_BYTES)?;
            // Every frame but the last is full.
            if bytes.len() as u64 != (self.raw_length - (at - within as u64)).min(FRAME_BYTES as u64) {
                return Err(damaged());
            }
            self.unpacked = Some((frame, bytes));
        }
        let (_, bytes) = self.unpacked.as_ref().expect("the frame was just unpacked");
        let piece = bytes.get(within..).unwrap_or_default();
        let count = piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&piece[..count]);
        Ok(count)
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a compressed segment is damaged")
}

fn packed_name(start: u64) -> String {
    format!("{start:016x}{PACKED}")
}

/// Compresses every plain segment: writes a temporary file, syncs and renames it, then deletes the plain one.
pub fn compress(dir: &Path, should_stop: &dyn Fn() -> bool) -> io::Result<()> {
    for start in segments(dir)? {
        let plain = dir.join(segment_name(start));
        if fs::metadata(&plain)?.len() < WORTH_PACKING {
            continue;
        }
        if should_stop() {
            return Ok(());
        }
        let aside = dir.join("packing.tmp");
        pack(&plain, &aside)?;
        fs::rename(&aside, dir.join(packed_name(start)))?;
        File::open(dir)?.sync_all()?;
        coven_holder::fault::point("after_packing");
        fs::remove_file(&plain)?;
    }
    Ok(())
}

fn pack(plain: &Path, aside: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut source = coven_files::open(plain, Links::Refuse)?;
    let mut target = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(aside)?;
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    let (mut index, mut raw_length) = (Vec::new(), 0u64);
    let mut frame = Vec::with_capacity(FRAME_BYTES);
    loop {
        frame.clear();
        (&mut source).take(FRAME_BYTES as u64).read_to_end(&mut frame)?;
        if frame.is_empty() {
            break;
        }
        let packed = compressor.compress(&frame)?;
        target.write_all(&packed)?;
        index.extend_from_slice(&u32::try_from(packed.len()).expect("a frame is small").to_le_bytes());
        raw_length += frame.len() as u64;
    }
    target.write_all(&index)?;
    target.write_all(&raw_length.to_le_bytes())?;
    target.write_all(&u32::try_from(index.len() / 4).expect("a segment is small").to_le_bytes())?;
    target.write_all(MAGIC)?;
    target.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(length: usize) -> Vec<u8> {
        let mut seed = 7u32;
        (0..length)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 28) as u8
            })
            .collect()
    }

    #[test]
    fn a_compressed_log_reads_byte_for_byte_like_the_plain_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let bytes = sample(1_500_000);
        let cut = 700_001;
        fs::write(dir.path().join(segment_name(0)), &bytes[..cut]).expect("room");
        fs::write(dir.path().join(segment_name(cut as u64)), &bytes[cut..]).expect("room");
        compress(dir.path(), &|| false).expect("compress");
        assert!(segments(dir.path()).expect("a folder").is_empty());
        let mut log = LogFile::new(dir.path());
        assert_eq!(log.range().expect("a folder"), 0..bytes.len() as u64);
        for (from, length) in [(0, bytes.len()), (5, 10), (262_143, 2), (700_000, 2), (1_499_999, 1), (1_500_000, 5)] {
            let upto = (from + length).min(bytes.len());
            assert_eq!(log.read_range(from as u64, length).expect("readable"), bytes[from..upto], "from {from}");
        }
    }

    #[test]
    fn an_interrupted_compression_changes_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let bytes = sample(10_000);
        fs::write(dir.path().join(segment_name(0)), &bytes).expect("room");
        fs::write(dir.path().join(packed_name(0)), b"half").expect("room");
        fs::write(dir.path().join("packing.tmp"), b"half").expect("room");
        let mut log = LogFile::new(dir.path());
        assert_eq!(log.read_range(0, 10_000).expect("readable"), bytes);
        compress(dir.path(), &|| false).expect("compress");
        assert_eq!(LogFile::new(dir.path()).read_range(0, 10_000).expect("readable"), bytes);
    }

    #[test]
    fn a_packed_segment_that_claims_too_much_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(packed_name(0));
        let footer = |raw: u64, count: u32| [&raw.to_le_bytes()[..], &count.to_le_bytes(), MAGIC].concat();
        // A sparse file with room for an index of a gigabyte.
        let file = File::create(&path).expect("room");
        file.set_len(1 << 30).expect("a sparse file");
        file.write_all_at(&footer(1, (1 << 28) - 100), 1 << 30).expect("room");
        assert!(LogFile::new(dir.path()).read_at(0, &mut [0; 4]).is_err());
        // One frame of a gigabyte.
        file.set_len(1 << 30).expect("a sparse file");
        let index = u32::to_le_bytes(1 << 30);
        file.write_all_at(&[&index[..], &footer(1, 1)].concat(), 1 << 30).expect("room");
        assert!(LogFile::new(dir.path()).read_at(0, &mut [0; 4]).is_err());
        // No frame at all for the bytes it claims.
        fs::write(&path, footer(1 << 40, 0)).expect("room");
        assert!(LogFile::new(dir.path()).read_at(1 << 30, &mut [0; 4]).is_err());
    }

    #[test]
    fn a_segment_that_is_a_fifo_or_a_link_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(segment_name(0));
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600)).expect("a fifo");
        assert!(LogFile::new(dir.path()).read_at(0, &mut [0; 4]).is_err());
        fs::remove_file(&path).expect("ours");
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("a link");
        assert!(LogFile::new(dir.path()).read_at(0, &mut [0; 4]).is_err());
    }

    #[test]
    fn a_damaged_segment_is_an_error_and_not_a_panic() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join(packed_name(0)), b"far too short to be one").expect("room");
        assert!(LogFile::new(dir.path()).read_at(0, &mut [0; 4]).is_err());
        assert_eq!(LogFile::new(&dir.path().join("none")).range().expect("no log"), 0..0);
    }
}
