//! Splits a byte stream into lines and reports how far it is consumed.

/// Maximum size of an agent's message. A larger one is dropped, and the message history reports it.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// The start of a dropped message: enough to identify it.
const HEAD_BYTES: usize = 4 << 10;

/// Line splitter; keeps the start of an incomplete line.
#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
    is_skipping: bool,
}

/// A line found in the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<'a> {
    Line(&'a [u8]),
    /// The start of a line that was too long to keep.
    TooLong(&'a [u8]),
}

impl Lines {
    /// Passes every line that ends in `bytes` to `take` and returns where the last of them ends. After a restart,
    /// reading must resume there, because the remaining bytes are an incomplete line.
    pub fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(Taken<'_>)) -> LineProgress {
        let mut rest = bytes;
        let mut consumed = 0;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if self.partial.is_empty() && !self.is_skipping {
                take(Taken::Line(line));
            } else {
                self.keep(line);
                let whole = std::mem::take(&mut self.partial);
                match std::mem::take(&mut self.is_skipping) {
                    true => take(Taken::TooLong(&whole)),
                    false => take(Taken::Line(&whole)),
                }
            }
            consumed += end + 1;
            rest = after;
        }
        self.keep(rest);
        LineProgress { lines_end: (consumed > 0).then_some(consumed) }
    }

    /// Appends to the incomplete line unless it is too long.
    fn keep(&mut self, bytes: &[u8]) {
        if self.is_skipping {
            return;
        }
        self.partial.extend_from_slice(bytes);
        if self.partial.len() > MAX_MESSAGE_BYTES {
            self.partial = self.partial[..HEAD_BYTES].to_vec();
            self.is_skipping = true;
        }
    }

    /// Returns the incomplete line; empty if it is too long.
    pub fn rest(&self) -> &[u8] {
        if self.is_skipping { &[] } else { &self.partial }
    }
}

/// End of the last complete line, counted from the start of the bytes fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineProgress {
    pub lines_end: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_same_lines_however_the_stream_is_split() {
        let text = b"one\n\ntwo and more\nthree";
        for cut in 0..text.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for piece in [&text[..cut], &text[cut..]] {
                lines.feed(piece, |taken| match taken {
                    Taken::Line(line) => found.push(String::from_utf8_lossy(line).into_owned()),
                    Taken::TooLong(_) => panic!("no line is too long"),
                });
            }
            assert_eq!(found, ["one", "", "two and more"], "cut at {cut}");
            assert_eq!(lines.rest(), b"three");
        }
    }

    #[test]
    fn an_overlong_line_is_skipped_and_reported_once() {
        let (mut lines, mut reported) = (Lines::default(), 0);
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..18 {
            lines.feed(&piece, |_| reported += 1);
        }
        assert_eq!((reported, lines.rest().len()), (0, 0));
        assert!(lines.partial.capacity() < 1 << 20, "skipped bytes are not kept");
        let mut after = Vec::new();
        lines.feed(b"x\nnext\n", |taken| match taken {
            Taken::TooLong(head) => {
                assert_eq!(head, vec![b'x'; HEAD_BYTES]);
                reported += 1;
            }
            Taken::Line(line) => after.push(line.to_vec()),
        });
        assert_eq!((reported, after), (1, vec![b"next".to_vec()]));
    }
}
