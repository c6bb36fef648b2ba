//! Random damage to a file, like that of a failing disk, a power cut or a faulty tool.

use crate::Dice;

/// Number of damaged copies that each damage test checks.
pub const ROUNDS: u64 = 500;

/// Returns a copy of `bytes` with flipped bits, a truncated end, a zeroed range, or a duplicated or missing block. The
/// copy always differs from the original.
pub fn damaged(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    loop {
        let copy = damaged_once(bytes, dice);
        if copy != bytes {
            return copy;
        }
    }
}

fn damaged_once(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    let start = dice.roll(bytes.len());
    let end = (start + dice.length(bytes.len())).min(bytes.len());
    match dice.roll(5) {
        0 => {
            for _ in 0..=dice.roll(4) {
                let at = dice.roll(bytes.len());
                copy[at] ^= 1 << dice.roll(8);
            }
        }
        1 => copy.truncate(start),
        2 => copy[start..end].fill(0),
        3 => {
            copy.splice(end..end, bytes[start..end].iter().copied());
        }
        _ => {
            copy.drain(start..end);
        }
    }
    copy
}
