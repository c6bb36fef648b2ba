//! Requests of an agent to its client other than permission: files and terminals.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request that the daemon executes and answers later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The agent's id of the request: a number or a string.
    pub id: Value,
    pub kind: CallKind,
    /// A human or a rule permitted the call, so the daemon does not ask again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_permitted: bool,
}

impl Call {
    /// Returns a string that identifies the call.
    pub fn key(&self) -> String {
        self.id.to_string()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CallKind {
    Read {
        path: String,
        /// The first line to read, counted from 1.
        line: Option<u32>,
        limit: Option<u32>,
    },
    Write {
        path: String,
        content: String,
    },
    CreateTerminal {
        terminal: String,
        command: String,
        args: Vec<String>,
        /// Not stored: environment values never are.
        #[serde(skip)]
        env: Vec<(String, String)>,
        cwd: Option<String>,
        output_limit: Option<u64>,
    },
    TerminalOutput {
        terminal: String,
    },
    WaitForExit {
        terminal: String,
    },
    KillTerminal {
        terminal: String,
    },
    ReleaseTerminal {
        terminal: String,
    },
}
