//! One request without a runtime, for the verbs that scripts and prompts call all the time.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use coven_host::home::Home;
use hyper::Method;

use crate::failure::Failure;
use crate::link::{Link, block_on};

/// The body of a `GET`. Whatever is not a plain success is asked again the long way: it starts the daemon if it must
/// and tells what is wrong.
pub fn get(home: &Home, path: &str) -> Result<Vec<u8>, Failure> {
    if let Some(body) = at_once(home, path)? {
        return Ok(body);
    }
    block_on(async { Ok(Link::open(home).await?.bytes(Method::GET, path, None).await?.to_vec()) })
}

fn at_once(home: &Home, path: &str) -> Result<Option<Vec<u8>>, Failure> {
    let Ok(mut stream) = UnixStream::connect(home.socket()?) else { return Ok(None) };
    // To a client of 1.0 a server sends the body in one piece and closes.
    let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n");
    let mut answer = Vec::with_capacity(64 << 10);
    let exchange = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut answer));
    Ok(exchange.ok().and_then(|_| body_of(answer)))
}

/// The body of a whole and successful answer.
fn body_of(mut answer: Vec<u8>) -> Option<Vec<u8>> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let is_success = lines.next()?.split(' ').nth(1)? == "200";
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok())?;
    answer.drain(..end + 4);
    (is_success && answer.len() == length).then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_success_counts() {
        let body = |text: &str| body_of(text.as_bytes().to_vec());
        assert_eq!(body("HTTP/1.0 200 OK\r\nContent-Length: 2\r\nx: y\r\n\r\n[]"), Some(b"[]".to_vec()));
        assert_eq!(body("HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\n[]"), None, "cut off");
        assert_eq!(body("HTTP/1.0 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"), None);
        assert_eq!(body("HTTP/1.0 200 OK\r\n\r\n[]"), None, "no length: it may be cut off");
        assert_eq!(body(""), None);
    }
}
