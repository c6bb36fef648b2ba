//! One agent in a terminal through coven: launch, screen, input, daemon kill, identity, kill.

use std::thread::sleep;
use std::time::{Duration, Instant};

use coven_domain::session::SessionState;
use coven_harness::trial::FirstPrompt;

use super::TerminalAgent;
use super::coven::Coven;
use super::process_table::{self, Process};
use super::report::Check;
use super::stage::Stage;
use super::terminal_row::TerminalRow;
use super::{TrialResult, death, eventually, seconds};

/// Some agents need almost a minute to start on a busy machine.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(180);
/// Delay before Enter: agents treat an immediate Enter as part of a paste.
const ENTER_DELAY: Duration = Duration::from_millis(500);
/// Text that a shell or an argument parser could misinterpret; the model reads only the line after it.
const AWKWARD: &str = r#"--help 'one' "two" \n; $(id) `id`"#;

struct Trial<'a> {
    agent: &'a TerminalAgent,
    coven: &'a Coven,
    id: String,
    leader: Process,
}

pub fn run(agent: &TerminalAgent, stage: Stage) -> TerminalRow {
    let coven = &stage.coven;
    let mut row = TerminalRow { version: version(agent, coven).into(), ..TerminalRow::new(agent) };
    match launch(agent, coven) {
        Err(error) => row.launched = Check::Failed(error.to_string()),
        Ok((trial, took)) => {
            row.launched = Check::Passed(took);
            trial.checks(&mut row);
        }
    }
    if let Err(error) = coven.stop() {
        eprintln!("  {error}");
    }
    row
}

fn version(agent: &TerminalAgent, coven: &Coven) -> TrialResult<String> {
    let harness = coven.harness(agent.name)?;
    harness.version.ok_or_else(|| format!("`coven harness doctor` reports no version: {}", harness.note).into())
}

fn launch<'a>(agent: &'a TerminalAgent, coven: &'a Coven) -> TrialResult<(Trial<'a>, String)> {
    let started = Instant::now();
    let prompt = format!("{AWKWARD}\n{}", first_prompt(agent));
    let session = match agent.trial.first_prompt {
        FirstPrompt::Argument => coven.launch(agent.name, Some(&prompt))?,
        FirstPrompt::Typed { .. } => coven.launch(agent.name, None)?,
    };
    let took = seconds(started);
    if session.status != SessionState::Running {
        return Err(format!("the session is {}", session.status).into());
    }
    let leader = session.pid.and_then(process_table::find).ok_or("the session has no live process")?;
    Ok((Trial { agent, coven, id: session.id.to_string(), leader }, took))
}

fn first_prompt(agent: &TerminalAgent) -> String {
    format!("say hello-from-{}", agent.name)
}

impl Trial<'_> {
    /// Runs the checks. Each one requires the previous one, except for the last two.
    fn checks(&self, row: &mut TerminalRow) {
        row.screen_shows = self.first_answer().into();
        if row.screen_shows.has_passed() {
            row.input_works = self.second_answer().into();
        }
        if row.input_works.has_passed() {
            row.survives = self.survives_the_daemon().into();
        }
        let has_trouble = ![&row.screen_shows, &row.input_works, &row.survives].iter().all(|check| check.has_passed());
        row.last_screen = if has_trouble { self.coven.screen(&self.id).ok() } else { None };
        row.identity = self.is_recognised().into();
        row.kill = death::dies_whole(self.coven, &self.id, self.leader).into();
    }

    fn first_answer(&self) -> TrialResult<String> {
        let started = Instant::now();
        match self.agent.trial.first_prompt {
            FirstPrompt::Argument => {}
            FirstPrompt::Typed { dialog, ready } => {
                self.wait_for(|screen| screen.contains(dialog) || screen.contains(ready))?;
                if self.coven.screen(&self.id)?.contains(dialog) {
                    self.coven.input(&self.id, "\r")?;
                }
                self.wait_for(|screen| screen.contains(ready))?;
                self.enter(&first_prompt(self.agent))?;
            }
        }
        self.wait_for_answer(&format!("hello-from-{}", self.agent.name))?;
        Ok(seconds(started))
    }

    fn second_answer(&self) -> TrialResult<String> {
        let started = Instant::now();
        self.enter(&format!("say second-from-{}", self.agent.name))?;
        self.wait_for_answer(&format!("second-from-{}", self.agent.name))?;
        Ok(seconds(started))
    }

    /// Kills the daemon during an answer.
    fn survives_the_daemon(&self) -> TrialResult<String> {
        self.enter("slow 24 250")?;
        self.wait_for(|screen| screen.contains("chunk 2"))?;
        let daemon = death::kill_daemon(self.coven, &self.id)?;

        let session = self.coven.session(&self.id)?;
        if session.status != SessionState::Running || session.pid != Some(self.leader.pid) {
            return Err(format!(
                "the session is {} with pid {:?}, was {}",
                session.status, session.pid, self.leader.pid
            )
            .into());
        }
        if !process_table::is_alive(self.leader) {
            return Err("the agent's process has exited".into());
        }
        if self.coven.daemon_pid()? == daemon.pid {
            return Err("the daemon's pid has not changed".into());
        }
        self.wait_for(|screen| screen.contains("chunk 24"))?;
        self.enter(&format!("say third-from-{}", self.agent.name))?;
        self.wait_for_answer(&format!("third-from-{}", self.agent.name))?;
        Ok("yes".to_owned())
    }

    fn is_recognised(&self) -> TrialResult<String> {
        let expected = self.coven.harness(self.agent.name)?.identity;
        let seen = process_table::identity(self.leader.pid).ok_or("the process has exited")?;
        if !seen.cmdline.contains(&expected) {
            return Err(format!("no {expected:?} in {:?} ({})", seen.cmdline, seen.comm).into());
        }
        let program = seen.cmdline.split(' ').find(|word| word.contains(&expected)).unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or_default();
        Ok(format!("{expected} in …{name} ({})", seen.comm))
    }

    /// Types a prompt like a person: text, pause, Enter.
    fn enter(&self, prompt: &str) -> TrialResult<()> {
        self.coven.input(&self.id, prompt)?;
        self.wait_for(|screen| screen.contains(prompt))?;
        sleep(ENTER_DELAY);
        self.coven.input(&self.id, "\r")
    }

    fn wait_for_answer(&self, answer: &str) -> TrialResult<()> {
        let question = format!("say {answer}");
        self.wait_for(|screen| screen.matches(answer).count() > screen.matches(&question).count())
            .map_err(|error| format!("no {answer:?}: {error}").into())
    }

    fn wait_for(&self, shows: impl Fn(&str) -> bool) -> TrialResult<()> {
        let mut trouble = "the expected text is not on the screen".to_owned();
        let seen = eventually(SCREEN_TIMEOUT, || match self.coven.screen(&self.id) {
            Ok(screen) => shows(&screen).then_some(()),
            Err(error) => {
                trouble = error.to_string();
                None
            }
        });
        seen.ok_or_else(|| trouble.into())
    }
}
