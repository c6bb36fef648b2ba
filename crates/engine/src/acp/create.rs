//! Creates ACP sessions. Each is bound to a repository, and its transaction checks the session limit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coven_acp::{Effects, Machine, Opening, State};
use coven_domain::SessionId;
use coven_domain::activity::ActivityStatus;
use coven_domain::repo::Repo;
use coven_domain::session::{Channel, Launch, Session, SessionState};
use coven_domain::text::{MAX_ACP_PROMPT_BYTES, Title};
use coven_holder::clock;
use coven_host::WorkDir;
use coven_store::{AcpCheckpointUpdate, Change};
use serde_json::json;
use uuid::Uuid;

use super::super::Engine;
use super::super::launch::{NewSession, StepLaunch, record_queued};
use super::super::spawn::PreparedHolder;
use super::commit::write_effects;
use super::outbox::with_offsets;
use super::{ensure_acp, new_effects};
use crate::error::EngineError;
use coven_holder::fault;

impl Engine {
    pub(crate) async fn create_acp_session(self: &Arc<Self>, mut new: NewSession) -> Result<Session, EngineError> {
        let invalid = |problem: &str| Err(EngineError::Invalid(problem.to_owned()));
        if new.argv.is_some() {
            return invalid("argv: an ACP session needs a harness; add one to the config");
        }
        if new.is_detached {
            return invalid("detach: an ACP session is launched immediately; omit detach");
        }
        if new.prompt.len() > MAX_ACP_PROMPT_BYTES {
            return invalid("prompt: the prompt is too long");
        }
        let title = new.title.as_deref().map(Title::parse).transpose()?;
        let earlier = self.earlier(new.resume).await?;
        let env = self.environment(new.env.take());
        let named = new.harness.as_deref().or(earlier.as_ref().map(|(session, _)| session.harness.as_str()));
        let harness = match named {
            Some(id) => self.known_harness(id)?,
            None => self.default_acp_harness(&env)?,
        };
        let repo = self.agent_repo(&new, earlier.as_ref().map(|(session, _)| session)).await?;
        let folder = match &new.step {
            Some(step) => step.folder.clone(),
            None => WorkDir::inside(Path::new(&repo.path), new.cwd.as_deref().unwrap_or(Path::new(&repo.path)))?,
        };
        let mut argv = self.acp_argv(harness, &env, &folder.root).await?;
        argv.extend(new.args.iter().cloned());
        let turn = self.launch_turn(true, new.is_now).await?;
        let (id, holder) = match turn.queued.is_some() {
            true => (SessionId::from_uuid(Uuid::new_v4()), None),
            false => {
                let (id, holder) = self.take_standby_holder().await;
                (id, Some(holder))
            }
        };
        let now = clock::now();
        let mut metadata = new.step.as_ref().map(StepLaunch::metadata).unwrap_or_default();
        if let Some((earlier, _)) = &earlier {
            metadata.insert("resumed_from".to_owned(), json!(earlier.id));
        }
        let mut session = Session {
            id,
            title: title.unwrap_or_else(|| Title::derived(&new.prompt, &harness.id)).into_string(),
            harness: harness.id.clone(),
            channel: Channel::Acp,
            state: SessionState::Created,
            exit_code: None,
            process: None,
            project_root: folder.root.to_string_lossy().into_owned(),
            cwd: folder.cwd.to_string_lossy().into_owned(),
            repo_id: Some(repo.id),
            created_at: now,
            updated_at: now,
            archived_at: None,
            launching_at: holder.is_some().then_some(now),
            end_intent: None,
            launch: Launch {
                argv,
                identity: harness.identity.clone(),
                typed: String::new(),
                rows: self.config.sessions.rows,
                cols: self.config.sessions.cols,
                grace_seconds: harness.grace_seconds.unwrap_or(self.config.sessions.kill_grace_seconds),
                prompt_args: 0,
                takes_hooks: false,
            },
            metadata,
            activity: ActivityStatus::default(),
        };
        if let Some(queued) = &turn.queued {
            session.queued(queued);
        }
        // Audit log: which agent works in which repository.
        tracing::info!(session = %id, harness = harness.id, repo = repo.path, "launching an agent");
        let mut machine = Machine::new(Opening {
            cwd: session.cwd.clone(),
            resume: earlier.map(|(_, agent_session)| agent_session),
            auth_method: harness.acp_auth.clone(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
        });
        let mut effects = new_effects();
        machine.open(&mut effects);
        if !new.prompt.trim().is_empty() {
            machine.prompt(&new.prompt, &mut effects);
        }
        if let Err(error) = self.record_acp_session(&session, &machine, &effects).await {
            holder.into_iter().for_each(PreparedHolder::give_up);
            return Err(error);
        }
        let Some(holder) = holder else {
            self.enqueue(&session, Some(env));
            return Ok(session);
        };
        drop(turn);
        fault::point("after_create");
        let launched = self.launch(session, env, holder).await;
        self.refill_standby_holder();
        launched
    }

    /// Stores the record and the first input for the agent, unless the session limit is reached.
    async fn record_acp_session(
        &self,
        session: &Session,
        machine: &Machine,
        effects: &Effects,
    ) -> Result<(), EngineError> {
        let (id, now, limit) = (session.id, session.created_at, self.config.agents.max_sessions);
        let mut tx = self.store.begin_unsynced().await?;
        // A session that waits for its launch keeps its place.
        let active = tx.active_sessions(Channel::Acp).await? + self.launch_queue.acp_len();
        if active >= limit {
            return Err(EngineError::TooManyAcpSessions { active, limit });
        }
        if let Some(repo) = session.repo_id
            && tx.repo(repo).await?.is_none_or(|repo| repo.removed_at.is_some())
        {
            // The repository was removed after it was checked.
            return Err(EngineError::RepoNotFound(repo));
        }
        tx.record(Change::SessionCreated(session.clone()), now).await?;
        self.link_agent(&mut tx, session).await?;
        record_queued(&mut tx, session).await?;
        write_effects(&mut tx, id, effects, &[], now).await?;
        let (lines, written_to) = with_offsets(&effects.lines, 0);
        let state = serde_json::to_string(machine.state()).expect("a state has text keys only");
        let progress = AcpCheckpointUpdate {
            read_to: 0,
            written_to,
            delivered_to: 0,
            active_at: None,
            state: Some(&state),
            lines: &lines,
        };
        tx.save_acp_checkpoint(id, &progress).await?;
        self.commit(tx).await?;
        tracing::info!(active = active + 1, limit, "active agent sessions");
        Ok(())
    }

    /// Returns the session to resume and the agent's id for it.
    async fn earlier(&self, resume: Option<SessionId>) -> Result<Option<(Session, String)>, EngineError> {
        let Some(id) = resume else { return Ok(None) };
        let session = self.session(id).await?;
        ensure_acp(&session)?;
        let cannot = |why: &str| EngineError::CannotResume { id, why: why.to_owned() };
        if matches!(session.state, SessionState::Created | SessionState::Running) {
            return Err(cannot("the session is still active; open it with `coven chat`"));
        }
        let (state, _) = self.acp_state(id, State::clone).await?;
        if state.capabilities["loadSession"] != true
            && state.capabilities["sessionCapabilities"].get("resume").is_none_or(serde_json::Value::is_null)
        {
            return Err(cannot("the agent can neither load nor resume sessions"));
        }
        let agent_session = state.agent_session_id.ok_or_else(|| cannot("the agent never opened a session"))?;
        Ok(Some((session, agent_session)))
    }

    /// Returns the named repository, else the resumed session's, else the one that contains the working folder.
    async fn agent_repo(&self, new: &NewSession, earlier: Option<&Session>) -> Result<Repo, EngineError> {
        if let Some(id) = new.repo_id.or(earlier.and_then(|session| session.repo_id)) {
            return self.usable_repo(id).await;
        }
        let folder: PathBuf = new.cwd.clone().unwrap_or_else(|| self.workspace_root.clone());
        Ok(self.add_repo(&folder, None).await?.0)
    }
}
