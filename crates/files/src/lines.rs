//! Reads a stream within a limit, completely or line by line.

use std::io::{self, BufRead, Read};

use crate::{Limit, ReadError};

/// Reads the rest of a stream that has no path, at max_bytes `limit` bytes.
pub fn read_stream(stream: impl Read, limit: Limit) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(limit.bytes + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit.bytes {
        true => Err(ReadError::LongStream { limit }.into()),
        false => Ok(bytes),
    }
}

/// Reads the rest of a UTF-8 stream that has no path, at max_bytes `limit` bytes.
pub fn read_stream_text(stream: impl Read, limit: Limit) -> io::Result<String> {
    let bytes = read_stream(stream, limit)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the input is not valid UTF-8"))
}

/// Reads lines and keeps only one in memory. A line that exceeds the limit is skipped.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    limit: Limit,
    line: Vec<u8>,
}

/// One line of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum BoundedLine<'a> {
    /// A complete line, including its line end if it has one.
    Whole(&'a [u8]),
    /// A skipped line; `bytes` is its length, including the line end.
    TooLong { bytes: u64, has_end: bool },
}

impl<R: BufRead> Lines<R> {
    pub const fn new(reader: R, limit: Limit) -> Self {
        Self { reader, limit, line: Vec::new() }
    }

    /// Returns the next line, `None` at the end of the stream.
    pub fn next_line(&mut self) -> io::Result<Option<BoundedLine<'_>>> {
        self.line.clear();
        // The line end does not count towards the limit.
        let max_bytes = self.limit.bytes + 1;
        let count = (&mut self.reader).take(max_bytes).read_until(b'\n', &mut self.line)? as u64;
        if count == 0 {
            return Ok(None);
        }
        if count < max_bytes || self.line.ends_with(b"\n") {
            return Ok(Some(BoundedLine::Whole(&self.line)));
        }
        let (rest, has_end) = self.skip_line()?;
        // Release the memory of the long line.
        self.line = Vec::new();
        Ok(Some(BoundedLine::TooLong { bytes: count + rest, has_end }))
    }

    fn skip_line(&mut self) -> io::Result<(u64, bool)> {
        let mut skipped = 0;
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                return Ok((skipped, false));
            }
            // `contains` is much faster than `position`, and most buffers have no line end.
            let end = buffer.contains(&b'\n').then(|| buffer.iter().position(|byte| *byte == b'\n')).flatten();
            let count = end.map_or(buffer.len(), |at| at + 1);
            self.reader.consume(count);
            skipped += count as u64;
            if end.is_some() {
                return Ok((skipped, true));
            }
        }
    }
}
