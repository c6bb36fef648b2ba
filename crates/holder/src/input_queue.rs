//! The queue of input for the harness.

use std::os::fd::AsFd;

use rustix::io::Errno;

/// With this much queued, clients have to wait before they can send more.
const MAX_QUEUED_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct InputQueue {
    bytes: Vec<u8>,
    written: usize,
}

impl InputQueue {
    pub const fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    pub const fn is_full(&self) -> bool {
        self.bytes.len() - self.written >= MAX_QUEUED_BYTES
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Writes as much as the harness accepts without blocking. An error means that the harness closed its input.
    pub fn write_to(&mut self, harness: impl AsFd) -> Result<(), Errno> {
        while !self.is_empty() {
            match rustix::io::write(&harness, &self.bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if self.written > MAX_QUEUED_BYTES {
                        self.bytes.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.written = 0;
        // Release the memory of a large paste.
        if self.bytes.capacity() > 4096 {
            self.bytes = Vec::new()
        } else {
            self.bytes.clear()
        }
        Ok(())
    }
}

/// Reports whether a person typed this. Every attached terminal answers the harness's queries automatically, which must
/// not count as activity of its user.
pub fn is_typed(bytes: &[u8]) -> bool {
    match bytes {
        // Answers in the form of control strings.
        [0x1b, b']' | b'P' | b'_' | b'^', ..] => false,
        [0x1b, b'[', rest @ ..] => {
            let end = rest.iter().find(|byte| matches!(byte, 0x40..=0x7e));
            // Attributes, status, position, modes, window size, focus lost; and the keyboard's flags.
            !matches!(
                (end, rest.first()),
                (Some(b'c' | b'n' | b'R' | b'y' | b't' | b'O'), _) | (Some(b'u'), Some(b'?'))
            )
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_keys_from_answers_of_the_terminal() {
        for typed in ["a", "\r", "\x03", "\x1b", "\x1b[A", "\x1bOP", "\x1b[15~", "\x1b[97;5u", "\x1b[<0;1;1M", "\x1b[I"]
        {
            assert!(is_typed(typed.as_bytes()), "{typed:?}");
        }
        for answer in [
            "\x1b[?62;4c",
            "\x1b[>1;10;0c",
            "\x1b[0n",
            "\x1b[12;40R",
            "\x1b[?2026;2$y",
            "\x1b[8;24;80t",
            "\x1b[O",
            "\x1b[?1u",
            "\x1b]11;rgb:0/0/0\x1b\\",
            "\x1bP>|xterm\x1b\\",
            "\x1b_Gi=1;OK\x1b\\",
        ] {
            assert!(!is_typed(answer.as_bytes()), "{answer:?}");
        }
    }
}
