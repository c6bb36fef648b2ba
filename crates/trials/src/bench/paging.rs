//! Paging: 1,000 entries from the start and the end of a long ledger, compared with a direct read of rows and bytes.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use coven_api::routes::{Endpoint, ListEntries};
use coven_holder::log::segment_name;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::coven::Coven;
use super::pattern::{Kind, Pattern};
use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, ledger, micros};

const PAGE: u64 = 1000;
/// Bytes of output per entry.
const LENGTH: u64 = 100;

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let count: u64 = bench.scale(200_000, 20_000);
    let home = Coven::new(bench, json!({ "compressFinished": false }))?;
    let (db, id) = (home.home().join("coven.db"), ledger::session_id(0)?);
    ledger::add_sessions(&db, 1)?;
    ledger::add_entries(&db, id, count, LENGTH)?;
    let folder = home.session_dir(&id.to_string());
    write_log(&folder, count * LENGTH)?;
    home.start()?;

    let mut connection = home.connect()?;
    let bare = DirectReader::open(&db, &folder)?;
    let entries = ListEntries::of(&id.to_string()).target().to_owned();
    let path = |after: u64| format!("{entries}?after={after}&limit={PAGE}");
    check(&connection.get_json(&path(count - PAGE))?, count)?;

    let mut medians: [Vec<f64>; 3] = Default::default();
    for _ in 0..bench.rounds {
        let mut times: [Vec<f64>; 3] = Default::default();
        for _ in 0..bench.scale(100, 10) {
            let start = Instant::now();
            connection.get(&path(0))?;
            times[0].push(micros(start.elapsed()));
            let start = Instant::now();
            connection.get(&path(count - PAGE))?;
            times[1].push(micros(start.elapsed()));
            let start = Instant::now();
            bare.read(count - PAGE)?;
            times[2].push(micros(start.elapsed()));
        }
        for (medians, times) in medians.iter_mut().zip(&times) {
            medians.push(median(times));
        }
    }

    let [head, tail, bare] = medians;
    Ok(vec![
        Row::anchor("paging: 1,000 entries at the start, µs", Spread::of(&head)),
        Row::anchor(format!("paging: 1,000 entries at the end of {count}, µs"), Spread::of(&tail)),
        Row::anchor("paging: direct read of the same rows and bytes, µs", Spread::of(&bare)),
        Row::at_most("paging: end / start", Spread::ratio(&tail, &head), 1.2),
        Row::at_most("paging: end / direct read", Spread::ratio(&tail, &bare), 4.0),
    ])
}

fn write_log(folder: &Path, bytes: u64) -> BenchResult<()> {
    fs::create_dir_all(folder)?;
    let log = File::create(folder.join(segment_name(0)))?;
    let (mut pattern, mut position) = (Pattern::new(Kind::Plain, bytes), 0);
    while let Some(piece) = pattern.next_piece() {
        log.write_all_at(piece, position)?;
        position += piece.len() as u64;
    }
    Ok(())
}

/// Checks that the last page has 1,000 entries with their text.
fn check(page: &serde_json::Value, count: u64) -> BenchResult<()> {
    let entries = page["entries"].as_array().ok_or("the page has no entries")?;
    let text: usize = entries.iter().filter_map(|entry| entry["data"].as_str()).map(str::len).sum();
    match entries.len() as u64 == PAGE && text as u64 == PAGE * LENGTH && page["next"] == json!(count) {
        true => Ok(()),
        false => {
            Err(format!("the last page has {} entries with {text} bytes, next {}", entries.len(), page["next"]).into())
        }
    }
}

/// The minimal reader: rows from SQLite, bytes from the file.
struct DirectReader {
    db: Connection,
    log: File,
}

impl DirectReader {
    fn open(db: &Path, folder: &Path) -> BenchResult<Self> {
        let db = Connection::open_with_flags(db, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(Self { db, log: File::open(folder.join(segment_name(0)))? })
    }

    fn read(&self, after: u64) -> BenchResult<Vec<u8>> {
        let mut rows = self.db.prepare_cached(
            "SELECT seq, kind, at, offset, length, data, detail FROM entries
             WHERE session_key = (SELECT key FROM sessions LIMIT 1) AND seq > ? ORDER BY seq LIMIT ?",
        )?;
        let mut rows = rows.query((after.cast_signed(), PAGE.cast_signed()))?;
        let (mut first, mut end) = (i64::MAX, 0);
        while let Some(row) = rows.next()? {
            let (_, _, _): (i64, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (offset, length): (i64, i64) = (row.get(3)?, row.get(4)?);
            let (_, _): (Option<Vec<u8>>, Option<String>) = (row.get(5)?, row.get(6)?);
            (first, end) = (first.min(offset), end.max(offset + length));
        }
        // The entries are consecutive, so one read gets all their bytes.
        let mut output = vec![0; usize::try_from(end - first)?];
        self.log.read_exact_at(&mut output, first.cast_unsigned())?;
        Ok(output)
    }
}
