//! One agent with `coven mcp` in its own settings, in sessions of coven: its model asks, the human answers late or the
//! agent is killed first.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use coven_api::session::SessionRecord;
use coven_harness::trial::PromptBy;

use super::super::coven::Coven;
use super::super::process_table::{self, Process};
use super::super::report::{Check, Row as _};
use super::super::{Outcome, eventually, seconds};
use super::McpAgent;
use super::agent_row::AgentRow;
use super::bodies::Bodies;
use super::client_trial::question;
use super::desk::{Desk, Waiting};
use super::entry::Entry;

/// Longer than the minute after which clients give up a call unless they are told otherwise.
const HUMAN: Duration = Duration::from_secs(65);
/// From the answer to the model's next turn.
const TOLD: Duration = Duration::from_secs(60);

pub struct AgentTrial<'a> {
    pub agent: &'a McpAgent,
    pub program: &'a Path,
    pub coven: &'a Coven,
    pub desk: Desk<'a>,
    pub bodies: Bodies,
    pub entry: Entry<'a>,
}

/// A session with a question open.
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
        // While that one waits.
        row.killed = self.is_killed(row).unwrap_or_else(|error| Check::Failed(error.to_string()));
        row.killed_alone = self.is_killed_alone().unwrap_or_else(|error| Check::Failed(error.to_string()));
        row.answered = self.is_answered(&late).into();
        if !row.has_passed() {
            row.last_screen = self.coven.screen(&late.session.id).ok();
        }
    }

    fn ask(&self, prompt: &str, row: &mut AgentRow) -> Outcome<Asking> {
        let command = self.command(prompt);
        let session = self.coven.launch_command(&command.iter().map(String::as_str).collect::<Vec<_>>())?;
        let has_ended = || {
            let session = self.coven.session(&session.id).ok()?;
            (session.status != "running").then(|| format!("the agent ended without asking: {}", session.status))
        };
        match self.desk.asked(prompt, has_ended) {
            Ok(waiting) => Ok(Asking { session, waiting, since: Instant::now() }),
            Err(error) => {
                row.last_screen = self.coven.screen(&session.id).ok();
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
            // The shell gives way to the agent, so that its process is the agent.
            PromptBy::Input => {
                let shell = ["sh", "-c", "printf '%s\\n' \"$0\" > prompt && exec \"$@\" < prompt"].map(str::to_owned);
                shell.into_iter().chain([script, program]).chain(args).collect()
            }
        }
    }

    /// The question names the session that the agent runs in.
    fn is_linked(&self, asking: &Asking) -> Outcome<String> {
        let written = self.desk.request(&asking.waiting.id)?["covenSessionId"].take();
        match written == asking.session.id && asking.waiting.session.as_ref() == Some(&asking.session.id) {
            true => Ok("yes".to_owned()),
            false => Err(format!("asked in {}, and the request says {written}", asking.session.id).into()),
        }
    }

    fn is_answered(&self, asking: &Asking) -> Outcome<String> {
        sleep(HUMAN.saturating_sub(asking.since.elapsed()));
        let status = self.desk.status(&asking.waiting.id)?;
        if status != "pending" {
            return Err(format!("after {} s the set is {status}", HUMAN.as_secs()).into());
        }
        let words = format!("nëither of \"both\" for {}", self.agent.name);
        self.desk.answer(&asking.waiting.id, &words)?;
        let text = format!("1. Answered late?\n→ Other: '{words}'");
        let form =
            eventually(TOLD, || self.bodies.form_of(&text, &words)).ok_or("no request to the model has the answer")?;
        Ok(format!("{form}, after {} s", HUMAN.as_secs()))
    }

    /// The agent dies with a question open, which must go with it.
    fn is_killed(&self, row: &mut AgentRow) -> Outcome<Check> {
        let asking = self.ask("Killed?", row)?;
        let leader = asking.session.pid.and_then(process_table::find).ok_or("the session has no living process")?;
        self.dies(leader.pid, &asking.session.id, &asking.waiting.id)
    }

    /// The same with nobody who looks after what the agent leaves behind.
    fn is_killed_alone(&self) -> Outcome<Check> {
        let prompt = "Killed alone?";
        let command = self.command(prompt);
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .env_clear()
            .envs(self.coven.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.coven.project)
            // By its group what it leaves behind is found.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let asked = self.desk.asked(prompt, || None);
        let outcome = asked.and_then(|waiting| self.dies(child.id(), "", &waiting.id));
        // Either fails only if it has ended already.
        let _ = child.kill();
        let _ = child.wait();
        outcome
    }

    fn dies(&self, leader: u32, session: &str, set: &str) -> Outcome<Check> {
        let family = process_table::family(leader, session);
        process_table::kill(leader);
        if let Ok(took) = self.desk.abandoned(set) {
            return Ok(Check::Passed(took));
        }
        // The agent's own children keep its server alive; with them the set must go.
        let is_server = |process: &Process| {
            let program = self.coven.program.to_string_lossy();
            process_table::identity(process.pid).is_some_and(|identity| identity.cmdline.starts_with(&*program))
        };
        let mut left: Vec<Process> = family.into_iter().filter(|process| process_table::is_alive(*process)).collect();
        left.retain(|process| !is_server(process));
        if left.is_empty() {
            return Err("nothing of the agent is left and the set is still pending".into());
        }
        left.iter().for_each(|process| process_table::kill(process.pid));
        let took = self.desk.abandoned(set)?;
        Ok(Check::Limit(format!("a child of it lives on; with that, {took}")))
    }
}
