//! The journey: starts, works, finishes, asks, is answered, is interrupted, reaches a limit, dies.

use std::thread::sleep;
use std::time::{Duration, Instant};

use coven_domain::activity::Activity;
use coven_domain::session::SessionState;
use coven_harness::trial::{FirstPrompt, Question};

use super::super::coven::Coven;
use super::super::{TrialResult, eventually, process_table};
use super::step::{self, Step, Verdict};
use super::{Journey, Subject};

/// Some agents need almost a minute to start on a busy machine.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(120);
/// How long an agent may take to show what was typed.
const TYPED_TIMEOUT: Duration = Duration::from_secs(15);
/// Agents treat an immediate Enter as part of a paste, and dialogs ignore keys for a moment after they appear.
const KEY_DELAY: Duration = Duration::from_millis(700);
/// Agents that want Esc twice accept it for less than a second.
const REPEATED_KEY_DELAY: Duration = Duration::from_millis(200);
/// Time without a change of the screen after which an agent has settled.
const STILL: Duration = Duration::from_secs(2);

struct Trial<'a> {
    subject: &'a Subject,
    coven: &'a Coven,
    id: String,
}

pub fn run(subject: &Subject, coven: &Coven, journey: &mut Journey) {
    match launch(subject, coven) {
        Err(error) => journey.error = Some(error.to_string()),
        Ok(trial) => {
            if let Err(error) = trial.steps(&mut journey.steps) {
                journey.error = Some(error.to_string());
            }
            if !journey.has_passed() {
                journey.evidence = trial.evidence();
            }
        }
    }
}

fn launch<'a>(subject: &'a Subject, coven: &'a Coven) -> TrialResult<Trial<'a>> {
    let session = coven.launch_with(subject.name, subject.trial.args)?;
    Ok(Trial { subject, coven, id: session.id.to_string() })
}

impl Trial<'_> {
    fn steps(&self, steps: &mut Vec<Step>) -> TrialResult<()> {
        let trial = self.subject.trial;
        self.start()?;
        steps.push(self.observe("starts", &[Activity::Idle])?);

        self.enter("slow 16 250")?;
        let mut works = self.observe("works", &[Activity::Working])?;
        step::watch(self.coven, &self.id, &mut works, &[Activity::Working], |screen| screen.contains("chunk 16"));
        steps.push(works);
        self.wait_for("chunk 16")?;
        steps.push(self.observe("finishes", &[Activity::Idle])?);

        self.permission(steps, "permission, terminal", "by-terminal", |trial| trial.keys(trial.subject.trial.accept))?;
        if trial.has_answers {
            self.permission(steps, "permission, inbox", "by-inbox", Self::allow_from_inbox)?;
        } else {
            steps.push(Step::skipped("permission, inbox"));
        }
        match trial.question {
            Some(question) => self.question(steps, question)?,
            None => steps.push(Step::skipped("question")),
        }

        self.enter("slow 120 250")?;
        self.wait_for("chunk 2")?;
        sleep(KEY_DELAY);
        for keys in trial.interrupt {
            self.coven.input(&self.id, keys)?;
            sleep(REPEATED_KEY_DELAY);
        }
        steps.push(self.observe("interrupted", &[Activity::Idle])?);
        self.settle()?;
        if let Some(keys) = trial.clear {
            self.keys(keys)?;
            self.settle()?;
        }

        match trial.shows_limits {
            true => {
                self.enter("fail 429 rate limit reached")?;
                let name = ("rate limit", step::LIMIT_TIMEOUT);
                steps.push(step::observe(self.coven, &self.id, name, &[Activity::Limited])?);
            }
            false => steps.push(Step::skipped("rate limit")),
        }

        steps.push(self.killed()?);
        Ok(())
    }

    /// Waits for the agent's prompt, and answers its first dialog.
    fn start(&self) -> TrialResult<()> {
        if let FirstPrompt::Typed { dialog, ready } = self.subject.trial.start {
            self.wait(|screen| screen.contains(dialog) || screen.contains(ready))?;
            if self.coven.screen(&self.id)?.contains(dialog) {
                self.keys("\r")?;
            }
            self.wait_for(ready)?;
        }
        self.settle()
    }

    fn permission(
        &self,
        steps: &mut Vec<Step>,
        name: &'static str,
        file: &str,
        answer: impl Fn(&Self) -> TrialResult<()>,
    ) -> TrialResult<()> {
        let trial = self.subject.trial;
        let Some(verb) = trial.asking else {
            steps.push(Step::skipped(name));
            return Ok(());
        };
        self.enter(&format!("{verb} touch {file}.txt"))?;
        let mut step = self.observe(name, &[Activity::Permission])?;
        self.settle()?;
        let held = self.coven.session(&self.id)?.activity;
        if step.verdict == Verdict::Right && held != Some(Activity::Permission) {
            step.observed = format!("{}, then {held:?} while the dialog was open", step.observed);
            step.verdict = Verdict::Wrong;
        }
        answer(self)?;
        let made = self.coven.project.join(format!("{file}.txt"));
        eventually(SCREEN_TIMEOUT, || made.exists().then_some(()))
            .ok_or(format!("{name}: the answer had no effect"))?;
        let closed = self.observe(name, &[Activity::Working, Activity::Idle])?;
        if closed.verdict == Verdict::Wrong {
            step.observed = format!("{}, and still {} after the answer", step.observed, closed.observed);
            step.verdict = Verdict::Wrong;
        }
        steps.push(step);
        self.settle()?;
        self.expect_idle(steps.last_mut())
    }

    fn question(&self, steps: &mut Vec<Step>, question: Question) -> TrialResult<()> {
        self.enter("ask Which colour? | red | blue")?;
        let step = self.observe("question", &[Activity::Question])?;
        steps.push(step);
        self.settle()?;
        match question {
            Question::Keys(keys) => self.keys(keys)?,
            Question::Inbox => {
                let item = self.inbox_item()?;
                self.coven.call(&["answer", &item, "--answers", r#"{"0":{"selectedOption":"red"}}"#])?;
            }
        }
        self.settle()?;
        self.expect_idle(steps.last_mut())
    }

    fn allow_from_inbox(&self) -> TrialResult<()> {
        let item = self.inbox_item()?;
        self.coven.call(&["inbox", "answer", &item, "allow"]).map(drop)
    }

    /// Returns the id of the session's pending request.
    fn inbox_item(&self) -> TrialResult<String> {
        let item = || {
            let page: serde_json::Value = self.coven.json(&["inbox", "--json"]).ok()?;
            Some(page["items"].as_array()?.first()?["id"].as_str()?.to_owned())
        };
        eventually(SCREEN_TIMEOUT, item).ok_or_else(|| "the inbox has no item".into())
    }

    /// Kills the agent; an ended session has no activity.
    fn killed(&self) -> TrialResult<Step> {
        let pid = self.coven.session(&self.id)?.pid.ok_or("the session has no process")?;
        let started = Instant::now();
        process_table::kill(pid);
        let ended = eventually(SCREEN_TIMEOUT, || {
            let session = self.coven.session(&self.id).ok()?;
            (session.status != SessionState::Running && session.activity.is_none()).then_some(session)
        });
        let verdict = if ended.is_some() { Verdict::Right } else { Verdict::Wrong };
        Ok(Step {
            expected: "ended".to_owned(),
            observed: ended.map_or_else(|| "running".to_owned(), |session| session.status.to_string()),
            delay_seconds: Some(started.elapsed().as_secs_f64()),
            verdict,
            ..Step::skipped("kill -9")
        })
    }

    /// The turn after a dialog ends; a session that stays in another state makes the step wrong.
    fn expect_idle(&self, step: Option<&mut Step>) -> TrialResult<()> {
        let after = self.observe("", &[Activity::Idle, Activity::Unknown])?;
        if let Some(step) = step.filter(|_| after.verdict == Verdict::Wrong) {
            step.observed = format!("{}, then {} instead of idle", step.observed, after.observed);
            step.verdict = Verdict::Wrong;
        }
        Ok(())
    }

    fn observe(&self, name: &'static str, expected: &[Activity]) -> TrialResult<Step> {
        step::observe(self.coven, &self.id, (name, step::NOTICE_TIMEOUT), expected)
    }

    fn enter(&self, prompt: &str) -> TrialResult<()> {
        self.coven.input(&self.id, prompt)?;
        let is_shown = || self.coven.screen(&self.id).ok()?.contains(prompt).then_some(());
        // Some agents drop keys while they start, although they already show their prompt.
        if eventually(TYPED_TIMEOUT, is_shown).is_none() {
            self.coven.input(&self.id, prompt)?;
            self.wait_for(prompt)?;
        }
        self.keys("\r")
    }

    fn keys(&self, keys: &str) -> TrialResult<()> {
        sleep(KEY_DELAY);
        self.coven.input(&self.id, keys)
    }

    /// Waits until the screen stops changing, or for a while: some agents animate their prompt.
    fn settle(&self) -> TrialResult<()> {
        let (mut last, mut since) = (self.coven.screen(&self.id)?, Instant::now());
        eventually(STILL * 4, || {
            let screen = self.coven.screen(&self.id).ok()?;
            if screen != last {
                (last, since) = (screen, Instant::now());
            }
            (since.elapsed() >= STILL).then_some(())
        });
        Ok(())
    }

    fn wait_for(&self, text: &str) -> TrialResult<()> {
        self.wait(|screen| screen.contains(text)).map_err(|error| format!("no {text:?}: {error}").into())
    }

    fn wait(&self, shows: impl Fn(&str) -> bool) -> TrialResult<()> {
        let seen = eventually(SCREEN_TIMEOUT, || shows(&self.coven.screen(&self.id).ok()?).then_some(()));
        seen.ok_or_else(|| "the expected text is not on the screen".into())
    }

    fn evidence(&self) -> Option<String> {
        let why = self.coven.call(&["why", &self.id]).unwrap_or_else(|error| error.to_string());
        Some(format!("{}\n{why}", self.coven.screen(&self.id).ok()?.trim_end()))
    }
}
