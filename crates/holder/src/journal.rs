//! The journal: a session's events in order, with times, from which the ledger is built. Output bytes are in the log.
//!
//! The n-th record of the file is entry n of the ledger, so reading a journal again creates no duplicates.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use coven_domain::Timestamp;
use coven_domain::entry::{Entry, EntryKind};
use coven_domain::session::ExitStatus;
use coven_files::{Limit, Links};
use serde_json::{Value, json};

use crate::wire::{EndMode, Fields, WireError, exit_parts, exit_status};

const MAGIC: &[u8; 8] = b"covenj01";
const HEADER: usize = 8;
/// Kind, time and offset.
const STAMP: usize = 17;
pub const RECORD: Limit = Limit::new("a record of a session's journal", 4 << 20);
const MAX_RECORD: usize = RECORD.bytes as usize;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    Start {
        pid: u32,
        started_ticks: u64,
        rows: u16,
        cols: u16,
        boot_id: String,
    },
    /// Journals of older holders have no checksum.
    Output {
        length: u64,
        crc: Option<u32>,
    },
    Input(Vec<u8>),
    /// Input of which only the size is kept.
    HiddenInput {
        bytes: u64,
        characters: u64,
    },
    Resize {
        rows: u16,
        cols: u16,
    },
    Kill {
        how: EndMode,
        signal: i32,
    },
    Exit(ExitStatus),
    /// The oldest log segments were deleted; the log now starts at `first`.
    Truncated {
        first: u64,
    },
    Note(String),
    Stderr(Vec<u8>),
    LaunchFailed(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped {
    pub at: Timestamp,
    /// End of the log when the record was made; for output, the offset of its first byte.
    pub offset: u64,
    pub record: Record,
}

impl Stamped {
    fn encode(&self) -> Vec<u8> {
        let mut body = vec![self.record.kind()];
        body.extend_from_slice(&self.at.as_millis().to_le_bytes());
        body.extend_from_slice(&self.offset.to_le_bytes());
        match &self.record {
            Record::Start { pid, started_ticks, rows, cols, boot_id } => {
                body.extend_from_slice(&pid.to_le_bytes());
                body.extend_from_slice(&started_ticks.to_le_bytes());
                body.extend_from_slice(&rows.to_le_bytes());
                body.extend_from_slice(&cols.to_le_bytes());
                body.extend_from_slice(boot_id.as_bytes());
            }
            Record::Output { length, crc } => {
                body.extend_from_slice(&length.to_le_bytes());
                // Older readers read the length and ignore the checksum after it.
                if let Some(crc) = crc {
                    body.extend_from_slice(&crc.to_le_bytes());
                }
            }
            Record::Input(bytes) | Record::Stderr(bytes) => body.extend_from_slice(bytes),
            Record::HiddenInput { bytes, characters } => {
                body.extend_from_slice(&bytes.to_le_bytes());
                body.extend_from_slice(&characters.to_le_bytes());
            }
            Record::Resize { rows, cols } => {
                body.extend_from_slice(&rows.to_le_bytes());
                body.extend_from_slice(&cols.to_le_bytes());
            }
            Record::Kill { how, signal } => {
                body.push(match how {
                    EndMode::Finish => 0,
                    EndMode::Kill => 1,
                });
                body.extend_from_slice(&signal.to_le_bytes());
            }
            Record::Exit(status) => {
                let (kind, value) = exit_parts(*status);
                body.push(kind);
                body.extend_from_slice(&value.to_le_bytes());
            }
            Record::Truncated { first } => body.extend_from_slice(&first.to_le_bytes()),
            Record::Note(text) | Record::LaunchFailed(text) => body.extend_from_slice(text.as_bytes()),
        }
        let mut out = Vec::with_capacity(HEADER + body.len());
        out.extend_from_slice(&u32::try_from(body.len()).expect("records are at most 4 MiB").to_le_bytes());
        out.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
        out.extend_from_slice(&body);
        out
    }

    fn decode(body: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields { kind: body.first().copied().unwrap_or(0), body };
        let kind = fields.u8()?;
        let at = Timestamp::from_millis(fields.u64()?.cast_signed());
        let offset = fields.u64()?;
        let text = |fields: &mut Fields<'_>| String::from_utf8_lossy(&fields.rest()).into_owned();
        let record = match kind {
            1 => Record::Start {
                pid: fields.u32()?,
                started_ticks: fields.u64()?,
                rows: fields.u16()?,
                cols: fields.u16()?,
                boot_id: text(&mut fields),
            },
            2 => Record::Output { length: fields.u64()?, crc: fields.u32().ok() },
            3 => Record::Input(fields.rest()),
            4 => Record::Resize { rows: fields.u16()?, cols: fields.u16()? },
            5 => {
                let how = if fields.u8()? == 0 { EndMode::Finish } else { EndMode::Kill };
                Record::Kill { how, signal: fields.i32()? }
            }
            6 => {
                let (how, value) = (fields.u8()?, fields.i32()?);
                Record::Exit(exit_status(how, value).ok_or(WireError::Malformed(kind))?)
            }
            7 => Record::Truncated { first: fields.u64()? },
            8 => Record::Note(text(&mut fields)),
            9 => Record::Stderr(fields.rest()),
            10 => Record::LaunchFailed(text(&mut fields)),
            11 => Record::HiddenInput { bytes: fields.u64()?, characters: fields.u64()? },
            // Written by a newer holder. Keep an entry so that the numbers of later records stay correct.
            other => Record::Note(format!("a record of kind {other}, which this version of coven does not support")),
        };
        Ok(Self { at, offset, record })
    }

    /// Returns the approximate memory use in bytes.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>()
            + match &self.record {
                Record::Input(bytes) | Record::Stderr(bytes) => bytes.len(),
                Record::Note(text) | Record::LaunchFailed(text) => text.len(),
                Record::Start { .. }
                | Record::Output { .. }
                | Record::HiddenInput { .. }
                | Record::Resize { .. }
                | Record::Kill { .. }
                | Record::Exit(_)
                | Record::Truncated { .. } => 0,
            }
    }

    /// Converts the record to ledger entry `seq`.
    pub fn entry(&self, seq: u64) -> Entry {
        let detail = |value: Value| Some(value);
        let (kind, length, data, detail) = match &self.record {
            Record::Start { pid, rows, cols, .. } => {
                (EntryKind::Start, 0, None, detail(json!({"pid": pid, "rows": rows, "cols": cols})))
            }
            Record::Output { length, crc } => {
                (EntryKind::Output, *length, None, crc.map(|crc| json!({"crc32": format!("{crc:08x}")})))
            }
            Record::Input(bytes) => (EntryKind::Input, 0, Some(bytes.clone()), None),
            Record::HiddenInput { characters, .. } => {
                (EntryKind::Input, 0, None, detail(json!({"hidden": true, "characters": characters})))
            }
            Record::Resize { rows, cols } => (EntryKind::Resize, 0, None, detail(json!({"rows": rows, "cols": cols}))),
            Record::Kill { how: EndMode::Kill, signal } => {
                (EntryKind::Kill, 0, None, detail(json!({"signal": signal})))
            }
            Record::Kill { how: EndMode::Finish, signal } => {
                (EntryKind::Note, 0, None, detail(json!({"note": "asked to finish", "signal": signal})))
            }
            Record::Exit(ExitStatus::Code(code)) => (EntryKind::Exit, 0, None, detail(json!({"code": code}))),
            Record::Exit(ExitStatus::Signal(signal)) => (
                EntryKind::Exit,
                0,
                None,
                detail(json!({"code": ExitStatus::Signal(*signal).code(), "signal": signal})),
            ),
            Record::Truncated { first } => (EntryKind::Truncated, 0, None, detail(json!({"first": first}))),
            Record::Note(text) => (EntryKind::Note, 0, None, detail(note_detail(text))),
            Record::Stderr(bytes) => {
                (EntryKind::Note, 0, Some(bytes.clone()), detail(json!({"note": "standard error"})))
            }
            Record::LaunchFailed(reason) => {
                (EntryKind::Note, 0, None, detail(json!({"note": "launch failed", "error": reason})))
            }
        };
        Entry { seq, kind, at: self.at, offset: self.offset, length, data, detail }
    }
}

impl Record {
    /// Creates the record of input whose content must not be stored.
    pub fn hidden(bytes: &[u8]) -> Self {
        // Counts every byte that is not a UTF-8 continuation byte.
        let characters = bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64;
        Self::HiddenInput { bytes: bytes.len() as u64, characters }
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Start { .. } => 1,
            Self::Output { .. } => 2,
            Self::Input(_) => 3,
            Self::Resize { .. } => 4,
            Self::Kill { .. } => 5,
            Self::Exit(_) => 6,
            Self::Truncated { .. } => 7,
            Self::Note(_) => 8,
            Self::Stderr(_) => 9,
            Self::LaunchFailed(_) => 10,
            Self::HiddenInput { .. } => 11,
        }
    }
}

/// Appends records. A failed write leaves the journal unchanged and can be retried.
#[derive(Debug)]
pub struct JournalWriter {
    file: std::sync::Arc<File>,
    length: u64,
    records: u64,
}

impl JournalWriter {
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all_at(MAGIC, 0)?;
        Ok(Self { file: std::sync::Arc::new(file), length: MAGIC.len() as u64, records: 0 })
    }

    pub fn append(&mut self, record: &Stamped) -> io::Result<()> {
        let bytes = record.encode();
        self.file.write_all_at(&bytes, self.length)?;
        self.length += bytes.len() as u64;
        self.records += 1;
        Ok(())
    }

    pub const fn records(&self) -> u64 {
        self.records
    }

    pub const fn file(&self) -> &std::sync::Arc<File> {
        &self.file
    }
}

/// Reads the records written so far; later calls continue from there. A torn or damaged record ends the journal.
#[derive(Debug)]
pub struct JournalReader {
    file: File,
    position: u64,
    seq: u64,
}

impl JournalReader {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = coven_files::open(path, Links::Refuse)?;
        Ok(Self { file, position: 0, seq: 0 })
    }

    /// Returns the number of the last record read.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the next records with their numbers, from about `limit` bytes of the file.
    pub fn read_more(&mut self, limit: usize) -> io::Result<Vec<(u64, Stamped)>> {
        if self.position == 0 {
            let mut magic = [0; MAGIC.len()];
            match self.file.read_exact_at(&mut magic, 0) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Vec::new()),
                other => other?,
            }
            if &magic != MAGIC {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "not a session journal"));
            }
            self.position = MAGIC.len() as u64;
        }
        let mut wanted = limit.max(64 << 10);
        loop {
            let mut buffer = vec![0; wanted];
            let count = read_full(&self.file, &mut buffer, self.position)?;
            let (found, used, needed) = self.decode(&buffer[..count]);
            if found.is_empty() && needed > wanted && needed <= MAX_RECORD + HEADER && count == wanted {
                wanted = needed;
                continue;
            }
            self.position += used as u64;
            return Ok(found);
        }
    }

    /// Returns the complete records at the start of `bytes`, their total size, and the size of the next one.
    fn decode(&mut self, bytes: &[u8]) -> (Vec<(u64, Stamped)>, usize, usize) {
        let (mut found, mut used) = (Vec::new(), 0);
        loop {
            let rest = &bytes[used..];
            let Some((head, rest)) = rest.split_first_chunk::<HEADER>() else { return (found, used, HEADER) };
            let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let crc = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            if !(STAMP..=MAX_RECORD).contains(&length) {
                return (found, used, HEADER);
            }
            let Some(body) = rest.get(..length) else { return (found, used, HEADER + length) };
            let Ok(record) = Stamped::decode(body) else { return (found, used, HEADER) };
            if crc32fast::hash(body) != crc {
                return (found, used, HEADER);
            }
            self.seq += 1;
            used += HEADER + length;
            found.push((self.seq, record));
        }
    }
}

fn read_full(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], position + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns the detail of a note: the daemon writes JSON objects, the holder plain text.
fn note_detail(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::Object(note)) if note.contains_key("note") => Value::Object(note),
        _ => json!({ "note": text }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Stamped> {
        [
            Record::Start { pid: 7, started_ticks: 8, rows: 24, cols: 80, boot_id: "b-1".into() },
            Record::Output { length: 10, crc: None },
            Record::Output { length: 11, crc: Some(0xfeed_beef) },
            Record::Input(vec![0xff, 0, b'\n']),
            Record::Resize { rows: 1, cols: 2 },
            Record::Kill { how: EndMode::Kill, signal: 15 },
            Record::Kill { how: EndMode::Finish, signal: 15 },
            Record::Truncated { first: 99 },
            Record::Note("n".into()),
            Record::Stderr(b"e".to_vec()),
            Record::LaunchFailed("no such file".into()),
            Record::hidden("pässword\r".as_bytes()),
            Record::Exit(ExitStatus::Signal(9)),
        ]
        .into_iter()
        .enumerate()
        .map(|(index, record)| Stamped { at: Timestamp::from_millis(index as i64), offset: 5, record })
        .collect()
    }

    fn write(dir: &tempfile::TempDir) -> std::path::PathBuf {
        let path = dir.path().join("journal");
        let mut writer = JournalWriter::create(&path).expect("a new journal");
        for record in samples() {
            writer.append(&record).expect("enough disk space");
        }
        assert_eq!(writer.records(), samples().len() as u64);
        path
    }

    #[test]
    fn records_are_read_back_in_order_with_their_numbers() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut reader = JournalReader::open(&write(&dir)).expect("the file exists");
        let got = reader.read_more(1 << 20).expect("readable");
        assert_eq!(got.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), (1..=13).collect::<Vec<_>>());
        assert_eq!(got.into_iter().map(|(_, record)| record).collect::<Vec<_>>(), samples());
        assert_eq!(reader.read_more(1 << 20).expect("readable"), []);
    }

    #[test]
    fn a_journal_truncated_at_any_byte_yields_exactly_its_complete_records() {
        let dir = tempfile::tempdir().expect("a folder");
        let bytes = std::fs::read(write(&dir)).expect("the file exists");
        let ends: Vec<usize> = samples()
            .iter()
            .scan(MAGIC.len(), |end, record| {
                *end += record.encode().len();
                Some(*end)
            })
            .collect();
        let cut = dir.path().join("cut");
        for length in 0..=bytes.len() {
            std::fs::write(&cut, &bytes[..length]).expect("enough disk space");
            let mut reader = JournalReader::open(&cut).expect("the file exists");
            let whole = ends.iter().filter(|end| **end <= length).count();
            assert_eq!(reader.read_more(64).expect("readable").len(), whole, "cut at {length}");
        }
    }

    #[test]
    fn a_damaged_record_ends_the_journal_and_is_not_returned() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = write(&dir);
        let mut bytes = std::fs::read(&path).expect("the file exists");
        let third = MAGIC.len() + samples()[..2].iter().map(|record| record.encode().len()).sum::<usize>();
        bytes[third + HEADER + STAMP] ^= 1;
        std::fs::write(&path, &bytes).expect("enough disk space");
        let got = JournalReader::open(&path).expect("the file exists").read_more(1 << 20).expect("readable");
        assert_eq!(got.len(), 2);
    }

    #[test]
    fn reads_a_record_longer_than_the_buffer() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("journal");
        let big = Stamped { at: Timestamp::default(), offset: 0, record: Record::Input(vec![7; 1 << 20]) };
        JournalWriter::create(&path).expect("new").append(&big).expect("enough disk space");
        let got = JournalReader::open(&path).expect("the file exists").read_more(10).expect("readable");
        assert_eq!(got, [(1, big)]);
    }
}
