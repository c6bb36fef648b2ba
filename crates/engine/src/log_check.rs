//! Compares a session's log with its ledger: which bytes are missing, and which were changed.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use coven_domain::SessionId;
use coven_domain::entry::{Entry, EntryKind};
use serde_json::Value;

use super::Engine;
use super::log_file::LogFile;
use crate::blocking::blocking;
use crate::error::EngineError;

/// Number of entries per page.
const PAGE_SIZE: usize = 1000;
/// Maximum bytes of one read.
const READ_BYTES: u64 = 1 << 20;

/// Differences between a log and its ledger, as byte ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogCheck {
    /// The first byte of the log.
    pub first: u64,
    pub end: u64,
    pub missing: Vec<Range<u64>>,
    pub changed: Vec<Range<u64>>,
}

/// A batch of output as the ledger describes it.
struct Batch {
    bytes: Range<u64>,
    crc: Option<u32>,
}

impl Engine {
    /// Compares the log with the ledger. Without `with_content` only lengths are compared, which reads no output.
    pub async fn check_log(self: &Arc<Self>, id: SessionId, with_content: bool) -> Result<LogCheck, EngineError> {
        self.session(id).await?;
        self.refresh(id).await;
        // Read before the files: a running session only appends to them.
        let (end, is_complete) = self.recorded_end(id).await?;
        let dir = self.home.session_dir(id);
        let log = LogFile::new(&dir);
        let pieces = blocking(move || log.pieces()).await.map_err(|source| EngineError::Log { id, source })?;
        // The holder of a running session may delete its oldest segments at any time.
        let is_live = self.live_session(id).is_some();
        let first = match pieces.first() {
            Some(piece) if piece.start == 0 || is_live => piece.start,
            _ => self.first_kept(id).await?,
        };
        let (mut missing, mut changed) = (gaps(&pieces, first..end), Vec::new());
        let added = pieces.last().map_or(end, |piece| piece.end);
        if with_content && !is_live {
            self.compare_content(id, first, &mut missing, &mut changed).await?;
        }
        // The harness wrote nothing after its exit was recorded.
        if is_complete && added > end {
            add(&mut changed, end..added);
        }
        missing.sort_by_key(|range| range.start);
        Ok(LogCheck { first, end, missing, changed })
    }

    /// Adds batches from byte `first` that cannot be read or have another checksum.
    async fn compare_content(
        &self,
        id: SessionId,
        first: u64,
        missing: &mut Vec<Range<u64>>,
        changed: &mut Vec<Range<u64>>,
    ) -> Result<(), EngineError> {
        let mut after = 0;
        loop {
            let entries = self.store.entries(id, after, PAGE_SIZE).await?;
            let Some(last) = entries.last() else { return Ok(()) };
            after = last.seq;
            let batches: Vec<Batch> = entries.iter().filter_map(|entry| batch(entry, first)).collect();
            let (dir, gone) = (self.home.session_dir(id), missing.clone());
            let found = blocking(move || compare(&dir, &batches, &gone)).await;
            found.changed.into_iter().for_each(|range| add(changed, range));
            found.unreadable.into_iter().for_each(|range| add(missing, range));
        }
    }

    /// Returns the end of the log according to the ledger, and whether it is final.
    async fn recorded_end(&self, id: SessionId) -> Result<(u64, bool), EngineError> {
        let newest = self.store.last_entry(id).await?;
        let last = self.store.entries(id, newest.saturating_sub(1), 1).await?;
        Ok(last.first().map_or((0, false), |entry| (entry.offset + entry.length, entry.kind == EntryKind::Exit)))
    }

    /// Returns the first byte that the size limit of the log has kept.
    async fn first_kept(&self, id: SessionId) -> Result<u64, EngineError> {
        let (mut first, mut after) = (0, 0);
        loop {
            let entries = self.store.entries(id, after, PAGE_SIZE).await?;
            let Some(last) = entries.last() else { return Ok(first) };
            after = last.seq;
            let truncated = entries.iter().filter(|entry| entry.kind == EntryKind::Truncated);
            let firsts = truncated.filter_map(|entry| entry.detail.as_ref()?.get("first")?.as_u64());
            first = firsts.fold(first, u64::max);
        }
    }
}

/// Returns the batch of an output entry that must still be in the log.
fn batch(entry: &Entry, first: u64) -> Option<Batch> {
    let is_kept = entry.length > 0 && entry.offset >= first;
    let crc = entry.detail.as_ref().and_then(|detail| detail.get("crc32")).and_then(Value::as_str);
    is_kept.then(|| Batch {
        bytes: entry.offset..entry.offset + entry.length,
        crc: crc.and_then(|text| u32::from_str_radix(text, 16).ok()),
    })
}

/// Returns the parts of `wanted` that no piece covers. The pieces are in order.
fn gaps(pieces: &[Range<u64>], wanted: Range<u64>) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let mut next = wanted.start;
    for piece in pieces {
        if piece.start > next && next < wanted.end {
            gaps.push(next..piece.start.min(wanted.end));
        }
        next = next.max(piece.end);
    }
    if next < wanted.end {
        gaps.push(next..wanted.end);
    }
    gaps
}

#[derive(Default)]
struct Compared {
    changed: Vec<Range<u64>>,
    unreadable: Vec<Range<u64>>,
}

fn compare(dir: &Path, batches: &[Batch], gone: &[Range<u64>]) -> Compared {
    let (mut log, mut found) = (LogFile::new(dir), Compared::default());
    let is_gone = |it: &Range<u64>| gone.iter().any(|gap| gap.start < it.end && it.start < gap.end);
    for it in batches.iter().filter(|it| !is_gone(&it.bytes)) {
        match (checksum(&mut log, &it.bytes), it.crc) {
            (Ok(Some(actual)), Some(recorded)) if actual != recorded => add(&mut found.changed, it.bytes.clone()),
            (Ok(Some(_)), _) => {}
            (Ok(None) | Err(_), _) => add(&mut found.unreadable, it.bytes.clone()),
        }
    }
    found
}

/// Returns the checksum of a range, or `None` if part of it is missing.
fn checksum(log: &mut LogFile, range: &Range<u64>) -> io::Result<Option<u32>> {
    let (mut crc, mut at) = (crc32fast::Hasher::new(), range.start);
    while at < range.end {
        let wanted = (range.end - at).min(READ_BYTES);
        let bytes = log.read_range(at, usize::try_from(wanted).expect("a piece is small"))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        crc.update(&bytes);
        at += bytes.len() as u64;
    }
    Ok(Some(crc.finalize()))
}

/// Adds a range, merged with the last one if they are adjacent.
fn add(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps_of(pieces: &[(u64, u64)], from: u64, to: u64) -> Vec<(u64, u64)> {
        let pieces: Vec<Range<u64>> = pieces.iter().map(|(start, end)| *start..*end).collect();
        gaps(&pieces, from..to).into_iter().map(|gap| (gap.start, gap.end)).collect()
    }

    #[test]
    fn gaps_are_the_ranges_that_no_piece_covers() {
        let whole = [(0, 10), (10, 30)];
        assert_eq!(gaps_of(&whole, 0, 30), []);
        assert_eq!(gaps_of(&whole, 0, 35), [(30, 35)]);
        assert_eq!(gaps_of(&[(10, 30)], 0, 30), [(0, 10)]);
        assert_eq!(gaps_of(&[(10, 30)], 10, 30), []);
        assert_eq!(gaps_of(&[(0, 5), (10, 30)], 0, 30), [(5, 10)]);
        assert_eq!(gaps_of(&[], 0, 30), [(0, 30)]);
        assert_eq!(gaps_of(&[(0, 50)], 0, 30), []);
        assert_eq!(gaps_of(&[(40, 50)], 0, 30), [(0, 30)]);
    }
}
