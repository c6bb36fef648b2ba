//! The session of a step: its command line and its result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coven_domain::SessionId;
use coven_domain::agent::{Agent, AgentFact};
use coven_domain::query::MessageQuery;
use coven_domain::session::{Channel, Session, SessionState};
use coven_domain::task::Task;
use coven_domain::workflow::{StepResult, WorkflowRun};
use coven_harness::Harness;
use coven_harness::print_mode::PrintAnswer;
use coven_harness::print_mode::{PrintFormat, PrintSession, PrintTurn};
use coven_holder::clock;
use coven_host::WorkDir;
use coven_screen::TextLog;
use coven_store::Change;
use coven_workflow::{Step, StepChannel, StepKind, WorkflowDefinition, verdict};
use serde_json::Value;
use uuid::Uuid;

use super::{branch_of, with_git};
use crate::Engine;
use crate::error::EngineError;
use crate::launch::{NewSession, StepLaunch};
use crate::log_file::LogFile;
use coven_holder::fault;

/// How much of the end of a step's output is read for its result.
const READ_BYTES: usize = 4 << 20;
/// How much of the output is stored for later steps.
const KEPT_BYTES: usize = 64 << 10;
/// Maximum length of one argument; the kernel limits it to 128 KiB.
const MAX_ARGUMENT: usize = 120 << 10;
/// Prefix of files that hold a prompt for standard input; the agent's id follows.
pub(super) const PROMPT_FILE: &str = ".prompt-";
/// Shell script that replaces itself with the program, with standard input from a file.
const EXEC_WITH_STDIN_FILE: &str = "exec \"$@\" < \"$0\"";

/// Why a step was not launched.
#[derive(Debug)]
pub(super) enum NotLaunched {
    Step(String),
    /// A problem of the daemon, not of the step: the driver retries.
    Daemon(EngineError),
}

impl From<EngineError> for NotLaunched {
    fn from(error: EngineError) -> Self {
        match error {
            // Temporary conditions.
            EngineError::Store(_) | EngineError::Stopping | EngineError::TooManyAcpSessions { .. } => {
                Self::Daemon(error)
            }
            other => Self::Step(other.to_string()),
        }
    }
}

/// How to convert the output of a step to text.
enum OutputFormat {
    /// The output of a harness in print mode.
    Answer(PrintFormat),
    /// A terminal screen: the bytes of a full-screen program are only readable once rendered.
    Screen {
        rows: u16,
        cols: u16,
    },
    Plain,
}

impl OutputFormat {
    fn text_of(self, bytes: &[u8]) -> String {
        match self {
            Self::Answer(format) => {
                let mut answer = PrintAnswer::new(format);
                answer.feed(&strip_ansi_escapes::strip(bytes), &mut |_| {});
                answer.finish(&mut |_| {});
                answer.text
            }
            Self::Screen { rows, cols } => {
                let (mut text, mut log) = (Vec::new(), TextLog::new(rows, cols));
                // Writing to a `Vec` cannot fail.
                let _ = log.push(bytes, &mut text).and_then(|()| log.finish(&mut text));
                String::from_utf8_lossy(&text).into_owned()
            }
            Self::Plain => String::from_utf8_lossy(&strip_ansi_escapes::strip(bytes)).into_owned(),
        }
    }
}

impl Engine {
    /// Returns the harness of an agent step: the step's, else the task's, else the default.
    pub(super) fn step_harness(
        &self,
        named: Option<&str>,
        task: &Task,
        env: &BTreeMap<String, String>,
    ) -> Result<&Harness, EngineError> {
        let harness = match named.or(task.harness.as_deref()) {
            Some(id) => self.known_harness(id)?,
            None => self.default_harness(env)?,
        };
        self.installed_program(harness, env).map_err(|error| match error {
            EngineError::NotInstalled { id, program, hint } => {
                let hint = format!(
                    "{hint}; or choose another one with `coven task start {} --harness NAME`, or for all tasks with defaultHarness in the config",
                    task.id
                );
                EngineError::NotInstalled { id, program, hint }
            }
            other => other,
        })?;
        Ok(harness)
    }

    /// Creates the worktree if needed, launches the step's session in it and records that the agent is running.
    pub(super) async fn launch_step(
        self: &Arc<Self>,
        workflow: &WorkflowRun,
        definition: &WorkflowDefinition,
        step: &Step,
        task: &Task,
        agent: &Agent,
    ) -> Result<(), NotLaunched> {
        let worktree = self.worktree_of(task).await?;
        let folder = worktree.folder.clone();
        let base = task.base_commit.clone().unwrap_or_else(|| "HEAD".to_owned());
        with_git(move || worktree.ensure(&base)).await?;
        fault::point("after_worktree");
        let folder = WorkDir::inside(&folder, &folder).map_err(EngineError::from)?;
        let new = self.step_session(workflow, definition, step, task, agent, folder)?;
        let session = self.create_session(new).await?;
        fault::point("after_step_launch");
        // The driver records the start of a queued session.
        if session.is_queued() {
            return Ok(());
        }
        self.write_agent_started(agent, &session).await?;
        Ok(())
    }

    pub(super) async fn write_agent_started(&self, agent: &Agent, session: &Session) -> Result<(), EngineError> {
        let now = clock::now();
        let mut tx = self.store.begin().await?;
        let Some(mut agent) = tx.agent(agent.id).await? else { return Ok(()) };
        if agent.apply(AgentFact::Started, None, now).is_err() {
            return Ok(());
        }
        agent.session = Some(session.id);
        agent.pid = session.process.as_ref().map(|process| process.pid);
        agent.output_file = Some(self.home.session_dir(session.id).to_string_lossy().into_owned());
        tx.record(Change::AgentChanged { agent, event: "started" }, now).await?;
        Ok(self.commit(tx).await?)
    }

    fn step_session(
        &self,
        workflow: &WorkflowRun,
        definition: &WorkflowDefinition,
        step: &Step,
        task: &Task,
        agent: &Agent,
        folder: WorkDir,
    ) -> Result<NewSession, NotLaunched> {
        let bad = |what: &str, problem: &dyn std::fmt::Display| NotLaunched::Step(format!("{what}: {problem}"));
        let root = folder.root.to_string_lossy().into_owned();
        let branch = branch_of(task.id);
        let scope = definition.scope_of(&workflow.progress, task, &root, &branch);
        let mut launch = StepLaunch { agent: agent.id, task: task.id, step: step.name.clone(), folder, argv: None };
        let title = format!("{}: {}", step.name, task.title);
        let title = title.chars().take(100).collect::<String>();
        match &step.kind {
            StepKind::Script { command } => {
                let command = scope.shell(command).map_err(|problem| bad("command", &problem))?;
                Ok(script(command, title, launch))
            }
            StepKind::Agent { harness: named, channel, prompt, args, .. } => {
                let env = self.environment(self.runs.environment_of(task.id));
                let harness = self.step_harness(named.as_deref(), task, &env)?;
                let prompt = scope.text(prompt).map_err(|problem| bad("prompt", &problem))?;
                let filled = args.iter().map(|arg| scope.text(arg));
                let mut args = filled.collect::<Result<Vec<_>, _>>().map_err(|problem| bad("args", &problem))?;
                // The task's arguments are for the task's harness.
                if named.is_none() || *named == task.harness {
                    args.extend(task.args.iter().cloned());
                }
                let harness_id = Some(harness.id.clone());
                let new = NewSession { harness: harness_id, title: Some(title), args, ..NewSession::default() };
                match channel_of(*channel, harness) {
                    StepChannel::Acp => {
                        let channel = Some(Channel::Acp);
                        let cwd = Some(PathBuf::from(task.repo.clone().unwrap_or_default())).filter(|it| it.is_dir());
                        let cwd = cwd.or_else(|| self.home.project_root());
                        Ok(NewSession { channel, prompt, cwd, step: Some(launch), ..new })
                    }
                    StepChannel::Terminal => Ok(NewSession { prompt, step: Some(launch), ..new }),
                    StepChannel::Print => {
                        launch.argv = Some(self.print_argv(harness, &prompt, &new.args, agent, &env)?);
                        Ok(NewSession { step: Some(launch), ..new })
                    }
                }
            }
            StepKind::Loop { .. } | StepKind::Merge { .. } => Err(NotLaunched::Step(format!(
                "step {} cannot be launched: it is not an agent or script step",
                step.name
            ))),
        }
    }

    /// Returns the command line of a harness that answers one prompt and exits.
    fn print_argv(
        &self,
        harness: &Harness,
        prompt: &str,
        args: &[String],
        agent: &Agent,
        env: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, NotLaunched> {
        let mode = harness.print.clone().unwrap_or_default();
        let session = Uuid::new_v4().to_string();
        let more_args = &[&harness.added_args, args].concat();
        let turn = PrintTurn { prompt, session: PrintSession::New(&session), agent: None, is_step: true, more_args };
        let call = mode.call(&turn);
        if call.args.iter().any(|arg| arg.len() > MAX_ARGUMENT) {
            return Err(NotLaunched::Step(format!(
                "the prompt is too long for a command-line argument of {}",
                harness.id
            )));
        }
        let mut argv = self.installed_program(harness, env)?;
        argv.extend(call.args);
        if call.stdin.is_empty() {
            return Ok(argv);
        }
        let file = self.prompt_file(agent);
        write_private(&file, &call.stdin)
            .map_err(|error| NotLaunched::Step(format!("cannot write {}: {error}", file.display())))?;
        let mut through_shell: Vec<String> = ["/bin/sh", "-c", EXEC_WITH_STDIN_FILE].map(str::to_owned).to_vec();
        through_shell.push(file.to_string_lossy().into_owned());
        through_shell.extend(argv);
        Ok(through_shell)
    }

    fn prompt_file(&self, agent: &Agent) -> PathBuf {
        self.home.path().join("worktrees").join(format!("{PROMPT_FILE}{}", agent.id))
    }

    /// Reports whether the session of a step is a harness that answers one prompt and exits.
    pub(super) fn is_print_step(&self, step: &Step, session: &Session) -> bool {
        let StepKind::Agent { channel, .. } = &step.kind else { return false };
        let harness = self.harnesses.iter().find(|it| it.id == session.harness);
        harness.is_some_and(|harness| channel_of(*channel, harness) == StepChannel::Print)
    }

    pub(super) async fn plain_output(&self, id: SessionId) -> String {
        self.output_text(id, OutputFormat::Plain).await
    }

    /// Returns the result of a step whose session has ended.
    pub(super) async fn step_result(&self, step: &Step, agent: &Agent, session: &Session) -> StepResult {
        let _ = std::fs::remove_file(self.prompt_file(agent));
        let form = match &step.kind {
            StepKind::Agent { channel, .. } => {
                let harness = self.harnesses.iter().find(|it| it.id == session.harness);
                match harness.filter(|harness| channel_of(*channel, harness) == StepChannel::Print) {
                    Some(harness) => OutputFormat::Answer(harness.print.clone().unwrap_or_default().format),
                    None => OutputFormat::Screen { rows: session.launch.rows, cols: session.launch.cols },
                }
            }
            StepKind::Script { .. } | StepKind::Loop { .. } | StepKind::Merge { .. } => OutputFormat::Plain,
        };
        let text = match session.channel {
            Channel::Acp => self.last_turn_text(session.id).await,
            Channel::Terminal => self.output_text(session.id, form).await,
        };
        let said = matches!(step.kind, StepKind::Agent { .. }).then(|| verdict(&text)).flatten();
        let failure = failure(session);
        let success = failure.is_none() && said.as_ref().is_none_or(|said| said.success);
        let error = failure.or_else(|| {
            let said = said.as_ref().filter(|said| !said.success)?;
            Some(
                said.error
                    .clone()
                    .or_else(|| said.summary.clone())
                    .unwrap_or_else(|| "the agent reported a failure without a reason".to_owned()),
            )
        });
        StepResult {
            success,
            skipped: false,
            exit_code: session.exit_code,
            output: tail(&text, KEPT_BYTES).to_owned(),
            outputs: said.map_or(Value::Null, |said| said.outputs),
            error,
        }
    }

    /// Returns the end of a session's output as text.
    async fn output_text(&self, id: SessionId, form: OutputFormat) -> String {
        let dir = self.home.session_dir(id);
        let read = tokio::task::spawn_blocking(move || -> std::io::Result<String> {
            let mut log = LogFile::new(&dir);
            let range = log.range()?;
            let from = range.start.max(range.end.saturating_sub(READ_BYTES as u64));
            let bytes = log.read_range(from, usize::try_from(range.end - from).unwrap_or(0))?;
            Ok(form.text_of(&bytes))
        });
        read.await.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Returns the text of an ACP agent's last turn.
    async fn last_turn_text(&self, id: SessionId) -> String {
        let messages = self.store.messages(id, &MessageQuery::default()).await.unwrap_or_default();
        let mut text = String::new();
        for message in messages.iter().filter(|message| !message.is_chunk) {
            let content: Value = serde_json::from_str(&message.content).unwrap_or(Value::Null);
            match message.role.as_str() {
                "user" => text.clear(),
                "assistant" | "agent" => {
                    if let Some(said) = content.get("text").and_then(Value::as_str) {
                        text.push_str(said);
                        text.push('\n');
                    }
                }
                _ => {}
            }
        }
        text
    }
}

pub(super) fn script(command: String, title: String, launch: StepLaunch) -> NewSession {
    let argv = ["/bin/sh", "-c"].map(str::to_owned).into_iter().chain([command]).collect();
    NewSession { argv: Some(argv), title: Some(title), step: Some(launch), ..NewSession::default() }
}

/// Prefers print mode, in which the harness exits by itself.
fn channel_of(wanted: Option<StepChannel>, harness: &Harness) -> StepChannel {
    wanted.unwrap_or(if harness.print.is_some() { StepChannel::Print } else { StepChannel::Terminal })
}

/// Returns why an ended session failed, or `None` if it succeeded. Only the exit status counts, not the output.
pub(super) fn failure(session: &Session) -> Option<String> {
    match (session.state, session.exit_code) {
        // Exited with 0 by itself, or on request.
        (SessionState::Completed, _) => None,
        (SessionState::Killed, _) => Some("the session was killed".to_owned()),
        (SessionState::Orphaned, _) => Some("the session's holder died before it recorded an exit status".to_owned()),
        (_, Some(code)) if code > 128 => Some(format!("killed by signal {}", code - 128)),
        (_, Some(code)) => Some(format!("exit code {code}")),
        (state, None) => {
            let why = session.metadata.get("reason").or_else(|| session.metadata.get("error"));
            Some(why.and_then(Value::as_str).map_or_else(|| format!("the session is {state}"), str::to_owned))
        }
    }
}

/// Returns at most the last `bytes` bytes of a text, starting at a character boundary.
fn tail(text: &str, bytes: usize) -> &str {
    let mut from = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut open = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    open.write_all(text.as_bytes())
}
