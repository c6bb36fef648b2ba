//! Events: numbered state changes for subscribers.

use serde_json::Value;

use crate::agent::Agent;
use crate::message::StoredMessage;
use crate::operation::Operation;
use crate::permission::Permission;
use crate::query::SweepReport;
use crate::question_set::QuestionSet;
use crate::repo::Repo;
use crate::session::Session;
use crate::task::{FieldChange, Task};
use crate::terminal_prompt::TerminalPrompt;
use crate::workflow::WorkflowRun;
use crate::{SessionId, Timestamp};

/// Every kind of event there is, and what it tells. Programs rely on the names.
pub const KINDS: [(&str, &str); 81] = [
    ("session.created", "there is a session; its harness does not run yet"),
    ("session.launching", "its harness is being started"),
    ("session.running", "its harness runs"),
    ("session.finishing", "it was asked to end"),
    ("session.completed", "its harness ended by itself, without an error or when it was asked to"),
    ("session.failed", "its harness could not be started, or ended with an error"),
    ("session.killed", "somebody ended it"),
    ("session.exited", "the harness of a killed one is gone"),
    ("session.unended", "some processes of a killed session are still alive after SIGKILL"),
    ("session.orphaned", "the session's harness is gone and its exit status is unknown"),
    ("session.idled_out", "the session reached its idle timeout and was ended"),
    ("session.refused", "the ACP handshake with the session's agent failed"),
    ("session.renamed", "the session's title was changed"),
    ("session.archived", "the session was archived"),
    ("session.summoned", "the session was restored from the archive"),
    ("session.sacrificed", "the session was deleted with its log"),
    (
        "session.output",
        "the session's log grew; the payload has its length. At most ten per second; the final length is always sent",
    ),
    ("message.added", "a message from or to an agent was added"),
    ("message.chunk", "a chunk of an unfinished message arrived"),
    ("turn.started", "an agent started to answer a prompt"),
    ("turn.ended", "an agent finished its answer"),
    ("permission.requested", "an agent requests permission for an action"),
    ("permission.answered", "the permission request was answered"),
    ("permission.cancelled", "the permission request was withdrawn"),
    ("question_set.asked", "an agent asks a human"),
    ("question_set.updated", "the store now has the set's questions and answers, which an older coven did not store"),
    ("question_set.completed", "all questions of the set were answered"),
    ("question_set.rejected", "a human declined to answer the set"),
    ("question_set.timed_out", "the set was not answered in time"),
    ("question_set.abandoned", "the program that asked has exited"),
    ("question_set.dismissed", "the set was removed from the list"),
    ("repo.added", "a repository was added"),
    ("repo.removed", "it was removed; its sessions stay"),
    ("task.created", "there is a task"),
    ("task.imported", "it was taken over from an older store"),
    ("task.updated", "its fields were changed"),
    ("task.claimed", "an agent begins to work on it"),
    ("task.renewed", "its agent lives, and keeps it"),
    ("task.lease_lost", "nobody works on it although somebody claimed it"),
    ("task.released", "it was given back"),
    ("task.pending_merge", "its work is there to be reviewed"),
    ("task.merge_failed", "it was approved and could not be merged"),
    ("task.rejected", "its work was sent back"),
    ("task.blocked", "it waits for a human"),
    ("task.unblocked", "it can be begun again"),
    ("task.closed", "nothing more is to be done for it"),
    ("task.deleted", "it was deleted"),
    ("task.rescued", "work of it that was not merged is kept under a ref"),
    ("agent.starting", "somebody is about to work on a step of a task"),
    ("agent.launching", "its session was made"),
    ("agent.started", "it works"),
    ("agent.reattached", "it lived on while no daemon ran"),
    ("agent.completed", "it did its step"),
    ("agent.failed", "it did not"),
    ("agent.killed", "it was ended"),
    ("agent.imported", "it was taken over from an older store"),
    ("workflow.started", "a run of a workflow began"),
    ("workflow.retried", "it goes on at the step that failed"),
    ("workflow.step.started", "its next step begins"),
    ("workflow.advanced", "steps were skipped, or a loop entered"),
    ("workflow.stopping", "a request ends the run; its process is being ended"),
    ("workflow.merge_pending", "its work waits for a review"),
    ("workflow.merge_approved", "somebody agreed to the merge"),
    ("workflow.merge_failed", "it was not merged"),
    ("workflow.rejected", "its work was sent back"),
    ("workflow.blocked", "it waits for a human"),
    ("workflow.failed", "it ended with an error"),
    ("workflow.cancelled", "somebody ended it"),
    ("workflow.completed", "it is done"),
    ("workflow.imported", "it was taken over from an older store"),
    ("question.asked", "an agent waits at its terminal for somebody to type"),
    ("question.answered", "somebody answered"),
    ("question.delivered", "the answer was typed"),
    ("question.abandoned", "its terminal went on without one"),
    ("question.imported", "it was taken over from an older store"),
    ("operation.started", "a request started an operation"),
    ("operation.progress", "the operation made progress; at most ten such events per second and operation"),
    ("operation.completed", "the operation completed; the record has its result"),
    ("operation.failed", "the operation failed; the record has the error"),
    ("operation.cancelled", "the operation was stopped before it finished"),
    ("retention.swept", "expired records were deleted; the payload lists them"),
];

/// A stored event. Numbers are global, increasing and never reused. A replaced event leaves a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub number: u64,
    /// One of `KINDS`.
    pub kind: String,
    /// The id of the changed record; empty for the daemon itself.
    pub subject: String,
    pub at: Timestamp,
    /// JSON text without line breaks, rendered when the event was written.
    pub payload: String,
}

/// The record that an event is about; its payload is rendered from it.
#[derive(Debug, Clone, Copy)]
pub enum EventBody<'a> {
    Session(&'a Session),
    /// The session's log is `offset` bytes long.
    Output {
        session: SessionId,
        offset: u64,
    },
    Message {
        session: SessionId,
        message: &'a StoredMessage,
    },
    Permission(&'a Permission),
    QuestionSet(&'a QuestionSet),
    Repo(&'a Repo),
    Task {
        task: &'a Task,
        changes: &'a [FieldChange],
        by: &'a str,
    },
    Agent(&'a Agent),
    Run(&'a WorkflowRun),
    TerminalPrompt(&'a TerminalPrompt),
    Operation(&'a Operation),
    Swept(&'a SweepReport),
    /// An event without a record: the payload itself.
    Payload(&'a Value),
}
