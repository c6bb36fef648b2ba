//! Events: numbered state changes for subscribers.

use serde_json::Value;

use crate::agent::Agent;
use crate::message::StoredMessage;
use crate::operation::Operation;
use crate::query::SweepPart;
use crate::question_set::QuestionSet;
use crate::repo::Repo;
use crate::request::{Request, RequestKind};
use crate::session::Session;
use crate::task::{FieldChange, Task};
use crate::workflow::WorkflowRun;
use crate::{SessionId, Timestamp};

/// Every kind of event and its meaning. Programs rely on the names.
pub const KINDS: [(&str, &str); 90] = [
    ("session.created", "a session was created; its harness is not running yet"),
    ("session.queued", "the session's launch waits for the limits of the config, or its place or reason changed"),
    ("session.launching", "the session's harness is being started"),
    ("session.running", "the session's harness is running"),
    ("session.finishing", "the session was asked to finish"),
    ("session.completed", "the session's harness exited without an error, or after a request to finish"),
    ("session.failed", "the session's harness could not be started, or exited with an error"),
    ("session.killed", "the session was killed"),
    ("session.exited", "the harness of a killed session has exited"),
    ("session.unended", "some processes of a killed session are still alive after SIGKILL"),
    ("session.orphaned", "the session's harness is gone and its exit status is unknown"),
    ("session.idled_out", "the session reached its idle timeout and was ended"),
    ("session.open_failed", "the ACP handshake with the session's agent failed"),
    ("session.activity", "the activity of the session changed, or a client looked at it"),
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
    ("agent_question.asked", "a terminal agent asks its user questions"),
    ("agent_question.answered", "the agent's questions were answered"),
    ("agent_question.rejected", "a human declined to answer the agent's questions"),
    ("agent_question.cancelled", "the agent's questions were answered in its terminal or withdrawn"),
    ("question_set.asked", "an agent asks a human"),
    ("question_set.updated", "the store now has the set's questions and answers, which an older coven did not store"),
    ("question_set.completed", "all questions of the set were answered"),
    ("question_set.rejected", "a human declined to answer the set"),
    ("question_set.timed_out", "the set was not answered in time"),
    ("question_set.abandoned", "the program that asked has exited"),
    ("question_set.dismissed", "the set was removed from the list"),
    ("repo.added", "a repository was added"),
    ("repo.renamed", "a repository was added again with another name"),
    ("repo.removed", "a repository was removed; its sessions stay"),
    ("task.created", "a task was created"),
    ("task.imported", "a task was imported from an older store"),
    ("task.updated", "the task's fields were changed"),
    ("task.claimed", "an agent claimed the task and starts to work on it"),
    ("task.lease_renewed", "the lease of the task's agent was renewed"),
    ("task.lease_lost", "the lease of the task expired; no agent works on it"),
    ("task.released", "the task was released and is open again"),
    ("task.pending_merge", "the task's work is ready for review"),
    ("task.merge_failed", "the task's work was approved but could not be merged"),
    ("task.rejected", "the task's work was rejected"),
    ("task.blocked", "the task needs a human"),
    ("task.unblocked", "the task can be started again"),
    ("task.closed", "the task was closed"),
    ("task.deleted", "the task was deleted"),
    ("task.rescued", "unmerged work of the task was saved to a ref"),
    ("agent.starting", "an agent is about to start a step of a task"),
    ("agent.launching", "the agent's session was created"),
    ("agent.started", "the agent is running"),
    ("agent.reattached", "the agent kept running while no daemon was running"),
    ("agent.completed", "the agent completed its step"),
    ("agent.failed", "the attempt failed"),
    ("agent.killed", "the agent was killed"),
    ("agent.imported", "an agent was imported from an older store"),
    ("workflow.started", "a workflow run started"),
    ("workflow.retried", "the run continues at the step that failed"),
    ("workflow.step.started", "the next step of the run started"),
    ("workflow.advanced", "the run skipped steps or entered a loop"),
    (
        "workflow.waiting",
        "the current step waits for a limit of its agent to reset, or for its launch; or the reason changed",
    ),
    ("workflow.resumed", "the current step no longer waits"),
    ("workflow.stopping", "the run was asked to stop; its process is being ended"),
    ("workflow.merge_pending", "the run's work waits for a review"),
    ("workflow.merge_approved", "the merge was approved"),
    ("workflow.merge_failed", "the merge failed"),
    ("workflow.rejected", "the run's work was rejected"),
    ("workflow.blocked", "the run needs a human"),
    ("workflow.failed", "the run failed"),
    ("workflow.cancelled", "the run was cancelled"),
    ("workflow.completed", "the run completed"),
    ("workflow.imported", "a run was imported from an older store"),
    ("terminal_prompt.asked", "an agent waits for input at its terminal"),
    ("terminal_prompt.answered", "the terminal prompt was answered"),
    ("terminal_prompt.delivered", "the answer was typed into the terminal"),
    ("terminal_prompt.abandoned", "the agent continued without an answer"),
    ("terminal_prompt.imported", "a terminal prompt was imported from an older store"),
    ("operation.started", "a request started an operation"),
    ("operation.progress", "the operation made progress; at most ten such events per second and operation"),
    ("operation.completed", "the operation completed; the record has its result"),
    ("operation.failed", "the operation failed; the record has the error"),
    ("operation.cancelled", "the operation was stopped before it finished"),
    (
        "retention.swept",
        "expired records were deleted; the payload lists at most 100 of each kind, and events of the same sweep follow while `more` is true",
    ),
];

/// Kinds that older versions stored under another name, with the current name.
const RENAMED_KINDS: [(&str, &str); 7] = [
    ("question.abandoned", "terminal_prompt.abandoned"),
    ("question.answered", "terminal_prompt.answered"),
    ("question.asked", "terminal_prompt.asked"),
    ("question.delivered", "terminal_prompt.delivered"),
    ("question.imported", "terminal_prompt.imported"),
    ("session.refused", "session.open_failed"),
    ("task.renewed", "task.lease_renewed"),
];

/// Returns the prefix of the events about a request.
pub const fn request_prefix(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Permission => "permission",
        RequestKind::Question => "agent_question",
        RequestKind::Input => "terminal_prompt",
    }
}

/// Returns the current name of a stored kind.
pub fn current_kind(stored: String) -> String {
    match RENAMED_KINDS.iter().find(|(older, _)| *older == stored) {
        Some((_, current)) => (*current).to_owned(),
        None => stored,
    }
}

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
    Request(&'a Request),
    QuestionSet(&'a QuestionSet),
    Repo(&'a Repo),
    Task {
        task: &'a Task,
        changes: &'a [FieldChange],
        by: &'a str,
    },
    /// Unmerged work of the task is kept under a Git ref.
    TaskRescued {
        task: &'a Task,
        reference: &'a str,
    },
    Agent(&'a Agent),
    Run(&'a WorkflowRun),
    Operation(&'a Operation),
    Swept(SweepPart<'a>),
    /// An event without a record: the payload itself.
    Payload(&'a Value),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_kind_has_a_current_name_and_other_kinds_stay() {
        for (older, current) in RENAMED_KINDS {
            assert!(KINDS.iter().any(|(kind, _)| *kind == current) && KINDS.iter().all(|(kind, _)| *kind != older));
            assert_eq!(current_kind(older.to_owned()), current);
        }
        assert_eq!(current_kind("task.closed".to_owned()), "task.closed");
    }
}
