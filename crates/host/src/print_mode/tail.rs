//! Keeps the end of a program's standard error, to report why it failed.

const KEPT_BYTES: usize = 16 << 10;

#[derive(Debug, Default)]
pub struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    pub fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        // Cut only at twice the size, so that not every small piece causes a copy.
        if self.bytes.len() > 2 * KEPT_BYTES {
            self.cut();
        }
    }

    pub fn into_text(mut self) -> String {
        self.cut();
        String::from_utf8_lossy(&self.bytes).trim().to_owned()
    }

    fn cut(&mut self) {
        let mut from = self.bytes.len().saturating_sub(KEPT_BYTES);
        // Do not cut in the middle of a character.
        while from > 0 && self.bytes.get(from).is_some_and(|byte| byte & 0xc0 == 0x80) {
            from += 1;
        }
        self.bytes.drain(..from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_16_kib_are_kept_without_splitting_characters() {
        let mut tail = Tail::default();
        for number in 0..20_000 {
            tail.push(format!("line {number} é\n").as_bytes());
        }
        let text = tail.into_text();
        assert!(text.len() <= KEPT_BYTES && text.len() > KEPT_BYTES - 64, "{}", text.len());
        assert!(text.ends_with("line 19999 é") && !text.contains('\u{fffd}'));
        assert_eq!(Tail::default().into_text(), "");
    }
}
