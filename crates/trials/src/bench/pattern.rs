//! The bytes of a flood, generated both for the program that writes them and for the check that reads them back.

use std::io::Read;

use clap::ValueEnum;

use super::BenchResult;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Lines of text, 64 KiB per write.
    Plain,
    /// Frames like those of an agent's terminal interface, about 1.2 KB per write.
    Ansi,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Ansi => "ansi",
        }
    }
}

/// Printed by the flooding program before it waits for the start; the log starts with it.
pub const BANNER: &[u8] = b"bench-is-ready\r\n";

/// Approximate length of a line of the plain flood.
pub const LINE_BYTES: u64 = 70;

/// The pieces of a flood, one per write. Each piece contains its number, so that lost, repeated or reordered pieces are
/// detected.
pub struct Pattern {
    pieces: Vec<Vec<u8>>,
    number: u64,
    left: u64,
}

impl Pattern {
    pub fn new(kind: Kind, bytes: u64) -> Self {
        let pieces = match kind {
            Kind::Plain => vec![text_block()],
            Kind::Ansi => (0..64).map(frame).collect(),
        };
        Self { pieces, number: 0, left: bytes }
    }

    /// Returns the next piece, truncated at the end of the flood.
    pub fn next_piece(&mut self) -> Option<&[u8]> {
        if self.left == 0 {
            return None;
        }
        let place = (self.number % self.pieces.len() as u64) as usize;
        let piece = &mut self.pieces[place];
        piece[STAMP].copy_from_slice(format!("{:012}", self.number).as_bytes());
        self.number += 1;
        let length = self.left.min(piece.len() as u64);
        self.left -= length;
        Some(&piece[..length as usize])
    }
}

/// Position of the number in a piece, after the bytes that move the cursor or start the line.
const STAMP: std::ops::Range<usize> = 6..18;

/// Compares a log with the bytes that were written.
pub fn check(mut log: impl Read, kind: Kind, bytes: u64) -> BenchResult<()> {
    let mut position = 0;
    let mut buffer = vec![0; 1 << 16];
    let mut compare = |log: &mut dyn Read, wanted: &[u8]| -> BenchResult<()> {
        let got = &mut buffer[..wanted.len()];
        log.read_exact(got).map_err(|error| format!("the log ends within {position}+{}: {error}", wanted.len()))?;
        if got != wanted {
            let at = got.iter().zip(wanted).take_while(|(got, wanted)| got == wanted).count();
            return Err(format!("the log differs from byte {} on", position + at).into());
        }
        position += wanted.len();
        Ok(())
    };
    compare(&mut log, BANNER)?;
    let mut pattern = Pattern::new(kind, bytes);
    while let Some(piece) = pattern.next_piece() {
        compare(&mut log, piece)?;
    }
    match log.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(format!("the log continues after byte {position}, where the flood ended").into()),
    }
}

fn text_block() -> Vec<u8> {
    let mut block = b"line  000000000000 ".to_vec();
    let mut random = Random::new(1);
    while block.len() < 1 << 16 {
        let words = 6 + random.below(10);
        for _ in 0..words {
            block.extend_from_slice(WORDS[random.below(WORDS.len() as u64) as usize].as_bytes());
            block.push(b' ');
        }
        block.extend_from_slice(b"\r\n");
    }
    block.truncate((1 << 16) - 2);
    block.extend_from_slice(b"\r\n");
    block
}

/// Returns one redraw: moves up over the old frame, then draws a box with coloured lines, a spinner and a progress bar.
fn frame(index: u64) -> Vec<u8> {
    let mut random = Random::new(index + 2);
    let mut text = String::from("\x1b[12A\r000000000000\x1b[K\r\n");
    text.push_str("\x1b[38;5;240m╭────────────────────────────────────────╮\x1b[0m\x1b[K\r\n");
    for _ in 0..8 {
        let colour = 31 + random.below(6);
        text.push_str(&format!("\x1b[38;5;240m│\x1b[0m \x1b[1;{colour}m●\x1b[0m \x1b[{colour}m"));
        for _ in 0..5 + random.below(3) {
            text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
            text.push(' ');
        }
        text.push_str("\x1b[0m\x1b[58G\x1b[2m│\x1b[0m\x1b[K\r\n");
    }
    text.push_str("\x1b[38;5;240m╰────────────────────────────────────────╯\x1b[0m\x1b[K\r\n");
    let spinner = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"][index as usize % 8];
    let done = "█".repeat((index % 24) as usize);
    text.push_str(&format!("\x1b[38;2;215;119;87m{spinner} Working… {done}\x1b[0m\x1b[K\r\n"));
    text.into_bytes()
}

const WORDS: [&str; 16] = [
    "reading", "crates", "src", "main.rs", "function", "returns", "the", "session", "and", "writes", "test", "passed",
    "error:", "in", "module", "holder",
];

/// A repeatable random number generator (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(kind: Kind, bytes: u64) -> Vec<u8> {
        let mut log = BANNER.to_vec();
        let mut pattern = Pattern::new(kind, bytes);
        while let Some(piece) = pattern.next_piece() {
            log.extend_from_slice(piece);
        }
        log
    }

    #[test]
    fn a_flood_has_the_requested_length_and_passes_the_check() {
        for kind in [Kind::Plain, Kind::Ansi] {
            let log = whole(kind, 300_001);
            assert_eq!(log.len(), 300_001 + BANNER.len());
            check(&log[..], kind, 300_001).expect("same bytes");
        }
    }

    #[test]
    fn lost_changed_and_extra_bytes_are_detected() {
        let log = whole(Kind::Ansi, 100_000);
        let mut lost = log.clone();
        lost.drain(50_000..50_001);
        let mut changed = log.clone();
        changed[70_000] ^= 1;
        let mut longer = log.clone();
        longer.push(b'x');
        for bad in [lost, changed, longer] {
            assert!(check(&bad[..], Kind::Ansi, 100_000).is_err());
        }
    }

    #[test]
    fn a_line_has_the_documented_length() {
        let lines = text_block().iter().filter(|&&byte| byte == b'\n').count() as u64;
        assert!((LINE_BYTES - 5..LINE_BYTES + 5).contains(&((1 << 16) / lines)), "{lines} lines in 64 KiB");
    }

    #[test]
    fn a_frame_has_the_documented_size() {
        let sizes: Vec<usize> = (0..64).map(|index| frame(index).len()).collect();
        let mean = sizes.iter().sum::<usize>() / sizes.len();
        assert!((1100..1300).contains(&mean), "a frame has {mean} bytes");
    }
}
