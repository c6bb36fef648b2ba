//! Checks coven's behaviour with an agent that does not open a session.

use coven_domain::session::SessionState;
use std::time::Instant;

use super::super::coven::Coven;
use super::super::death::DEATH;
use super::super::{TrialResult, eventually, process_table, seconds};
use super::AcpAgent;
use super::conversation::{Conversation, TURN};
use super::rest::Rest;

/// Checks that a session fails in bounded time, with the reason and without leftover
/// processes, if the agent requires an account.
pub fn is_refused_clearly(agent: &AcpAgent, coven: &Coven, rest: &Rest) -> TrialResult<String> {
    coven.start()?;
    let started = Instant::now();
    let conversation = Conversation::create(coven, rest, agent.name, None)?;
    let processes = process_table::session_processes(conversation.leader.pid, &conversation.id);
    let ended =
        eventually(TURN, || conversation.record().ok().filter(|session| session.status != SessionState::Running));
    let took = seconds(started);
    let status = ended.ok_or("a session without an account keeps running")?.status;
    let errors = conversation.errors().join("; ");
    if status != SessionState::Failed || !errors.to_lowercase().contains("auth") {
        return Err(format!("the session is {status} with errors {errors:?}").into());
    }
    eventually(DEATH, || (!processes.iter().any(|process| process_table::is_alive(*process))).then_some(()))
        .ok_or("the agent's processes are still running")?;
    Ok(format!("refused in {took}: requires an account"))
}
