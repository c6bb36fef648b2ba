//! One record of a session's append-only ledger.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Timestamp, words};

words! {
    pub enum EntryKind {
        Start = "start",
        /// A range of the log's bytes.
        Output = "output",
        Input = "input",
        Message = "message",
        Resize = "resize",
        Kill = "kill",
        Exit = "exit",
        /// The oldest segments went because the session passed its bound.
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
    /// Where the log stood: the first byte of an output, the end of the log for everything else.
    pub offset: u64,
    /// Bytes of the log this entry covers; 0 for everything but output.
    pub length: u64,
    /// What was typed or said; output lives in the log only.
    pub data: Option<Vec<u8>>,
    pub detail: Option<Value>,
}
