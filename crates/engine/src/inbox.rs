//! The inbox: one list of everything that needs a human, with one way to answer.

use std::sync::Arc;

use coven_domain::agent::Agent;
use coven_domain::lifecycle::Lifecycle as _;
use coven_domain::query::{ItemPlace, WaitingItem, WaitingQuery};
use coven_domain::question::check_answers;
use coven_domain::question_set::QuestionSetState;
use coven_domain::request::{
    AnswerError, AnsweredBy, Decision, Request, RequestAnswer, RequestBody, RequestKind, RequestSource, RequestState,
};
use coven_domain::task::{Task, TaskState};
use coven_domain::workflow::{WorkflowFact, WorkflowRun};
use coven_domain::{QuestionSetId, RequestId, SessionId, Timestamp};
use coven_holder::clock;
use coven_interop::questions::Listed;
use coven_store::Change;
use coven_workflow::WorkflowDefinition;

use super::Engine;
use super::acp::InboxAnswer;
use super::caller::Caller;
use super::question_set::HumanReply;
use crate::error::EngineError;

/// Number of items with the same prefix that a message names.
const MAX_CANDIDATES: usize = 100;

/// An item of the inbox, pending or finished.
#[derive(Debug)]
pub enum InboxEntry {
    /// A request, and the agent of a task that made it.
    Request(Request, Option<Box<Agent>>),
    QuestionSet {
        set: Listed,
        /// The creation time; for a set that cannot be read, the modification time.
        at: Timestamp,
    },
    /// A task that is blocked or ready for review.
    Task(Box<Task>),
}

impl InboxEntry {
    pub fn place(&self) -> ItemPlace {
        let (at, id) = match self {
            Self::Request(request, _) => (request.created_at, request.id.to_string()),
            Self::QuestionSet { set: Listed::Sound(set), at } => (*at, set.id.to_string()),
            Self::QuestionSet { set: Listed::Broken { id, .. }, at } => (*at, id.to_string()),
            Self::Task(task) => (task.updated_at, task.id.to_string()),
        };
        ItemPlace { at, id }
    }
}

/// Which items are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxScope {
    All,
    /// Question sets, and questions and terminal prompts of agents.
    Questions,
}

/// A reply to an inbox item.
#[derive(Debug, Clone)]
pub enum InboxReply {
    /// One of the options, or a line of terminal input.
    Chosen {
        answer: InboxAnswer,
        /// The reason, for a task.
        reason: Option<String>,
    },
    ToQuestions(HumanReply),
}

/// The id of an inbox item, with the record where it was loaded to find the id.
enum InboxEntryId {
    Request(Box<Request>),
    QuestionSet(QuestionSetId),
    Task(Box<Task>),
}

impl Engine {
    /// Returns a page of inbox items, oldest first, and whether more follow.
    pub async fn inbox(&self, query: &WaitingQuery, scope: InboxScope) -> Result<(Vec<InboxEntry>, bool), EngineError> {
        // One more from each source than requested shows whether more follow.
        let limit = query.limit;
        let kinds = match scope {
            InboxScope::All => Vec::new(),
            InboxScope::Questions => vec![RequestKind::Question, RequestKind::Input],
        };
        let more = WaitingQuery { limit: limit.saturating_add(1), kinds, ..query.clone() };
        let mut items = self.question_set_page(&more).await?;
        for found in self.store.waiting(&more).await? {
            items.push(match found {
                WaitingItem::Request(request) => self.request_entry(*request).await?,
                WaitingItem::Task(task) => InboxEntry::Task(task),
            });
        }
        items.sort_by_cached_key(InboxEntry::place);
        let has_more = items.len() > limit;
        items.truncate(limit);
        Ok((items, has_more))
    }

    /// Answers a task with one of its verbs.
    async fn answer_task(
        self: &Arc<Self>,
        task: &Task,
        reply: InboxReply,
        by: Option<String>,
    ) -> Result<(), EngineError> {
        let id = task.id.to_string();
        let (answer, reason) = match reply {
            InboxReply::Chosen { answer, reason } => (answer, reason),
            InboxReply::ToQuestions(HumanReply::Rejection(reason)) => {
                (InboxAnswer::Option("reject".to_owned()), reason)
            }
            InboxReply::ToQuestions(HumanReply::Answers(_)) => (InboxAnswer::Option("answers".to_owned()), None),
        };
        let run = self.latest_workflow(task.id).await?;
        let word = match (&answer, task.state) {
            (InboxAnswer::Option(word), _) => word.as_str(),
            (InboxAnswer::Decision(Decision::Allow), TaskState::PendingMerge) => "approve",
            (InboxAnswer::Decision(Decision::Allow), _) if run.as_ref().is_some_and(can_retry) => "retry",
            (InboxAnswer::Decision(Decision::Allow), _) => "unblock",
            (InboxAnswer::Decision(Decision::Deny), TaskState::PendingMerge) => "reject",
            (InboxAnswer::Decision(Decision::Deny), _) => "close",
        };
        let is_blank = reason.as_deref().is_none_or(|reason| reason.trim().is_empty());
        match word {
            "approve" | "retry" | "unblock" if !is_blank => {
                Err(EngineError::Invalid(format!("cannot answer task {id}: {word} takes no reason")))
            }
            "reject" if is_blank => Err(EngineError::Invalid(format!(
                "cannot reject task {id} without a reason, because the next run gets it; use \
                 `coven inbox answer {id} reject --reason TEXT`"
            ))),
            "approve" => self.approve_task(&id, by).await.map(drop),
            "reject" => self.reject_task(&id, reason, by).await.map(drop),
            "retry" => self.retry_workflow(&id, by, None).await.map(drop),
            "unblock" => self.unblock_task(&id, by).await.map(drop),
            "close" => self.close_task(&id, reason, by).await.map(drop),
            other => Err(EngineError::Invalid(format!(
                "cannot answer task {id} with {other:?}; choose one of: {}",
                task_options(task, run.as_ref()).iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ")
            ))),
        }
    }

    /// Returns an item by its id or a unique prefix. Pending items take precedence over finished ones.
    pub async fn inbox_item(&self, text: &str) -> Result<InboxEntry, EngineError> {
        let found = self.find_entry_id(text).await?;
        self.read_entry(found, text).await
    }

    /// Returns the session that waits for the answer.
    async fn asking_session(&self, found: &InboxEntryId) -> Result<Option<SessionId>, EngineError> {
        Ok(match found {
            InboxEntryId::Request(request) => request.session,
            InboxEntryId::QuestionSet(id) => match self.question_set(*id).await {
                Some(Listed::Sound(set)) => set.asking_session(),
                Some(Listed::Broken { .. }) | None => None,
            },
            // The agent of a task does not ask for the review.
            InboxEntryId::Task(_) => None,
        })
    }

    /// Answers an item and returns its new state. The first answer wins; a later one fails.
    pub async fn answer_in_inbox(
        self: &Arc<Self>,
        text: &str,
        reply: InboxReply,
        caller: &Caller,
    ) -> Result<InboxEntry, EngineError> {
        let found = self.find_entry_id(text).await?;
        if !self.config.permissions.allow_self_answer
            && let Some(asking) = self.asking_session(&found).await?
        {
            caller.ensure_not_in(asking).inspect_err(|error| tracing::warn!(%error, "rejected an answer"))?;
        }
        match (found, reply) {
            (InboxEntryId::Request(request), reply) => {
                let answered = self.answer_request(&request, reply, caller.answered_by()).await?;
                self.note_settled(&answered, caller.origin());
                self.request_entry(answered).await
            }
            (InboxEntryId::QuestionSet(id), InboxReply::ToQuestions(ending)) => {
                self.end_question_set(id, ending, caller.name()).await?;
                self.read_entry(InboxEntryId::QuestionSet(id), text).await
            }
            (InboxEntryId::Task(task), reply) => {
                self.answer_task(&task, reply, caller.name()).await?;
                Ok(InboxEntry::Task(Box::new(self.known_task(task.id).await?)))
            }
            (InboxEntryId::QuestionSet(id), InboxReply::Chosen { .. }) => {
                Err(EngineError::Invalid(format!("question set {id} takes answers or reject, not option or decision")))
            }
        }
    }

    /// Answers a request of an agent in the way that its kind takes.
    async fn answer_request(
        self: &Arc<Self>,
        request: &Request,
        reply: InboxReply,
        by: AnsweredBy,
    ) -> Result<Request, EngineError> {
        let id = request.id;
        match (&request.body, reply) {
            (RequestBody::Permission { .. }, InboxReply::Chosen { answer, reason: None }) => match request.source {
                RequestSource::Acp => self.answer_acp_permission(request, &answer, by).await,
                RequestSource::Hook | RequestSource::Terminal => {
                    self.settle_request(id, |request| answer.apply(request, by).map(drop)).await
                }
            },
            (RequestBody::Permission { .. }, InboxReply::Chosen { .. }) => {
                Err(EngineError::Invalid(format!("permission request {id} takes no reason")))
            }
            (RequestBody::Permission { .. }, InboxReply::ToQuestions(_)) => Err(EngineError::Invalid(format!(
                "permission request {id} takes option or decision, not answers or reject"
            ))),
            (RequestBody::Question { questions }, InboxReply::ToQuestions(HumanReply::Answers(answers))) => {
                check_answers(questions, &answers).map_err(|wrong| EngineError::Invalid(wrong.to_string()))?;
                self.settle_request(id, |it| it.answered(RequestAnswer::Answers(answers), by, clock::now())).await
            }
            (RequestBody::Question { .. }, InboxReply::ToQuestions(HumanReply::Rejection(_))) => {
                self.settle_request(id, |it| it.rejected(by, clock::now())).await
            }
            (RequestBody::Question { .. }, InboxReply::Chosen { .. }) => {
                Err(EngineError::Invalid(format!("question {id} takes answers or reject, not option or decision")))
            }
            (RequestBody::Input { .. }, InboxReply::Chosen { answer: InboxAnswer::Option(text), reason: None }) => {
                self.answer_terminal_prompt(id, &text, by).await
            }
            (RequestBody::Input { .. }, InboxReply::Chosen { .. } | InboxReply::ToQuestions(_)) => {
                Err(EngineError::Invalid(format!(
                    "terminal prompt {id} needs one line of input; send it as option, without other fields"
                )))
            }
        }
    }

    /// Settles a pending request; its event wakes the process that waits for the answer.
    pub(crate) async fn settle_request(
        &self,
        id: RequestId,
        decide: impl FnOnce(&mut Request) -> Result<(), AnswerError> + Send,
    ) -> Result<Request, EngineError> {
        let mut tx = self.store.begin().await?;
        let mut request = tx.request(id).await?.ok_or_else(|| EngineError::QuestionNotFound(id.to_string()))?;
        decide(&mut request).map_err(|source| EngineError::RequestAnswer { id, source })?;
        let event = match request.state {
            RequestState::Answered => "answered",
            RequestState::Rejected => "rejected",
            RequestState::Pending | RequestState::Cancelled => "cancelled",
        };
        tx.record(Change::RequestChanged { request: request.clone(), event }, clock::now()).await?;
        self.commit(tx).await?;
        Ok(request)
    }

    /// Reads a request from the store.
    pub(crate) async fn known_request(&self, id: RequestId) -> Result<Request, EngineError> {
        self.store.request(id).await?.ok_or_else(|| EngineError::QuestionNotFound(id.to_string()))
    }

    async fn request_entry(&self, request: Request) -> Result<InboxEntry, EngineError> {
        let agent = self.agent_of_request(&request).await?;
        Ok(InboxEntry::Request(request, agent.map(Box::new)))
    }

    async fn read_entry(&self, found: InboxEntryId, text: &str) -> Result<InboxEntry, EngineError> {
        match found {
            InboxEntryId::Request(request) => self.request_entry(*request).await,
            InboxEntryId::Task(task) => Ok(InboxEntry::Task(task)),
            InboxEntryId::QuestionSet(id) => match self.question_set(id).await {
                Some(set) => Ok(self.question_item(set).await),
                None => Err(unknown(text)),
            },
        }
    }

    pub(super) async fn question_item(&self, set: Listed) -> InboxEntry {
        let at = match &set {
            Listed::Sound(set) => set.created_at,
            Listed::Broken { id, .. } => self.question_set_touched_at(*id).await.unwrap_or_else(clock::now),
        };
        InboxEntry::QuestionSet { set, at }
    }

    async fn is_pending(&self, found: &InboxEntryId) -> bool {
        match found {
            InboxEntryId::Request(request) => request.is_pending(),
            InboxEntryId::Task(_) => true,
            InboxEntryId::QuestionSet(id) => {
                let set = self.question_set(*id).await;
                matches!(set, Some(Listed::Sound(set)) if set.state == QuestionSetState::Pending)
            }
        }
    }

    async fn find_entry_id(&self, text: &str) -> Result<InboxEntryId, EngineError> {
        let is_sound = !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if !is_sound {
            return Err(unknown(text));
        }
        let prefix = text.to_lowercase();
        let stored = self.store.waiting_with_prefix(&prefix, MAX_CANDIDATES).await?;
        let mut found: Vec<InboxEntryId> = stored
            .into_iter()
            .map(|item| match item {
                WaitingItem::Request(request) => InboxEntryId::Request(request),
                WaitingItem::Task(task) => InboxEntryId::Task(task),
            })
            .collect();
        found.extend(self.question_sets_with_prefix(&prefix).await?.into_iter().map(InboxEntryId::QuestionSet));
        if found.len() > 1 {
            let (mut pending, mut settled) = (Vec::new(), Vec::new());
            for it in found {
                if self.is_pending(&it).await { pending.push(it) } else { settled.push(it) }
            }
            found = if pending.is_empty() { settled } else { pending };
        }
        match (found.len(), found.pop()) {
            (1, Some(only)) => Ok(only),
            (_, None) => Err(unknown(text)),
            (_, Some(last)) => {
                found.push(last);
                let candidates = found.iter().map(|found| match found {
                    InboxEntryId::Request(request) => request.id.to_string(),
                    InboxEntryId::QuestionSet(id) => id.to_string(),
                    InboxEntryId::Task(task) => task.id.to_string(),
                });
                Err(EngineError::AmbiguousItem {
                    what: "inbox items",
                    prefix: text.to_owned(),
                    candidates: candidates.collect(),
                })
            }
        }
    }
}

/// Returns the options of a task in the inbox with the kind of each.
pub fn task_options(task: &Task, run: Option<&WorkflowRun>) -> Vec<(&'static str, &'static str)> {
    let rest = vec![("unblock", "allow_once"), ("close", "reject_once")];
    match task.state {
        TaskState::PendingMerge => vec![("approve", "allow_once"), ("reject", "reject_once")],
        _ if run.is_some_and(can_retry) => [vec![("retry", "allow_once")], rest].concat(),
        _ => rest,
    }
}

fn can_retry(run: &WorkflowRun) -> bool {
    // A run imported from an older version has no definition.
    run.state.after(WorkflowFact::Retried).is_ok() && WorkflowDefinition::of_run(run).is_ok()
}

fn unknown(text: &str) -> EngineError {
    EngineError::QuestionNotFound(text.chars().take(64).collect())
}
