//! Permission checks: the agent requests permission to create a file; the trial
//! answers in the inbox or cancels the turn.

use std::path::PathBuf;

use coven_api::inbox::{InboxItem, InboxStatus};
use coven_api::message_content::ToolStatus;
use coven_harness::trial::Cancelling;
use serde_json::json;

use super::super::TrialResult;
use super::conversation::Turn;
use super::trial::Trial;

/// A prompt that makes the agent create a file.
struct Errand<'a, 'b> {
    turn: Turn<'a, 'b>,
    path: PathBuf,
    /// The command's output.
    output: String,
    /// The agent's text after the command.
    done: String,
}

/// The result of an allowed command.
pub struct Allowed {
    /// Number of permission requests.
    pub asked: usize,
    /// Whether the message of the tool call contains the command's output.
    pub has_output: bool,
}

impl<'a> Trial<'a> {
    /// Allows every permission request; runs `while_it_waits` before the first answer.
    pub fn allowed(&self, file: &str, while_it_waits: impl Fn() -> TrialResult<()>) -> TrialResult<Allowed> {
        let errand = self.errand(file)?;
        let mut asked = 0;
        while let Some(question) = self.next_question(&errand)? {
            if asked == 0 {
                while_it_waits()?;
            }
            asked += 1;
            self.answer(&question, "allow")?;
        }
        self.conversation.idle()?;
        if !errand.path.exists() {
            return Err(format!("the turn is over, but file {file} does not exist").into());
        }
        let messages = errand.turn.messages()?;
        let tools: Vec<_> = messages.iter().filter_map(|message| message.content.tool()).collect();
        if !tools.iter().any(|tool| tool.status == ToolStatus::Completed) {
            return Err(format!("no tool call of {} is completed", tools.len()).into());
        }
        let has_output = tools.iter().any(|tool| json!(tool.result).to_string().contains(&errand.output));
        match errand.turn.flaw(&errand.done)? {
            Some(flaw) => Err(flaw.into()),
            None => Ok(Allowed { asked, has_output }),
        }
    }

    /// Denies every permission request. The agent may continue or end the turn.
    pub fn denied(&self, file: &str) -> TrialResult<()> {
        let errand = self.errand(file)?;
        let mut asked = 0;
        while let Some(question) = self.next_question(&errand)? {
            asked += 1;
            self.answer(&question, "deny")?;
        }
        self.conversation.idle()?;
        match (asked, errand.path.exists()) {
            (0, _) => Err("the agent did not request permission".into()),
            (_, true) => Err(format!("permission was denied, but file {file} exists").into()),
            (_, false) => no_call_is_open(&errand.turn),
        }
    }

    /// Cancels the turn during a permission request and checks that the request is cancelled, too.
    pub fn cancelled_while_it_asks(&self, file: &str) -> TrialResult<()> {
        let errand = self.errand(file)?;
        let question = self.next_question(&errand)?.ok_or("the agent did not request permission")?;
        self.conversation.cancel()?;
        let stop = self.conversation.idle()?.stop_reason.unwrap_or_default();
        let question = self.conversation.question(&question.id)?;
        if question.status != InboxStatus::Cancelled {
            return Err(format!("the turn is over, but its permission request is {}", question.status).into());
        }
        if errand.path.exists() {
            return Err(format!("the turn was cancelled, but file {file} exists").into());
        }
        match (stop.as_str(), self.agent.trial.cancelling) {
            ("cancelled", _) | ("end_turn", Cancelling::MaySayEndTurn) => no_call_is_open(&errand.turn),
            _ => Err(format!("the stop reason is {stop:?}").into()),
        }
    }

    fn errand(&self, file: &str) -> TrialResult<Errand<'a, '_>> {
        let (output, done) = (format!("output-of-{file}"), format!("made-{file}"));
        // The command itself does not contain the printed text.
        let command = format!("touch {file} && printf 'output-%s\\n' of-{file}");
        let turn = self.conversation.prompt(&format!("{} {command} ;; say {done}", self.agent.trial.asking.verb()))?;
        Ok(Errand { turn, path: self.coven.project.join(file), output, done })
    }

    /// Returns the next permission request, or `None` when the turn is over.
    fn next_question(&self, errand: &Errand) -> TrialResult<Option<InboxItem>> {
        let question = errand.turn.wait_until("neither a permission request nor the end of the turn", || {
            // In this order: a request that arrives in between is found by the next poll.
            let is_over = errand.turn.is_over()?;
            let question = self.conversation.questions()?.into_iter().next();
            Ok(if is_over && question.is_none() { Some(None) } else { question.map(Some) })
        })?;
        if question.is_some() && errand.path.exists() {
            return Err("the file existed before the answer".into());
        }
        Ok(question)
    }

    /// Answers a permission request and checks that a second answer is rejected.
    fn answer(&self, question: &InboxItem, decision: &str) -> TrialResult<()> {
        let prefix = if decision == "allow" { "allow" } else { "reject" };
        let answered = self.conversation.answer(question, decision)?;
        let option = answered.options.iter().find(|option| Some(&option.id) == answered.answer.as_ref());
        if answered.status != InboxStatus::Answered || option.is_none_or(|option| !option.kind.starts_with(prefix)) {
            return Err(format!("{decision}: the request is {} with {:?}", answered.status, answered.answer).into());
        }
        match self.conversation.answer(question, decision) {
            Err(error) if error.to_string().contains("already_answered") => Ok(()),
            other => Err(format!("the second answer returned {:?}", other.map(|item| item.status)).into()),
        }
    }
}

/// Checks that no tool call stays open: many agents send no final status for a denied or cancelled call, so coven must
/// close it.
fn no_call_is_open(turn: &Turn) -> TrialResult<()> {
    let messages = turn.messages()?;
    let mut tools = messages.iter().filter_map(|message| message.content.tool());
    match tools.find(|tool| !tool.status.is_over()) {
        Some(tool) => Err(format!("the turn is over and its tool call is {}", tool.status).into()),
        None => Ok(()),
    }
}
