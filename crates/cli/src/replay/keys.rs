//! Parses the keys of a replay from terminal input.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Pause,
    Back,
    Forward,
    Faster,
    Slower,
    Quit,
}

/// Returns the keys in typed bytes. Skips replies to terminal queries in the recording: their letters are not keys.
pub fn keys(mut typed: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((&first, rest)) = typed.split_first() {
        typed = rest;
        match first {
            0x1b => {
                let (key, length) = sequence(rest);
                keys.extend(key);
                typed = &rest[length..];
            }
            b' ' => keys.push(Key::Pause),
            b'+' | b'=' => keys.push(Key::Faster),
            b'-' => keys.push(Key::Slower),
            b'h' => keys.push(Key::Back),
            b'l' => keys.push(Key::Forward),
            b'q' | 3 => keys.push(Key::Quit),
            _ => {}
        }
    }
    keys
}

/// Parses the sequence after an ESC. Returns its key and its length.
fn sequence(rest: &[u8]) -> (Option<Key>, usize) {
    match rest {
        [b'[' | b'O', parameters @ ..] => {
            let Some(end) = parameters.iter().position(|byte| matches!(byte, 0x40..=0x7e)) else {
                return (None, rest.len());
            };
            let key = match parameters[end] {
                b'C' => Some(Key::Forward),
                b'D' => Some(Key::Back),
                _ => None,
            };
            (key, end + 2)
        }
        // A string ends with BEL or ESC \.
        [b']' | b'P' | b'_' | b'^' | b'X', text @ ..] => {
            let end = text.iter().position(|byte| matches!(byte, 0x07 | 0x1b)).unwrap_or(text.len());
            let terminator = if text.get(end) == Some(&0x1b) { 2 } else { 1 };
            (None, (end + 1 + terminator).min(rest.len()))
        }
        [_, ..] => (None, 1),
        [] => (None, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_arrows_are_recognized() {
        use Key::*;
        assert_eq!(keys(b" +-q"), [Pause, Faster, Slower, Quit]);
        assert_eq!(keys(b"\x1b[C\x1b[D\x1bOC\x1b[1;2D"), [Forward, Back, Forward, Back]);
    }

    #[test]
    fn replies_of_the_terminal_are_not_keys() {
        assert_eq!(keys(b"\x1b[?64;1;2c\x1b[12;40R\x1b]11;rgb:ffff/ql \x1b\\\x1bP>|q\x1b\\"), []);
        assert_eq!(keys(b"\x1b]11;rgb:0/0/q\x07q"), [Key::Quit]);
        assert_eq!(keys(b"\x1b[?1"), []);
    }
}
