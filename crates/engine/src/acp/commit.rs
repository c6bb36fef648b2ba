//! Stores the effects of a transition in one transaction, then runs them.

use std::sync::Arc;
use std::time::Duration;

use coven_acp::{Effects, TurnChange};
use coven_domain::activity::{Activity, ActivityFact, ActivitySource, Observation};
use coven_domain::query::RequestQuery;
use coven_domain::request::{
    AnsweredBy, Decision, Request, RequestAnswer, RequestBody, RequestSource, RequestState, SettledFrom,
};
use coven_domain::{SessionId, Timestamp};
use coven_holder::clock;
use coven_host::config::{NotificationKind, Rule};
use coven_store::{AcpCheckpointUpdate, Change, StoreError, Tx};
use serde_json::{Value, json};

use super::super::Engine;
use super::super::notification::{InboxNotification, Need};
use super::outbox::with_offsets;
use super::{AcpConnection, AcpSession};
use crate::error::EngineError;
use crate::runtime;
use coven_holder::fault;

const STORE_RETRY: Duration = Duration::from_secs(1);

impl Engine {
    /// Retries until the commit succeeds or the daemon stops: output that the agent already produced cannot be rejected.
    pub(super) async fn commit_with_retry(
        self: &Arc<Self>,
        acp: &Arc<AcpSession>,
        connection: &mut AcpConnection,
        effects: Effects,
    ) {
        let mut effects = effects;
        let permissions = self.decide_by_rule(acp, connection, &mut effects);
        loop {
            match self.store_step(acp, connection, &effects, &permissions).await {
                Ok(()) => break,
                Err(error) => tracing::error!(session = %acp.id, %error, "cannot store an ACP session; retrying"),
            }
            tokio::select! {
                () = tokio::time::sleep(STORE_RETRY) => {}
                () = self.stopped() => return,
            }
        }
        self.run_effects(acp, effects);
    }

    /// Commits a client's request, or restores the state before it.
    pub(super) async fn commit_or_revert(
        self: &Arc<Self>,
        acp: &Arc<AcpSession>,
        connection: &mut AcpConnection,
        before: coven_acp::State,
        mut effects: Effects,
        answered: Option<Request>,
    ) -> Result<(), EngineError> {
        let mut permissions = self.decide_by_rule(acp, connection, &mut effects);
        permissions.extend(answered);
        if let Err(error) = self.store_step(acp, connection, &effects, &permissions).await {
            connection.machine = coven_acp::Machine::from_state(before);
            return Err(error.into());
        }
        acp.touch(clock::now());
        self.run_effects(acp, effects);
        Ok(())
    }

    /// Creates permission records and answers those that a rule decides.
    fn decide_by_rule(&self, acp: &AcpSession, connection: &mut AcpConnection, effects: &mut Effects) -> Vec<Request> {
        let now = clock::now();
        let permission_requests = std::mem::take(&mut effects.permission_requests);
        permission_requests
            .into_iter()
            .map(|ask| {
                let (what, content) = ((ask.id, RequestSource::Acp), (ask.options, ask.tool_call));
                let mut permission = Request::permission(what, acp.id, ask.title, content, now);
                let decision = match acp.rule {
                    Rule::Ask => return permission,
                    Rule::Allow => Decision::Allow,
                    Rule::Deny => Decision::Deny,
                };
                let option = decision.select_option(permission.options()).map(|option| option.id.clone()).ok();
                if connection.machine.decide(permission.id, option.as_deref(), effects) {
                    match &option {
                        Some(option) => permission
                            .answered(RequestAnswer::Option(option.clone()), AnsweredBy::Rule, now)
                            .expect("the request is pending and has this option"),
                        None => drop(permission.cancelled(AnsweredBy::Rule, now)),
                    }
                }
                permission
            })
            .collect()
    }

    async fn store_step(
        &self,
        acp: &AcpSession,
        connection: &mut AcpConnection,
        effects: &Effects,
        permissions: &[Request],
    ) -> Result<(), StoreError> {
        let (id, now) = (acp.id, clock::now());
        let mut tx = self.store.begin_unsynced().await?;
        write_effects(&mut tx, id, effects, permissions, now).await?;
        let (lines, written_to) = with_offsets(&effects.lines, connection.queued_offset);
        let state = effects
            .has_new_state
            .then(|| serde_json::to_string(connection.machine.state()).expect("a state has text keys only"));
        let progress = AcpCheckpointUpdate {
            read_to: connection.processed_offset,
            written_to,
            delivered_to: acp.outbox.delivered_to(),
            active_at: Some(now),
            state: state.as_deref(),
            lines: &lines,
        };
        tx.save_acp_checkpoint(id, &progress).await?;
        self.commit_output(tx).await?;
        if effects.turns.contains(&TurnChange::Started) {
            fault::point("after_prompt");
        }
        if permissions.iter().any(Request::is_pending) {
            fault::point("after_acp_request");
        }
        self.observe_acp(acp, effects, permissions);
        for withdrawn in &effects.withdrawn {
            if let Ok(Some(request)) = self.store.request(*withdrawn).await
                && request.state == RequestState::Cancelled
            {
                self.note_settled(&request, SettledFrom::Protocol);
            }
        }
        for permission in permissions.iter().filter(|it| it.is_pending()) {
            let (need, title) = (Need::Request(permission.id), permission.title.clone());
            let kind = NotificationKind::Permission;
            self.notify(InboxNotification { need, kind, session: Some(id), title });
        }
        connection.queued_offset = written_to;
        acp.outbox.push(lines);
        acp.notify_changed();
        Ok(())
    }

    /// Reports what a stored transition says about the agent's activity.
    fn observe_acp(&self, acp: &AcpSession, effects: &Effects, permissions: &[Request]) {
        let Some(live) = self.live_session(acp.id) else { return };
        let now = clock::now();
        let observe = |fact, detail: Option<&str>| {
            self.observe(&live, Observation::new(ActivitySource::Protocol, fact, detail, now));
        };
        if effects.turns.contains(&TurnChange::Started) {
            observe(ActivityFact::Worked, None);
        }
        if permissions.iter().any(|it| !it.is_pending()) || !effects.withdrawn.is_empty() {
            observe(ActivityFact::Settled, None);
        }
        for pending in permissions.iter().filter(|it| it.is_pending()) {
            observe(ActivityFact::PermissionAsked, Some(&wanted(pending)));
        }
        for turn in &effects.turns {
            if let TurnChange::Ended { stop_reason } = turn {
                observe(turn_end(stop_reason), Some(stop_reason).filter(|it| is_limit(it)).map(String::as_str));
            }
        }
    }

    /// Returns what the stored protocol says about the activity, if the stored activity says something else.
    pub(crate) async fn unstored_acp_activity(
        &self,
        acp: &AcpSession,
        stored: Activity,
    ) -> Result<Option<(ActivityFact, Option<String>)>, EngineError> {
        let connection = acp.connection().await;
        let state = connection.machine.state();
        if state.waits_for_human() {
            let query = RequestQuery { session: Some(acp.id), ..RequestQuery::default() };
            let pending = self.store.requests(&query).await?;
            let asked = pending.iter().find(|it| it.source == RequestSource::Acp).filter(|_| !stored.needs_a_human());
            return Ok(asked.map(|asked| (ActivityFact::PermissionAsked, Some(wanted(asked)))));
        }
        let fact = match (state.is_turn_running(), stored) {
            (true, Activity::Working) => None,
            (true, _) => Some(ActivityFact::Worked),
            (false, Activity::Working | Activity::Permission) => Some(ActivityFact::TurnEnded),
            (false, _) => None,
        };
        Ok(fact.map(|fact| (fact, None)))
    }

    /// Runs the effects of a stored transition.
    fn run_effects(self: &Arc<Self>, acp: &Arc<AcpSession>, effects: Effects) {
        for call in effects.calls {
            self.spawn_client_call(acp, call);
        }
        if let Some(reason) = effects.failed {
            let (engine, acp) = (self.clone(), acp.clone());
            // Ends with the session.
            runtime::spawn(async move {
                // The agent's standard error is in the journal by now.
                engine.end_failed_handshake(&acp, &reason).await;
            });
        }
    }
}

/// Returns what the end of a turn says: agents report a quota or rate limit in the text of the error.
fn turn_end(stop_reason: &str) -> ActivityFact {
    if is_limit(stop_reason) { ActivityFact::LimitReached } else { ActivityFact::TurnEnded }
}

fn is_limit(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    ["429", "rate limit", "rate_limit", "quota", "too many requests"].iter().any(|word| reason.contains(word))
}

/// Records messages, turns and permission requests with their events.
pub(super) async fn write_effects(
    tx: &mut Box<dyn Tx>,
    id: SessionId,
    effects: &Effects,
    permissions: &[Request],
    now: Timestamp,
) -> Result<(), StoreError> {
    if !effects.messages.is_empty() {
        tx.record(Change::MessagesChanged { session: id, changes: effects.messages.clone() }, now).await?;
    }
    for permission in permissions {
        let event = match permission.state {
            RequestState::Pending => "requested",
            RequestState::Answered => "answered",
            RequestState::Rejected | RequestState::Cancelled => "cancelled",
        };
        tx.record(Change::RequestChanged { request: permission.clone(), event }, now).await?;
    }
    for withdrawn in &effects.withdrawn {
        if let Some(mut request) = tx.request(*withdrawn).await?
            && request.cancelled(AnsweredBy::Session, now)
        {
            tx.record(Change::RequestChanged { request, event: "cancelled" }, now).await?;
        }
    }
    for turn in &effects.turns {
        let (kind, payload) = match turn {
            TurnChange::Started => ("turn.started", json!({ "session_id": id })),
            TurnChange::Ended { stop_reason } => {
                ("turn.ended", json!({ "session_id": id, "stop_reason": stop_reason }))
            }
        };
        tx.record(Change::EventOnly { kind: kind.to_owned(), subject: id.to_string(), payload }, now).await?;
    }
    Ok(())
}

/// Says what the agent wants to do, by the kind of its tool call.
fn wanted(permission: &Request) -> String {
    let kind = match &permission.body {
        RequestBody::Permission { tool_call, .. } => tool_call.get("kind").and_then(Value::as_str),
        RequestBody::Question { .. } | RequestBody::Input { .. } => None,
    };
    let verb = match kind {
        Some("execute") => "wants to run",
        Some("edit") => "wants to edit",
        Some("delete") => "wants to delete",
        Some("move") => "wants to move",
        Some("read") => "wants to read",
        Some("fetch") => "wants to fetch",
        _ => "wants",
    };
    format!("{verb}: {}", permission.title)
}
