//! The files of a session on disk, read without the daemon.

use std::path::Path;

use coven_engine::log_file::LogFile;
use coven_holder::JOURNAL;
use coven_holder::journal::{JournalReader, Record, Stamped};

/// Returns every complete record of a session's journal, or none without a journal.
pub fn records(session_dir: &Path) -> Vec<Stamped> {
    let Ok(mut reader) = JournalReader::open(&session_dir.join(JOURNAL)) else { return Vec::new() };
    let mut all = Vec::new();
    loop {
        let more = reader.read_more(1 << 20).expect("a readable journal");
        if more.is_empty() {
            return all;
        }
        for (seq, record) in more {
            all.push(record);
            assert_eq!(seq, all.len() as u64, "records are numbered without a gap");
        }
    }
}

/// Returns the offset of the first byte that is kept, and the bytes on disk from there to `end`.
pub fn log_until(session_dir: &Path, end: u64) -> (u64, Vec<u8>) {
    let mut log = LogFile::new(session_dir);
    let range = log.range().expect("a readable log");
    let length = usize::try_from(end.min(range.end).saturating_sub(range.start)).expect("it fits");
    (range.start, log.read_range(range.start, length).expect("readable segments"))
}

/// Returns the end of the log on disk.
pub fn log_end(session_dir: &Path) -> u64 {
    LogFile::new(session_dir).range().expect("a readable log").end
}

/// Returns the end of the log according to the journal. Panics if the output has a gap or an overlap.
#[track_caller]
pub fn tiled_end(id: &str, records: &[Stamped]) -> u64 {
    let (mut end, mut last_at) = (0, None);
    for (index, it) in records.iter().enumerate() {
        let seq = index + 1;
        assert!(last_at <= Some(it.at), "{id}: time goes back at record {seq}");
        last_at = Some(it.at);
        assert_eq!(it.offset, end, "{id}: record {seq} has the wrong offset: {it:?}");
        if let Record::Output { length, .. } = it.record {
            assert!(length > 0, "{id}: record {seq} is an empty output");
            end += length;
        }
    }
    end
}
