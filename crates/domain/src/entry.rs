//! One record of a session's append-only ledger.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Timestamp, string_enum};

string_enum! {
    pub enum EntryKind {
        Start = "start",
        /// A range of the log's bytes.
        Output = "output",
        Input = "input",
        Message = "message",
        Resize = "resize",
        Kill = "kill",
        Exit = "exit",
        /// The oldest log segments were deleted because the session exceeded its size limit.
        Truncated = "truncated",
        Note = "note",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Counts from 1 within the session, without gaps.
    pub seq: u64,
    pub kind: EntryKind,
    pub at: Timestamp,
    /// Offset in the log: of the first byte for output, of the end of the log for other kinds.
    pub offset: u64,
    /// Bytes of the log that this entry covers; 0 for all kinds except output.
    pub length: u64,
    /// Typed input or message text; output is stored only in the log.
    pub data: Option<Vec<u8>>,
    pub detail: Option<Value>,
}
