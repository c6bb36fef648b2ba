//! Blocking HTTP over the daemon's socket, on one open connection.
//!
//! Benchmarks do not use `coven_client`: the client's runtime and parsing must not affect the figures. Also, the same
//! benchmark measures older daemons, whose responses have other shapes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use super::BenchResult;
use super::pty::STEP_TIMEOUT;

pub struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    pub fn open(socket: &Path) -> BenchResult<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(STEP_TIMEOUT * 4))?;
        Ok(Self { stream: BufReader::with_capacity(1 << 16, stream) })
    }

    pub fn get(&mut self, path: &str) -> BenchResult<Vec<u8>> {
        self.call("GET", path, None)
    }

    pub fn get_json(&mut self, path: &str) -> BenchResult<Value> {
        Ok(serde_json::from_slice(&self.get(path)?)?)
    }

    pub fn post(&mut self, path: &str, body: &Value) -> BenchResult<Value> {
        Ok(serde_json::from_slice(&self.call("POST", path, Some(body))?)?)
    }

    pub fn delete(&mut self, path: &str) -> BenchResult<()> {
        self.call("DELETE", path, None).map(drop)
    }

    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> BenchResult<Vec<u8>> {
        let mut response = Vec::new();
        self.stream(method, path, body)?.read_to_end(&mut response)?;
        Ok(response)
    }

    /// Sends a request and returns the body as a stream. A status other than success is an error.
    pub fn stream(&mut self, method: &str, path: &str, body: Option<&Value>) -> BenchResult<Body<'_>> {
        self.send(method, path, body)?;
        self.read_response().map_err(|error| format!("{method} {path}: {error}").into())
    }

    pub fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> BenchResult<()> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Ok(self.stream.get_mut().write_all(request.as_bytes())?)
    }

    /// Reads the whole response to `send`.
    pub fn receive(&mut self) -> BenchResult<Vec<u8>> {
        let mut body = Vec::new();
        self.read_response()?.read_to_end(&mut body)?;
        Ok(body)
    }

    fn read_response(&mut self) -> BenchResult<Body<'_>> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status: u16 = line
            .split(' ')
            .nth(1)
            .unwrap_or_default()
            .parse()
            .map_err(|_| format!("not an HTTP response: {line:?}"))?;
        let mut length = Remaining::UntilClose;
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = Remaining::Bytes(value.parse()?),
                "transfer-encoding" => length = Remaining::Chunks(0),
                _ => {}
            }
        }
        let mut body = Body { stream: &mut self.stream, remaining: length };
        if !(200..300).contains(&status) {
            let mut text = String::new();
            body.read_to_string(&mut text)?;
            return Err(format!("status {status}: {text}").into());
        }
        Ok(body)
    }
}

enum Remaining {
    Bytes(usize),
    /// Remaining bytes of the current chunk.
    Chunks(usize),
    UntilClose,
}

pub struct Body<'a> {
    stream: &'a mut BufReader<UnixStream>,
    remaining: Remaining,
}

impl Read for Body<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Remaining::Chunks(0) = self.remaining {
            self.remaining = self.next_chunk()?;
        }
        match &mut self.remaining {
            Remaining::UntilClose => self.stream.read(buffer),
            Remaining::Bytes(remaining) => {
                let count = self.stream.by_ref().take(*remaining as u64).read(buffer)?;
                *remaining -= count;
                Ok(count)
            }
            Remaining::Chunks(remaining) => {
                let count = self.stream.by_ref().take(*remaining as u64).read(buffer)?;
                *remaining -= count;
                if *remaining == 0 {
                    self.stream.read_line(&mut String::new())?;
                }
                Ok(count)
            }
        }
    }
}

impl Body<'_> {
    fn next_chunk(&mut self) -> io::Result<Remaining> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        if size > 0 {
            return Ok(Remaining::Chunks(size));
        }
        self.stream.read_line(&mut line)?;
        Ok(Remaining::Bytes(0))
    }
}
