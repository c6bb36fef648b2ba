//! A small seeded generator, so that a failure can be reproduced from its seed.

/// SplitMix64: equal seeds produce equal numbers on every machine.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `sides`; 0 if `sides` is 0.
    pub const fn roll(&mut self, sides: usize) -> usize {
        if sides == 0 { 0 } else { (self.next() % sides as u64) as usize }
    }

    /// Returns a small number most of the time, and occasionally one up to `max`.
    pub const fn length(&mut self, max: usize) -> usize {
        let limit = match self.roll(8) {
            0..4 => 8,
            4..7 => 128,
            _ => max,
        };
        1 + self.roll(if limit < max { limit } else { max })
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.roll(choices.len()))
    }
}
