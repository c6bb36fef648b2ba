//! Blocking HTTP over the daemon's socket: one connection, kept open.
//!
//! Benchmarks do not use `coven_client`: their figures must not change with the client's runtime and parsing, and the same
//! benchmark measures older daemons, whose answers have other shapes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use super::Outcome;
use super::pty::PATIENCE;

pub struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    pub fn open(socket: &Path) -> Outcome<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE * 4))?;
        Ok(Self { stream: BufReader::with_capacity(1 << 16, stream) })
    }

    pub fn get(&mut self, path: &str) -> Outcome<Vec<u8>> {
        self.call("GET", path, None)
    }

    pub fn get_json(&mut self, path: &str) -> Outcome<Value> {
        Ok(serde_json::from_slice(&self.get(path)?)?)
    }

    pub fn post(&mut self, path: &str, body: &Value) -> Outcome<Value> {
        Ok(serde_json::from_slice(&self.call("POST", path, Some(body))?)?)
    }

    pub fn delete(&mut self, path: &str) -> Outcome<()> {
        self.call("DELETE", path, None).map(drop)
    }

    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Outcome<Vec<u8>> {
        let mut answer = Vec::new();
        self.stream(method, path, body)?.read_to_end(&mut answer)?;
        Ok(answer)
    }

    /// Sends a request and gives the body as it comes; an answer that is not a success is an error.
    pub fn stream(&mut self, method: &str, path: &str, body: Option<&Value>) -> Outcome<Body<'_>> {
        self.send(method, path, body)?;
        self.answer().map_err(|error| format!("{method} {path}: {error}").into())
    }

    pub fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> Outcome<()> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Ok(self.stream.get_mut().write_all(request.as_bytes())?)
    }

    /// Reads the whole answer to `send`.
    pub fn receive(&mut self) -> Outcome<Vec<u8>> {
        let mut answer = Vec::new();
        self.answer()?.read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn answer(&mut self) -> Outcome<Body<'_>> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status: u16 =
            line.split(' ').nth(1).unwrap_or_default().parse().map_err(|_| format!("no HTTP answer: {line:?}"))?;
        let mut length = Left::UntilClose;
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = Left::Bytes(value.parse()?),
                "transfer-encoding" => length = Left::Chunks(0),
                _ => {}
            }
        }
        let mut answer = Body { stream: &mut self.stream, left: length };
        if !(200..300).contains(&status) {
            let mut text = String::new();
            answer.read_to_string(&mut text)?;
            return Err(format!("status {status}: {text}").into());
        }
        Ok(answer)
    }
}

enum Left {
    Bytes(usize),
    /// Bytes of the chunk that is being read.
    Chunks(usize),
    UntilClose,
}

pub struct Body<'a> {
    stream: &'a mut BufReader<UnixStream>,
    left: Left,
}

impl Read for Body<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Left::Chunks(0) = self.left {
            self.left = self.next_chunk()?;
        }
        match &mut self.left {
            Left::UntilClose => self.stream.read(buffer),
            Left::Bytes(left) => {
                let count = self.stream.by_ref().take(*left as u64).read(buffer)?;
                *left -= count;
                Ok(count)
            }
            Left::Chunks(left) => {
                let count = self.stream.by_ref().take(*left as u64).read(buffer)?;
                *left -= count;
                if *left == 0 {
                    self.stream.read_line(&mut String::new())?;
                }
                Ok(count)
            }
        }
    }
}

impl Body<'_> {
    fn next_chunk(&mut self) -> io::Result<Left> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        if size > 0 {
            return Ok(Left::Chunks(size));
        }
        self.stream.read_line(&mut line)?;
        Ok(Left::Bytes(0))
    }
}
