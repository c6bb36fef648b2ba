//! Detects agents of tasks that are blocked on terminal input.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use coven_domain::SessionId;
use coven_domain::request::Request;
use coven_holder::process;

use crate::Engine;
use crate::error::EngineError;

const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// A terminal without output for this long, whose program reads from it, waits for input.
const QUIET_PERIOD: Duration = Duration::from_secs(2);

/// Log offset of each terminal and when it last changed.
type LastOutputAt = HashMap<SessionId, (u64, Instant)>;

/// Runs until the daemon stops.
pub async fn run(engine: Arc<Engine>) {
    let (mut last_output_at, mut was_idle) = (LastOutputAt::new(), false);
    loop {
        // One last pass after the last session, for prompts that are still open; then an idle daemon does nothing.
        let is_idle = engine.live_sessions().is_empty();
        if !(is_idle && was_idle)
            && let Err(error) = tick(&engine, &mut last_output_at, Instant::now()).await
        {
            tracing::warn!(%error, "cannot check for terminal prompts");
        }
        was_idle = is_idle;
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = engine.stopped() => return,
        }
    }
}

async fn tick(engine: &Arc<Engine>, last_output_at: &mut LastOutputAt, now: Instant) -> Result<(), EngineError> {
    let agents = engine.agents_at_work().await?;
    let open = engine.open_terminal_prompts().await?;
    for question in &open {
        update_prompt(engine, question, agents.iter().any(|agent| Some(agent.id) == question.agent)).await?;
    }
    last_output_at.retain(|session, _| agents.iter().any(|agent| agent.session == Some(*session)));
    let mut quiet = Vec::new();
    for agent in &agents {
        let Some(live) = agent.session.and_then(|session| engine.live_session(session)) else { continue };
        if live.acp.is_some() {
            continue;
        }
        let offset = live.log_end().await;
        let (last_offset, since) = last_output_at.entry(live.id).or_insert((offset, now));
        if *last_offset != offset {
            (*last_offset, *since) = (offset, now);
        }
        let is_asked =
            open.iter().any(|question| question.agent == Some(agent.id) && question.offset() == Some(offset));
        if is_asked || now.duration_since(*since) < QUIET_PERIOD {
            continue;
        }
        quiet.extend(agent.pid.map(|pid| (pid, agent, live.id, offset)));
    }
    if quiet.is_empty() {
        return Ok(());
    }
    let pids: Vec<u32> = quiet.iter().map(|(pid, ..)| *pid).collect();
    let reading = tokio::task::spawn_blocking(move || pids_reading_tty(&pids)).await.unwrap_or_default();
    for (pid, agent, session, offset) in quiet {
        if reading.contains(&pid) {
            engine.record_terminal_prompt(agent, session, offset).await?;
        }
    }
    Ok(())
}

/// Abandons a prompt whose terminal has new output. Types an answer that was not typed yet.
async fn update_prompt(engine: &Arc<Engine>, question: &Request, is_at_work: bool) -> Result<(), EngineError> {
    if !question.is_pending() {
        return engine.deliver_answer(question).await;
    }
    let session = engine.agent_of_request(question).await?.and_then(|agent| agent.session);
    let has_new_output = match session.map(|session| (session, engine.live_session(session))) {
        Some((_, Some(live))) => Some(live.log_end().await) > question.offset(),
        // After a restart, the holder may not have answered yet.
        Some((session, None)) => !engine.session(session).await?.is_live(),
        None => true,
    };
    if !is_at_work || has_new_output { engine.abandon_terminal_prompt(question.id).await } else { Ok(()) }
}

/// Returns the pids whose terminal session has a process that sleeps in a read from the terminal. Empty if the kernel
/// does not show this.
fn pids_reading_tty(pids: &[u32]) -> HashSet<u32> {
    // A harness leads its terminal session, and its descendants mostly stay in it: one scan of /proc is enough.
    let all = process::all();
    let sessions: HashSet<u32> = pids.iter().copied().collect();
    let members = all.iter().filter(|it| sessions.contains(&it.session));
    members.filter(|it| sleeps_in_read(it.pid)).map(|it| it.session).collect()
}

fn sleeps_in_read(pid: u32) -> bool {
    let waits_in = std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    let is_read = ["wait_woken", "n_tty_read", "tty_read"].contains(&waits_in.trim());
    is_read && std::fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|it| it.starts_with("/dev/pts"))
}
