//! Data from a holder: journal, log segments and socket frames; also the frames of the attach route.

use std::fs;

use coven_engine::attach::ViewerRequest;
use coven_engine::log_file::LogFile;
use coven_holder::journal::JournalReader;
use coven_holder::log::LogReader;
use coven_holder::wire::{Decoder, Request};
use coven_server::attach::typed;

use crate::outcome::{saw, saw_message};
use crate::scratch;

pub const JOURNAL_WORDS: &[&str] = &["covenj01"];
pub const LOG_WORDS: &[&str] = &["covenz01", "\u{28}\u{b5}/\u{fd}"];
pub const ATTACH_WORDS: &[&str] =
    &["{\"type\":\"resize\"", "\"rows\":", "\"cols\":", "\"type\":\"input\"", "\"data\":", "\\u0003", "null", "65536"];

const JOURNAL_MAGIC: &[u8] = b"covenj01";

/// Reads the bytes as a journal, then again with corrected checksums, so that mutations reach the records' fields.
pub fn journal(data: &[u8]) {
    read_journal(data);
    if let Some(body) = data.strip_prefix(JOURNAL_MAGIC) {
        read_journal(&[JOURNAL_MAGIC, &with_checksums(body)].concat());
    }
}

fn read_journal(data: &[u8]) {
    let path = scratch::fresh("journal").join("journal");
    scratch::write(&path, data);
    let mut reader = JournalReader::open(&path).expect("the journal exists");
    let mut last = 0;
    loop {
        let records = match reader.read_more(64 << 10) {
            Ok(records) if records.is_empty() => break,
            Ok(records) => records,
            Err(error) => return saw_message(&error.to_string()),
        };
        for (seq, record) in records {
            assert_eq!(seq, last + 1, "records are numbered consecutively");
            last = seq;
            saw((std::mem::discriminant(&record.record), seq.min(3)));
            let entry = record.entry(seq);
            assert_eq!(entry.seq, seq);
        }
    }
    assert!(last <= data.len() as u64 / 8, "every record has a header");
}

/// Corrects the checksum of each record in a journal.
fn with_checksums(mut body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    while let Some((head, rest)) = body.split_first_chunk::<8>() {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(record) = rest.get(..length) else { break };
        out.extend_from_slice(&head[..4]);
        out.extend_from_slice(&crc32fast::hash(record).to_le_bytes());
        out.extend_from_slice(record);
        body = &rest[length..];
    }
    out.extend_from_slice(body);
    out
}

/// Reads a log. The first byte selects its form: a plain segment, a compressed one, or both with different offsets.
pub fn log(data: &[u8]) {
    let (form, data) = data.split_first().map_or((0, data), |(first, rest)| (*first, rest));
    let folder = scratch::fresh("log");
    let half = data.len() / 2;
    match form % 4 {
        0 => scratch::write(&folder.join("0000000000000000.log"), data),
        1 => scratch::write(&folder.join("0000000000000000.log.zst"), data),
        2 => {
            scratch::write(&folder.join("0000000000000000.log"), &data[..half]);
            scratch::write(&folder.join(format!("{half:016x}.log.zst")), &data[half..]);
        }
        _ => {
            scratch::write(&folder.join("ffffffffffffff00.log"), &data[..half]);
            scratch::write(&folder.join("0000000000000007.log.zst"), &data[half..]);
        }
    }
    let mut log = LogFile::new(&folder);
    let pieces = log.pieces().expect("a readable folder");
    assert!(pieces.is_sorted_by_key(|piece| piece.start), "segments are in order");
    let _ = log.next_start(half as u64);
    let range = match log.range() {
        Ok(range) => range,
        Err(error) => return saw_message(&error.to_string()),
    };
    let mut buffer = vec![0; 64 << 10];
    for from in [range.start, range.start + (range.end - range.start) / 2, range.end.saturating_sub(1), u64::MAX] {
        let mut at = from;
        // A damaged index may claim a huge size, so read only a few megabytes.
        for _ in 0..40 {
            match log.read_at(at, &mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    saw(("read", form % 4));
                    at = at.saturating_add(count as u64);
                }
                Err(error) => {
                    saw_message(&error.to_string());
                    break;
                }
            }
        }
    }
    let mut plain = LogReader::new(&folder);
    if let Ok(range) = plain.range() {
        let _ = plain.read_at(range.start, &mut buffer).map(|count| saw(("plain", count > 0)));
    }
    fs::remove_dir_all(&folder).expect("the folder can be deleted");
}

/// Decodes requests and replies that arrive in pieces. Every decoded frame must survive a round trip.
pub fn holder_frames(data: &[u8]) {
    let (piece, data) = data.split_first().map_or((1, data), |(first, rest)| (1 + usize::from(*first), rest));
    let (mut requests, mut replies) = (Decoder::default(), Decoder::default());
    let (mut takes_requests, mut takes_replies) = (true, true);
    for piece in data.chunks(piece) {
        if takes_requests {
            requests.feed(piece);
            takes_requests = drain(
                || requests.request(),
                |request| {
                    round_trip(&request);
                    Some(())
                },
            );
        }
        if takes_replies {
            replies.feed(piece);
            takes_replies = drain(
                || replies.reply(),
                |reply| {
                    let mut again = Decoder::default();
                    again.feed(&reply.encode());
                    assert_eq!(again.reply().expect("an encoded frame is valid"), Some(reply));
                    None
                },
            );
        }
    }
}

fn drain<T>(
    mut next: impl FnMut() -> Result<Option<T>, coven_holder::wire::WireError>,
    mut take: impl FnMut(T) -> Option<()>,
) -> bool
where
    T: std::fmt::Debug,
{
    loop {
        match next() {
            Ok(None) => return true,
            Ok(Some(frame)) => {
                saw(std::mem::discriminant(&frame));
                take(frame);
            }
            Err(error) => {
                saw(error.to_string());
                return false;
            }
        }
    }
}

fn round_trip(request: &Request) {
    let mut again = Decoder::default();
    again.feed(&request.encode());
    assert_eq!(again.request().expect("an encoded frame is valid").as_ref(), Some(request));
}

/// Parses a text frame of the attach route: a request for the holder, or an error for the client.
pub fn attach_frames(data: &[u8]) {
    match typed(&String::from_utf8_lossy(data)) {
        Ok(typed) => {
            saw(std::mem::discriminant(&typed));
            let request = match typed {
                ViewerRequest::Input(bytes) => Request::Input(bytes),
                ViewerRequest::Resize { rows, cols } => Request::Resize { rows, cols },
            };
            round_trip(&request);
        }
        Err(error) => saw_message(&error.to_string()),
    }
}
