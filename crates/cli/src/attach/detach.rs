//! Finds the keys that leave an attached session in what is typed; everything else passes unchanged.

use coven_host::config::DetachKeys;

/// Scans typed bytes for the detach keys, also where the session has switched on a protocol that writes keys out.
pub struct DetachScanner {
    keys: Vec<u8>,
    /// The first key as it was typed, while the second one is awaited.
    held: Option<Vec<u8>>,
}

/// One thing that was typed.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    /// A key that has a byte of its own.
    Key(u8),
    /// A key that is let go, or Shift and its like: it says nothing by itself.
    Silent,
    Other,
}

impl DetachScanner {
    pub fn new(keys: DetachKeys) -> Self {
        Self { keys: keys.bytes, held: None }
    }

    /// Appends what is meant for the session to `out`; true once the detach keys were typed.
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
                // Typed twice, the first key is meant for the session.
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

/// What stands at the front of the input, and how many bytes it takes.
fn next(input: &[u8]) -> (Typed, usize) {
    match input {
        [0x1b, b'[', rest @ ..] => match rest.iter().position(|byte| matches!(byte, 0x40..=0x7e)) {
            Some(at) => (written_out(&rest[..at], rest[at]), at + 3),
            // A terminal sends a key in one piece; half a sequence is not held back.
            None => (Typed::Other, input.len()),
        },
        [0x1b, ..] => (Typed::Other, 1),
        [byte, ..] => (Typed::Key(*byte), 1),
        [] => (Typed::Other, 0),
    }
}

/// A key as `CSI code ; modifiers : event u` or `CSI 27 ; modifiers ; code ~`.
fn written_out(parameters: &[u8], end: u8) -> Typed {
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
    // Shift, Ctrl, Alt and the locks have codes of their own.
    if is_release || (57_441..=57_454).contains(&code) || matches!(code, 57_358..=57_360) {
        return Typed::Silent;
    }
    // Caps Lock and Num Lock change nothing here.
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
    fn one_key_detaches_at_once_and_the_rest_is_exact() {
        assert_eq!(scan("ctrl-\\", &[b"ab\x1ccd"]), (b"ab".to_vec(), true));
        let every: Vec<u8> = (0..=255).filter(|byte| *byte != 0x1c).collect();
        assert_eq!(scan("ctrl-\\", &[&every]), (every.clone(), false));
    }

    #[test]
    fn of_two_keys_the_first_is_held_until_the_second_is_known() {
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
    fn keys_that_the_terminal_writes_out_are_known_too() {
        assert!(scan("ctrl-\\", &[b"\x1b[92;5u"]).1);
        assert!(scan("ctrl-\\", &[b"\x1b[92:124;133:1u"]).1, "with Num Lock, an alternate key and an event type");
        assert!(scan("ctrl-\\", &[b"\x1b[27;5;92~"]).1);
        assert!(scan("ctrl-a d", &[b"\x1b[97;5u", b"\x1b[97;5:3u", b"\x1b[57442;5:3u", b"\x1b[100u"]).1);
        let arrow = b"\x1b[1;5A\x1b[3~\x1b[92;1u\x1bO".to_vec();
        assert_eq!(scan("ctrl-\\", &[&arrow]), (arrow.clone(), false));
    }
}
