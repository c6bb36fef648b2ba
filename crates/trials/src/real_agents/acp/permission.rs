//! The agent makes a file and asks before it does; the question is answered in the inbox, or the turn is cancelled.

use std::path::PathBuf;

use coven_api::inbox::InboxItem;
use coven_harness::trial::Cancelling;
use serde_json::Value;

use super::super::Outcome;
use super::conversation::Turn;
use super::trial::Trial;

/// A file that the agent was asked to make.
struct Errand<'a, 'b> {
    turn: Turn<'a, 'b>,
    path: PathBuf,
    /// What the command prints.
    output: String,
    /// What the agent says once it is done.
    done: String,
}

/// What came of a command that was allowed.
pub struct Allowed {
    /// How often the agent asked.
    pub asked: usize,
    /// Whether the message of the tool call has what the command printed.
    pub has_output: bool,
}

impl<'a> Trial<'a> {
    /// Allows whatever the agent asks, after `while_it_waits`.
    pub fn allowed(&self, file: &str, while_it_waits: impl Fn() -> Outcome<()>) -> Outcome<Allowed> {
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
            return Err(format!("the turn is over and there is no file {file}").into());
        }
        let messages = errand.turn.messages()?;
        let tools: Vec<_> = messages.into_iter().filter(|message| message.content["type"] == "tool").collect();
        if !tools.iter().any(|tool| tool.content["status"] == "completed") {
            return Err(format!("no tool call of {} is completed", tools.len()).into());
        }
        let has_output = tools.iter().any(|tool| tool.content["result"].to_string().contains(&errand.output));
        match errand.turn.flaw(&errand.done)? {
            Some(flaw) => Err(flaw.into()),
            None => Ok(Allowed { asked, has_output }),
        }
    }

    /// Denies whatever the agent asks. Whether the turn goes on afterwards is up to the agent.
    pub fn denied(&self, file: &str) -> Outcome<()> {
        let errand = self.errand(file)?;
        let mut asked = 0;
        while let Some(question) = self.next_question(&errand)? {
            asked += 1;
            self.answer(&question, "deny")?;
        }
        self.conversation.idle()?;
        match (asked, errand.path.exists()) {
            (0, _) => Err("nobody was asked".into()),
            (_, true) => Err(format!("denied, and {file} is there").into()),
            (_, false) => no_call_is_open(&errand.turn),
        }
    }

    /// Cancels the turn while a question waits: the question must go with it.
    pub fn cancelled_while_it_asks(&self, file: &str) -> Outcome<()> {
        let errand = self.errand(file)?;
        let question = self.next_question(&errand)?.ok_or("nobody was asked")?;
        self.conversation.cancel()?;
        let stop = self.conversation.idle()?.stop_reason.unwrap_or_default();
        let question = self.conversation.question(&question.id)?;
        if question.status != "cancelled" {
            return Err(format!("the turn is over and its question is {}", question.status).into());
        }
        if errand.path.exists() {
            return Err(format!("cancelled, and {file} is there").into());
        }
        match (stop.as_str(), self.agent.trial.cancelling) {
            ("cancelled", _) | ("end_turn", Cancelling::MaySayEndTurn) => no_call_is_open(&errand.turn),
            _ => Err(format!("the stop reason is {stop:?}").into()),
        }
    }

    fn errand(&self, file: &str) -> Outcome<Errand<'a, '_>> {
        let (output, done) = (format!("output-of-{file}"), format!("made-{file}"));
        // The printed text stands nowhere in the command itself.
        let command = format!("touch {file} && printf 'output-%s\\n' of-{file}");
        let turn = self.conversation.prompt(&format!("{} {command} ;; say {done}", self.agent.trial.asking.verb()))?;
        Ok(Errand { turn, path: self.coven.project.join(file), output, done })
    }

    /// The next question, or nothing once the turn is over.
    fn next_question(&self, errand: &Errand) -> Outcome<Option<InboxItem>> {
        let question = errand.turn.wait_until("neither a question nor the end of the turn comes", || {
            // In this order: a question that came in between is seen the next time.
            let is_over = errand.turn.is_over()?;
            let question = self.conversation.questions()?.into_iter().next();
            Ok(if is_over && question.is_none() { Some(None) } else { question.map(Some) })
        })?;
        if question.is_some() && errand.path.exists() {
            return Err("the file was there before the answer".into());
        }
        Ok(question)
    }

    /// Answers a question, and sees to it that it can be answered only once.
    fn answer(&self, question: &InboxItem, decision: &str) -> Outcome<()> {
        let prefix = if decision == "allow" { "allow" } else { "reject" };
        let answered = self.conversation.answer(question, decision)?;
        let option = answered.options.iter().find(|option| Some(&option.id) == answered.answer.as_ref());
        if answered.status != "answered" || option.is_none_or(|option| !option.kind.starts_with(prefix)) {
            return Err(format!("{decision}: it is {} with {:?}", answered.status, answered.answer).into());
        }
        match self.conversation.answer(question, decision) {
            Err(error) if error.to_string().contains("already_answered") => Ok(()),
            other => Err(format!("a second answer got {:?}", other.map(|item| item.status)).into()),
        }
    }
}

/// Many agents say nothing more of a call that was refused or cancelled; whoever reads must not wait for it.
fn no_call_is_open(turn: &Turn) -> Outcome<()> {
    let messages = turn.messages()?;
    let is_open = |status: &Value| status == "pending" || status == "in_progress";
    let mut tools = messages.iter().filter(|message| message.content["type"] == "tool");
    match tools.find(|tool| is_open(&tool.content["status"])) {
        Some(tool) => Err(format!("the turn is over and its tool call is {}", tool.content["status"]).into()),
        None => Ok(()),
    }
}
