//! Random input: the model does not panic, and a snapshot taken at any point behaves like the original.

use coven_screen::Screen;

/// A small seeded generator, so that a failure can be reproduced.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.roll(choices.len())]
    }
}

const CSI_FINALS: &[&str] = &[
    "@", "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "P", "S", "T", "X", "Z", "b", "d", "g", "h",
    "l", "m", "n", "r", "s", "u", "c", "t", " q", "$p", "!p",
];
const PRIVATE: &[&str] = &[
    "1", "5", "6", "7", "12", "25", "47", "1000", "1003", "1006", "1004", "1047", "1048", "1049", "2004", "2026",
    "2031",
];
const SGR: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "4",
    "4:3",
    "5",
    "7",
    "8",
    "9",
    "31",
    "44",
    "97",
    "104",
    "38;5;99",
    "48;2;1;2;3",
    "58:5:3",
    "39",
    "49",
];
const TEXT: &[&str] =
    &["a", "xyz", " ", "   ", "日", "語本", "e\u{301}", "\u{301}", "👩\u{200d}👧", "─", "\u{85}", "long words of text"];
const CONTROLS: &[&str] =
    &["\r", "\n", "\r\n", "\t", "\x08", "\x07", "\x0e", "\x0f", "\x0b", "\x00", "\x18", "\x1a", "\x7f"];
const ESCAPES: &[&str] =
    &["7", "8", "#8", "=", ">", "D", "E", "H", "M", "Z", "c", "(0", "(B", ")0", "\\", "\x1b", "(", "#", ""];
const STRINGS: &[&str] = &[
    "\x1b]0;title\x07",
    "\x1b]2;a;b\x1b\\",
    "\x1b]8;;http://x\x1b\\",
    "\x1b]8;id=1;http://y\x07",
    "\x1b]8;;\x07",
    "\x1b]4;3;#123456\x07",
    "\x1b]11;?\x07",
    "\x1b]104\x07",
    "\x1b_Gq\x1b\\",
    "\x1b_G",
    "\x1bPq\x1b\\",
    "\x1bP1;2|✓ text",
    "\x1bP+q5463\x1b\\",
    "\x1bX",
    "\x1b]52;c;AAAA\x07",
    "\x1b]9;note\x07",
    "\x1b]9;4;1;50\x1b\\",
    "\x1b]99;i=1:d=0;part\x1b\\",
    "\x1b]99;i=1:p=body;rest\x07",
    "\x1b]777;notify;t;b\x07",
    "\x1b]133;A\x07",
    "\x1b]133;D;1\x07",
];

fn soup(dice: &mut Dice, pieces: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..pieces {
        match dice.roll(14) {
            0..=3 => bytes.extend_from_slice(dice.of(TEXT).as_bytes()),
            4 => bytes.extend_from_slice(dice.of(CONTROLS).as_bytes()),
            5 => bytes.extend_from_slice(format!("\x1b{}", dice.of(ESCAPES)).as_bytes()),
            6 => bytes.extend_from_slice(dice.of(STRINGS).as_bytes()),
            7 => {
                let end = if dice.roll(2) == 0 { "h" } else { "l" };
                bytes.extend_from_slice(format!("\x1b[?{}{end}", dice.of(PRIVATE)).as_bytes());
            }
            8 => bytes.extend_from_slice(format!("\x1b[{}m", dice.of(SGR)).as_bytes()),
            9 => bytes.extend_from_slice(format!("\x1b[{};{}H", dice.roll(9), dice.roll(14)).as_bytes()),
            10 => {
                let kind = dice.of(&[">", "<", "=", "?"]);
                bytes.extend_from_slice(format!("\x1b[{kind}{}u", dice.roll(32)).as_bytes());
            }
            11 => bytes.push(dice.roll(256) as u8),
            12 => {
                let kind = dice.of(&["4h", "4l", "20h", "20l", "2;4r", "3;3r", "r", "99999999999C", "3J", "2J"]);
                bytes.extend_from_slice(format!("\x1b[{kind}").as_bytes());
            }
            _ => {
                let (a, b) = (dice.roll(12), dice.roll(12));
                bytes.extend_from_slice(format!("\x1b[{a};{b}{}", dice.of(CSI_FINALS)).as_bytes());
            }
        }
    }
    bytes
}

fn feed_in_pieces(dice: &mut Dice, screen: &mut Screen, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at((1 + dice.roll(9)).min(bytes.len()));
        screen.feed(piece);
        bytes = rest;
    }
}

fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[track_caller]
fn assert_alike(one: &mut Screen, other: &mut Screen, seed: u64, when: &str) {
    assert_eq!(one.rows(), other.rows(), "rows {when}, seed {seed}");
    assert_eq!(one.text(), other.text(), "text {when}, seed {seed}");
    assert_eq!(one.cursor(), other.cursor(), "cursor {when}, seed {seed}");
    assert_eq!(one.title(), other.title(), "title {when}, seed {seed}");
    assert_eq!(one.is_alternate(), other.is_alternate(), "screen {when}, seed {seed}");
    assert_eq!(show(&one.snapshot()), show(&other.snapshot()), "snapshot {when}, seed {seed}");
}

fn rounds() -> u64 {
    std::env::var("SOUP_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3000)
}

#[test]
fn a_restored_screen_continues_like_the_original() {
    for seed in 1..=rounds() {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (rows, cols) = (1 + dice.roll(7) as u16, 2 + dice.roll(11) as u16);
        let mut original = Screen::new(rows, cols);
        let length = 1 + dice.roll(40);
        let output = soup(&mut dice, length);
        feed_in_pieces(&mut dice, &mut original, &output);

        let mut copy = Screen::restore(rows, cols, &original.snapshot());
        assert_alike(&mut original, &mut copy, seed, "restored");

        original.take_replies();
        let rest = soup(&mut dice, 12);
        feed_in_pieces(&mut dice, &mut original, &rest);
        copy.feed(&rest);
        assert_alike(&mut original, &mut copy, seed, "after more output");
        assert_eq!(show(&original.take_replies()), show(&copy.take_replies()), "replies, seed {seed}");
    }
}

#[test]
fn splitting_the_input_makes_no_difference() {
    for seed in 1..=rounds() / 4 {
        let mut dice = Dice(seed.wrapping_mul(0xd134_2543_de82_ef95));
        let output = soup(&mut dice, 60);
        let mut whole = Screen::new(8, 30);
        let mut pieces = Screen::new(8, 30);
        whole.feed(&output);
        feed_in_pieces(&mut dice, &mut pieces, &output);
        assert_alike(&mut whole, &mut pieces, seed, "whole and in pieces");
        assert_eq!(whole.take_signals(), pieces.take_signals(), "signals, seed {seed}");
    }
}

#[test]
fn survives_any_resize() {
    for seed in 1..=rounds() / 4 {
        let mut dice = Dice(seed.wrapping_mul(0xa076_1d64_78bd_642f));
        let mut screen = Screen::new(dice.roll(12) as u16, dice.roll(30) as u16);
        for _ in 0..8 {
            let output = soup(&mut dice, 12);
            screen.feed(&output);
            screen.resize(dice.roll(12) as u16, dice.roll(30) as u16);
            let (rows, cols) = screen.size();
            let mut copy = Screen::restore(rows, cols, &screen.snapshot());
            assert_alike(&mut screen, &mut copy, seed, "after a resize");
        }
    }
}

#[test]
fn survives_random_bytes_and_extreme_sizes() {
    let mut dice = Dice(42);
    let noise: Vec<u8> = (0..200_000).map(|_| dice.roll(256) as u8).collect();
    for (rows, cols) in [(0, 0), (1, 1), (24, 80), (u16::MAX, u16::MAX)] {
        let mut screen = Screen::new(rows, cols);
        screen.feed(&noise);
        screen.resize(cols, rows);
        screen.resize(3, 3);
        screen.feed(&noise[..10_000]);
        screen.snapshot();
    }
}
