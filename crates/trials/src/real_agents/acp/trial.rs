//! One agent over ACP through coven: open, prompt, permission, cancel, daemon kill, kill, load.

use std::time::{Instant, SystemTime};

use coven_api::acp_state::AcpStateRecord;
use coven_domain::session::SessionState;
use coven_harness::trial::{Asking, Cancelling, Opening, Telling};

use super::super::coven::Coven;
use super::super::report::{Check, Row as _};
use super::super::{TrialResult, death, seconds};
use super::AcpAgent;
use super::chunks;
use super::conversation::Conversation;
use super::evidence::last_lines;
use super::refusal::is_refused_clearly;
use super::rest::Rest;
use super::row::AcpRow;

pub struct Trial<'a> {
    pub agent: &'a AcpAgent,
    pub coven: &'a Coven,
    pub rest: &'a Rest,
    pub conversation: Conversation<'a>,
    pub opened_at: SystemTime,
    /// The agent's state when it became ready.
    pub state: AcpStateRecord,
}

pub fn run(agent: &AcpAgent, coven: &Coven) -> AcpRow {
    let mut row = AcpRow::new(agent);
    match Rest::new(coven.home.join("coven.sock")) {
        Err(error) => row.create = Check::Failed(error.to_string()),
        Ok(rest) => match agent.trial.opening {
            Opening::Opens => whole_trial(agent, coven, &rest, &mut row),
            Opening::WantsAccount => {
                row.create = is_refused_clearly(agent, coven, &rest).map_or_else(failed, Check::Limit)
            }
        },
    }
    if let Err(error) = coven.stop() {
        eprintln!("  {error}");
    }
    row
}

fn whole_trial(agent: &AcpAgent, coven: &Coven, rest: &Rest, row: &mut AcpRow) {
    let started = Instant::now();
    let conversation = match coven.start().and_then(|()| Conversation::create(coven, rest, agent.name, None)) {
        Ok(conversation) => conversation,
        Err(error) => return row.create = failed(error),
    };
    match conversation.opened() {
        Err(error) => {
            row.create = failed(error);
            row.last_lines = last_lines(coven, &conversation.id);
        }
        Ok(state) => {
            row.create = Check::Passed(seconds(started));
            row.version = version(&state);
            Trial { agent, coven, rest, conversation, opened_at: SystemTime::now(), state }.checks(row);
        }
    }
}

impl Trial<'_> {
    /// Runs all checks. After a failure the next ones run too, if the agent becomes idle.
    fn checks(&self, row: &mut AcpRow) {
        row.prompt = self.first_answer().into();
        if self.conversation.cancel_running_turn().is_ok() {
            row.permission = self.permission(row).unwrap_or_else(failed);
        }
        if self.conversation.cancel_running_turn().is_ok() {
            row.cancel = self.cancel().unwrap_or_else(failed);
        }
        if self.conversation.cancel_running_turn().is_ok() {
            row.daemon_killed = self.survives_the_daemon().into();
        }
        // A failed check may have left the daemon dead.
        if let Err(error) = self.coven.start() {
            eprintln!("  {error}");
        }
        if !row.has_passed() {
            row.last_lines = last_lines(self.coven, &self.conversation.id);
        }
        row.kill = death::dies_whole(self.coven, &self.conversation.id, self.conversation.leader).into();
        row.load = self.load(&mut row.last_lines).unwrap_or_else(failed);
    }

    fn first_answer(&self) -> TrialResult<String> {
        let started = Instant::now();
        self.send_prompt(&self.conversation, "hello")?;
        Ok(seconds(started))
    }

    fn permission(&self, row: &mut AcpRow) -> TrialResult<Check> {
        if let Asking::WhenEscalatedIn(mode) = self.agent.trial.asking {
            self.conversation.set_mode(mode)?;
        }
        let started = Instant::now();
        let allowed = self.allowed("allowed", || Ok(()))?;
        let took = seconds(started);
        row.output = match (allowed.has_output, self.agent.trial.telling) {
            (true, _) => Check::Passed("yes".to_owned()),
            (false, Telling::Nothing) => Check::Limit("not reported".to_owned()),
            (false, Telling::Output) => failed("the message of the tool call does not contain the command's output"),
        };
        match (self.agent.trial.asking, allowed.asked) {
            (Asking::Never, 0) => return Ok(Check::Limit("never asks".to_owned())),
            (_, 0) => return Err("the file exists, but the agent did not request permission".into()),
            (_, _) => self.denied("denied").map_err(|error| format!("denied: {error}"))?,
        }
        Ok(Check::Passed(format!("allowed in {took}, denied")))
    }

    fn cancel(&self) -> TrialResult<Check> {
        let turn = self.conversation.prompt("slow 400 100")?;
        turn.wait_for("chunk 3 ")?;
        let started = Instant::now();
        self.conversation.cancel()?;
        let stop = self.conversation.idle()?.stop_reason.unwrap_or_default();
        let took = seconds(started);
        let last = chunks::numbers(&turn.answer()?).into_iter().max().unwrap_or(0);
        if last >= 400 {
            return Err("the answer is complete despite the cancel".into());
        }
        self.send_prompt(&self.conversation, "after-the-cancel")?;
        if self.agent.trial.asking != Asking::Never {
            let cancelled = self.cancelled_while_it_asks("cancelled");
            cancelled.map_err(|error| format!("during a permission request: {error}"))?;
        }
        match (stop.as_str(), self.agent.trial.cancelling) {
            ("cancelled", _) => Ok(Check::Passed(took)),
            ("end_turn", Cancelling::MaySayEndTurn) => Ok(Check::Limit(format!("{took}, reports end_turn"))),
            _ => Err(format!("the stop reason is {stop:?}").into()),
        }
    }

    /// Kills the daemon during an answer, and again during a permission request.
    fn survives_the_daemon(&self) -> TrialResult<String> {
        let count = 40;
        let turn = self.conversation.prompt(&format!("slow {count} 250"))?;
        turn.wait_for("chunk 3 ")?;
        let daemon = death::kill_daemon(self.coven, &self.conversation.id)?;
        self.coven.start()?;
        let session = self.conversation.record()?;
        if session.status != SessionState::Running || session.pid != Some(self.conversation.leader.pid) {
            return Err(format!("the session is {} with pid {:?}", session.status, session.pid).into());
        }
        if self.coven.daemon_pid()? == daemon.pid {
            return Err("the daemon's pid has not changed".into());
        }
        turn.wait_for(&format!("chunk {count}"))?;
        let stop = self.conversation.idle()?.stop_reason;
        if let Some(flaw) = chunks::flaw(&turn.answer()?, count).or(turn.flaw(&format!("chunk {count}"))?) {
            return Err(flaw.into());
        }
        if stop.as_deref() != Some("end_turn") {
            return Err(format!("the answer is complete, but the stop reason is {stop:?}").into());
        }
        self.send_prompt(&self.conversation, "after-the-daemon")?;
        if self.agent.trial.asking == Asking::Never {
            return Ok("answer complete".to_owned());
        }
        let allowed =
            self.allowed("allowed-later", || death::kill_idle_daemon(self.coven).and_then(|_| self.coven.start()));
        match allowed.map_err(|error| format!("during a permission request: {error}"))?.asked {
            0 => Err("the agent did not request permission the second time".into()),
            _ => Ok("answer complete, request kept".to_owned()),
        }
    }

    /// Sends a short prompt and checks that prompt and answer appear once.
    pub fn send_prompt(&self, conversation: &Conversation, word: &str) -> TrialResult<()> {
        let answer = format!("{word}-from-{}", self.agent.name);
        let turn = conversation.prompt(&format!("say {answer}"))?;
        turn.wait_for(&answer)?;
        let stop = conversation.idle()?.stop_reason;
        if let Some(flaw) = turn.flaw(&answer)? {
            return Err(flaw.into());
        }
        match stop.as_deref() {
            Some("end_turn") => Ok(()),
            other => Err(format!("the agent answered {answer:?}, but the stop reason is {other:?}").into()),
        }
    }
}

fn failed(error: impl ToString) -> Check {
    Check::Failed(error.to_string())
}

fn version(state: &AcpStateRecord) -> Check {
    match state.agent.as_ref().and_then(|agent| agent.version.as_deref()) {
        Some(version) => Check::Passed(version.to_owned()),
        None => Check::Limit("not reported".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use coven_api::acp_state::AcpInfo;
    use coven_domain::message::Activity;

    use super::*;

    #[test]
    fn an_agent_may_keep_its_version_to_itself() {
        let mut state = AcpStateRecord::new(Activity::Idle);
        state.agent = Some(AcpInfo { version: Some("1.2".to_owned()), ..AcpInfo::default() });
        assert_eq!(version(&state), Check::Passed("1.2".to_owned()));
        state.agent = None;
        assert_eq!(version(&state), Check::Limit("not reported".to_owned()));
    }
}
