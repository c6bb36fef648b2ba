//! The inbox: one list of everything that needs a human, with one way to answer.

use std::sync::Arc;

use coven_domain::agent::Agent;
use coven_domain::lifecycle::Lifecycle as _;
use coven_domain::permission::{Decision, Permission};
use coven_domain::query::{ItemPlace, PermissionQuery, TerminalPromptQuery, WaitingQuery};
use coven_domain::question_set::QuestionSetState;
use coven_domain::task::{Task, TaskState};
use coven_domain::terminal_prompt::TerminalPrompt;
use coven_domain::workflow::{WorkflowFact, WorkflowRun};
use coven_domain::{QuestionId, QuestionSetId, SessionId, Timestamp};
use coven_holder::clock;
use coven_interop::questions::Listed;
use coven_workflow::WorkflowDefinition;

use super::Engine;
use super::acp::InboxAnswer;
use super::caller::Caller;
use super::question_set::HumanReply;
use crate::error::EngineError;

const MAX_TASKS: usize = 1000;

/// An item of the inbox, pending or finished.
#[derive(Debug)]
pub enum InboxEntry {
    Permission(Permission),
    QuestionSet {
        set: Listed,
        /// The creation time; for a set that cannot be read, the modification time.
        at: Timestamp,
    },
    /// A task that is blocked or ready for review.
    Task(Box<Task>),
    /// An agent of a task that waits for terminal input.
    TerminalPrompt(Box<TerminalPrompt>, Option<Box<Agent>>),
}

impl InboxEntry {
    pub fn place(&self) -> ItemPlace {
        let (at, id) = match self {
            Self::Permission(permission) => (permission.created_at, permission.id.to_string()),
            Self::QuestionSet { set: Listed::Sound(set), at } => (*at, set.id.to_string()),
            Self::QuestionSet { set: Listed::Broken { id, .. }, at } => (*at, id.to_string()),
            Self::Task(task) => (task.updated_at, task.id.to_string()),
            Self::TerminalPrompt(question, _) => (question.created_at, question.id.to_string()),
        };
        ItemPlace { at, id }
    }
}

/// Which items are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxScope {
    All,
    /// Question sets and terminal prompts.
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
    Permission(Box<Permission>),
    QuestionSet(QuestionSetId),
    Task(Box<Task>),
    TerminalPrompt(QuestionId),
}

impl Engine {
    /// Returns a page of inbox items, oldest first, and whether more follow.
    pub async fn inbox(&self, query: &WaitingQuery, scope: InboxScope) -> Result<(Vec<InboxEntry>, bool), EngineError> {
        let WaitingQuery { include_settled, session, ref after, limit } = *query;
        // One more from each source than requested shows whether more follow.
        let more = WaitingQuery { limit: limit.saturating_add(1), ..query.clone() };
        let mut items = self.question_set_page(&more).await?;
        for question in self.store.terminal_prompts(&TerminalPromptQuery::Page(more.clone())).await? {
            let agent = self.agent_of_prompt(question.agent).await?;
            items.push(InboxEntry::TerminalPrompt(Box::new(question), agent.map(Box::new)));
        }
        if scope == InboxScope::All {
            let (after, limit) = (after.clone(), Some(more.limit));
            let permissions = PermissionQuery { include_settled, session, prefix: None, after, limit };
            items.extend(self.store.permissions(&permissions).await?.into_iter().map(InboxEntry::Permission));
            if session.is_none() {
                let tasks = self.store.waiting_tasks(query.after.as_ref(), more.limit).await?;
                items.extend(tasks.into_iter().map(|task| InboxEntry::Task(Box::new(task))));
            }
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
            InboxEntryId::Permission(permission) => Some(permission.session),
            InboxEntryId::QuestionSet(id) => match self.question_set(*id).await {
                Some(Listed::Sound(set)) => set.asking_session(),
                Some(Listed::Broken { .. }) | None => None,
            },
            InboxEntryId::TerminalPrompt(id) => {
                let asked = self.store.terminal_prompts(&TerminalPromptQuery::Prefix(id.to_string())).await?.pop();
                match asked {
                    Some(asked) => self.agent_of_prompt(asked.agent).await?.and_then(|agent| agent.session),
                    None => None,
                }
            }
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
            (InboxEntryId::Permission(permission), InboxReply::Chosen { answer, reason: None }) => {
                Ok(InboxEntry::Permission(self.answer_permission(&permission, &answer, caller.answered_by()).await?))
            }
            (InboxEntryId::QuestionSet(id), InboxReply::ToQuestions(ending)) => {
                self.end_question_set(id, ending, caller.name()).await?;
                self.read_entry(InboxEntryId::QuestionSet(id), text).await
            }
            (
                InboxEntryId::TerminalPrompt(id),
                InboxReply::Chosen { answer: InboxAnswer::Option(text), reason: None },
            ) => {
                self.answer_terminal_prompt(id, &text).await?;
                self.read_entry(InboxEntryId::TerminalPrompt(id), text.as_str()).await
            }
            (InboxEntryId::TerminalPrompt(id), InboxReply::Chosen { .. } | InboxReply::ToQuestions(_)) => {
                Err(EngineError::Invalid(format!(
                    "terminal prompt {id} needs one line of input; send it as option, without other fields"
                )))
            }
            (InboxEntryId::Task(task), reply) => {
                self.answer_task(&task, reply, caller.name()).await?;
                Ok(InboxEntry::Task(Box::new(self.known_task(task.id).await?)))
            }
            (InboxEntryId::Permission(permission), InboxReply::Chosen { .. }) => {
                Err(EngineError::Invalid(format!("permission request {} takes no reason", permission.id)))
            }
            (InboxEntryId::Permission(permission), InboxReply::ToQuestions(_)) => Err(EngineError::Invalid(format!(
                "permission request {} takes option or decision, not answers or reject",
                permission.id
            ))),
            (InboxEntryId::QuestionSet(id), InboxReply::Chosen { .. }) => {
                Err(EngineError::Invalid(format!("question set {id} takes answers or reject, not option or decision")))
            }
        }
    }

    async fn read_entry(&self, found: InboxEntryId, text: &str) -> Result<InboxEntry, EngineError> {
        match found {
            InboxEntryId::Permission(permission) => Ok(InboxEntry::Permission(*permission)),
            InboxEntryId::Task(task) => Ok(InboxEntry::Task(task)),
            InboxEntryId::TerminalPrompt(id) => {
                let query = TerminalPromptQuery::Prefix(id.to_string());
                let question = self.store.terminal_prompts(&query).await?.pop().ok_or_else(|| unknown(text))?;
                let agent = self.agent_of_prompt(question.agent).await?;
                Ok(InboxEntry::TerminalPrompt(Box::new(question), agent.map(Box::new)))
            }
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

    async fn find_entry_id(&self, text: &str) -> Result<InboxEntryId, EngineError> {
        let is_sound = !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if !is_sound {
            return Err(unknown(text));
        }
        let prefix = text.to_lowercase();
        let mut sets = self.question_sets_with_prefix(&prefix).await?;
        let query = PermissionQuery { include_settled: true, prefix: Some(prefix), ..PermissionQuery::default() };
        let mut permissions = self.store.permissions(&query).await?;
        if permissions.len() + sets.len() > 1 {
            let mut waiting = Vec::new();
            for id in &sets {
                let set = self.question_set(*id).await;
                if matches!(set, Some(Listed::Sound(set)) if set.state == QuestionSetState::Pending) {
                    waiting.push(*id);
                }
            }
            let open = permissions.iter().filter(|permission| permission.answered_at.is_none()).count();
            if open + waiting.len() == 1 {
                permissions.retain(|permission| permission.answered_at.is_none());
                sets = waiting;
            }
        }
        let mut found: Vec<InboxEntryId> =
            permissions.into_iter().map(|it| InboxEntryId::Permission(Box::new(it))).collect();
        found.extend(sets.into_iter().map(InboxEntryId::QuestionSet));
        let asked = self.store.terminal_prompts(&TerminalPromptQuery::Prefix(text.to_lowercase())).await?;
        let waiting = asked.iter().filter(|it| it.state == QuestionSetState::Pending).count();
        found.extend(
            asked
                .into_iter()
                .filter(|it| waiting != 1 || it.state == QuestionSetState::Pending)
                .map(|it| InboxEntryId::TerminalPrompt(it.id)),
        );
        for id in self.store.task_ids_with_prefix(text, MAX_TASKS).await? {
            let task = self.store.task(id).await?;
            let waits = |task: &Task| matches!(task.state, TaskState::PendingMerge | TaskState::Blocked);
            found.extend(task.filter(waits).map(|task| InboxEntryId::Task(Box::new(task))));
        }
        match (found.len(), found.pop()) {
            (1, Some(only)) => Ok(only),
            (_, None) => Err(unknown(text)),
            (_, Some(last)) => {
                found.push(last);
                let candidates = found.iter().map(|found| match found {
                    InboxEntryId::Permission(permission) => permission.id.to_string(),
                    InboxEntryId::QuestionSet(id) => id.to_string(),
                    InboxEntryId::Task(task) => task.id.to_string(),
                    InboxEntryId::TerminalPrompt(id) => id.to_string(),
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
