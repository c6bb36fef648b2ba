//! Loads the session of a killed agent in a new one.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use coven_domain::message::Role;
use coven_harness::trial::Loading;
use serde_json::Value;

use super::super::report::Check;
use super::super::{TrialResult, death, seconds};
use super::conversation::{Conversation, text};
use super::evidence::last_lines;
use super::trial::Trial;

impl Trial<'_> {
    /// Resumes the session of the killed agent in a new one.
    pub fn load(&self, last_lines_seen: &mut Option<String>) -> TrialResult<Check> {
        if self.agent.trial.loading == Loading::FromTheNextMinute {
            wait_for_the_next_minute(self.opened_at);
        }
        let started = Instant::now();
        let created = Conversation::create(self.coven, self.rest, self.agent.name, Some(&self.conversation.id));
        let capabilities = self.state.capabilities.as_ref().unwrap_or(&Value::Null);
        let can_load = capabilities["loadSession"] == true || capabilities["sessionCapabilities"]["resume"].is_object();
        let later = match created {
            Err(error) if !can_load && error.to_string().contains("session_conflict") => {
                return Ok(Check::Limit("cannot load; coven does not try".to_owned()));
            }
            created => created?,
        };
        let outcome = self.check_resumed(&later);
        if outcome.is_err() {
            *last_lines_seen = last_lines(self.coven, &later.id).or(last_lines_seen.take());
        }
        let took = seconds(started);
        let killed = death::dies_whole(self.coven, &later.id, later.leader);
        let replayed = outcome?;
        killed?;
        Ok(Check::Passed(format!("{took}, {replayed} replayed")))
    }

    /// Checks the resumed session. Returns the number of replayed messages.
    fn check_resumed(&self, later: &Conversation) -> TrialResult<usize> {
        let state = later.opened()?;
        if state.agent_session_id != self.state.agent_session_id {
            return Err(format!(
                "the agent's session id is {:?}, was {:?}",
                state.agent_session_id, self.state.agent_session_id
            )
            .into());
        }
        self.send_prompt(later, "again")?;
        let messages = later.messages(0)?;
        let (replayed, new): (Vec<_>, Vec<_>) = messages.iter().partition(|message| message.content.is_replayed());
        let first_new = new.iter().position(|message| message.role == Role::User).map(|at| new[at].number);
        if let Some(late) = replayed.iter().find(|message| Some(message.number) > first_new) {
            return Err(format!("a replayed message comes after the new prompt: {:?}", late.content).into());
        }
        let hello = format!("hello-from-{}", self.agent.name);
        let times = replayed
            .iter()
            .filter(|message| message.role == Role::Agent && text(message).is_some_and(|text| text.contains(&hello)))
            .count();
        if self.state.capabilities.as_ref().is_some_and(|it| it["loadSession"] == true) && times != 1 {
            return Err(format!("of the {} replayed messages {times} have {hello:?}", replayed.len()).into());
        }
        Ok(replayed.len())
    }
}

fn wait_for_the_next_minute(since: SystemTime) {
    let minute = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 60);
    while minute(SystemTime::now()) <= minute(since) {
        sleep(Duration::from_millis(500));
    }
}
