//! Calls of agents' hooks: what they report, and requests that wait for an answer from the inbox.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use coven_domain::activity::{ActivityFact, ActivitySource, Observation};
use coven_domain::query::AgentQuery;
use coven_domain::request::{
    PermissionOption, Request, RequestAnswer, RequestBody, RequestSource, RequestState, SettledFrom,
};
use coven_domain::session::{Session, SessionState};
use coven_domain::{AgentId, RequestId, SessionId, Timestamp};
use coven_files::{Limit, Links};
use coven_harness::hooks::{HookAnswer, HookMeaning, HookRequest, HookRequestBody, HookSetup, Hooks};
use coven_holder::{clock, process};
use coven_host::config::NotificationKind;
use coven_store::Change;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Engine;
use super::activity::{HookState, SessionActivity};
use super::caller::Caller;
use super::live::LiveSession;
use super::notification::{InboxNotification, Need};
use super::spawn::create_folder;
use crate::error::EngineError;
use crate::runtime;

/// Number of call ids kept per session to recognise repeated deliveries.
const MAX_CALL_IDS: usize = 256;
/// How long a hook waits until the daemon has adopted its session.
const ADOPTION_TIME: Duration = Duration::from_secs(10);
/// How long a hook that waited for an earlier daemon may take to return to this one.
const RETURN_TIME: Duration = Duration::from_secs(5);
/// How often the daemon checks that the process of a waiting hook still exists.
const HOOK_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Key in the metadata of a session for the ids of the agent's own conversations.
const CONVERSATIONS: &str = "conversations";
const MAX_CONVERSATIONS: usize = 20;

/// The folder of a session for files that the agent's hooks need.
pub(super) const HOOK_FILES: &str = "hooks";
/// File in that folder with the reason why the agent runs without hooks.
const UNAVAILABLE: &str = "unavailable";
const HOOK_REASON: Limit = Limit::new("the reason for missing hooks", 4096);

/// One call of a hook, also as stored in a file.
#[derive(Debug, Clone, Deserialize)]
pub struct HookCall {
    /// Identifies the call. It is also the id of the request that the call makes.
    pub id: RequestId,
    pub event: String,
    #[serde(default)]
    pub payload: Value,
    /// When the agent called the hook; set only for a stored call.
    #[serde(default)]
    pub called_at: Option<Timestamp>,
}

impl Engine {
    /// Handles a call of a hook. Returns what the hook prints; a call that makes a request waits for its answer.
    pub async fn hook_called(
        self: &Arc<Self>,
        session: SessionId,
        call: HookCall,
        caller: &Caller,
    ) -> Result<Option<String>, EngineError> {
        caller.ensure_in(session).inspect_err(|error| tracing::warn!(%error, event = call.event, "rejected a hook"))?;
        let live = self.adopted_session(session).await?;
        let Some(hooks) = live.hooks else { return Ok(None) };
        // An agent calls its hooks in order, so an earlier call counts first.
        if let Err(error) = self.handle_stored_calls(&live).await {
            tracing::warn!(session = %live.id, %error, "cannot handle a stored hook call");
        }
        let (engine, pid) = (self.clone(), caller.pid());
        // A task, because the connection of a hook that the agent ends is closed before its request is withdrawn.
        let handling = runtime::spawn(async move {
            let output = match engine.handle_hook(&live, hooks, &call).await {
                Ok(Some(request)) => engine.wait_for_answer(&live, hooks, &call, request, pid).await,
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            lock(&live).waiting_hooks.remove(&call.id);
            output
        });
        handling.await.unwrap_or(Err(EngineError::Stopping))
    }

    /// Returns a live session. Waits until it is adopted: an agent calls hooks as soon as it is running, and hooks that wait
    /// return to a daemon that has just started.
    async fn adopted_session(&self, id: SessionId) -> Result<Arc<LiveSession>, EngineError> {
        let mut added = self.live_added.subscribe();
        let until = Instant::now() + ADOPTION_TIME;
        loop {
            added.borrow_and_update();
            if let Some(live) = self.live_session(id) {
                return Ok(live);
            }
            let state = self.session(id).await?.state;
            let is_over = !matches!(state, SessionState::Created | SessionState::Running);
            if is_over || tokio::time::timeout_at(until, added.changed()).await.is_err() {
                return Err(EngineError::NotLive { id, state: "not running".to_owned() });
            }
        }
    }

    /// Adds the agent's hooks to a launch: files in the session's folder, arguments and environment variables. Returns the
    /// command line. If hooks cannot be added, the agent is launched without them.
    pub(super) fn with_hooks(&self, session: &Session, env: &mut BTreeMap<String, String>) -> Vec<String> {
        let launch = &session.launch;
        let mut argv = launch.argv.clone();
        let Some(hooks) = self.harness_hooks(&session.harness).filter(|_| launch.takes_hooks) else { return argv };
        let folder = self.home.session_dir(session.id).join(HOOK_FILES);
        let prompt = argv.split_off(argv.len().saturating_sub(launch.prompt_args).max(1));
        let setup = HookSetup {
            coven: &self.program,
            folder: &folder,
            args: &argv[1..],
            env: &*env,
            cwd: Path::new(&session.cwd),
        };
        let injected = (hooks.inject)(&setup).and_then(|injection| {
            create_folder(&self.home.session_dir(session.id))?;
            write_files(&folder, &injection.files).map_err(|error| format!("cannot write hook files: {error}"))?;
            Ok(injection)
        });
        match injected {
            Ok(injection) => {
                argv.truncate(1);
                argv.extend(injection.args);
                env.extend(injection.env);
            }
            Err(reason) => {
                tracing::warn!(session = %session.id, reason, "an agent runs without hooks");
                if create_folder(&self.home.session_dir(session.id)).is_ok() {
                    let _ = write_files(&folder, &[(UNAVAILABLE.to_owned(), reason)]);
                }
            }
        }
        argv.extend(prompt);
        argv
    }

    fn harness_hooks(&self, id: &str) -> Option<&'static Hooks> {
        self.harnesses.iter().find(|harness| harness.id == id)?.hooks
    }

    /// Returns the hooks of a running session, and records whether they report.
    pub(super) fn hooks_of(&self, session: &Session, activity: &mut SessionActivity) -> Option<&'static Hooks> {
        let hooks = self.harness_hooks(&session.harness).filter(|_| session.launch.takes_hooks)?;
        let folder = self.home.session_dir(session.id).join(HOOK_FILES);
        match coven_files::read_text(&folder.join(UNAVAILABLE), HOOK_REASON, Links::Refuse) {
            Ok(reason) => {
                activity.hooks = HookState::Unavailable(reason);
                None
            }
            Err(_) => {
                if activity.hooks == HookState::Off {
                    activity.hooks = HookState::Silent;
                }
                Some(hooks)
            }
        }
    }

    /// Withdraws requests whose hook waited for an earlier daemon and does not return: its agent ended it.
    pub(super) fn expect_waiting_hooks(self: &Arc<Self>, live: &Arc<LiveSession>) {
        let (engine, live) = (self.clone(), live.clone());
        // Ends by itself after a few seconds.
        runtime::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(RETURN_TIME) => {}
                () = live.ended() => return,
                () = engine.stopped() => return,
            }
            if let Err(error) = engine.withdraw_abandoned(&live).await {
                tracing::warn!(session = %live.id, %error, "cannot withdraw requests whose hooks have ended");
            }
        });
    }

    async fn withdraw_abandoned(&self, live: &Arc<LiveSession>) -> Result<(), EngineError> {
        let pending = self.pending_hook_requests(live.id).await?;
        let abandoned: Vec<RequestId> = {
            let returned = &lock(live).waiting_hooks;
            pending.iter().map(|request| request.id).filter(|id| !returned.contains_key(id)).collect()
        };
        for id in &abandoned {
            self.withdraw_request(*id, SettledFrom::Hook).await?;
        }
        if abandoned.is_empty() { Ok(()) } else { self.after_settling(live).await }
    }

    /// Applies the meanings of a call. Returns the request that the call waits for.
    pub(super) async fn handle_hook(
        self: &Arc<Self>,
        live: &Arc<LiveSession>,
        hooks: &Hooks,
        call: &HookCall,
    ) -> Result<Option<RequestId>, EngineError> {
        let is_repeated = {
            let mut activity = lock(live);
            activity.hooks = HookState::Reporting;
            let is_repeated = activity.hook_calls.contains(&call.id);
            if !is_repeated {
                if activity.hook_calls.len() == MAX_CALL_IDS {
                    activity.hook_calls.remove(0);
                }
                activity.hook_calls.push(call.id);
            }
            is_repeated
        };
        let now = clock::now();
        // The clock of a stored call is not trusted: one from the future would count as the newest for ever.
        let at = call.called_at.map_or(now, |at| at.min(now));
        let is_late = call.called_at.is_some();
        let is_outdated = is_late && lock(live).is_outdated(ActivitySource::Hook, at);
        let observe = |observation| match is_late {
            true => self.observe_late(live, observation),
            false => drop(self.observe(live, observation)),
        };
        let mut waits_for = None;
        for meaning in (hooks.read)(&call.event, &call.payload) {
            match meaning {
                // A repeated call may wait again for the request that the first one made.
                HookMeaning::Asked(asked) => {
                    let id = call.id;
                    let (is_answerable, key) = (asked.is_answerable, asked.key.clone());
                    if self.store.request(id).await?.is_none() {
                        if is_outdated {
                            observe(asked_observation(&hook_request(live.id, id, asked, at), at));
                            continue;
                        }
                        self.record_hook_request(live, id, asked, at).await?;
                    }
                    waits_for = is_answerable.then_some(id);
                    if is_answerable {
                        lock(live).waiting_hooks.insert(id, key);
                    }
                }
                _ if is_repeated => {}
                HookMeaning::Started => {}
                HookMeaning::Conversation { id, transcript } => {
                    self.learn_conversation(live.id, id, transcript).await?
                }
                HookMeaning::Activity { fact, .. } if !is_outdated && lock(live).is_beside_a_request(fact) => {}
                HookMeaning::Activity { fact, detail } => {
                    observe(Observation::new(ActivitySource::Hook, fact, detail.as_deref(), at));
                }
                HookMeaning::LimitReached { detail, until } => {
                    let fact = ActivityFact::LimitReached;
                    let observation = Observation::new(ActivitySource::Hook, fact, detail.as_deref(), at);
                    observe(observation.until(until));
                }
                HookMeaning::Settled { key } => self.settled_in_terminal(live, key.as_deref(), at).await?,
                HookMeaning::BackgroundChanged(change) => {
                    self.set_background(live, |count| count.saturating_add_signed(change));
                }
                HookMeaning::BackgroundCount(_) if is_outdated => {}
                HookMeaning::BackgroundCount(count) => self.set_background(live, |_| count),
            }
        }
        if !is_repeated {
            self.note_handled_call(live, call.id);
        }
        Ok(waits_for)
    }

    async fn record_hook_request(
        self: &Arc<Self>,
        live: &Arc<LiveSession>,
        id: RequestId,
        asked: HookRequest,
        at: Timestamp,
    ) -> Result<(), EngineError> {
        let is_answerable = asked.is_answerable;
        let request = hook_request(live.id, id, asked, at);
        // A request that the agent does not let us answer is only shown as activity.
        if !is_answerable {
            self.observe_hook_request(live, &request, at);
            return Ok(());
        }
        let (event, kind) = match request.body {
            RequestBody::Question { .. } => ("asked", NotificationKind::Question),
            _ => ("requested", NotificationKind::Permission),
        };
        let (title, agent) = (request.title.clone(), self.agent_of_session(live.id).await?);
        let request = Request { agent, ..request };
        let mut tx = self.store.begin().await?;
        tx.record(Change::RequestChanged { request: request.clone(), event }, clock::now()).await?;
        self.commit(tx).await?;
        coven_holder::fault::point("after_hook_request");
        self.observe_hook_request(live, &request, at);
        live.note(json!({ "note": event, "request": id, "title": title, "from": "hook" }));
        self.notify(InboxNotification { need: Need::Request(id), kind, session: Some(live.id), title });
        Ok(())
    }

    /// Waits until the request is settled. Cancels it if the process of the hook ends: the agent ends its hooks when its
    /// own dialog is closed.
    async fn wait_for_answer(
        self: &Arc<Self>,
        live: &Arc<LiveSession>,
        hooks: &Hooks,
        call: &HookCall,
        id: RequestId,
        pid: Option<u32>,
    ) -> Result<Option<String>, EngineError> {
        let started = pid.and_then(|pid| process::stat(pid).ok()).map(|stat| stat.started_ticks);
        let is_gone = || match (pid, started) {
            (Some(pid), Some(started)) => process::stat(pid).map_or(true, |stat| stat.started_ticks != started),
            _ => true,
        };
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            let request = self.known_request(id).await?;
            if !request.is_pending() {
                return Ok(self.hook_answered(live, hooks, call, &request).await);
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Err(EngineError::Stopping) },
                () = tokio::time::sleep(HOOK_CHECK_INTERVAL) => if is_gone() {
                    self.withdraw_request(id, SettledFrom::Hook).await?;
                    self.after_settling(live).await?;
                    return Ok(None);
                },
                () = live.ended() => {
                    self.withdraw_request(id, SettledFrom::Session).await?;
                    return Ok(None);
                }
                () = self.stopped() => return Err(EngineError::Stopping),
            }
        }
    }

    /// Renders the answer for the agent.
    pub(super) async fn hook_answered(
        self: &Arc<Self>,
        live: &Arc<LiveSession>,
        hooks: &Hooks,
        call: &HookCall,
        request: &Request,
    ) -> Option<String> {
        if let Err(error) = self.after_settling(live).await {
            tracing::warn!(session = %live.id, %error, "cannot read the other requests of a session");
        }
        match (request.state, &request.answer, &request.body) {
            (RequestState::Answered, Some(RequestAnswer::Option(chosen)), RequestBody::Permission { options, .. }) => {
                let option: &PermissionOption = options.iter().find(|it| it.id == *chosen)?;
                (hooks.answer)(&call.payload, &HookAnswer::Option(option))
            }
            (RequestState::Answered, Some(RequestAnswer::Answers(answers)), _) => {
                (hooks.answer)(&call.payload, &HookAnswer::Answers(answers))
            }
            (RequestState::Rejected, ..) => (hooks.answer)(&call.payload, &HookAnswer::Rejected),
            _ => None,
        }
    }

    /// Reports the next pending request, or that none is left.
    pub(super) async fn after_settling(&self, live: &Arc<LiveSession>) -> Result<(), EngineError> {
        match self.pending_hook_requests(live.id).await?.first() {
            Some(next) => self.observe_hook_request(live, next, clock::now()),
            None => self.observe_settled(live, ActivitySource::Hook),
        }
        Ok(())
    }

    /// Observes that a hook asks for this.
    pub(super) fn observe_hook_request(&self, live: &LiveSession, request: &Request, at: Timestamp) {
        self.observe(live, asked_observation(request, at));
    }

    /// Cancels the requests that were answered in the agent's own dialog at this time. A stored call settles none that the
    /// agent made after it.
    pub(super) async fn settled_in_terminal(
        &self,
        live: &Arc<LiveSession>,
        key: Option<&str>,
        at: Timestamp,
    ) -> Result<(), EngineError> {
        let mut has_settled = false;
        for request in self.pending_hook_requests(live.id).await?.into_iter().filter(|it| it.created_at <= at) {
            let waiting_key = lock(live).waiting_hooks.get(&request.id).cloned().flatten();
            let known_key = waiting_key.as_deref().or(match &request.body {
                RequestBody::Permission { tool_call, .. } => tool_call.get("requestKey").and_then(Value::as_str),
                _ => None,
            });
            if key.is_none() || known_key.is_none() || known_key == key {
                self.withdraw_request(request.id, SettledFrom::Terminal).await?;
                has_settled = true;
            }
        }
        if has_settled {
            self.after_settling(live).await?;
        }
        Ok(())
    }

    /// Returns the agent of a task that runs in the session.
    async fn agent_of_session(&self, session: SessionId) -> Result<Option<AgentId>, EngineError> {
        let found = self.store.agents(AgentQuery::Session(session), None, usize::MAX).await?;
        Ok(found.items.last().map(|agent| agent.id))
    }

    /// Stores the agent's own id of its conversation; the list keeps earlier ones.
    async fn learn_conversation(
        &self,
        session: SessionId,
        id: String,
        transcript: Option<String>,
    ) -> Result<(), EngineError> {
        let known = self.session(session).await?;
        let list = known.metadata.get(CONVERSATIONS).and_then(Value::as_array).cloned().unwrap_or_default();
        if list.iter().any(|it| it["id"] == id.as_str()) {
            return Ok(());
        }
        self.change_session(session, "activity", |session, _| {
            let mut list = list;
            list.push(json!({ "id": id, "transcript": transcript }));
            let excess = list.len().saturating_sub(MAX_CONVERSATIONS);
            list.drain(..excess);
            session.metadata.insert(CONVERSATIONS.to_owned(), Value::Array(list));
            Ok::<(), EngineError>(())
        })
        .await
        .map(drop)
    }
}

fn hook_request(session: SessionId, id: RequestId, asked: HookRequest, at: Timestamp) -> Request {
    let what = (id, RequestSource::Hook);
    match asked.body {
        HookRequestBody::Permission { title, options, mut tool_call } => {
            if let (Value::Object(call), Some(key)) = (&mut tool_call, asked.key) {
                call.insert("requestKey".to_owned(), json!(key));
            }
            Request::permission(what, session, title, (options, tool_call), at)
        }
        HookRequestBody::Question { questions } => Request::question(what, session, questions, at),
    }
}

/// Returns what a request of a hook says about the activity.
fn asked_observation(request: &Request, at: Timestamp) -> Observation {
    let (fact, detail) = match request.body {
        RequestBody::Question { .. } => (ActivityFact::QuestionAsked, format!("asks: {}", request.title)),
        _ => (ActivityFact::PermissionAsked, request.title.clone()),
    };
    Observation::new(ActivitySource::Hook, fact, Some(&detail), at)
}

fn lock(live: &LiveSession) -> MutexGuard<'_, SessionActivity> {
    live.activity.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes private files; existing ones are replaced.
fn write_files(folder: &Path, files: &[(String, String)]) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    for (name, content) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent().filter(|parent| *parent != folder) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(content.as_bytes())?;
    }
    Ok(())
}
