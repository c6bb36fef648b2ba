//! What passes between the board and its connection to the daemon.

use std::collections::BTreeSet;

use coven_api::inbox::InboxItem;
use coven_api::task::{CreateTaskRequest, EditTaskRequest};
use coven_api::workflow::AgentRecord;

use super::page::PageLine;
use super::read::Snapshot;
use crate::verb::task_text::TaskView;

/// What the connection tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// Events are followed.
    Connected,
    /// The daemon does not answer; it is tried again and again. Says why.
    Lost(String),
    /// Everything, read anew.
    Read(Box<Snapshot>),
    Changed(Box<TaskView>),
    Gone(String),
    Agent(Box<AgentRecord>),
    /// The ids of all that can be begun.
    Ready(BTreeSet<String>),
    /// All that waits for a human.
    Inbox(Vec<InboxItem>),
    /// The last line that a session wrote.
    Wrote {
        session: String,
        line: String,
    },
    Answered {
        request: Box<Request>,
        answer: Result<Done, String>,
    },
}

/// Something to be done to a task, or to be known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The task's; of an answer the question's; empty for a new task.
    pub id: String,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Create(Box<CreateTaskRequest>),
    Edit(Box<EditTaskRequest>),
    Start,
    Release,
    /// With the reason; it may be empty.
    Block(String),
    Unblock,
    Approve,
    /// With what is wrong.
    Reject(String),
    /// With the reason; it may be empty.
    Close(String),
    Delete {
        is_recursive: bool,
    },
    Cancel,
    Retry,
    Look(Subject),
    /// Find the session to attach to.
    Attach,
    /// Answer a permission with one of its options.
    Answer {
        option: String,
    },
    /// Type this line into the terminal that waits for one.
    Reply(String),
}

/// What a page shows of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Detail,
    Diff,
    Workflow,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Done {
    /// It is done; the task as a person reads it.
    Did(String),
    /// A new task: its id, and the task as a person reads it.
    Made(String, String),
    Page(Vec<PageLine>),
    /// The session to attach to.
    Session(String),
}
