//! An agent that opens no session: coven must say so and leave nothing behind.

use std::time::Instant;

use super::super::coven::Coven;
use super::super::death::DEATH;
use super::super::{Outcome, eventually, process_table, seconds};
use super::AcpAgent;
use super::conversation::{Conversation, TURN};
use super::rest::Rest;

/// An agent that wants an account: the session must fail in bounded time, say why, and leave nothing behind.
pub fn is_refused_clearly(agent: &AcpAgent, coven: &Coven, rest: &Rest) -> Outcome<String> {
    coven.start()?;
    let started = Instant::now();
    let conversation = Conversation::create(coven, rest, agent.name, None)?;
    let family = process_table::family(conversation.leader.pid, &conversation.id);
    let ended = eventually(TURN, || conversation.record().ok().filter(|session| session.status != "running"));
    let took = seconds(started);
    let status = ended.ok_or("a session without an account goes on")?.status;
    let errors = conversation.errors().join("; ");
    if status != "failed" || !errors.to_lowercase().contains("auth") {
        return Err(format!("the session is {status} and says {errors:?}").into());
    }
    eventually(DEATH, || (!family.iter().any(|process| process_table::is_alive(*process))).then_some(()))
        .ok_or("its processes live on")?;
    Ok(format!("refused in {took}: wants an account"))
}
