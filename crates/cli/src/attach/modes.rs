//! Tracks the modes that a session sets in the viewer's terminal, and resets them.

/// Modes whose default differs between terminals: only reset if the session set them.
const TRACKED: [u16; 4] = [12, 45, 1007, 2027];
/// Length limit of the sequences that we look for.
const MAX_SEQUENCE_BYTES: usize = 64;

/// Scans output for mode changes. A full terminal model would be slower on every byte.
#[derive(Debug, Default)]
pub struct ModeWatch {
    is_alternate: bool,
    has_set_colours: bool,
    kept: [bool; TRACKED.len()],
    last: Option<u8>,
    /// An incomplete sequence at the end of the last chunk.
    carry: Vec<u8>,
}

impl ModeWatch {
    pub fn feed(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.last = Some(*last);
        if self.carry.is_empty() {
            return self.watch(bytes);
        }
        let mut joined = std::mem::take(&mut self.carry);
        let head = bytes.len().min(MAX_SEQUENCE_BYTES);
        joined.extend_from_slice(&bytes[..head]);
        self.watch(&joined);
        if head < bytes.len() {
            // A sequence that is still incomplete continues in the rest: rescan from its first byte.
            let open = std::mem::take(&mut self.carry);
            let from = head.saturating_sub(open.len());
            self.watch(&bytes[from..]);
        }
    }

    fn watch(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while let Some(found) = bytes[at..].iter().position(|byte| *byte == 0x1b) {
            at += found;
            match self.sequence(&bytes[at + 1..]) {
                Some(length) => at += 1 + length,
                None if bytes.len() - at < MAX_SEQUENCE_BYTES => {
                    self.carry = bytes[at..].to_vec();
                    return;
                }
                None => at += 1,
            }
        }
    }

    /// Handles the sequence after an ESC. Returns its length, or `None` if it is incomplete.
    fn sequence(&mut self, rest: &[u8]) -> Option<usize> {
        match rest {
            [] | [b'['] => None,
            [b'c', ..] => {
                *self = Self { last: self.last, ..Self::default() };
                Some(1)
            }
            [b'[', b'?', rest @ ..] => {
                let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';'))?;
                if let is_on @ (b'h' | b'l') = rest[end] {
                    self.set(&rest[..end], is_on == b'h');
                }
                Some(end + 2)
            }
            [b']', rest @ ..] => {
                let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
                self.has_set_colours |= matches!(&rest[..end], b"4" | b"10" | b"11" | b"12");
                Some(end + 1)
            }
            _ => Some(0),
        }
    }

    fn set(&mut self, numbers: &[u8], is_on: bool) {
        for number in numbers.split(|byte| *byte == b';') {
            let number = std::str::from_utf8(number).ok().and_then(|text| text.parse::<u16>().ok());
            match number {
                Some(47 | 1047 | 1049) => self.is_alternate = is_on,
                Some(number) => {
                    if let Some(at) = TRACKED.iter().position(|kept| *kept == number) {
                        self.kept[at] = is_on;
                    }
                }
                None => {}
            }
        }
    }

    /// Returns whether the last output did not end with a newline.
    pub fn is_mid_line(&self) -> bool {
        self.last.is_some_and(|byte| byte != b'\n')
    }

    /// Returns the bytes that reset the terminal for a shell.
    pub fn leave(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        // Cancel an incomplete sequence and end a synchronized update.
        out.extend_from_slice(b"\x18\x1b[?2026l\x1b[<16u");
        match self.is_alternate {
            true => out.extend_from_slice(b"\x1b[?6l\x1b[r\x1b[?1049l\x1b[<16u"),
            // Resetting the margins moves the cursor: save and restore it.
            false => out.extend_from_slice(b"\x1b7\x1b[r\x1b8"),
        }
        out.extend_from_slice(b"\x1b[?1;5;9;1000;1002;1003;1004;1005;1006;1015;1016;2004;2031;2048l\x1b[?7h\x1b[?25h");
        out.extend_from_slice(b"\x1b[4l\x1b[20l\x1b>\x1b[>4m\x1b[0 q\x1b(B\x1b)B\x0f\x1b[0m\x1b]8;;\x1b\\");
        for (number, _) in TRACKED.iter().zip(self.kept).filter(|(_, is_on)| *is_on) {
            out.extend_from_slice(format!("\x1b[?{number}l").as_bytes());
        }
        if self.has_set_colours {
            out.extend_from_slice(b"\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(pieces: &[&[u8]]) -> ModeWatch {
        let mut watch = ModeWatch::default();
        pieces.iter().for_each(|piece| watch.feed(piece));
        watch
    }

    fn leaves_alternate(watch: &ModeWatch) -> bool {
        watch.leave().windows(8).any(|window| window == b"\x1b[?1049l")
    }

    #[test]
    fn the_alternate_screen_is_left_only_if_it_was_entered() {
        assert!(!leaves_alternate(&watch(&[b"plain \x1b[31mred\x1b[0m"])));
        assert!(leaves_alternate(&watch(&[b"\x1b[?1;1049hvim"])));
        assert!(!leaves_alternate(&watch(&[b"\x1b[?1049hvim\x1b[?1049l$ "])));
        assert!(!leaves_alternate(&watch(&[b"\x1b[?47hx\x1bc"])));
    }

    #[test]
    fn a_sequence_split_anywhere_is_recognized() {
        let text =
            b"some text \x1b[?25l\x1b[?1049h and a longer text that follows the switch to the other screen, at last";
        for at in 0..text.len() {
            assert!(leaves_alternate(&watch(&[&text[..at], &text[at..]])), "cut at {at}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert!(leaves_alternate(&watch(&bytes)));
    }

    #[test]
    fn colours_and_tracked_modes_are_reset_only_if_changed() {
        let untouched = watch(&[b"\x1b]0;title\x07\x1b[?12l"]).leave();
        assert!(!untouched.ends_with(b"\x1b]112\x1b\\"));
        let touched = watch(&[b"\x1b]11;#000\x07\x1b[?12h"]).leave();
        assert!(touched.ends_with(b"\x1b]112\x1b\\"));
        assert!(touched.windows(6).any(|window| window == b"\x1b[?12l"));
    }

    #[test]
    fn an_endless_sequence_is_not_buffered() {
        let mut watch = ModeWatch::default();
        for _ in 0..100 {
            watch.feed(b"\x1b[?1111111111111111111111111111111111111111");
        }
        assert!(watch.carry.len() < MAX_SEQUENCE_BYTES);
    }
}
