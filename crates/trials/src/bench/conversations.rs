//! Conversations: cost of listing many, loading a long one, reading its end and saving a turn.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use coven_domain::conversation::{ConversationId, Line, Metadata, Turn, TurnRole};
use coven_holder::clock;
use coven_interop::conversations::{Conversations, Filter, Wait};
use serde::Deserialize;

use super::report::Row;
use super::stats::{Spread, median};
use super::{Bench, BenchResult, micros, talking};

const PAGE: usize = 4096;
const LAST: usize = 20;

pub fn measure(bench: &Bench) -> BenchResult<Vec<Row>> {
    let mut rows = listing(bench)?;
    rows.extend(loading(bench)?);
    rows.extend(saving(bench)?);
    Ok(rows)
}

/// Returns one-line questions and answers of several paragraphs with code.
fn turns(count: usize) -> Vec<Line> {
    let turn = |at: usize| {
        let (role, text) = match at % 2 {
            0 => (
                TurnRole::User,
                format!("Question {at}: why does the parser fail on the second file, and how would you fix it?"),
            ),
            _ => (TurnRole::Assistant, paragraphs(at)),
        };
        Line::Turn(Turn { number: Some(at as u64 + 1), ..Turn::new(role, text, clock::now()) })
    };
    (0..count).map(turn).collect()
}

fn paragraphs(at: usize) -> String {
    let mut text = format!(
        "Answer {at}. The reader stops at the first byte that is not UTF-8; it should skip that byte.\n\n```rust\n"
    );
    for line in 0..4 + at % 9 {
        text.push_str(&format!("    let piece = reader.next(\"part {line}\")?; // as long as there is one\n"));
    }
    text.push_str("```\n\nWith that, both files are read as a whole, and the test that you named passes.");
    text
}

/// Writes a conversation with `count` turns in one write and without a sync, because there are many of them.
fn conversation(all: &Conversations, id: &str, count: usize) -> BenchResult<ConversationId> {
    let metadata = Metadata { harness: Some("claude".into()), ..Metadata::rebuilt(id.to_owned(), clock::now()) };
    let mut bytes = Vec::new();
    Line::Metadata(metadata).write_to(&mut bytes);
    turns(count).iter().for_each(|line| line.write_to(&mut bytes));
    let id = id.parse()?;
    fs::create_dir_all(all.path())?;
    fs::write(all.file(&id), bytes)?;
    Ok(id)
}

fn listing(bench: &Bench) -> BenchResult<Vec<Row>> {
    let root = tempfile::tempdir()?;
    let all = Conversations::at(root.path().join("spawn/sessions"));
    let count = bench.scale(10_000, 200);
    let mut paths = Vec::new();
    for number in 0..count {
        // From one exchange to about twenty.
        let id = conversation(&all, &format!("c-{number}"), 2 + number % 40)?;
        paths.push(all.file(&id));
    }
    let mut page = [0; PAGE];
    let (mut base, mut ours, mut clean) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let start = Instant::now();
        for path in &paths {
            read_both_ends(path, &mut page)?;
        }
        base.push(micros(start.elapsed()));
        let start = Instant::now();
        let listing = all.list(&Filter::default())?;
        ours.push(micros(start.elapsed()));
        let turns: u64 = listing.conversations.iter().map(|summary| summary.turn_count).sum();
        if turns != (0..count as u64).map(|number| 2 + number % 40).sum::<u64>() {
            return Err("the list has a wrong number of turns".into());
        }
        let start = Instant::now();
        all.clean(std::time::Duration::from_secs(86_400), clock::now())?;
        clean.push(micros(start.elapsed()));
    }
    let talking = talking::measure(bench, root.path(), count)?;
    let rows = vec![
        Row::anchor(format!("conversations: first and last 4 KiB of {count} files, µs"), Spread::of(&base)),
        Row::anchor(format!("conversations: list of {count}, µs"), Spread::of(&ours)),
        Row::anchor(
            format!("conversations: searching {count} for expired ones, none to delete, µs"),
            Spread::of(&clean),
        ),
        Row::at_most("conversations: list / first and last 4 KiB", Spread::ratio(&ours, &base), 3.0),
    ];
    Ok(rows.into_iter().chain(talking).collect())
}

fn read_both_ends(path: &Path, page: &mut [u8; PAGE]) -> BenchResult<()> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    file.read_at(page, 0)?;
    black_box(&page);
    if len > PAGE as u64 {
        file.read_at(page, len - PAGE as u64)?;
        black_box(&page);
    }
    Ok(())
}

/// A line with only the fields of the specification.
#[derive(Deserialize)]
struct TypedLine {
    #[serde(rename = "type")]
    kind: Kind,
    role: Option<TurnRole>,
    content: Option<String>,
    timestamp: Option<String>,
    tokens: Option<u64>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Metadata,
    Turn,
}

fn typed(path: &Path) -> BenchResult<Vec<TypedLine>> {
    let text = fs::read_to_string(path)?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn loading(bench: &Bench) -> BenchResult<Vec<Row>> {
    let root = tempfile::tempdir()?;
    let all = Conversations::at(root.path().join("sessions"));
    let count = bench.scale(100_000, 5_000);
    let id = conversation(&all, "long", count)?;
    let path: PathBuf = all.file(&id);
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..bench.rounds {
        let start = Instant::now();
        let lines = typed(&path)?;
        times[0].push(micros(start.elapsed()));
        let is_whole = |line: &TypedLine| {
            line.kind == Kind::Turn && line.role.is_some() && line.timestamp.is_some() && line.tokens.is_some()
        };
        let base_chars: usize =
            lines.iter().filter(|line| is_whole(line)).filter_map(|line| line.content.as_ref()).map(String::len).sum();
        drop(lines);

        let start = Instant::now();
        let loaded = all.load(&id)?;
        times[1].push(micros(start.elapsed()));
        let chars: usize = loaded.transcript.turns.iter().map(|turn| turn.content.len()).sum();
        if (loaded.transcript.turns.len(), chars) != (count, base_chars) {
            return Err("the loaded conversation has a wrong number of turns or characters".into());
        }
        drop(loaded);

        let start = Instant::now();
        let last = all.load_last(&id, LAST)?;
        times[2].push(micros(start.elapsed()));
        if (last.turns.len(), last.before) != (LAST, Some((count - LAST) as u64)) {
            return Err("the last page has a wrong number of turns".into());
        }
    }
    let [base, whole, last] = times;
    let size = fs::metadata(&path)?.len() / (1 << 20);
    Ok(vec![
        Row::anchor(format!("conversations: typed parse of {count} turns, {size} MiB, µs"), Spread::of(&base)),
        Row::anchor(format!("conversations: load of {count} turns, µs"), Spread::of(&whole)),
        Row::anchor(format!("conversations: load of its last {LAST} turns, µs"), Spread::of(&last)),
        Row::at_most("conversations: load / typed parse", Spread::ratio(&whole, &base), 1.0),
        Row::at_least("conversations: load / last page", Spread::ratio(&whole, &last), 100.0),
    ])
}

fn saving(bench: &Bench) -> BenchResult<Vec<Row>> {
    let root = tempfile::tempdir()?;
    let all = Conversations::at(root.path().join("sessions"));
    let id = conversation(&all, "saved", 0)?;
    let mut writer = all.writer(&id, Wait::NoWait)?;
    let mut bare = File::options().append(true).create(true).open(root.path().join("bare"))?;
    let mut lines = turns(2);
    let mut bytes = Vec::new();
    lines.iter().for_each(|line| line.write_to(&mut bytes));
    let mut medians: [Vec<f64>; 2] = Default::default();
    for _ in 0..bench.rounds {
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..bench.scale(300, 20) {
            let start = Instant::now();
            bare.write_all(&bytes)?;
            bare.sync_data()?;
            times[0].push(micros(start.elapsed()));
            let start = Instant::now();
            writer.append(&mut lines)?;
            times[1].push(micros(start.elapsed()));
        }
        for (medians, times) in medians.iter_mut().zip(&times) {
            medians.push(median(times));
        }
    }
    let [base, ours] = medians;
    Ok(vec![
        Row::anchor("conversations: plain write and sync of an exchange, p50 in µs", Spread::of(&base)),
        Row::anchor("conversations: saving an exchange under the lock, p50 in µs", Spread::of(&ours)),
        Row::at_most("conversations: saving / plain write and sync", Spread::ratio(&ours, &base), 2.0),
    ])
}
