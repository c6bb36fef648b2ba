//! The holder's protocol: frames with a kind, a length and a body. This module does no I/O.

use coven_domain::session::ExitStatus;

/// Incremented when the meaning of a frame changes. A daemon must support every older holder that is still running.
pub const VERSION: u16 = 2;
/// The first version that supports [`Request::Note`].
pub const NOTE_VERSION: u16 = 2;
/// Maximum length of a note.
pub const MAX_NOTE: usize = 4096;
/// Maximum length of a body; longer input is sent in pieces.
pub const MAX_BODY: usize = 1 << 20;
/// Maximum number of log bytes in one `Data` frame.
pub const MAX_DATA: usize = 64 << 10;
const HEADER: usize = 5;

/// Whether a session is asked to finish or is killed. The signals are the same; the journal records the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndMode {
    Finish,
    Kill,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Must come first.
    Hello {
        version: u16,
    },
    /// Send the log from this offset, then new output. May be sent again to jump.
    Follow {
        from: u64,
    },
    /// Send `Progress` when the log or the journal grows, without the bytes.
    Watch,
    /// Write to the harness and record the input in the journal.
    Input(Vec<u8>),
    /// Like `Input`, with the position of the bytes in the session's whole input. Bytes before the holder's current
    /// position are skipped.
    InputAt {
        offset: u64,
        bytes: Vec<u8>,
    },
    /// A terminal's reply to a query of the harness: written to the harness but not recorded.
    TerminalReply(Vec<u8>),
    Resize {
        rows: u16,
        cols: u16,
    },
    /// Send a signal to the foreground process group of the harness's terminal, or with pipes to the harness's own
    /// group. Older holders always signal the harness's own group.
    Signal(i32),
    /// Send SIGTERM to the group, then SIGKILL to all remaining processes after the grace period.
    End {
        how: EndMode,
        grace_ms: u32,
    },
    /// Close the harness's standard input (pipes only).
    CloseInput,
    /// Write a note to the journal: text, or a JSON object with the key `note`.
    Note(String),
    /// Reply `Accepted` once all earlier requests are handled. No other request is acknowledged: a reply to every
    /// keystroke would delay its echo.
    Sync,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    pub version: u16,
    pub pid: u32,
    pub started_ticks: u64,
    pub first: u64,
    pub end: u64,
    pub records: u64,
    pub rows: u16,
    pub cols: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Welcome(Welcome),
    /// `bytes` of the log from `offset`; the log currently ends at `end`. A gap in `offset` means that the bytes in
    /// between were deleted.
    Data {
        offset: u64,
        end: u64,
        bytes: Vec<u8>,
    },
    /// The log's end and the number of journal records, both safe to read from the files.
    Progress {
        end: u64,
        records: u64,
    },
    Resized {
        rows: u16,
        cols: u16,
    },
    /// The harness has exited; this is the last frame.
    Exited {
        status: ExitStatus,
        end: u64,
    },
    /// All requests before the `Sync` are handled.
    Accepted,
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("a frame of {0} bytes exceeds the protocol's limit")]
    TooLong(usize),
    #[error("a frame of kind {0} is unknown or malformed")]
    Malformed(u8),
}

fn frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(HEADER + length);
    out.push(kind);
    out.extend_from_slice(&u32::try_from(length).expect("bodies are at most 1 MiB").to_le_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

/// Returns the header of a `Data` frame, so that the bytes can be sent without copying them.
pub fn data_head(offset: u64, end: u64, length: usize) -> [u8; HEADER + 16] {
    let mut head = [0; HEADER + 16];
    head[0] = 65;
    head[1..5].copy_from_slice(&u32::try_from(length + 16).expect("bodies are at most 1 MiB").to_le_bytes());
    head[5..13].copy_from_slice(&offset.to_le_bytes());
    head[13..].copy_from_slice(&end.to_le_bytes());
    head
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello { version } => frame(1, &[&version.to_le_bytes()]),
            Self::Follow { from } => frame(2, &[&from.to_le_bytes()]),
            Self::Input(bytes) => frame(3, &[bytes]),
            Self::InputAt { offset, bytes } => frame(11, &[&offset.to_le_bytes(), bytes]),
            Self::Resize { rows, cols } => frame(4, &[&rows.to_le_bytes(), &cols.to_le_bytes()]),
            Self::Signal(signal) => frame(5, &[&signal.to_le_bytes()]),
            Self::End { how, grace_ms } => {
                let how = match how {
                    EndMode::Finish => 0,
                    EndMode::Kill => 1,
                };
                frame(6, &[&[how], &grace_ms.to_le_bytes()])
            }
            Self::Watch => frame(7, &[]),
            Self::CloseInput => frame(8, &[]),
            Self::Sync => frame(9, &[]),
            Self::TerminalReply(bytes) => frame(10, &[bytes]),
            Self::Note(text) => frame(12, &[text.as_bytes()]),
        }
    }

    fn decode(kind: u8, body: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields { kind, body };
        let request = match kind {
            1 => Self::Hello { version: fields.u16()? },
            2 => Self::Follow { from: fields.u64()? },
            3 => Self::Input(fields.rest()),
            11 => Self::InputAt { offset: fields.u64()?, bytes: fields.rest() },
            4 => Self::Resize { rows: fields.u16()?, cols: fields.u16()? },
            5 => Self::Signal(fields.i32()?),
            6 => Self::End {
                how: match fields.u8()? {
                    0 => EndMode::Finish,
                    1 => EndMode::Kill,
                    _ => return Err(WireError::Malformed(kind)),
                },
                grace_ms: fields.u32()?,
            },
            7 => Self::Watch,
            8 => Self::CloseInput,
            9 => Self::Sync,
            10 => Self::TerminalReply(fields.rest()),
            12 => Self::Note(String::from_utf8(fields.rest()).map_err(|_| WireError::Malformed(kind))?),
            _ => return Err(WireError::Malformed(kind)),
        };
        fields.done().map(|()| request)
    }
}

impl Reply {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Welcome(it) => frame(
                64,
                &[
                    &it.version.to_le_bytes(),
                    &it.pid.to_le_bytes(),
                    &it.started_ticks.to_le_bytes(),
                    &it.first.to_le_bytes(),
                    &it.end.to_le_bytes(),
                    &it.records.to_le_bytes(),
                    &it.rows.to_le_bytes(),
                    &it.cols.to_le_bytes(),
                ],
            ),
            Self::Data { offset, end, bytes } => {
                let mut out = data_head(*offset, *end, bytes.len()).to_vec();
                out.extend_from_slice(bytes);
                out
            }
            Self::Progress { end, records } => frame(66, &[&end.to_le_bytes(), &records.to_le_bytes()]),
            Self::Resized { rows, cols } => frame(67, &[&rows.to_le_bytes(), &cols.to_le_bytes()]),
            Self::Exited { status, end } => {
                let (kind, value) = exit_parts(*status);
                frame(68, &[&[kind], &value.to_le_bytes(), &end.to_le_bytes()])
            }
            Self::Accepted => frame(69, &[]),
            Self::Refused(why) => frame(70, &[why.as_bytes()]),
        }
    }

    fn decode(kind: u8, body: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields { kind, body };
        let reply = match kind {
            64 => Self::Welcome(Welcome {
                version: fields.u16()?,
                pid: fields.u32()?,
                started_ticks: fields.u64()?,
                first: fields.u64()?,
                end: fields.u64()?,
                records: fields.u64()?,
                rows: fields.u16()?,
                cols: fields.u16()?,
            }),
            65 => Self::Data { offset: fields.u64()?, end: fields.u64()?, bytes: fields.rest() },
            66 => Self::Progress { end: fields.u64()?, records: fields.u64()? },
            67 => Self::Resized { rows: fields.u16()?, cols: fields.u16()? },
            68 => {
                let (how, value) = (fields.u8()?, fields.i32()?);
                let status = exit_status(how, value).ok_or(WireError::Malformed(kind))?;
                Self::Exited { status, end: fields.u64()? }
            }
            69 => Self::Accepted,
            70 => Self::Refused(String::from_utf8_lossy(&fields.rest()).into_owned()),
            _ => return Err(WireError::Malformed(kind)),
        };
        fields.done().map(|()| reply)
    }
}

pub(crate) const fn exit_parts(status: ExitStatus) -> (u8, i32) {
    match status {
        ExitStatus::Code(code) => (0, code),
        ExitStatus::Signal(signal) => (1, signal),
    }
}

pub(crate) const fn exit_status(kind: u8, value: i32) -> Option<ExitStatus> {
    match kind {
        0 => Some(ExitStatus::Code(value)),
        1 => Some(ExitStatus::Signal(value)),
        _ => None,
    }
}

/// Parses little-endian fields from the start of a body.
pub(crate) struct Fields<'a> {
    pub kind: u8,
    pub body: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.body.split_first_chunk::<N>().ok_or(WireError::Malformed(self.kind))?;
        self.body = rest;
        Ok(*head)
    }

    pub fn u8(&mut self) -> Result<u8, WireError> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, WireError> {
        self.take().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, WireError> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, WireError> {
        self.take().map(i32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_le_bytes)
    }

    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body).to_vec()
    }

    fn done(&self) -> Result<(), WireError> {
        match self.body {
            [] => Ok(()),
            _ => Err(WireError::Malformed(self.kind)),
        }
    }
}

/// Collects received bytes and returns complete frames.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start == self.buffer.len() {
            // Release the memory of a large frame.
            if self.buffer.capacity() > 4 * MAX_DATA {
                self.buffer = Vec::new()
            } else {
                self.buffer.clear()
            }
            self.start = 0;
        } else if self.start > MAX_DATA {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    pub fn request(&mut self) -> Result<Option<Request>, WireError> {
        self.next(Request::decode)
    }

    pub fn reply(&mut self) -> Result<Option<Reply>, WireError> {
        self.next(Reply::decode)
    }

    fn next<T>(&mut self, decode: fn(u8, &[u8]) -> Result<T, WireError>) -> Result<Option<T>, WireError> {
        let waiting = &self.buffer[self.start..];
        let Some((head, rest)) = waiting.split_first_chunk::<HEADER>() else { return Ok(None) };
        let [kind, length @ ..] = *head;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_BODY {
            return Err(WireError::TooLong(length));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let frame = decode(kind, body)?;
        self.start += HEADER + length;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<Request> {
        vec![
            Request::Hello { version: VERSION },
            Request::Note("{\"note\":\"ü\"}".into()),
            Request::Follow { from: u64::MAX },
            Request::Watch,
            Request::Input(vec![0, 255, 10]),
            Request::InputAt { offset: 7, bytes: vec![1, 2] },
            Request::TerminalReply(b"\x1b[?1;2c".to_vec()),
            Request::Resize { rows: 24, cols: 80 },
            Request::Signal(2),
            Request::End { how: EndMode::Kill, grace_ms: 5000 },
            Request::End { how: EndMode::Finish, grace_ms: 0 },
            Request::CloseInput,
            Request::Sync,
        ]
    }

    fn replies() -> Vec<Reply> {
        vec![
            Reply::Welcome(Welcome {
                version: 1,
                pid: 2,
                started_ticks: 3,
                first: 4,
                end: 5,
                records: 6,
                rows: 7,
                cols: 8,
            }),
            Reply::Data { offset: 9, end: 12, bytes: b"abc".to_vec() },
            Reply::Progress { end: 1, records: 2 },
            Reply::Resized { rows: 1, cols: 2 },
            Reply::Exited { status: ExitStatus::Signal(9), end: 3 },
            Reply::Exited { status: ExitStatus::Code(-1), end: 3 },
            Reply::Accepted,
            Reply::Refused("no".into()),
        ]
    }

    #[test]
    fn every_frame_survives_a_round_trip_however_it_is_split() {
        for step in [1, 3, 7, 4096] {
            let mut decoder = Decoder::default();
            let bytes: Vec<u8> = requests().iter().flat_map(Request::encode).collect();
            let mut got = Vec::new();
            for piece in bytes.chunks(step) {
                decoder.feed(piece);
                while let Some(request) = decoder.request().expect("encoded frames are valid") {
                    got.push(request);
                }
            }
            assert_eq!(got, requests());

            let mut decoder = Decoder::default();
            let mut got = Vec::new();
            for piece in replies().iter().flat_map(Reply::encode).collect::<Vec<u8>>().chunks(step) {
                decoder.feed(piece);
                while let Some(reply) = decoder.reply().expect("encoded frames are valid") {
                    got.push(reply);
                }
            }
            assert_eq!(got, replies());
        }
    }

    #[test]
    fn invalid_frames_are_rejected_without_a_panic() {
        let mut decoder = Decoder::default();
        decoder.feed(&[1, 255, 255, 255, 255]);
        assert_eq!(decoder.request(), Err(WireError::TooLong(u32::MAX as usize)));
        let mut decoder = Decoder::default();
        decoder.feed(&frame(2, &[b"short"]));
        assert_eq!(decoder.request(), Err(WireError::Malformed(2)));
        let mut decoder = Decoder::default();
        decoder.feed(&frame(4, &[&[0; 9]]));
        assert_eq!(decoder.request(), Err(WireError::Malformed(4)));
        let mut decoder = Decoder::default();
        decoder.feed(&frame(200, &[]));
        assert_eq!(decoder.request(), Err(WireError::Malformed(200)));
    }
}
