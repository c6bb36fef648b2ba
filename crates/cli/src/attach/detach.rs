//! Finds the detach keys in typed input; everything else passes unchanged.

use coven_host::config::DetachKeys;

/// Scans typed bytes for the detach keys, including keys that a keyboard protocol encodes as escape sequences.
pub struct DetachScanner {
    keys: Vec<u8>,
    /// The bytes of the first key, until the second key is known.
    held: Option<Vec<u8>>,
}

/// One typed key or sequence.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    /// A key with a single-byte form.
    Key(u8),
    /// A key release, or a modifier key alone.
    Silent,
    Other,
}

impl DetachScanner {
    pub fn new(keys: DetachKeys) -> Self {
        Self { keys: keys.bytes, held: None }
    }

    /// Appends the input for the session to `out`. Returns true once the detach keys were typed.
    pub fn scan(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> bool {
        while !input.is_empty() {
            let (typed, length) = next(input);
            let (raw, rest) = input.split_at(length);
            input = rest;
            match self.held.take() {
                None if typed == Typed::Key(self.keys[0]) => match self.keys.len() {
                    1 => return true,
                    _ => self.held = Some(raw.to_vec()),
                },
                None => out.extend_from_slice(raw),
                Some(_) if typed == Typed::Key(self.keys[1]) => return true,
                // The first key typed twice sends it once to the session.
                Some(first) if typed == Typed::Key(self.keys[0]) => out.extend_from_slice(&first),
                Some(mut first) if typed == Typed::Silent => {
                    first.extend_from_slice(raw);
                    self.held = Some(first);
                }
                Some(first) => {
                    out.extend_from_slice(&first);
                    out.extend_from_slice(raw);
                }
            }
        }
        false
    }
}

/// Returns the first key of the input and its length in bytes.
fn next(input: &[u8]) -> (Typed, usize) {
    match input {
        [0x1b, b'[', rest @ ..] => match rest.iter().position(|byte| matches!(byte, 0x40..=0x7e)) {
            Some(at) => (decode_key(&rest[..at], rest[at]), at + 3),
            // Terminals send a key in one write, so an incomplete sequence is not held back.
            None => (Typed::Other, input.len()),
        },
        [0x1b, ..] => (Typed::Other, 1),
        [byte, ..] => (Typed::Key(*byte), 1),
        [] => (Typed::Other, 0),
    }
}

/// Decodes `CSI code ; modifiers : event u` and `CSI 27 ; modifiers ; code ~`.
fn decode_key(parameters: &[u8], end: u8) -> Typed {
    let Ok(text) = std::str::from_utf8(parameters) else { return Typed::Other };
    let mut fields = text.split(';');
    let mut field = || fields.next().unwrap_or("");
    let (code, modifiers) = match end {
        b'u' => (field(), field()),
        b'~' if field() == "27" => {
            let modifiers = field();
            (field(), modifiers)
        }
        _ => return Typed::Other,
    };
    let mut modifiers = modifiers.split(':');
    let held_down = modifiers.next().and_then(|bits| bits.parse::<u32>().ok()).unwrap_or(1).saturating_sub(1);
    let is_release = modifiers.next() == Some("3");
    let Some(code) = code.split(':').next().and_then(|code| code.parse::<u32>().ok()) else { return Typed::Other };
    // Codes of the modifier keys themselves, such as Shift or Caps Lock.
    if is_release || (57_441..=57_454).contains(&code) || matches!(code, 57_358..=57_360) {
        return Typed::Silent;
    }
    // Ignore Caps Lock and Num Lock.
    match (u8::try_from(code), held_down & 0x3f) {
        (Ok(code @ 0x20..=0x7e), 0) => Typed::Key(code),
        (Ok(code @ (b'a'..=b'z' | b'\\' | b']' | b'^' | b'_')), 4) => Typed::Key(code & 0x1f),
        _ => Typed::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(keys: &str, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut scanner = DetachScanner::new(DetachKeys::parse(keys).expect("keys"));
        let mut out = Vec::new();
        let found = pieces.iter().any(|piece| scanner.scan(piece, &mut out));
        (out, found)
    }

    #[test]
    fn one_key_detaches_immediately_and_other_bytes_pass_unchanged() {
        assert_eq!(scan("ctrl-\\", &[b"ab\x1ccd"]), (b"ab".to_vec(), true));
        let every: Vec<u8> = (0..=255).filter(|byte| *byte != 0x1c).collect();
        assert_eq!(scan("ctrl-\\", &[&every]), (every.clone(), false));
    }

    #[test]
    fn the_first_of_two_keys_is_held_until_the_second_is_known() {
        assert_eq!(scan("ctrl-a d", &[b"x\x01", b"d"]), (b"x".to_vec(), true));
        assert_eq!(scan("ctrl-a d", &[b"x\x01", b"e"]), (b"x\x01e".to_vec(), false));
        assert_eq!(scan("ctrl-a d", &[b"x\x01"]), (b"x".to_vec(), false));
    }

    #[test]
    fn the_first_key_typed_twice_is_sent_once() {
        assert_eq!(scan("ctrl-a d", &[b"\x01\x01d"]), (b"\x01d".to_vec(), false));
        assert_eq!(scan("ctrl-a ctrl-a", &[b"\x01", b"\x01"]), (Vec::new(), true));
    }

    #[test]
    fn keys_encoded_as_escape_sequences_are_recognized() {
        assert!(scan("ctrl-\\", &[b"\x1b[92;5u"]).1);
        assert!(scan("ctrl-\\", &[b"\x1b[92:124;133:1u"]).1, "with Num Lock, an alternate key and an event type");
        assert!(scan("ctrl-\\", &[b"\x1b[27;5;92~"]).1);
        assert!(scan("ctrl-a d", &[b"\x1b[97;5u", b"\x1b[97;5:3u", b"\x1b[57442;5:3u", b"\x1b[100u"]).1);
        let arrow = b"\x1b[1;5A\x1b[3~\x1b[92;1u\x1bO".to_vec();
        assert_eq!(scan("ctrl-\\", &[&arrow]), (arrow.clone(), false));
    }
}
