//! Output of the fake agent that the tests expect.

/// Length of one line of a flood, with its newline.
const LINE: usize = 64;

/// Invalid UTF-8: a lone continuation byte, an overlong form, a surrogate, a truncated character, 0xFF.
pub const INVALID_UTF8: &[u8] = b"\xff\xfe\x80 \xc0\xaf \xed\xa0\x80 \xe2\x82 \xf8\x88\x80\x80\x80 end";

/// Returns the first `length` bytes of the flood. The lines are numbered, so that lost, repeated or swapped bytes show.
pub fn flood(length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + LINE);
    let mut number = 0;
    while bytes.len() < length {
        push_line(&mut bytes, number);
        number += 1;
    }
    bytes.truncate(length);
    bytes
}

/// Appends the flood's line with this number.
pub fn push_line(out: &mut Vec<u8>, number: u64) {
    let digits = format!("{number:012} ");
    out.extend_from_slice(digits.as_bytes());
    out.extend((0..LINE - digits.len() - 1).map(|at| b'!' + ((number as usize * 7 + at * 3) % 90) as u8));
    out.push(b'\n');
}

/// Describes the first difference between two byte strings, without printing megabytes.
pub fn difference(got: &[u8], expected: &[u8]) -> Option<String> {
    if got == expected {
        return None;
    }
    let at = got.iter().zip(expected).take_while(|(one, other)| one == other).count();
    let piece = |bytes: &[u8]| String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 80)]).into_owned();
    let (got_piece, expected_piece) = (piece(got), piece(expected));
    let (got, expected) = (got.len(), expected.len());
    Some(format!("{got} bytes instead of {expected}; at {at} {got_piece:?} instead of {expected_piece:?}"))
}

/// Asserts that two byte strings are equal.
#[track_caller]
pub fn assert_bytes(what: &str, got: &[u8], expected: &[u8]) {
    if let Some(difference) = difference(got, expected) {
        panic!("{what}: {difference}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_flood_has_its_number_and_length() {
        let bytes = flood(3 * LINE);
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() == LINE));
        assert!(lines[2].starts_with(b"000000000002 "));
    }

    #[test]
    fn a_difference_is_described_with_its_offset() {
        assert_eq!(difference(b"abc", b"abc"), None);
        assert!(difference(b"abd", b"abc").is_some_and(|text| text.contains("at 2")));
        assert!(difference(b"ab", b"abc").is_some_and(|text| text.contains("2 bytes instead of 3")));
    }
}
