//! The asciicast v2 format: a header line, then one line per event with its time in seconds.

use std::io::{self, Write};

use coven_api::entry::EntryRecord;
use coven_domain::entry::EntryKind;
use serde_json::json;

use crate::ledger::{size_of, time_of};

pub struct Asciicast {
    header: Option<String>,
    started_ms: i64,
    last_ms: i64,
    with_input: bool,
    output: Utf8Carry,
}

impl Asciicast {
    pub fn new(rows: u16, cols: u16, title: &str, first: &EntryRecord, with_input: bool) -> Self {
        let started_ms = time_of(first);
        let header = json!({
            "version": 2, "width": cols, "height": rows, "timestamp": started_ms / 1000, "title": title,
            "env": {"TERM": "xterm-256color"},
        });
        Self {
            header: Some(header.to_string()),
            started_ms,
            last_ms: started_ms,
            with_input,
            output: Utf8Carry::default(),
        }
    }

    pub fn take(&mut self, entry: &EntryRecord, out: &mut dyn Write) -> io::Result<()> {
        if let Some(header) = self.header.take() {
            writeln!(out, "{header}")?;
        }
        // Players need times that never decrease, even if the clock went back.
        self.last_ms = self.last_ms.max(time_of(entry));
        match entry.kind {
            EntryKind::Output => {
                let text = self.output.decode(&entry.bytes());
                self.event("o", &text, out)
            }
            EntryKind::Input if self.with_input => self.event("i", &String::from_utf8_lossy(&entry.bytes()), out),
            EntryKind::Resize => match size_of(entry) {
                Some((rows, cols)) => self.event("r", &format!("{cols}x{rows}"), out),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn event(&self, code: &str, data: &str, out: &mut dyn Write) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let elapsed = self.last_ms - self.started_ms;
        let data = serde_json::to_string(data).expect("text is plain data");
        writeln!(out, "[{}.{:03}, \"{code}\", {data}]", elapsed / 1000, elapsed % 1000)
    }

    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        let rest = self.output.finish();
        self.event("o", &rest, out)?;
        out.flush()
    }
}

/// Decodes UTF-8 across chunks: joins split characters and replaces invalid bytes by U+FFFD.
#[derive(Debug, Default)]
struct Utf8Carry {
    rest: Vec<u8>,
}

impl Utf8Carry {
    fn decode(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let whole = std::mem::take(&mut self.rest);
        let mut out = String::with_capacity(whole.len());
        let mut seen = 0;
        for chunk in whole.utf8_chunks() {
            let (valid, invalid) = (chunk.valid(), chunk.invalid());
            out.push_str(valid);
            seen += valid.len() + invalid.len();
            // The next chunk can only complete a character at the very end.
            if seen == whole.len() && is_unfinished(invalid) {
                self.rest = invalid.to_vec();
            } else if !invalid.is_empty() {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
        out
    }

    fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned()
    }
}

/// Returns whether the bytes are an incomplete but so far valid character.
fn is_unfinished(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use coven_api::entry::EntryDetail;

    use super::*;

    fn entry(kind: EntryKind, at: &str, bytes: &[u8]) -> EntryRecord {
        let text = std::str::from_utf8(bytes).ok().map(str::to_owned);
        let coded = text.is_none().then(|| {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.encode(bytes)
        });
        let sides = EntryDetail { rows: Some(30), cols: Some(100), ..EntryDetail::default() };
        EntryRecord {
            seq: 1,
            kind,
            at: format!("2026-11-15T08:00:{at}Z").parse().expect("a time"),
            offset: 0,
            length: Some(bytes.len() as u64),
            data: text,
            data_base64: coded,
            detail: if matches!(kind, EntryKind::Start | EntryKind::Resize) { sides } else { EntryDetail::default() },
        }
    }

    fn export(entries: &[EntryRecord], with_input: bool) -> String {
        let mut cast = Asciicast::new(30, 100, "a \"title\"", &entries[0], with_input);
        let mut out = Vec::new();
        for entry in entries {
            cast.take(entry, &mut out).expect("a vector takes everything");
        }
        cast.finish(&mut out).expect("a vector takes everything");
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn a_recording_is_a_header_and_events_in_order() {
        let entries = [
            entry(EntryKind::Start, "00.000", b""),
            entry(EntryKind::Output, "00.005", b"\x1b[31mhi\r\n"),
            entry(EntryKind::Input, "01.000", b"y\r"),
            entry(EntryKind::Resize, "01.500", b""),
            entry(EntryKind::Output, "12.340", b"bye"),
            entry(EntryKind::Exit, "12.400", b""),
        ];
        let text = export(&entries, true);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect();
        assert_eq!(lines[0]["version"], 2);
        assert_eq!((lines[0]["width"].as_u64(), lines[0]["height"].as_u64()), (Some(100), Some(30)));
        assert_eq!(
            (lines[0]["timestamp"].as_u64(), lines[0]["title"].as_str()),
            (Some(1_794_729_600), Some("a \"title\""))
        );
        assert_eq!(
            lines[1..],
            [
                json!([0.005, "o", "\u{1b}[31mhi\r\n"]),
                json!([1.0, "i", "y\r"]),
                json!([1.5, "r", "100x30"]),
                json!([12.34, "o", "bye"]),
            ]
        );
        assert_eq!(export(&entries, false).lines().count(), 4);
    }

    #[test]
    fn a_split_character_is_joined() {
        let text = "aé写🦀b";
        for at in 0..=text.len() {
            let (head, tail) = text.as_bytes().split_at(at);
            let mut carry = Utf8Carry::default();
            let out = carry.decode(head) + &carry.decode(tail) + &carry.finish();
            assert_eq!(out, text, "cut at {at}");
        }
    }

    #[test]
    fn invalid_bytes_are_replaced_and_hide_nothing() {
        let mut carry = Utf8Carry::default();
        assert_eq!(carry.decode(b"a\xffb\xc3"), "a\u{fffd}b");
        assert_eq!(carry.decode(b"x"), "\u{fffd}x");
        assert_eq!(carry.decode(b"\xf0\x9f\xa6"), "");
        assert_eq!(carry.finish(), "\u{fffd}");
        // Invalid in the middle and unfinished at the end, with equal bytes.
        let mut carry = Utf8Carry::default();
        assert_eq!(carry.decode(b"\xc3x\xc3") + &carry.decode(b"\xa9"), "\u{fffd}xé");
    }

    #[test]
    fn times_never_decrease() {
        let entries = [
            entry(EntryKind::Start, "05.000", b""),
            entry(EntryKind::Output, "09.000", b"a"),
            entry(EntryKind::Output, "07.000", b"b"),
        ];
        let text = export(&entries, false);
        assert!(text.ends_with("[4.000, \"o\", \"a\"]\n[4.000, \"o\", \"b\"]\n"), "{text}");
    }
}
