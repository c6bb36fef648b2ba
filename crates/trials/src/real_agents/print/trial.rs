//! One agent in print mode: asked, resumed in a new process, streamed, given a long prompt, cancelled, failed.

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
use super::super::{Outcome, eventually, seconds};
use super::PrintAgent;
use super::requests::Requests;
use super::row::PrintRow;
use super::turn::{FailureKind, Told};

/// Some agents need most of a minute to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// An agent that every tool but its owner must be told about, and one that Claude finds by itself. What they are told
/// must reach the model.
const STRANGER: Definition = Definition { id: "stranger", folder: ".codex/agents", mark: "inspector-4711" };
const OWN: Definition = Definition { id: "own", folder: ".claude/agents", mark: "inspector-4712" };
/// How long the answer of the stub takes: so many pieces, so many milliseconds apart.
const PIECES: u64 = 8;
const APART_MS: u64 = 250;

/// As long as the longest conversation that coven sends by default. Some agents refuse much more by themselves.
const LONG_PROMPT: usize = 400_000;

struct Definition {
    id: &'static str,
    /// Below the user's home.
    folder: &'static str,
    /// Only its instructions have this word.
    mark: &'static str,
}

struct Trial<'a> {
    agent: &'a PrintAgent,
    program: &'a Path,
    /// Only its surroundings: no daemon is needed.
    coven: &'a Coven,
    requests: Requests<'a>,
    /// In the environment of everything that the trial starts.
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
    fn version(&self) -> Outcome<String> {
        let output = self.command(self.program).arg("--version").stderr(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).ok_or("it tells no version")?;
        let number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        Ok(line.split([' ', '/']).find(number).unwrap_or(line).trim_end_matches('.').to_owned())
    }

    fn two_turns(&self, row: &mut PrintRow) -> Outcome<()> {
        let name = self.agent.name;
        let before = self.requests.bodies();
        self.define(&STRANGER)?;
        self.define(&OWN)?;
        let first = self.answered(&format!("say first-from-{name}"), &["--agent", STRANGER.id])?;
        row.first = Check::Passed(took(&first));
        row.instructions = self.instructions(&before).into();
        let second = self.resumed(&first);
        row.tokens = match (first.tokens, second.as_ref().ok().and_then(|told| told.tokens), self.agent.trial.counting)
        {
            (Some((input, output)), Some((again, more)), _) => {
                Check::Passed(format!("{input} + {output}, {again} + {more}"))
            }
            (None, None, Counting::NotTold) => Check::Limit("not told".to_owned()),
            (one, other, _) => failed(format!("told of the turns: {one:?}, {other:?}")),
        };
        row.resumed = second.map(|told| took(&told)).into();
        Ok(())
    }

    /// The first turn was of an agent; where the harness takes its own by name, one more turn is.
    fn instructions(&self, before: &BTreeSet<PathBuf>) -> Outcome<String> {
        let name = self.agent.name;
        if !self.requests.hold_since(before, &[STRANGER.mark, &format!("first-from-{name}")]) {
            return Err("the model was not told who it is".into());
        }
        if print_mode::known(name).is_none_or(|mode| mode.own_agents.is_none()) {
            return Ok("yes".to_owned());
        }
        let before = self.requests.bodies();
        self.answered(&format!("say named-from-{name}"), &["--agent", OWN.id])?;
        match self.requests.hold_since(&before, &[OWN.mark, &format!("named-from-{name}")]) {
            true => Ok("yes, and by name".to_owned()),
            false => Err("the model was not told who its own agent is".into()),
        }
    }

    fn define(&self, agent: &Definition) -> Outcome<()> {
        let folder = self.requests.folder.join("home").join(agent.folder);
        fs::create_dir_all(&folder)?;
        let Definition { id, mark, .. } = agent;
        let text = format!("---\nname: {id}\ndescription: Used when: trying\n---\nYou are {mark}.\n");
        Ok(fs::write(folder.join(format!("{id}.md")), text)?)
    }

    fn resumed(&self, first: &Told) -> Outcome<Told> {
        let name = self.agent.name;
        let session = first.session.as_deref().ok_or("it told no session")?;
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
            return Err(format!("the tokens of both turns are told of the second: {:?}", second.tokens).into());
        }
        Ok(second)
    }

    fn streams(&self) -> Outcome<Check> {
        let told = self.turn(&format!("slow {PIECES} {APART_MS}"), &[])?;
        let last = format!("chunk {PIECES}");
        if !told.text.contains("chunk 1 ") || !told.text.contains(&last) {
            return Err(format!("not whole: {:?}", told.text).into());
        }
        let (first, last) = told.text_ms.ok_or("no text at all")?;
        let apart = last - first;
        match (apart >= PIECES * APART_MS / 2, self.agent.trial.streaming) {
            (true, _) => Ok(Check::Passed("as it comes".to_owned())),
            (false, Streaming::WholeMessages) => Ok(Check::Limit("whole messages".to_owned())),
            (false, Streaming::AsItComes) => Err(format!("all text came within {apart} ms").into()),
        }
    }

    fn long_prompt(&self) -> Outcome<Check> {
        let answer = format!("long-from-{}", self.agent.name);
        let line = "A line of a long conversation that nobody has to read again.\n";
        let prompt = format!("{}\nsay {answer}", line.repeat(LONG_PROMPT / line.len()));
        let told = self.turn(&prompt, &[])?;
        let takes_input = print_mode::known(self.agent.name).is_some_and(|mode| mode.prompt == PrintPrompt::Stdin);
        match (&told.failure, takes_input) {
            (Some(failure), false) if failure.kind == FailureKind::PromptTooLong => {
                Ok(Check::Limit("refused: an argument holds 128 KiB".to_owned()))
            }
            (Some(failure), _) => Err(failure.words.clone().into()),
            (None, _) if told.text == answer => Ok(Check::Passed(took(&told))),
            (None, _) => Err(format!("it answered {:?}", told.text.chars().take(200).collect::<String>()).into()),
        }
    }

    /// Interrupted once the model is in the middle of an answer.
    fn cancel(&self) -> Outcome<String> {
        let before = self.requests.bodies();
        let prompt = "slow 600 100";
        let child = self.start(prompt, &[])?;
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).ok_or("no pid")?;
        let is_asked = eventually(PATIENCE, || self.requests.hold_since(&before, &[prompt]).then_some(()));
        let interrupted = Instant::now();
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        let told = finished(child)?;
        is_asked.ok_or("the model was never asked")?;
        if !told.is_interrupted {
            return Err(format!("it was not interrupted: {told:?}").into());
        }
        let took = seconds(interrupted);
        let left = process_table::family(u32::MAX, &self.mark);
        let names = left.iter().filter_map(|process| process_table::identity(process.pid));
        match names.map(|identity| identity.cmdline).collect::<Vec<_>>() {
            none if none.is_empty() => Ok(format!("all gone in {took}")),
            names => Err(format!("still there: {}", names.join(" | ")).into()),
        }
    }

    fn failure(&self) -> Outcome<Check> {
        let told = self.turn("fail 400 the-model-says-no", &[])?;
        match (told.failure, self.agent.trial.failing) {
            (Some(failure), _) if failure.kind == FailureKind::ExitStatus => {
                let is_clear = failure.words.contains("the-model-says-no");
                Ok(Check::Passed(if is_clear { "told, with the reason" } else { "told" }.to_owned()))
            }
            (Some(failure), Failing::SaysSo) if failure.kind == FailureKind::NoAnswer => {
                Ok(Check::Passed("told in its output".to_owned()))
            }
            (Some(failure), _) => Err(failure.words.into()),
            (None, Failing::AnswersIt) => Ok(Check::Limit("told as an answer".to_owned())),
            (None, Failing::ExitsNonzero | Failing::SaysSo) => {
                Err(format!("no failure; it answered {:?}", told.text).into())
            }
        }
    }

    /// A turn whose answer is what the prompt makes the model say, and nothing else.
    fn answered(&self, prompt: &str, args: &[&str]) -> Outcome<Told> {
        let told = self.turn(prompt, args)?;
        match &told.failure {
            Some(failure) => Err(failure.words.clone().into()),
            None if prompt.strip_prefix("say ") == Some(told.text.as_str()) => Ok(told),
            None => Err(format!("it answered {:?}", told.text).into()),
        }
    }

    fn turn(&self, prompt: &str, args: &[&str]) -> Outcome<Told> {
        finished(self.start(prompt, args)?)
    }

    fn start(&self, prompt: &str, args: &[&str]) -> Outcome<Child> {
        let mut child = self
            .command(&std::env::current_exe()?)
            .arg("print-turn")
            .arg(self.program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // It reads all of it before it does anything else.
        child.stdin.take().expect("it was piped").write_all(prompt.as_bytes())?;
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

fn finished(child: Child) -> Outcome<Told> {
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).map_err(|error| format!("print-turn: {error} in {text:?}").into())
}

fn took(told: &Told) -> String {
    format!("{:.1} s", told.took_ms as f64 / 1000.0)
}

fn failed(error: impl ToString) -> Check {
    Check::Failed(error.to_string())
}
