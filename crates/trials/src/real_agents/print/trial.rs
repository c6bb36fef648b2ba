//! One agent in print mode: prompt, resume in a new process, stream, long prompt, cancel, failure.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use coven_harness::print_mode::{self, PrintPrompt};
use coven_harness::trial::{Counting, Failing, Streaming};

use super::super::coven::Coven;
use super::super::process_table;
use super::super::report::Check;
use super::super::{TrialResult, eventually, seconds};
use super::PrintAgent;
use super::requests::Requests;
use super::row::PrintRow;
use super::turn::{FailureKind, Told};

/// Some agents need almost a minute to start on a busy machine.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// An agent definition whose instructions coven must pass on, and one that Claude finds by name. The instructions of
/// both must reach the model.
const STRANGER: Definition = Definition { id: "stranger", folder: ".codex/agents", mark: "inspector-4711" };
const OWN: Definition = Definition { id: "own", folder: ".claude/agents", mark: "inspector-4712" };
/// Number of chunks of the stub's slow answer, and the milliseconds between them.
const CHUNKS: u64 = 8;
const CHUNK_INTERVAL_MS: u64 = 250;

/// The length of the longest conversation that coven sends by default. Some agents reject much longer prompts.
const LONG_PROMPT: usize = 400_000;

struct Definition {
    id: &'static str,
    /// Below the user's home.
    folder: &'static str,
    /// A word that occurs only in its instructions.
    mark: &'static str,
}

struct Trial<'a> {
    agent: &'a PrintAgent,
    program: &'a Path,
    /// Only for its environment: no daemon is needed.
    coven: &'a Coven,
    requests: Requests<'a>,
    /// Set in the environment of all processes of the trial.
    mark: String,
}

pub fn run(agent: &PrintAgent, program: &Path, coven: &Coven, folder: &Path) -> PrintRow {
    let mark = format!("print-{}-{}", agent.name, std::process::id());
    let trial = Trial { agent, program, coven, requests: Requests { folder }, mark };
    let mut row = PrintRow { version: trial.version().into(), ..PrintRow::new(agent) };
    trial.two_turns(&mut row).unwrap_or_else(|error| row.first = Check::Failed(error.to_string()));
    row.streams = trial.streams().unwrap_or_else(failed);
    row.long_prompt = trial.long_prompt().unwrap_or_else(failed);
    row.cancel = trial.cancel().into();
    row.failure = trial.failure().unwrap_or_else(failed);
    row
}

impl Trial<'_> {
    fn version(&self) -> TrialResult<String> {
        let output = self.command(self.program).arg("--version").stderr(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).ok_or("the agent prints no version")?;
        let number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        Ok(line.split([' ', '/']).find(number).unwrap_or(line).trim_end_matches('.').to_owned())
    }

    fn two_turns(&self, row: &mut PrintRow) -> TrialResult<()> {
        let name = self.agent.name;
        let before = self.requests.bodies();
        self.define(&STRANGER)?;
        self.define(&OWN)?;
        let first = self.answered(&format!("say first-from-{name}"), &["--agent", STRANGER.id])?;
        row.first = Check::Passed(took(&first));
        row.instructions = self.instructions(&before).into();
        let second = self.resumed(&first);
        row.tokens =
            match (first.tokens, second.as_ref().ok().and_then(|result| result.tokens), self.agent.trial.counting) {
                (Some((input, output)), Some((again, more)), _) => {
                    Check::Passed(format!("{input} + {output}, {again} + {more}"))
                }
                (None, None, Counting::NotTold) => Check::Limit("not reported".to_owned()),
                (one, other, _) => failed(format!("reported tokens of the turns: {one:?}, {other:?}")),
            };
        row.resumed = second.map(|result| took(&result)).into();
        Ok(())
    }

    /// Checks the first turn, which used an agent definition. If the harness takes its own
    /// agents by name, runs another turn with one.
    fn instructions(&self, before: &BTreeSet<PathBuf>) -> TrialResult<String> {
        let name = self.agent.name;
        if !self.requests.hold_since(before, &[STRANGER.mark, &format!("first-from-{name}")]) {
            return Err("the instructions of the agent definition did not reach the model".into());
        }
        if print_mode::known(name).is_none_or(|mode| mode.own_agents.is_none()) {
            return Ok("yes".to_owned());
        }
        let before = self.requests.bodies();
        self.answered(&format!("say named-from-{name}"), &["--agent", OWN.id])?;
        match self.requests.hold_since(&before, &[OWN.mark, &format!("named-from-{name}")]) {
            true => Ok("yes, and by name".to_owned()),
            false => Err("the instructions of the named agent did not reach the model".into()),
        }
    }

    fn define(&self, agent: &Definition) -> TrialResult<()> {
        let folder = self.requests.folder.join("home").join(agent.folder);
        fs::create_dir_all(&folder)?;
        let Definition { id, mark, .. } = agent;
        let text = format!("---\nname: {id}\ndescription: Used when: trying\n---\nYou are {mark}.\n");
        Ok(fs::write(folder.join(format!("{id}.md")), text)?)
    }

    fn resumed(&self, first: &Told) -> TrialResult<Told> {
        let name = self.agent.name;
        let session = first.session.as_deref().ok_or("the agent reported no session")?;
        let mut args = vec!["--session".to_owned(), session.to_owned()];
        if let Some((input, output)) = first.tokens {
            args.extend(["--used-before".to_owned(), input.to_string(), output.to_string()]);
        }
        let before = self.requests.bodies();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let second = self.answered(&format!("say second-from-{name}"), &args)?;
        if !self.requests.hold_since(&before, &[&format!("first-from-{name}"), &format!("second-from-{name}")]) {
            return Err("the model did not see the first turn".into());
        }
        if first.tokens.zip(second.tokens).is_some_and(|(first, second)| second.0 > first.0 * 3 / 2) {
            return Err(format!("the tokens of the second turn include the first: {:?}", second.tokens).into());
        }
        Ok(second)
    }

    fn streams(&self) -> TrialResult<Check> {
        let result = self.turn(&format!("slow {CHUNKS} {CHUNK_INTERVAL_MS}"), &[])?;
        let last = format!("chunk {CHUNKS}");
        if !result.text.contains("chunk 1 ") || !result.text.contains(&last) {
            return Err(format!("incomplete answer: {:?}", result.text).into());
        }
        let (first, last) = result.text_ms.ok_or("the agent printed no text")?;
        let apart = last - first;
        match (apart >= CHUNKS * CHUNK_INTERVAL_MS / 2, self.agent.trial.streaming) {
            (true, _) => Ok(Check::Passed("as it comes".to_owned())),
            (false, Streaming::WholeMessages) => Ok(Check::Limit("whole messages".to_owned())),
            (false, Streaming::AsItComes) => Err(format!("all text arrived within {apart} ms").into()),
        }
    }

    fn long_prompt(&self) -> TrialResult<Check> {
        let answer = format!("long-from-{}", self.agent.name);
        let line = "A line of a long conversation, repeated to reach the length.\n";
        let prompt = format!("{}\nsay {answer}", line.repeat(LONG_PROMPT / line.len()));
        let result = self.turn(&prompt, &[])?;
        let takes_input = print_mode::known(self.agent.name).is_some_and(|mode| mode.prompt == PrintPrompt::Stdin);
        match (&result.failure, takes_input) {
            (Some(failure), false) if failure.kind == FailureKind::PromptTooLong => {
                Ok(Check::Limit("refused: an argument holds 128 KiB".to_owned()))
            }
            (Some(failure), _) => Err(failure.words.clone().into()),
            (None, _) if result.text == answer => Ok(Check::Passed(took(&result))),
            (None, _) => {
                Err(format!("the agent answered {:?}", result.text.chars().take(200).collect::<String>()).into())
            }
        }
    }

    /// Interrupts the agent during an answer.
    fn cancel(&self) -> TrialResult<String> {
        let before = self.requests.bodies();
        let prompt = "slow 600 100";
        let child = self.start(prompt, &[])?;
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).ok_or("no pid")?;
        let is_asked = eventually(REQUEST_TIMEOUT, || self.requests.hold_since(&before, &[prompt]).then_some(()));
        let interrupted = Instant::now();
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        let result = finished(child)?;
        is_asked.ok_or("the model received no request")?;
        if !result.is_interrupted {
            return Err(format!("the turn was not interrupted: {result:?}").into());
        }
        let took = seconds(interrupted);
        let left = process_table::session_processes(u32::MAX, &self.mark);
        let names = left.iter().filter_map(|process| process_table::identity(process.pid));
        match names.map(|identity| identity.cmdline).collect::<Vec<_>>() {
            none if none.is_empty() => Ok(format!("all gone in {took}")),
            names => Err(format!("still running: {}", names.join(" | ")).into()),
        }
    }

    fn failure(&self) -> TrialResult<Check> {
        let result = self.turn("fail 400 the-model-says-no", &[])?;
        match (result.failure, self.agent.trial.failing) {
            (Some(failure), _) if failure.kind == FailureKind::ExitStatus => {
                let is_clear = failure.words.contains("the-model-says-no");
                Ok(Check::Passed(if is_clear { "reported, with the reason" } else { "reported" }.to_owned()))
            }
            (Some(failure), Failing::SaysSo) if failure.kind == FailureKind::NoAnswer => {
                Ok(Check::Passed("reported in its output".to_owned()))
            }
            (Some(failure), _) => Err(failure.words.into()),
            (None, Failing::AnswersIt) => Ok(Check::Limit("reported as an answer".to_owned())),
            (None, Failing::ExitsNonzero | Failing::SaysSo) => {
                Err(format!("no failure; the agent answered {:?}", result.text).into())
            }
        }
    }

    /// Runs a turn and checks that the answer is exactly the text that the prompt requests.
    fn answered(&self, prompt: &str, args: &[&str]) -> TrialResult<Told> {
        let result = self.turn(prompt, args)?;
        match &result.failure {
            Some(failure) => Err(failure.words.clone().into()),
            None if prompt.strip_prefix("say ") == Some(result.text.as_str()) => Ok(result),
            None => Err(format!("the agent answered {:?}", result.text).into()),
        }
    }

    fn turn(&self, prompt: &str, args: &[&str]) -> TrialResult<Told> {
        finished(self.start(prompt, args)?)
    }

    fn start(&self, prompt: &str, args: &[&str]) -> TrialResult<Child> {
        let mut child = self
            .command(&std::env::current_exe()?)
            .arg("print-turn")
            .arg(self.program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // `print-turn` reads the whole prompt before it writes, so this cannot deadlock.
        child.stdin.take().expect("piped stdin").write_all(prompt.as_bytes())?;
        Ok(child)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.coven.env.iter().map(|(name, value)| (name, value)))
            .env("COVEN_SESSION_ID", &self.mark)
            .current_dir(&self.coven.project)
            .stdin(Stdio::null());
        command
    }
}

fn finished(child: Child) -> TrialResult<Told> {
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).map_err(|error| format!("print-turn: {error} in {text:?}").into())
}

fn took(result: &Told) -> String {
    format!("{:.1} s", result.took_ms as f64 / 1000.0)
}

fn failed(error: impl ToString) -> Check {
    Check::Failed(error.to_string())
}
