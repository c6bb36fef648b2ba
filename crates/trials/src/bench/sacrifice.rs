//! Sacrifice: deleting a session with much output, compared with unlinking the same files.

use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

use serde_json::json;

use super::coven::Coven;
use super::flood::Gate;
use super::pattern::Kind;
use super::report::Row;
use super::stats::Spread;
use super::{Bench, BenchResult, micros};

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let bytes: u64 = bench.scale(1 << 30, 64 << 20);
    // Uncompressed and large enough, so that the files contain all the output.
    let home = Coven::started(bench, json!({ "compressFinished": false, "maxOutputBytes": 4u64 << 30 }))?;
    let (mut ours, mut base) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let gate = Gate::open()?;
        let session = home.launch(&gate.argv(bench, Kind::Plain, bytes))?;
        let mut flood = gate.accept()?;
        flood.run()?;
        drop(flood);
        home.wait(&session)?;

        let copy = tempfile::tempdir()?;
        copy_files(&home.session_dir(&session.id), copy.path())?;
        let start = Instant::now();
        for file in fs::read_dir(copy.path())? {
            fs::remove_file(file?.path())?;
        }
        base.push(micros(start.elapsed()) / 1e3);

        let start = Instant::now();
        home.sacrifice(&session)?;
        ours.push(micros(start.elapsed()) / 1e3);
        if home.session_dir(&session.id).exists() {
            return Err("the folder of the sacrificed session still exists".into());
        }
    }
    Ok(vec![
        Row::anchor(format!("sacrifice: unlinking {} MiB, ms", bytes >> 20), Spread::of(&base)),
        Row::anchor(format!("sacrifice: coven, {} MiB, ms", bytes >> 20), Spread::of(&ours)),
        Row::at_most("sacrifice: coven / unlinking the same files", Spread::ratio(&ours, &base), 3.0),
    ])
}

/// Copies the files and syncs both sides, so that neither unlink pays for dirty pages.
fn copy_files(from: &Path, to: &Path) -> BenchResult<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() {
            continue;
        }
        let (mut source, mut target) = (File::open(entry.path())?, File::create(to.join(entry.file_name()))?);
        // Not `fs::copy`, which may share blocks instead of copying them.
        std::io::copy(&mut std::io::Read::by_ref(&mut source), &mut target)?;
        source.sync_all()?;
        target.sync_all()?;
    }
    Ok(())
}
