//! Mutates an input: bytes, numbers, blocks, words from the target's dictionary, and pieces of other inputs.

use crate::Dice;

/// Maximum size of a mutated input.
pub const MAX_INPUT: usize = 256 << 10;

/// Numbers that often break lengths, signs and sums.
const NUMBERS: &[u64] =
    &[0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, i64::MAX as u64, u64::MAX];
/// The same as text, for JSON, YAML and escape sequences.
const NUMERALS: &[&str] =
    &["0", "-1", "1e999", "65535", "65536", "4294967296", "9223372036854775807", "18446744073709551616", "0.1", "NaN"];
/// Tokens that are repeated thousands of times to find deep recursion and quadratic running time.
const NESTED: &[&str] = &["[", "{\"a\":", "- ", "(", "{{", "\"", "\x1b[", "\n", "&a [*a", "9", "A"];

/// Returns a copy of `input` with one to eight changes. Pieces may come from `others`.
pub fn mutated(input: &[u8], others: &[Vec<u8>], words: &[&str], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let changes = match dice.roll(4) {
        0 | 1 => 1,
        2 => 2,
        _ => 1 + dice.roll(8),
    };
    for _ in 0..changes {
        change(&mut bytes, others, words, dice);
    }
    bytes.truncate(MAX_INPUT);
    bytes
}

fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], words: &[&str], dice: &mut Dice) {
    let at = dice.roll(bytes.len() + 1);
    match dice.roll(16) {
        0 | 1 => flip(bytes, at, dice),
        2 => set(bytes, at, &[dice.next() as u8]),
        3 => {
            let number = dice.pick(NUMBERS).copied().unwrap_or_default();
            let width = 1 << dice.roll(4);
            match dice.roll(2) {
                0 => set(bytes, at, &number.to_le_bytes()[..width]),
                _ => set(bytes, at, &number.to_be_bytes()[8 - width..]),
            }
        }
        4 => bytes.truncate(at),
        5 | 6 => {
            let end = (at + dice.length(bytes.len().max(1))).min(bytes.len());
            bytes.drain(at..end);
        }
        7 => {
            let end = (at + dice.length(bytes.len().max(1))).min(bytes.len());
            let block = bytes[at..end].to_vec();
            insert(bytes, dice, &block);
        }
        8..=10 => {
            let word = dice.pick(words).map(|word| word.as_bytes().to_vec()).unwrap_or_default();
            match dice.roll(2) {
                0 => set(bytes, at, &word),
                _ => insert(bytes, dice, &word),
            }
        }
        11 => {
            let numeral = dice.pick(NUMERALS).copied().unwrap_or_default();
            replace_number(bytes, at, numeral);
        }
        12 | 13 => {
            let other = dice.pick(others).cloned().unwrap_or_default();
            let from = dice.roll(other.len() + 1);
            let upto = (from + dice.length(other.len().max(1))).min(other.len());
            match dice.roll(3) {
                0 => {
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[from..]);
                }
                _ => insert(bytes, dice, &other[from..upto]),
            }
        }
        14 => {
            let filler = vec![dice.next() as u8; dice.length(4096)];
            insert(bytes, dice, &filler);
        }
        // Rarely: deep nesting and long runs cost time.
        _ if dice.roll(8) == 0 => {
            let piece = dice.pick(NESTED).copied().unwrap_or_default();
            let times = dice.length(MAX_INPUT / 4) / piece.len().max(1);
            insert(bytes, dice, piece.repeat(times).as_bytes());
        }
        _ => flip(bytes, at, dice),
    }
}

fn flip(bytes: &mut [u8], at: usize, dice: &mut Dice) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << dice.roll(8);
    }
}

/// Overwrites bytes from `at`, up to the end of the input.
fn set(bytes: &mut [u8], at: usize, with: &[u8]) {
    for (byte, new) in bytes.iter_mut().skip(at).zip(with) {
        *byte = *new;
    }
}

fn insert(bytes: &mut Vec<u8>, dice: &mut Dice, piece: &[u8]) {
    let at = dice.roll(bytes.len() + 1);
    let room = MAX_INPUT.saturating_sub(bytes.len());
    let piece = &piece[..piece.len().min(room)];
    bytes.splice(at..at, piece.iter().copied());
}

/// Replaces the next run of digits with a numeral.
fn replace_number(bytes: &mut Vec<u8>, at: usize, numeral: &str) {
    let Some(start) = bytes.iter().skip(at).position(u8::is_ascii_digit).map(|digit| at + digit) else { return };
    let end = bytes[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(bytes.len(), |stop| start + stop);
    bytes.splice(start..end, numeral.bytes());
}
