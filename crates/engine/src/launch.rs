//! The launch path: resolve and check, store the record, spawn, record that the session is running.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use coven_domain::activity::ActivityStatus;
use coven_domain::session::{Channel, Launch, ProcessIdentity, Session, SessionState, SessionStateError};
use coven_domain::text::{BadText, MAX_PROMPT_BYTES, Prompt, Title};
use coven_domain::{AgentId, RepoId, SessionId, TaskId};
use coven_harness::Harness;
use coven_holder::clock;
use coven_holder::wire::{EndMode, Request};
use coven_holder::{Spec, StdioMode};
use coven_host::{WorkDir, WorkDirError, program, work_dir};
use coven_store::{Change, Tx};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::Engine;
use super::follow::HOLDER_GONE;
use super::leftovers::Processes;
use super::live::UnstoredEntries;
use super::spawn::{Bounds, PreparedHolder, end_launch, reap};
use crate::error::EngineError;
use crate::runtime;
use coven_holder::fault;

/// Segment size of logs: small enough to drop old output piece by piece, large enough for few files.
const SEGMENT_BYTES: u64 = 16 << 20;
/// How long a holder may take to end a harness without grace period.
const HOLDER_END_TIMEOUT: Duration = Duration::from_secs(3);
/// The harness of a session that runs a plain command.
pub(super) const COMMAND: &str = "command";
/// Environment variable with the session's id.
pub(super) const SESSION_VARIABLE: &str = "COVEN_SESSION_ID";

/// A request for a new session.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    pub harness: Option<String>,
    pub argv: Option<Vec<String>>,
    pub prompt: String,
    /// Arguments for the harness, in front of the prompt.
    pub args: Vec<String>,
    pub cwd: Option<PathBuf>,
    pub project_root: Option<PathBuf>,
    pub title: Option<String>,
    pub repo_id: Option<RepoId>,
    pub channel: Option<Channel>,
    pub is_detached: bool,
    pub env: Option<BTreeMap<String, String>>,
    pub size: (Option<u16>, Option<u16>),
    /// For ACP: the earlier session to resume.
    pub resume: Option<SessionId>,
    /// Set for a step of a task, which determines folder and command.
    pub step: Option<StepLaunch>,
    /// Launch it even if a limit of the config is reached.
    pub is_now: bool,
}

/// Launch settings of a step of a task.
#[derive(Debug, Clone)]
pub struct StepLaunch {
    pub agent: AgentId,
    pub task: TaskId,
    pub step: String,
    pub folder: WorkDir,
    /// The harness's command line, unless it is the one for terminals.
    pub argv: Option<Vec<String>>,
}

impl StepLaunch {
    pub(super) fn metadata(&self) -> Map<String, Value> {
        let fields = json!({ "task_id": self.task, "agent_id": self.agent, "step": self.step });
        fields.as_object().cloned().unwrap_or_default()
    }
}

impl Engine {
    pub async fn create_session(self: &Arc<Self>, mut new: NewSession) -> Result<Session, EngineError> {
        check_args(&new)?;
        if let (Some(step), None) = (&new.step, &new.env) {
            new.env = self.runs.environment_of(step.task);
        }
        if new.channel == Some(Channel::Acp) {
            return self.create_acp_session(new).await;
        }
        if new.resume.is_some() {
            return Err(EngineError::Invalid("resume: only ACP sessions can be resumed".to_owned()));
        }
        let prompt = Prompt::parse(&new.prompt)?;
        let title = new.title.as_deref().map(Title::parse).transpose()?;
        let folder = match &new.step {
            Some(step) => step.folder.clone(),
            None => self.work_dir(&new).await?,
        };
        let env = self.environment(new.env.take());
        let call = new.step.as_ref().and_then(|step| step.argv.clone());
        if new.harness.is_none() && new.argv.is_none() {
            new.harness = Some(self.default_harness(&env)?.id.clone());
        }
        let launch = self.launch_plan(&new.harness, new.argv, call, (&prompt, &new.args), &env, new.size)?;
        if let Some(long) = launch.argv.iter().find(|arg| arg.len() > MAX_PROMPT_BYTES) {
            return Err(BadText::PromptTooLong { bytes: long.len() }.into());
        }
        let harness = new.harness.unwrap_or_else(|| COMMAND.to_owned());
        let turn = self.launch_turn(harness != COMMAND, new.is_now || new.is_detached).await?;
        let (id, holder) = match new.is_detached || turn.queued.is_some() {
            true => (SessionId::from_uuid(Uuid::new_v4()), None),
            false => {
                let (id, holder) = self.take_standby_holder().await;
                (id, Some(holder))
            }
        };
        let now = clock::now();
        let name = Path::new(launch.argv.first().map_or("", String::as_str))
            .file_name()
            .map_or_else(|| harness.clone(), |name| name.to_string_lossy().into_owned());
        let mut session = Session {
            id,
            title: title
                .unwrap_or_else(|| Title::derived(prompt.as_str(), if harness == COMMAND { &name } else { &harness }))
                .into_string(),
            harness,
            channel: new.channel.unwrap_or(Channel::Terminal),
            state: SessionState::Created,
            exit_code: None,
            process: None,
            project_root: folder.root.to_string_lossy().into_owned(),
            cwd: folder.cwd.to_string_lossy().into_owned(),
            repo_id: new.repo_id,
            created_at: now,
            updated_at: now,
            archived_at: None,
            launching_at: holder.is_some().then_some(now),
            end_intent: None,
            launch,
            metadata: new.step.as_ref().map(StepLaunch::metadata).unwrap_or_default(),
            activity: ActivityStatus::default(),
        };
        if let Some(queued) = &turn.queued {
            session.queued(queued);
        }
        let Some(holder) = holder else {
            let tx = self.store.begin().await?;
            self.record_created(tx, &session).await?;
            self.enqueue(&session, Some(env));
            return Ok(session);
        };
        // The harness must not start before the record is stored. Unsynced: the commit of `running` syncs it, and no client
        // knows the session before that.
        let recorded = match self.store.begin_unsynced().await {
            Ok(tx) => self.record_created(tx, &session).await,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = recorded {
            holder.give_up();
            return Err(error);
        }
        drop(turn);
        fault::point("after_create");
        let launched = self.launch(session, env, holder).await;
        self.refill_standby_holder();
        launched
    }

    async fn record_created(&self, mut tx: Box<dyn Tx>, session: &Session) -> Result<(), EngineError> {
        tx.record(Change::SessionCreated(session.clone()), session.created_at).await?;
        self.link_agent(&mut tx, session).await?;
        record_queued(&mut tx, session).await?;
        Ok(self.commit(tx).await?)
    }

    /// Stores the session's id in its agent before the launch, so that recovery can find the process.
    pub(super) async fn link_agent(&self, tx: &mut Box<dyn Tx>, session: &Session) -> Result<(), EngineError> {
        let Some(id) = session.metadata.get("agent_id").and_then(Value::as_str).and_then(|id| id.parse().ok()) else {
            return Ok(());
        };
        let Some(mut agent) = tx.agent(id).await? else { return Ok(()) };
        agent.session = Some(session.id);
        agent.output_file = Some(self.home.session_dir(session.id).to_string_lossy().into_owned());
        agent.updated_at = session.created_at.not_before(agent.updated_at);
        Ok(tx.record(Change::AgentChanged { agent, event: "launching" }, session.created_at).await?)
    }

    /// Launches a session that was created with `detach`, or with `is_now` one that waits for its launch.
    pub async fn start_session(
        self: &Arc<Self>,
        id: SessionId,
        env: Option<BTreeMap<String, String>>,
        size: (Option<u16>, Option<u16>),
        is_now: bool,
    ) -> Result<Session, EngineError> {
        // Folders and programs may have changed since the record was created.
        let record = self.session(id).await?;
        if record.is_detached() || record.is_queued() {
            self.ensure_launchable(&record)?;
        }
        let not_now = |source| EngineError::SessionState { id, source };
        let turn = self.launch_turn(record.harness != COMMAND, is_now).await?;
        let event = if turn.queued.is_some() { "queued" } else { "launching" };
        let session = self
            .change_session(id, event, |session, now| {
                if session.archived_at.is_some() {
                    return Err(not_now(SessionStateError::Archived));
                }
                match &turn.queued {
                    _ if session.is_queued() && !is_now => return Err(not_now(SessionStateError::Queued)),
                    Some(queued) if session.is_detached() => session.queued(queued),
                    Some(_) | None => session.launching(now).map_err(not_now)?,
                }
                session.launch.rows = size.0.unwrap_or(session.launch.rows).clamp(1, 1000);
                session.launch.cols = size.1.unwrap_or(session.launch.cols).clamp(1, 1000);
                Ok(())
            })
            .await?;
        if turn.queued.is_some() {
            self.enqueue(&session, env);
            return Ok(session);
        }
        drop(turn);
        let waited = self.take_queued(id);
        let env = self.environment(env.or(waited));
        let holder = self.prepare_holder(id);
        self.launch(session, env, holder).await
    }

    /// Checks the folder and the program of a session that was recorded earlier.
    pub(super) fn ensure_launchable(&self, record: &Session) -> Result<(), EngineError> {
        let folder = WorkDir::inside(Path::new(&record.project_root), Path::new(&record.cwd))?;
        if folder.cwd != Path::new(&record.cwd) {
            return Err(WorkDirError::OutsideRoot { cwd: folder.cwd, root: folder.root }.into());
        }
        let program = record.launch.argv.first().map_or("", String::as_str);
        if program::find(program, None).is_none() && record.harness == COMMAND {
            return Err(EngineError::ProgramNotFound(program.to_owned()));
        }
        if program::find(program, None).is_none() {
            let hint = "install it, or create the session again".to_owned();
            return Err(EngineError::NotInstalled { id: record.harness.clone(), program: program.to_owned(), hint });
        }
        Ok(())
    }

    /// Moves a session from `created` to `running`, or to `failed` with the reason.
    pub(super) async fn launch(
        self: &Arc<Self>,
        session: Session,
        env: BTreeMap<String, String>,
        holder: PreparedHolder,
    ) -> Result<Session, EngineError> {
        let id = session.id;
        let cancelled = Arc::new(Notify::new());
        self.launches().insert(id, cancelled.clone());
        let bounds = Bounds { limit: self.launch_limit(), cancelled: &cancelled };
        let spawned = holder.launch_with(self.spec(&session, env), &bounds).await;
        self.launches().remove(&id);
        fault::point("after_spawn");
        let failed = match spawned {
            Ok((holder, process)) => match coven_holder::client::connect_socket(&self.home.session_dir(id)) {
                Ok(stream) => return self.take_over(id, process, stream, holder).await,
                Err(error) if self.is_over_already(id) => {
                    // The session has already ended; the journal has its end.
                    tracing::debug!(session = %id, %error, "a session ended before the daemon followed it");
                    self.change_session(id, "running", |session, now| session.spawned(process, now)).await?;
                    self.reconcile_from_journal(id, HOLDER_GONE).await?;
                    reap(holder);
                    let session = self.session(id).await?;
                    if session.state == SessionState::Orphaned {
                        self.end_processes(&session).await;
                    }
                    return Ok(session);
                }
                Err(error) => {
                    self.abandon(id, process, holder).await;
                    format!("the holder does not answer: {error}")
                }
            },
            Err(reason) => reason,
        };
        if self.record_launch_failure(id, &failed).await.is_err() {
            self.fail_later(id, failed.clone());
        }
        Err(EngineError::LaunchFailed { id, reason: failed })
    }

    /// Records `running` and follows the session. If that cannot be stored, ends the harness.
    async fn take_over(
        self: &Arc<Self>,
        id: SessionId,
        process: ProcessIdentity,
        stream: std::os::unix::net::UnixStream,
        holder: Child,
    ) -> Result<Session, EngineError> {
        let recorded = process.clone();
        let session = match self.change_session(id, "running", |session, now| session.spawned(recorded, now)).await {
            Ok(session) => session,
            Err(error) => {
                self.abandon(id, process, holder).await;
                self.fail_later(id, error.to_string());
                return Err(error);
            }
        };
        fault::point("after_running");
        self.adopt(&session, stream, Some(holder), true).await?;
        Ok(session)
    }

    /// Ends a harness that the daemon cannot follow.
    async fn abandon(&self, id: SessionId, process: ProcessIdentity, mut holder: Child) {
        let end = [Request::End { how: EndMode::Kill, grace_ms: 0 }];
        if self.send_to_holder_within(id, &end, HOLDER_END_TIMEOUT).await.is_ok() {
            let until = tokio::time::Instant::now() + HOLDER_END_TIMEOUT;
            while matches!(holder.try_wait(), Ok(None)) && tokio::time::Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let mut processes = Processes::of_launch(id);
        processes.leader = Some(process);
        end_launch(&processes, holder).await;
    }

    /// Cancels a launch. Returns the session once it has failed, or is running after all.
    pub(super) async fn cancel_launch(&self, id: SessionId) -> Result<Session, EngineError> {
        let cancelled = self.launches().get(&id).cloned();
        match cancelled {
            Some(cancelled) => cancelled.notify_one(),
            // An earlier daemon started the launch; recovery probes it until its holder is gone.
            None => drop(Processes::of_launch(id).end_launch().await),
        }
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            let session = self.session(id).await?;
            if !session.is_launching() {
                return Ok(session);
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Err(EngineError::Stopping) },
                () = self.stopped() => return Err(EngineError::Stopping),
            }
        }
    }

    fn launches(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Notify>>> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a failed launch, with retries.
    fn fail_later(self: &Arc<Self>, id: SessionId, reason: String) {
        let engine = self.clone();
        // Ends with the daemon; the next daemon finds the record launching and without a holder.
        runtime::spawn(async move {
            while !engine.is_stopping() {
                match engine.record_launch_failure(id, &reason).await {
                    Err(EngineError::Store(_)) => tokio::time::sleep(Duration::from_secs(1)).await,
                    Ok(()) | Err(_) => return,
                }
            }
        });
    }

    /// Records the reason of a failed launch and the entries of its journal.
    pub(crate) async fn record_launch_failure(&self, id: SessionId, reason: &str) -> Result<(), EngineError> {
        let journal = self.home.session_dir(id).join(coven_holder::JOURNAL);
        let noted = UnstoredEntries::open(&journal, 0).and_then(|mut unstored| unstored.read(None).map(|()| unstored));
        let now = clock::now();
        let final_output = self.read_final_output(id).await?;
        let mut tx = self.store.begin().await?;
        let mut session = tx.session(id).await?.ok_or_else(|| EngineError::SessionNotFound(id.to_string()))?;
        session.launch_failed(reason, now)?;
        // Without a journal, the launch failed before there was one.
        if let Ok(noted) = &noted {
            tx.append_entries(id, &noted.pending).await?;
        }
        if let Some(final_output) = final_output {
            let stderr = noted.map(|noted| noted.stderr).unwrap_or_default();
            final_output.write(&mut tx, &session, None, &stderr, now).await?;
        }
        tx.record(Change::SessionChanged { session, event: "failed" }, now).await?;
        Ok(self.commit(tx).await?)
    }

    fn is_over_already(&self, id: SessionId) -> bool {
        !self.home.session_dir(id).join(coven_holder::SOCKET).exists()
    }

    /// Steps 2 to 4 of the launch path: canonical root and folder, the folder inside the root.
    async fn work_dir(&self, new: &NewSession) -> Result<WorkDir, EngineError> {
        let repo = match new.repo_id {
            None => None,
            Some(id) => {
                let repos = self.store.repos().await?;
                Some(repos.into_iter().find(|repo| repo.id == id).ok_or(EngineError::RepoNotFound(id))?)
            }
        };
        let fixed = self.config.sessions.root.as_ref().map(PathBuf::from).or_else(|| self.home.project_root());
        let relative = [&new.cwd, &new.project_root].into_iter().flatten().find(|path| !path.is_absolute());
        if let Some(path) = relative {
            return Err(EngineError::Invalid(format!(
                "{} is not an absolute path; use an absolute path",
                path.display()
            )));
        }
        if let Some(missing) = new.cwd.iter().find(|path| !path.is_dir()) {
            return Err(WorkDirError::of(missing).into());
        }
        let cwd = new.cwd.clone().or_else(|| repo.map(|repo| PathBuf::from(repo.path)));
        let asked = new.project_root.clone();
        let root = match (&fixed, &asked, &cwd) {
            (_, Some(root), _) => root.clone(),
            (Some(root), None, _) => root.clone(),
            // A home for all projects: the repository of the working folder is the project.
            (None, None, Some(cwd)) => work_dir::repository_of(cwd),
            (None, None, None) => self.home.path().parent().unwrap_or(Path::new("/")).to_owned(),
        };
        let folder = WorkDir::inside(&root, cwd.as_deref().unwrap_or(&root))?;
        // A root that a client names must be inside the home's root.
        if let Some(fixed) = &fixed {
            WorkDir::inside(fixed, &folder.root)?;
        }
        Ok(folder)
    }

    /// Step 5: the harness is known and installed. The command is always argv, never a shell string.
    fn launch_plan(
        &self,
        id: &Option<String>,
        argv: Option<Vec<String>>,
        call: Option<Vec<String>>,
        (prompt, more_args): (&Prompt, &[String]),
        env: &BTreeMap<String, String>,
        size: (Option<u16>, Option<u16>),
    ) -> Result<Launch, EngineError> {
        let path = env.get("PATH").map(OsStr::new);
        let sessions = &self.config.sessions;
        let plan = |argv: Vec<String>, typed: String, harness: Option<&Harness>| Launch {
            argv,
            typed,
            identity: harness.map(|it| it.identity.clone()).unwrap_or_default(),
            rows: size.0.unwrap_or(sessions.rows).clamp(1, 1000),
            cols: size.1.unwrap_or(sessions.cols).clamp(1, 1000),
            grace_seconds: harness.and_then(|it| it.grace_seconds).unwrap_or(sessions.kill_grace_seconds),
            prompt_args: 0,
            takes_hooks: false,
        };
        match (id, argv) {
            (None, None) => Err(EngineError::Invalid("set harness or argv".to_owned())),
            (Some(_), Some(_)) => Err(EngineError::Invalid("set harness or argv, not both".to_owned())),
            (None, Some(mut argv)) => {
                let Some(first) = argv.first().filter(|first| !first.is_empty()).cloned() else {
                    return Err(EngineError::Invalid("argv: the program is missing".to_owned()));
                };
                if argv.iter().any(|arg| arg.contains('\0')) {
                    return Err(EngineError::Invalid("argv: an argument contains a NUL byte; remove it".to_owned()));
                }
                let found = program::find(&first, path).ok_or(EngineError::ProgramNotFound(first))?;
                argv[0] = found.to_string_lossy().into_owned();
                Ok(plan(argv, prompt.as_str().to_owned(), None))
            }
            (Some(id), None) => {
                let harness = self.known_harness(id)?;
                if let Some(call) = call {
                    return Ok(plan(call, String::new(), Some(harness)));
                }
                let args = harness
                    .terminal_args(prompt, more_args)
                    .map_err(|reason| EngineError::NoTerminalMode { id: harness.id.clone(), reason })?;
                let mut argv = self.installed_program(harness, env)?;
                let (typed, prompt_args) = (args.typed.clone(), args.with_prompt.len());
                argv.extend(args.all());
                let takes_hooks = harness.hooks.is_some() && self.config.sessions.hooks;
                Ok(Launch { prompt_args, takes_hooks, ..plan(argv, typed, Some(harness)) })
            }
        }
    }

    /// Returns the client's environment, or else the daemon's, without coven's token and the loader's variables.
    pub(crate) fn environment(&self, requested: Option<BTreeMap<String, String>>) -> BTreeMap<String, String> {
        let mut env = requested.unwrap_or_else(|| {
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect()
        });
        env.retain(|name, value| {
            let is_secret = name == "COVEN_TOKEN";
            let is_loader = name.starts_with("LD_") || name.starts_with("DYLD_");
            let is_sound = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
            !is_secret && !is_loader && is_sound
        });
        env.entry("TERM".to_owned()).or_insert_with(|| "xterm-256color".to_owned());
        env
    }

    fn spec(&self, session: &Session, mut env: BTreeMap<String, String>) -> Spec {
        let launch = &session.launch;
        // Read at launch, because the values of a configured environment are never stored.
        if let Some(harness) = self.harnesses.iter().find(|harness| harness.id == session.harness) {
            env.extend(harness.env.clone());
        }
        env.insert(SESSION_VARIABLE.to_owned(), session.id.to_string());
        env.insert("COVEN_HOME".to_owned(), self.home.path().to_string_lossy().into_owned());
        // A session without a task must not inherit the client's task.
        let task = session.metadata.get("task_id").and_then(Value::as_str).unwrap_or_default();
        env.insert("COVEN_TASK_ID".to_owned(), task.to_owned());
        let argv = self.with_hooks(session, &mut env);
        Spec {
            dir: self.home.session_dir(session.id),
            stdio: match session.channel {
                Channel::Terminal => StdioMode::Terminal,
                Channel::Acp => StdioMode::Pipes,
            },
            argv,
            env: env.into_iter().collect(),
            cwd: PathBuf::from(&session.cwd),
            rows: launch.rows,
            cols: launch.cols,
            typed: launch.typed.clone(),
            max_output_bytes: self.config.sessions.max_output_bytes,
            open_files: self.open_files,
            record_input: self.config.sessions.record_input,
            segment_bytes: SEGMENT_BYTES.min(self.config.sessions.max_output_bytes / 8),
        }
    }
}

/// Adds the event that a new session waits for its launch.
pub(super) async fn record_queued(tx: &mut Box<dyn Tx>, session: &Session) -> Result<(), EngineError> {
    if session.is_queued() {
        let queued = Change::SessionChanged { session: session.clone(), event: "queued" };
        tx.record(queued, session.created_at).await?;
    }
    Ok(())
}

/// Checks that arguments are for a harness and contain no NUL byte.
fn check_args(new: &NewSession) -> Result<(), EngineError> {
    if new.argv.is_some() && !new.args.is_empty() {
        return Err(EngineError::Invalid("args: only allowed with harness; add them to argv".to_owned()));
    }
    match new.args.iter().any(|arg| arg.contains('\0')) {
        true => Err(EngineError::Invalid("args: an argument contains a NUL byte; remove it".to_owned())),
        false => Ok(()),
    }
}
