//! One prompt and the answer to it, for scripts.

use std::collections::HashMap;

use coven_api::acp_state::AcpStateRecord;
use coven_api::message::MessageRecord;
use coven_api::message_content::MessageContent;
use coven_api::routes::{Endpoint, ReadAcpState};
use coven_domain::MessageId;
use coven_domain::message::Activity;

use super::content::{self, Voice};
use super::feed::Feed;
use super::past;
use super::plain::Away;
use super::report::Report;
use super::request;
use crate::daemon_connector::DaemonConnector;
use crate::failure::{self, Failure};
use crate::{daemon_client, format};

/// A prompt that was accepted.
pub struct Turn {
    connector: DaemonConnector,
    id: String,
    /// The id of the message that the prompt became.
    pub message_id: MessageId,
    after: u64,
    turns: Turns,
}

impl Turn {
    /// Sends the prompt and returns as soon as it is accepted.
    pub fn begin(connector: DaemonConnector, id: String, text: &str) -> Result<Self, Failure> {
        daemon_client::block_on(async {
            let mut client = connector.open().await?;
            let after = past::read(&mut client, &id, 0, |_| Ok(())).await?;
            let before = client.call(ReadAcpState::of(&id)).await?;
            let message_id = request::prompt(&connector, &id, text, after).await?;
            Ok(Self { connector: connector.clone(), id: id.clone(), message_id, after, turns: Turns::behind(&before) })
        })
    }

    /// Hands over the answer's text as it comes; returns how the turn ended.
    pub fn answer(mut self, mut out: impl FnMut(&str) -> Result<(), Failure>) -> Result<String, Failure> {
        let mut feed = Feed::start(self.connector.clone(), self.id.clone(), self.after).map_err(Failure::Runtime)?;
        let mut text = AnswerText::default();
        let mut away = Away::default();
        let stop_reason = loop {
            match feed.next().ok_or_else(super::feed_ended)? {
                Report::Connected => away.is_back(),
                Report::Lost(why) => away.is_lost(&why, &self.id)?,
                Report::Message(message) => {
                    self.after = message.number;
                    self.take(&message, &mut text, &mut out)?;
                }
                Report::State(state) => {
                    if self.turns.is_over(&state) {
                        break state.stop_reason.unwrap_or_default();
                    }
                }
                Report::Questions(pending) => pending.iter().for_each(say_question),
                Report::Ended(record) => break format!("the session is over: {}", format::status(&record)),
                Report::Refused(why) => return Err(Failure::refused(why, "")),
            }
        };
        drop(feed);
        // What was written between the last look and the end of the turn.
        let mut rest = Vec::new();
        daemon_client::block_on(async {
            past::read(&mut self.connector.open().await?, &self.id, self.after, |message| {
                rest.push(message);
                Ok(())
            })
            .await
        })?;
        rest.iter().try_for_each(|message| self.take(message, &mut text, &mut out))?;
        out(text.end())?;
        Ok(stop_reason)
    }

    fn take(
        &self,
        message: &MessageRecord,
        text: &mut AnswerText,
        out: &mut impl FnMut(&str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !self.turns.is_ours() {
            return Ok(());
        }
        if let MessageContent::Error { message, .. } = &message.content {
            failure::print_error(&format::sanitize_line(message));
        }
        text.take(message).iter().try_for_each(|piece| out(piece))
    }
}

/// Says on standard error what the agent waits for.
pub fn say_question(item: &coven_api::inbox::InboxItem) {
    let (title, short) = (format::sanitize_line(&item.title), format::short_id(&item.id));
    failure::print_error(&format!("the agent asks: {title}. Answer with `coven inbox answer {short} allow|deny`."));
}

/// Which turn is ours, counted from what the agent was doing when the prompt was sent.
#[derive(Debug)]
struct Turns {
    /// Turns that end before ours begins.
    ahead: usize,
    ended: usize,
    outstanding: Option<usize>,
}

impl Turns {
    fn behind(state: &AcpStateRecord) -> Self {
        Self { ahead: outstanding(state), ended: 0, outstanding: None }
    }

    fn is_ours(&self) -> bool {
        self.ended >= self.ahead
    }

    /// Whether our turn is over, now that the agent does this.
    fn is_over(&mut self, state: &AcpStateRecord) -> bool {
        let now = outstanding(state);
        let before = self.outstanding.replace(now).unwrap_or(now);
        // Others may have sent prompts behind ours: then only the steps down tell.
        let by_steps = self.ended + before.saturating_sub(now);
        self.ended = by_steps.max((self.ahead + 1).saturating_sub(now));
        self.ended > self.ahead
    }
}

/// Counts the turns that run or wait.
fn outstanding(state: &AcpStateRecord) -> usize {
    usize::from(matches!(state.activity, Activity::Working | Activity::Waiting)) + state.queued
}

/// The agent's text without repetition: pieces as they come, and of a whole only what its pieces left out.
#[derive(Debug, Default)]
struct AnswerText {
    shown: HashMap<MessageId, String>,
    last: Option<MessageId>,
    is_mid_line: bool,
}

impl AnswerText {
    fn take(&mut self, message: &MessageRecord) -> Vec<String> {
        let Some((Voice::Agent, text)) = content::spoken(message) else { return Vec::new() };
        let shown = self.shown.entry(message.message_id).or_default();
        let (text, is_partial) = (text.text.as_str(), text.partial);
        let rest = if is_partial { text } else { text.strip_prefix(shown.as_str()).unwrap_or(text) }.to_owned();
        shown.push_str(&rest);
        if rest.is_empty() {
            return Vec::new();
        }
        let mut pieces = Vec::new();
        // Another message begins on a line of its own.
        if self.last.is_some_and(|last| last != message.message_id) && self.is_mid_line {
            pieces.push("\n".to_owned());
        }
        self.last = Some(message.message_id);
        self.is_mid_line = !rest.ends_with('\n');
        pieces.push(rest);
        pieces
    }

    /// What makes the last line whole.
    fn end(&self) -> &'static str {
        if self.is_mid_line { "\n" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{agent, piece, state};
    use super::*;

    #[test]
    fn our_turn_is_the_one_behind_those_that_were_there() {
        let mut turns = Turns::behind(&state("idle", 0));
        assert!(turns.is_ours());
        assert!(!turns.is_over(&state("working", 0)));
        assert!(turns.is_over(&state("idle", 0)));

        let mut turns = Turns::behind(&state("working", 1));
        assert!(!turns.is_over(&state("working", 2)));
        assert!(!turns.is_over(&state("waiting", 1)));
        assert!(!turns.is_ours());
        assert!(!turns.is_over(&state("working", 0)));
        assert!(turns.is_ours(), "two have ended");
        assert!(turns.is_over(&state("idle", 0)));
    }

    #[test]
    fn a_turn_that_nobody_saw_running_is_over_too() {
        assert!(Turns::behind(&state("idle", 0)).is_over(&state("idle", 0)));
        let mut opening = Turns::behind(&state("opening", 0));
        assert!(!opening.is_over(&state("opening", 1)));
        assert!(!opening.is_over(&state("working", 0)));
        assert!(opening.is_over(&state("idle", 0)));
    }

    #[test]
    fn prompts_behind_ours_do_not_keep_it_open() {
        let mut turns = Turns::behind(&state("idle", 0));
        assert!(!turns.is_over(&state("working", 2)));
        assert!(turns.is_over(&state("working", 1)));
    }

    #[test]
    fn the_answer_is_told_once() {
        let mut text = AnswerText::default();
        let mut told = String::new();
        for message in [piece(1, "a", "Hel"), piece(2, "a", "lo"), agent(3, "a", "Hello!"), agent(4, "b", "Bye\n")] {
            told.extend(text.take(&message));
        }
        assert_eq!((told.as_str(), text.end()), ("Hello!\nBye\n", ""));
    }
}
