//! Finds what a program puts on the clipboard (OSC 52) in its output. The app passes it on only if the user allows it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const START: &[u8] = b"\x1b]52;";
/// Larger requests are dropped.
const MAX_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct ClipboardScanner {
    /// The part of a request that has arrived, from its first byte.
    held: Vec<u8>,
    /// A request is too large; its rest is skipped.
    is_skipping: bool,
}

impl ClipboardScanner {
    /// Takes output. Returns the text of the last complete request.
    pub fn feed(&mut self, output: &[u8]) -> Option<String> {
        let mut found = None;
        for &byte in output {
            if self.is_skipping {
                self.is_skipping = !is_end(byte);
                continue;
            }
            let matched = self.held.len();
            if matched < START.len() {
                if START[matched] == byte {
                    self.held.push(byte);
                } else {
                    self.held.clear();
                    self.held.extend((byte == START[0]).then_some(byte));
                }
                continue;
            }
            if is_end(byte) {
                found = text_of(&self.held[START.len()..]).or(found);
                self.held.clear();
                self.held.extend((byte == START[0]).then_some(byte));
            } else if matched == MAX_BYTES {
                self.held.clear();
                self.is_skipping = true;
            } else {
                self.held.push(byte);
            }
        }
        found
    }
}

/// BEL, the escape of a string terminator, or a control that cancels the sequence.
const fn is_end(byte: u8) -> bool {
    matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b)
}

/// Decodes `c;BASE64`. A question, which asks for the clipboard, has no text.
fn text_of(request: &[u8]) -> Option<String> {
    let at = request.iter().position(|byte| *byte == b';')?;
    let text = STANDARD.decode(&request[at + 1..]).ok()?;
    String::from_utf8(text).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_found_however_it_is_cut() {
        let output = b"x\x1b]0;t\x07\x1b]52;c;aGVsbG8=\x07y";
        for at in 0..output.len() {
            let mut scanner = ClipboardScanner::default();
            let found = scanner.feed(&output[..at]).or_else(|| scanner.feed(&output[at..]));
            assert_eq!(found.as_deref(), Some("hello"), "cut at {at}");
        }
        assert_eq!(ClipboardScanner::default().feed(b"\x1b]52;c;aGk=\x1b\\").as_deref(), Some("hi"));
    }

    #[test]
    fn questions_damaged_and_huge_requests_are_dropped() {
        let mut scanner = ClipboardScanner::default();
        assert_eq!(scanner.feed(b"\x1b]52;c;?\x07\x1b]52;c;@@@\x07\x1b]52;\x07"), None);
        assert_eq!(scanner.feed(&[b"\x1b]52;c;".as_slice(), &vec![b'A'; MAX_BYTES + 9]].concat()), None);
        assert!(scanner.held.capacity() < 3 * MAX_BYTES);
        assert_eq!(scanner.feed(b"\x07\x1b]52;c;aGk=\x07").as_deref(), Some("hi"));
    }
}
