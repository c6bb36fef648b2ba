//! Bytes as they come become text: a character may be split between two reads, and what is no UTF-8 becomes U+FFFD.

#[derive(Debug, Default)]
pub struct Utf8 {
    /// The beginning of a character whose rest has not come yet.
    begun: Vec<u8>,
}

impl Utf8 {
    /// All the text that is whole by now.
    pub fn push(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.begun);
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
                    text.push_str(str::from_utf8(valid).expect("it was found valid up to here"));
                    let Some(length) = error.error_len() else {
                        self.begun = after.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &after[length..];
                }
            }
        }
    }

    /// What is left when nothing more comes.
    pub fn finish(&mut self) -> &'static str {
        match std::mem::take(&mut self.begun).is_empty() {
            true => "",
            false => "\u{fffd}",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_it_is_split_the_text_is_the_same() {
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
