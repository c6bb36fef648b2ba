//! One GET or POST without a runtime, for the verbs that scripts, prompts and agents call all the time.

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use coven_api::request::Request;
use coven_api::routes::Endpoint;

use crate::transport;

/// Limit for the head of an answer.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Limit for an answer; larger ones go through `Client`.
const MAX_BODY_BYTES: usize = 1 << 30;

/// A whole and successful answer.
#[derive(Debug, PartialEq, Eq)]
pub struct HttpResponse {
    head: String,
    pub body: Vec<u8>,
}

impl HttpResponse {
    pub fn header(&self, wanted: &str) -> Option<&str> {
        header_of(&self.head, wanted)
    }
}

/// Asks the daemon on this user's socket. Returns nothing unless the answer is a complete success within `timeout`: `Client`
/// then finds out why.
pub fn try_get<E: Endpoint>(socket: &Path, request: &Request<E>, timeout: Duration) -> Option<HttpResponse> {
    let deadline = Instant::now() + timeout;
    let mut stream = transport::connect_blocking(socket).ok()?;
    stream.set_write_timeout(Some(timeout)).ok()?;
    // The server closes the connection after an answer to HTTP/1.0 and sends the body in one piece.
    let head = format!("GET {} HTTP/1.0\r\nhost: localhost\r\naccept: application/json\r\n\r\n", request.target());
    stream.write_all(head.as_bytes()).ok()?;
    read_answer(|buffer| {
        let left = deadline.saturating_duration_since(Instant::now());
        // A timeout of zero would mean none.
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        stream.read(buffer)
    })
}

/// Why a POST has no successful answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostError {
    /// No daemon of this user listens there.
    Unreachable,
    /// The connection broke, or the answer did not come in time.
    Lost,
    /// The daemon answered with this status.
    Refused(u16),
}

/// Sends a JSON body to the daemon on this user's socket and waits for the answer, without a limit if `timeout` is `None`.
pub fn post_blocking<E: Endpoint>(
    socket: &Path,
    request: &Request<E>,
    body: &[u8],
    timeout: Option<Duration>,
) -> Result<Vec<u8>, PostError> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut stream = transport::connect_blocking(socket).map_err(|_| PostError::Unreachable)?;
    stream.set_write_timeout(timeout).map_err(|_| PostError::Lost)?;
    let head = format!(
        "POST {} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        request.target(),
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).map_err(|_| PostError::Lost)?;
    let (status, response) = read_response(|buffer| {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        stream.set_read_timeout(left.map(|left| left.max(Duration::from_millis(1))))?;
        stream.read(buffer)
    })
    .ok_or(PostError::Lost)?;
    match status {
        200..300 => Ok(response.body),
        // A daemon that stops answers so; the next one knows more.
        503 => Err(PostError::Lost),
        other => Err(PostError::Refused(other)),
    }
}

/// Reads a whole and successful answer.
fn read_answer(read: impl FnMut(&mut [u8]) -> std::io::Result<usize>) -> Option<HttpResponse> {
    read_response(read).filter(|(status, _)| *status == 200).map(|(_, response)| response)
}

/// Reads as much as the answer's length says: the end of the connection comes later.
fn read_response(mut read: impl FnMut(&mut [u8]) -> std::io::Result<usize>) -> Option<(u16, HttpResponse)> {
    let (mut answer, mut buffer) = (Vec::with_capacity(64 << 10), [0; 16 << 10]);
    let mut more = |answer: &mut Vec<u8>| match read(&mut buffer) {
        Ok(count) if count > 0 => {
            answer.extend_from_slice(&buffer[..count]);
            Some(())
        }
        _ => None,
    };
    let end = loop {
        match answer.windows(4).position(|window| window == b"\r\n\r\n") {
            Some(end) => break end,
            None if answer.len() > MAX_HEAD_BYTES => return None,
            None => more(&mut answer)?,
        }
    };
    let head = std::str::from_utf8(&answer[..end]).ok()?.to_owned();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = header_of(&head, "content-length")?.parse::<usize>().ok().filter(|it| *it <= MAX_BODY_BYTES)?;
    answer.drain(..end + 4);
    while answer.len() < length {
        more(&mut answer)?;
    }
    (answer.len() == length).then_some((status, HttpResponse { head, body: answer }))
}

fn header_of<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    let mut lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out the text in pieces of this size.
    fn answer(text: &str, size: usize) -> Option<Vec<u8>> {
        let mut pieces = text.as_bytes().chunks(size);
        let read = |buffer: &mut [u8]| {
            let piece = pieces.next().unwrap_or_default();
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        };
        read_answer(read).map(|answer| answer.body)
    }

    #[test]
    fn only_a_whole_success_counts() {
        for size in [1, 7, 4096] {
            let body = |text: &str| answer(text, size);
            assert_eq!(body("HTTP/1.0 200 OK\r\nContent-Length: 2\r\nx: y\r\n\r\n[]"), Some(b"[]".to_vec()));
            assert_eq!(body("HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\n[]"), None, "cut off");
            assert_eq!(body("HTTP/1.0 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"), None);
            assert_eq!(body("HTTP/1.0 200 OK\r\n\r\n[]"), None, "without a length it may be cut off");
            assert_eq!(body("HTTP/1.0 200 OK\r\ncontent-length: 99999999999\r\n\r\n[]"), None, "too large");
            assert_eq!(body("HTTP/1.0 200 OK\r\ncontent-length: -1\r\n\r\n[]"), None);
            assert_eq!(body(""), None);
        }
        assert_eq!(answer(&"x".repeat(MAX_HEAD_BYTES * 2), 4096), None, "a head without an end");
    }
}
