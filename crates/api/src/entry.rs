//! The ledger of a session on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use coven_domain::entry::{Entry, EntryKind};
use coven_domain::request::{RequestState, SettledFrom};
use coven_domain::{RequestId, Timestamp};
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use crate::schema;

/// One entry of the ledger. Bytes are in `data` where they are valid UTF-8, else in `data_base64`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Entry"))]
pub struct EntryRecord {
    /// Counts from 1 within the session, without gaps.
    pub seq: u64,
    #[cfg_attr(feature = "schema", schemars(with = "schema::StringEnumSchema<EntryKind>"))]
    pub kind: EntryKind,
    #[cfg_attr(feature = "schema", schemars(with = "schema::DateTime"))]
    pub at: Timestamp,
    /// The first byte of an output; the end of the log for every other kind.
    pub offset: u64,
    /// Of output: its bytes.
    pub length: Option<u64>,
    pub data: Option<String>,
    pub data_base64: Option<String>,
    #[serde(flatten)]
    pub detail: EntryDetail,
}

/// The keys that only some kinds of entries fill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EntryDetail {
    /// Of a start.
    pub pid: Option<u32>,
    /// Of a start or resize.
    pub rows: Option<u16>,
    pub cols: Option<u16>,
    /// Of an exit; 128 and the signal for a death by signal.
    pub code: Option<i32>,
    /// Of a kill, of an exit, and of a request to finish.
    pub signal: Option<i32>,
    /// Of input that was not recorded: true, with the number of `characters`.
    pub hidden: Option<bool>,
    pub characters: Option<u64>,
    /// Of a truncation: the first byte that the log still has.
    pub first: Option<u64>,
    /// Of output: the CRC-32 of its bytes in hexadecimal.
    pub crc32: Option<String>,
    pub note: Option<String>,
    /// Of a note about a request: its id, and what it asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::Id>"))]
    pub request: Option<RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Of a settled request: its state, the answer except a line of input, who gave it, and from where.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::StringEnumSchema<RequestState>>"))]
    pub status: Option<RequestState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<schema::StringEnumSchema<SettledFrom>>"))]
    pub from: Option<SettledFrom>,
    /// Of a failed launch: the reason.
    pub error: Option<String>,
}

impl EntryRecord {
    /// `output` is the piece of log that an output entry points at, as far as the log still has it.
    pub fn new(entry: &Entry, output: Option<&[u8]>) -> Self {
        let bytes = output.or(entry.data.as_deref());
        let text = bytes.map(std::str::from_utf8);
        let is_output = entry.length > 0;
        Self {
            seq: entry.seq,
            kind: entry.kind,
            at: entry.at,
            offset: entry.offset,
            length: is_output.then_some(entry.length),
            data: text.and_then(Result::ok).map(str::to_owned),
            data_base64: match (bytes, text) {
                (Some(bytes), Some(Err(_))) => Some(BASE64.encode(bytes)),
                _ => None,
            },
            detail: entry.detail.as_ref().and_then(|it| EntryDetail::deserialize(it).ok()).unwrap_or_default(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        match (&self.data, &self.data_base64) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(coded)) => BASE64.decode(coded).unwrap_or_default(),
            (None, None) => Vec::new(),
        }
    }
}

/// `GET /api/v1/sessions/{id}/entries`: oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct EntriesQuery {
    /// Entries with a greater `seq`.
    pub after: Option<u64>,
    /// 1 to 1000; 100 if left out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub limit: Option<usize>,
    /// The `next` of the previous page: another name for `after`.
    pub cursor: Option<u64>,
}

/// A page of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "EntryList"))]
pub struct EntriesResponse {
    pub entries: Vec<EntryRecord>,
    /// The `after` of the next page, even if no entry follows yet.
    pub next: u64,
}
