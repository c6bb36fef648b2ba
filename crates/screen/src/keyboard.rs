//! The flag stack of the kitty keyboard protocol, one for each of the two screens.

/// Deeper stacks drop their oldest entry, as the protocol allows.
const MAX_DEPTH: usize = 16;

/// The five flags the protocol defines.
const KNOWN: u8 = 0b1_1111;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keyboard {
    base: u8,
    stack: Vec<u8>,
}

impl Keyboard {
    pub(crate) fn flags(&self) -> u8 {
        self.stack.last().copied().unwrap_or(self.base)
    }

    pub(crate) fn push(&mut self, flags: u16) {
        if self.stack.len() == MAX_DEPTH {
            self.stack.remove(0);
        }
        self.stack.push(flags as u8 & KNOWN);
    }

    /// Removes entries; an empty stack disables all flags.
    pub(crate) fn pop(&mut self, count: u16) {
        let count = usize::from(count);
        if count >= self.stack.len() {
            *self = Keyboard::default();
        } else {
            self.stack.truncate(self.stack.len() - count);
        }
    }

    /// Changes the current flags: 2 adds, 3 removes, any other value replaces.
    pub(crate) fn set(&mut self, flags: u16, how: u16) {
        let flags = flags as u8 & KNOWN;
        let current = self.stack.last_mut().unwrap_or(&mut self.base);
        *current = match how {
            2 => *current | flags,
            3 => *current & !flags,
            _ => flags,
        };
    }

    /// Writes the sequences that bring an empty stack into this state.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if self.base != 0 {
            out.extend_from_slice(format!("\x1b[={};1u", self.base).as_bytes());
        }
        for flags in &self.stack {
            out.extend_from_slice(format!("\x1b[>{flags}u").as_bytes());
        }
    }
}
