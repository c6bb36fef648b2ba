//! Incremental UTF-8 decoder: joins characters split between two reads and replaces invalid bytes with U+FFFD.

#[derive(Debug, Default)]
pub struct Utf8 {
    /// First bytes of an incomplete character.
    incomplete: Vec<u8>,
}

impl Utf8 {
    /// Returns all complete characters up to now.
    pub fn push(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.incomplete);
        bytes.extend_from_slice(piece);
        let (mut text, mut rest) = (String::with_capacity(bytes.len()), bytes.as_slice());
        loop {
            match str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(str::from_utf8(valid).expect("valid up to this offset"));
                    let Some(length) = error.error_len() else {
                        self.incomplete = after.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &after[length..];
                }
            }
        }
    }

    /// Returns the text for the remaining bytes at the end of the input.
    pub fn finish(&mut self) -> &'static str {
        match std::mem::take(&mut self.incomplete).is_empty() {
            true => "",
            false => "\u{fffd}",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_the_input_does_not_change_the_text() {
        let bytes = "aé✓🦀\u{fffd}".as_bytes().iter().copied().chain(*b"\xff-\xe2\x9c-\xf0\x9f").collect::<Vec<u8>>();
        let whole = String::from_utf8_lossy(&bytes).into_owned();
        for size in 1..=bytes.len() {
            let mut utf8 = Utf8::default();
            let mut text: String = bytes.chunks(size).map(|piece| utf8.push(piece)).collect();
            text.push_str(utf8.finish());
            assert_eq!(text, whole, "in pieces of {size}");
        }
    }
}
