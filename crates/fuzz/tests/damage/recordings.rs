//! Damage to journals and log segments.

use std::fs;

use coven_domain::Timestamp;
use coven_domain::session::ExitStatus;
use coven_engine::log_file::{LogFile, compress};
use coven_fuzz::Dice;
use coven_fuzz::damage::{ROUNDS, damaged};
use coven_holder::journal::{JournalReader, JournalWriter, Record, Stamped};
use coven_testing::TestHome;
use serde_json::{Value, json};

use super::folder;

fn stamped(nth: u64, record: Record) -> Stamped {
    Stamped { at: Timestamp::from_millis(1_794_765_073_705 + nth as i64), offset: nth * 10, record }
}

#[test]
fn a_damaged_journal_returns_its_first_records_and_never_a_wrong_one() {
    let folder = folder();
    let path = folder.path().join("journal");
    let mut writer = JournalWriter::create(&path).expect("a journal");
    let start = Record::Start { pid: 7, started_ticks: 8, rows: 24, cols: 80, boot_id: "boot".into() };
    let mut records = vec![stamped(0, start)];
    for nth in 1..60 {
        records.push(stamped(
            nth,
            match nth % 4 {
                0 => Record::Input(vec![b'x'; nth as usize * 3]),
                1 => Record::Resize { rows: 30, cols: nth as u16 },
                2 => Record::Note(format!("note {nth}")),
                _ => Record::Stderr(vec![0xff; nth as usize]),
            },
        ));
    }
    records.push(stamped(60, Record::Exit(ExitStatus::Code(0))));
    records.iter().for_each(|record| writer.append(record).expect("enough disk space"));
    let bytes = fs::read(&path).expect("a journal");

    let (mut dice, mut errors, mut shorter) = (Dice::new(11), 0, 0);
    for round in 0..ROUNDS {
        fs::write(&path, damaged(&bytes, &mut dice)).expect("enough disk space");
        let mut reader = JournalReader::open(&path).expect("the journal exists");
        let mut read = Vec::new();
        loop {
            match reader.read_more(64 << 10) {
                Ok(more) if more.is_empty() => break,
                Ok(more) => read.extend(more.into_iter().map(|(_, record)| record)),
                Err(_) => {
                    errors += 1;
                    break;
                }
            }
        }
        assert!(records.starts_with(&read), "round {round}: a wrong record was read");
        shorter += usize::from(read.len() < records.len());
    }
    assert!(errors > 0 && shorter > ROUNDS as usize / 2, "{errors} errors, {shorter} shorter");
}

#[test]
fn a_damaged_compressed_segment_returns_an_error_or_its_original_content() {
    let folder = folder();
    let mut dice = Dice::new(12);
    // Compressible text, then random bytes.
    let mut bytes: Vec<u8> = (0..30_000).flat_map(|nth| format!("line {nth} of output\r\n").into_bytes()).collect();
    bytes.extend((0..50_000).map(|_| dice.next() as u8));
    fs::write(folder.path().join("0000000000000000.log"), &bytes).expect("enough disk space");
    compress(folder.path(), &|| false).expect("the log can be compressed");
    let path = folder.path().join("0000000000000000.log.zst");
    let packed = fs::read(&path).expect("compressed");

    let mut errors = 0;
    for round in 0..ROUNDS {
        fs::write(&path, damaged(&packed, &mut dice)).expect("enough disk space");
        let mut log = LogFile::new(folder.path());
        let read = log.range().and_then(|range| {
            let length = usize::try_from(range.end).unwrap_or(usize::MAX).min(2 * bytes.len());
            log.read_range(0, length)
        });
        match read {
            Ok(read) => assert!(read == bytes, "round {round}: {} wrong bytes instead of an error", read.len()),
            Err(_) => errors += 1,
        }
    }
    assert!(errors > ROUNDS as usize * 9 / 10, "{errors} errors");
}

#[test]
fn a_damaged_plain_log_is_reported_or_served_with_its_original_content() {
    let config = json!({ "sessions": { "compressFinished": false, "killGraceSeconds": 2.0 } });
    let home = TestHome::started_with(config);
    let id = home.run_to_end("flood 40000").id;
    let file = home.session_dir(&id).join("0000000000000000.log");
    let bytes = fs::read(&file).expect("a log");
    let check = || -> Value { home.read(&format!("/api/v1/sessions/{id}/log/check")) };
    let is_reported = |found: &Value| ["missing", "changed"].iter().any(|it| found[it] != json!([]));
    assert!(!is_reported(&check()), "the log is intact");

    let (mut dice, mut reported) = (Dice::new(13), 0);
    for round in 0..ROUNDS {
        fs::write(&file, damaged(&bytes, &mut dice)).expect("enough disk space");
        match is_reported(&check()) {
            true => reported += 1,
            false => assert!(home.log(&id) == bytes, "round {round}: wrong bytes are served without a report"),
        }
    }
    assert!(reported > ROUNDS as usize * 9 / 10, "{reported} reported");
}
