//! Conversations with an agent, turn by turn.

mod command;
mod input;
mod keeping;
mod painter;
mod repl;
mod report;
mod signal_safe_read;
pub mod transfer;
mod turn;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use coven_domain::conversation::{Context, ConversationId, ConversationState, Line};
use coven_harness as harness;
use coven_holder::clock;
use coven_host::agent_definitions::{self, AgentDefinition};
use coven_host::print_mode::{PrintHarness, choose, wanted_tool};
use coven_host::spawner::Settings;
use coven_interop::conversations::{ConversationError, Conversations, Loaded, NewConversation, Wait, Writer};

use crate::command_line::Place;
use crate::failure::{self, Failure};
use crate::{format, output};

pub use keeping::{clean, delete};
pub use report::list;

/// Options of a conversation.
pub struct SpawnOptions {
    pub agent: Option<String>,
    pub name: Option<String>,
    pub resume: Option<String>,
    pub damaged: Damaged,
    pub waits: bool,
    /// Sent as the only message; without it the user types.
    pub task: Option<String>,
    pub timeout: Option<Duration>,
    /// Arguments for the agent's program.
    pub more_args: Vec<String>,
}

/// What to do with a damaged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damaged {
    Ask,
    Recover,
    Delete,
}

/// An open conversation, with everything that a turn needs.
struct OpenConversation {
    conversations: Conversations,
    writer: Writer,
    loaded: Loaded,
    /// The turns of the next prompt, and the size warnings given so far.
    context: Context,
    settings: Settings,
    harness: PrintHarness,
    more_args: Vec<String>,
    agent: Option<AgentDefinition>,
    cwd: PathBuf,
    timeout: Option<Duration>,
    /// Lines that are not saved yet.
    unsaved: Vec<Line>,
    /// Length of the file when it was last read or written.
    seen_len: u64,
}

impl OpenConversation {
    fn file_len(&self) -> u64 {
        file_len(&self.conversations, self.writer.id())
    }
}

/// Returns the length of the file; 0 if it is missing, which saving then reports.
fn file_len(conversations: &Conversations, id: &ConversationId) -> u64 {
    std::fs::metadata(conversations.file(id)).map_or(0, |file| file.len())
}

/// Opens the conversation and runs it until the user leaves.
pub fn run_interactive(conversations: Conversations, place: &Place, wanted: SpawnOptions) -> Result<ExitCode, Failure> {
    let cwd = std::env::current_dir().map_err(Failure::Input)?;
    let (settings, warnings) = Settings::load(&cwd);
    warnings.iter().for_each(|warning| failure::print_error(warning));
    let (mut loaded, loaded_len) = match &wanted.resume {
        Some(id) => {
            let (loaded, len) = load_to_resume(&conversations, id, wanted.damaged)?;
            (Some(loaded), Some(len))
        }
        None => (None, None),
    };
    let remembered = loaded.as_ref().and_then(|loaded| loaded.transcript.metadata.harness.clone());
    let (_, config, withheld) = place.config()?;
    let default = config.default_harness().map(str::to_owned);
    let tool = wanted_tool(settings.tool.as_deref()).or(remembered).or(default);
    let harnesses = harness::all(&config.harnesses);
    let harness = choose(tool.as_deref(), &harnesses, std::env::var_os("PATH").as_deref())
        .map_err(|error| Failure::failed(format::sanitize_line(&error.to_string()), ""));
    if let Some(id) = tool.as_deref().or(harness.as_ref().ok().map(|harness| harness.id.as_str()))
        && withheld.has(&format!("harnesses.{id}"))
    {
        let id = format::sanitize_line(id);
        let what = format!("harness {id} is not used: its definition in the config came with a repository or archive");
        return Err(Failure::refused(what, "Review it, then run `coven trust`"));
    }
    let harness = harness?;
    let remembered = loaded.as_ref().and_then(|loaded| loaded.transcript.metadata.agent.clone());
    let agent = match (&wanted.agent, remembered) {
        (Some(name), _) => Some(known_agent(name, &settings)?),
        (None, Some(name)) => match known_agent(&name, &settings) {
            Ok(agent) => Some(agent),
            Err(_) => {
                let name = format::sanitize_line(&name);
                output::note(format_args!("agent '{name}' no longer exists; continuing without it"));
                None
            }
        },
        (None, None) => None,
    };
    let id = match &loaded {
        Some(loaded) => loaded.id.clone(),
        None => {
            let name = wanted.name.as_deref().map(str::parse::<ConversationId>).transpose();
            let id = name.map_err(ConversationError::from)?;
            let new = NewConversation {
                id,
                agent: agent.as_ref().map(|agent| agent.id.clone()),
                harness: Some(harness.id.clone()),
                cwd: Some(cwd.clone()),
            };
            conversations.create(&new, clock::now())?
        }
    };
    if conversations.is_in_use(&id) {
        if !wanted.waits {
            return Err(ConversationError::InUse { id: id.to_string() }.into());
        }
        output::note(format_args!(
            "conversation {id} is also open in another process; its turns are read before each turn here"
        ));
    }
    let wait = match wanted.waits {
        true => Wait::ForLock(Box::new(|| {
            output::note(format_args!("waiting for another process that is writing to the conversation …"))
        })),
        false => Wait::NoWait,
    };
    let writer = conversations.writer(&id, wait)?;
    // Only after opening: an open conversation is never deleted, regardless of its age.
    keeping::clean_in_background(&conversations, settings.session_expiry);
    let loaded = match loaded.take() {
        Some(loaded) => loaded,
        None => conversations.load(&id)?,
    };
    // Turns that were added since loading are read before the first turn.
    let seen_len = loaded_len.unwrap_or_else(|| file_len(&conversations, &id));
    for notice in &loaded.notices {
        output::note(format_args!("{notice}"));
    }
    if wanted.resume.is_some() && loaded.transcript.status == ConversationState::Completed {
        output::note(format_args!("Resuming completed session"));
    }
    let is_resumed = wanted.resume.is_some();
    let context = loaded.transcript.context();
    let open = OpenConversation {
        conversations,
        writer,
        loaded,
        context,
        settings,
        harness,
        more_args: wanted.more_args,
        agent,
        cwd,
        timeout: wanted.timeout,
        unsaved: Vec::new(),
        seen_len,
    };
    match &wanted.task {
        Some(task) => repl::run_task(open, task),
        None => repl::run(open, is_resumed),
    }
}

/// Finds a conversation by id or prefix. The error lists the existing ones.
fn find(conversations: &Conversations, text: &str) -> Result<ConversationId, Failure> {
    conversations.find(text).map_err(|error| match error {
        ConversationError::NotFound { .. } => report::not_found(conversations, text),
        other => other.into(),
    })
}

fn known_agent(name: &str, settings: &Settings) -> Result<AgentDefinition, Failure> {
    let home = std::env::home_dir().unwrap_or_default();
    let configured: Option<Vec<String>> = settings
        .agent_folders
        .as_ref()
        .map(|folders| folders.iter().map(|folder| folder.display().to_string()).collect());
    let found = agent_definitions::list(&agent_definitions::folders(&home, configured.as_deref()), &home);
    match found.find(name) {
        Ok(agent) => Ok(agent.clone()),
        Err(unknown) => {
            let known: Vec<&str> = found.agents.iter().map(|agent| agent.id.as_str()).collect();
            let hint = match known.is_empty() {
                true => "No agent definitions were found; omit --agent to chat without one".to_owned(),
                false => format!("Known agents: {}; omit --agent to chat without one", known.join(", ")),
            };
            Err(Failure::failed(format::sanitize_line(&unknown.to_string()), format::sanitize_line(&hint)))
        }
    }
}

/// Loads a conversation. Returns it with the length of its file before reading.
fn load_to_resume(conversations: &Conversations, id: &str, damaged: Damaged) -> Result<(Loaded, u64), Failure> {
    let id = find(conversations, id)?;
    let len = file_len(conversations, &id);
    match conversations.load(&id) {
        Err(ConversationError::NotFound { id }) => Err(report::not_found(conversations, &id)),
        Err(error @ ConversationError::Damaged { .. }) => match choice(&error, damaged)? {
            Damaged::Recover => {
                let done = conversations.recover(&id, clock::now())?;
                let (kept, lost, original) = (done.kept_lines, done.lost_lines, done.original.display());
                output::note(format_args!("{kept} lines recovered, {lost} lost; the original file is {original}"));
                Ok((conversations.load(&id)?, 0))
            }
            Damaged::Delete => {
                conversations.delete(&id)?;
                Err(Failure::failed(format!("deleted the damaged session {id}"), "Start a new one with -i"))
            }
            Damaged::Ask => Err(error.into()),
        },
        loaded => Ok((loaded?, len)),
    }
}

fn choice(error: &ConversationError, damaged: Damaged) -> Result<Damaged, Failure> {
    if damaged != Damaged::Ask || !io::stdin().is_terminal() {
        return Ok(damaged);
    }
    failure::print_error(&format::sanitize_line(&error.to_string()));
    let answer = ask("Recover the good lines, delete it, or leave it? [r/d/N] ")?;
    Ok(match answer.as_str() {
        "r" | "recover" => Damaged::Recover,
        "d" | "delete" => Damaged::Delete,
        _ => Damaged::Ask,
    })
}

/// Asks a question and returns the answer in lower case.
fn ask(question: &str) -> Result<String, Failure> {
    let mut out = io::stdout().lock();
    out.write_all(question.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::Input)?;
    Ok(line.trim().to_lowercase())
}
