//! One agent with `coven mcp` in its settings: its model asks a question, and the human answers late or the agent is
//! killed first.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use coven_api::session::SessionRecord;
use coven_domain::session::SessionState;
use coven_harness::trial::PromptBy;

use super::super::coven::Coven;
use super::super::process_table::{self, Process};
use super::super::report::{Check, Row as _};
use super::super::{TrialResult, eventually, seconds};
use super::McpAgent;
use super::agent_row::AgentRow;
use super::bodies::Bodies;
use super::client_trial::question;
use super::desk::{Desk, Waiting};
use super::entry::Entry;

/// Longer than one minute, the default timeout of clients for a call.
const ANSWER_DELAY: Duration = Duration::from_secs(65);
/// Timeout from the answer to the model's next turn.
const NEXT_TURN_TIMEOUT: Duration = Duration::from_secs(60);

pub struct AgentTrial<'a> {
    pub agent: &'a McpAgent,
    pub program: &'a Path,
    pub coven: &'a Coven,
    pub desk: Desk<'a>,
    pub bodies: Bodies,
    pub entry: Entry<'a>,
}

/// A session with an open question.
struct Asking {
    session: SessionRecord,
    waiting: Waiting,
    since: Instant,
}

impl AgentTrial<'_> {
    pub fn run(&self, row: &mut AgentRow) {
        row.installed = self.entry.install().into();
        if row.installed.has_passed() {
            self.questions(row);
            row.uninstalled = self.entry.uninstall().into();
        }
        if let Err(error) = self.coven.stop() {
            eprintln!("  {error}");
        }
    }

    fn questions(&self, row: &mut AgentRow) {
        let started = Instant::now();
        let late = match self.ask("Answered late?", row) {
            Ok(asking) => asking,
            Err(error) => return row.asks = Check::Failed(error.to_string()),
        };
        row.asks = Check::Passed(seconds(started));
        row.linked = self.is_linked(&late).into();
        // While the first question is open.
        row.killed = self.is_killed(row).unwrap_or_else(|error| Check::Failed(error.to_string()));
        row.killed_alone = self.is_killed_alone().unwrap_or_else(|error| Check::Failed(error.to_string()));
        row.answered = self.is_answered(&late).into();
        if !row.has_passed() {
            row.last_screen = self.coven.screen(&late.session.id.to_string()).ok();
        }
    }

    fn ask(&self, prompt: &str, row: &mut AgentRow) -> TrialResult<Asking> {
        let command = self.command(prompt);
        let session = self.coven.launch_command(&command.iter().map(String::as_str).collect::<Vec<_>>())?;
        let has_ended = || {
            let session = self.coven.session(&session.id.to_string()).ok()?;
            (session.status != SessionState::Running)
                .then(|| format!("the agent ended without a question: {}", session.status))
        };
        match self.desk.asked(prompt, has_ended) {
            Ok(waiting) => Ok(Asking { session, waiting, since: Instant::now() }),
            Err(error) => {
                row.last_screen = self.coven.screen(&session.id.to_string()).ok();
                Err(error)
            }
        }
    }

    fn command(&self, prompt: &str) -> Vec<String> {
        let script = format!("tool {} {} ;; say all-done", self.agent.trial.tool, question(prompt));
        let program = self.program.to_string_lossy().into_owned();
        let args = self.agent.trial.args.iter().map(|arg| (*arg).to_owned());
        match self.agent.trial.prompt {
            PromptBy::Argument => [program].into_iter().chain(args).chain([script]).collect(),
            // With `exec`, so that the shell's process becomes the agent.
            PromptBy::Input => {
                let shell = ["sh", "-c", "printf '%s\\n' \"$0\" > prompt && exec \"$@\" < prompt"].map(str::to_owned);
                shell.into_iter().chain([script, program]).chain(args).collect()
            }
        }
    }

    /// Checks that the question contains the id of the agent's session.
    fn is_linked(&self, asking: &Asking) -> TrialResult<String> {
        let written = self.desk.request(&asking.waiting.id)?["covenSessionId"].take();
        match written == asking.session.id.to_string() && asking.waiting.session == Some(asking.session.id.to_string())
        {
            true => Ok("yes".to_owned()),
            false => {
                Err(format!("the question is from session {}, but the request contains {written}", asking.session.id)
                    .into())
            }
        }
    }

    fn is_answered(&self, asking: &Asking) -> TrialResult<String> {
        sleep(ANSWER_DELAY.saturating_sub(asking.since.elapsed()));
        let status = self.desk.status(&asking.waiting.id)?;
        if status != "pending" {
            return Err(format!("after {} s the set is {status}", ANSWER_DELAY.as_secs()).into());
        }
        let words = format!("nëither of \"both\" for {}", self.agent.name);
        self.desk.answer(&asking.waiting.id, &words)?;
        let text = format!("1. Answered late?\n→ Other: '{words}'");
        let form = eventually(NEXT_TURN_TIMEOUT, || self.bodies.form_of(&text, &words))
            .ok_or("no request to the model contains the answer")?;
        Ok(format!("{form}, after {} s", ANSWER_DELAY.as_secs()))
    }

    /// Kills the agent and checks that its open question is abandoned.
    fn is_killed(&self, row: &mut AgentRow) -> TrialResult<Check> {
        let asking = self.ask("Killed?", row)?;
        let leader = asking.session.pid.and_then(process_table::find).ok_or("the session has no live process")?;
        self.dies(leader.pid, &asking.session.id.to_string(), &asking.waiting.id)
    }

    /// The same outside a coven session, where coven does not kill the agent's children.
    fn is_killed_alone(&self) -> TrialResult<Check> {
        let prompt = "Killed alone?";
        let command = self.command(prompt);
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .env_clear()
            .envs(self.coven.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.coven.project)
            // A separate process group, so that the agent's children can be found.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let asked = self.desk.asked(prompt, || None);
        let outcome = asked.and_then(|waiting| self.dies(child.id(), "", &waiting.id));
        // Both fail only if the process has already exited.
        let _ = child.kill();
        let _ = child.wait();
        outcome
    }

    fn dies(&self, leader: u32, session: &str, set: &str) -> TrialResult<Check> {
        let processes = process_table::session_processes(leader, session);
        process_table::kill(leader);
        if let Ok(took) = self.desk.abandoned(set) {
            return Ok(Check::Passed(took));
        }
        // Children of the agent keep its MCP server alive; the set must be abandoned when they exit.
        let is_server = |process: &Process| {
            let program = self.coven.program.to_string_lossy();
            process_table::identity(process.pid).is_some_and(|identity| identity.cmdline.starts_with(&*program))
        };
        let mut left: Vec<Process> =
            processes.into_iter().filter(|process| process_table::is_alive(*process)).collect();
        left.retain(|process| !is_server(process));
        if left.is_empty() {
            return Err("all processes of the agent are gone, but the set is still pending".into());
        }
        left.iter().for_each(|process| process_table::kill(process.pid));
        let took = self.desk.abandoned(set)?;
        Ok(Check::Limit(format!("a child process keeps running; {took} after its end")))
    }
}
