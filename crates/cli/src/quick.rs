//! One request without a runtime, for the verbs that scripts and prompts call all the time.

use std::io::{Read, Write};
use std::time::Duration;

use coven_host::home::Home;
use coven_host::peer;
use hyper::Method;

use crate::failure::Failure;
use crate::link::{Link, block_on};

/// After so long the long way is tried.
const PATIENCE: Duration = Duration::from_secs(10);

/// The body of a `GET`. Whatever is not a plain success is asked again the long way: it starts the daemon if it must
/// and tells what is wrong.
pub fn get(home: &Home, path: &str) -> Result<Vec<u8>, Failure> {
    if let Some(answer) = at_once(home, path, PATIENCE)? {
        return Ok(answer.body);
    }
    block_on(async { Ok(Link::open(home).await?.bytes_path(Method::GET, path, None).await?.to_vec()) })
}

/// A whole and successful answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, wanted: &str) -> Option<&str> {
        let lines = self.head.split("\r\n").skip(1);
        lines
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, it)| it.trim())
    }
}

/// The answer of a daemon that runs, if it is a plain success.
pub fn at_once(home: &Home, path: &str, patience: Duration) -> Result<Option<Answer>, Failure> {
    let Ok(mut stream) = peer::connect(&home.socket()?) else { return Ok(None) };
    if stream.set_read_timeout(Some(patience)).is_err() {
        return Ok(None);
    }
    // To a client of 1.0 a server sends the body in one piece and closes.
    let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    let mut answer = Vec::with_capacity(64 << 10);
    if stream.write_all(request.as_bytes()).is_err() {
        return Ok(None);
    }
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return Ok(whole(answer)),
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
        }
        // As soon as all is there: the connection's end takes a while longer.
        if is_whole(&answer) {
            return Ok(whole(answer));
        }
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let length =
        Answer { head, body: Vec::new() }.header("content-length").and_then(|length| length.parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= end + 4 + length)
}

fn whole(mut answer: Vec<u8>) -> Option<Answer> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?.to_owned();
    let is_success = head.split(' ').nth(1)? == "200";
    answer.drain(..end + 4);
    let answer = Answer { head, body: answer };
    let length = answer.header("content-length")?.parse::<usize>().ok()?;
    (is_success && answer.body.len() == length).then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_success_counts() {
        let body = |text: &str| whole(text.as_bytes().to_vec()).map(|answer| answer.body);
        assert_eq!(body("HTTP/1.0 200 OK\r\nContent-Length: 2\r\nx: y\r\n\r\n[]"), Some(b"[]".to_vec()));
        assert_eq!(body("HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\n[]"), None, "cut off");
        assert_eq!(body("HTTP/1.0 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"), None);
        assert_eq!(body("HTTP/1.0 200 OK\r\n\r\n[]"), None, "no length: it may be cut off");
        assert_eq!(body(""), None);
    }
}
