//! The journey: starts, works, finishes, asks, is answered, is interrupted, reaches a limit, dies.

use std::thread::sleep;
use std::time::{Duration, Instant};

use coven_domain::activity::Activity;
use coven_domain::session::SessionState;
use coven_harness::trial::{FirstPrompt, Question, QuestionAnswer};

use super::super::coven::Coven;
use super::super::stage::Stage;
use super::super::{TrialResult, eventually, process_table};
use super::step::{self, Step, Verdict};
use super::untouched;
use super::{Journey, Subject};

/// Some agents need almost a minute to start on a busy machine.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(120);
/// How long an agent may take to show what was typed.
const TYPED_TIMEOUT: Duration = Duration::from_secs(15);
/// Agents treat an immediate Enter as part of a paste, and dialogs ignore keys for a moment after they appear.
const KEY_DELAY: Duration = Duration::from_millis(700);
/// Agents that want Esc twice accept it for less than a second.
const REPEATED_KEY_DELAY: Duration = Duration::from_millis(200);
/// Time in which an agent draws the last text of a turn.
const DRAWING_TIME: Duration = Duration::from_millis(500);
/// Time without a change of the screen after which an agent has settled.
const STILL: Duration = Duration::from_secs(2);
/// How long an agent may retry before it shows that the model refused.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(180);
/// A longer silence before the refusal is mentioned.
const NOTABLE_SILENCE: Duration = Duration::from_secs(5);
/// How long a limit that coven reported must last.
const LIMIT_HOLD: Duration = Duration::from_secs(5);
/// An answer in the terminal must close the item in the inbox within this time.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Files that the commands of the journey create in the repository.
pub const BY_TERMINAL: &str = "by-terminal.txt";
pub const BY_INBOX: &str = "by-inbox.txt";

struct Trial<'a> {
    subject: &'a Subject,
    stage: &'a Stage,
    coven: &'a Coven,
    id: String,
}

pub fn run(subject: &Subject, stage: &Stage, journey: &mut Journey) {
    match launch(subject, stage) {
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

fn launch<'a>(subject: &'a Subject, stage: &'a Stage) -> TrialResult<Trial<'a>> {
    let session = stage.coven.launch_with(subject.name, subject.trial.prompt, subject.trial.args)?;
    Ok(Trial { subject, stage, coven: &stage.coven, id: session.id.to_string() })
}

impl Trial<'_> {
    fn steps(&self, steps: &mut Vec<Step>) -> TrialResult<()> {
        let trial = self.subject.trial;
        self.start()?;
        steps.push(self.observe("starts", &[Activity::Idle])?);

        self.enter(trial.working)?;
        let mut works = self.observe("works", &[Activity::Working])?;
        let has_finished = |screen: &str| screen.contains("chunk 16");
        let other = self.watch(step::NOTICE_TIMEOUT, &[Activity::Working], has_finished);
        // Some agents end the turn just before they draw the last text.
        let has_ended = || eventually(DRAWING_TIME, || has_finished(&self.coven.screen(&self.id).ok()?).then_some(()));
        if let Some(other) = other.filter(|other| *other != Activity::Idle || has_ended().is_none()) {
            works.went_wrong(other.as_str());
        }
        steps.push(works);
        self.wait_for("chunk 16")?;
        steps.push(self.observe("finishes", &[Activity::Idle])?);
        steps.push(match trial.prepare {
            Ok(_) => untouched::own_hook(self.stage),
            Err(reason) => Step::skipped("own hook", reason),
        });

        match trial.asking {
            Ok(verb) => {
                self.permission(steps, "permission, terminal", (verb, BY_TERMINAL), Self::allow_in_terminal)?;
                match trial.inbox {
                    Ok(()) => self.permission(steps, "permission, inbox", (verb, BY_INBOX), Self::allow_from_inbox)?,
                    Err(reason) => steps.push(Step::skipped("permission, inbox", reason)),
                }
            }
            Err(reason) => {
                let names = ["permission, terminal", "item closes", "permission, inbox"];
                steps.extend(names.map(|name| Step::skipped(name, reason)));
            }
        }
        match trial.question {
            Ok(question) => self.question(steps, question)?,
            Err(reason) => steps.push(Step::skipped("question", reason)),
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

        steps.push(self.limit()?);
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
        // Some agents need many seconds until they draw anything.
        self.wait(|screen| !screen.trim().is_empty())?;
        self.settle()
    }

    fn permission(
        &self,
        steps: &mut Vec<Step>,
        name: &'static str,
        (verb, file): (&str, &str),
        answer: impl Fn(&Self) -> TrialResult<Option<Step>>,
    ) -> TrialResult<()> {
        self.enter(&format!("{verb} touch {file}"))?;
        let mut step = self.observe(name, &[Activity::Permission])?;
        self.settle()?;
        let held = self.coven.session(&self.id)?.activity;
        if let Some(held) = held.filter(|held| *held != Activity::Permission) {
            step.went_wrong(&format!("{held} while the dialog was open"));
        }
        let closed = answer(self)?;
        let made = self.coven.project.join(file);
        eventually(SCREEN_TIMEOUT, || made.exists().then_some(()))
            .ok_or(format!("{name}: the answer had no effect"))?;
        let after = self.observe(name, &[Activity::Working, Activity::Idle])?;
        if after.verdict == Verdict::Wrong {
            step.went_wrong(&format!("still {} after the answer", after.observed));
        }
        self.settle()?;
        self.expect_idle(&mut step)?;
        steps.push(step);
        steps.extend(closed);
        Ok(())
    }

    fn question(&self, steps: &mut Vec<Step>, question: Question) -> TrialResult<()> {
        if let Some(keys) = question.mode_keys {
            self.keys(keys)?;
            self.settle()?;
        }
        self.enter("ask Which colour? | red | blue")?;
        let mut step = self.observe("question", &[Activity::Question])?;
        self.settle()?;
        let held = self.coven.session(&self.id)?.activity;
        if let Some(held) = held.filter(|held| *held != Activity::Question) {
            step.went_wrong(&format!("{held} while the dialog was open"));
        }
        match question.answer {
            QuestionAnswer::Keys(keys) => {
                step.note = "answered in the terminal".to_owned();
                keys.iter().try_for_each(|keys| self.keys(keys))?;
            }
            QuestionAnswer::Inbox => {
                step.note = "answered from the inbox".to_owned();
                let item = self.wait_for_item()?;
                self.coven.call(&["answer", &item, "--answers", r#"{"0":{"selectedOption":"red"}}"#])?;
            }
        }
        self.settle()?;
        self.expect_idle(&mut step)?;
        steps.push(step);
        if let Some(keys) = question.mode_keys {
            self.keys(keys)?;
            self.settle()?;
        }
        Ok(())
    }

    /// Allows a permission in the agent's dialog, and measures how long its item stays in the inbox.
    fn allow_in_terminal(&self) -> TrialResult<Option<Step>> {
        let item = self.inbox_item()?;
        self.keys(self.subject.trial.accept)?;
        let started = Instant::now();
        let Some(item) = item else {
            let reason = self.subject.trial.inbox.err().unwrap_or("");
            return Ok(Some(Step::skipped("item closes", reason)));
        };
        let has_gone = || match self.inbox_item() {
            Ok(next) if next.as_ref() != Some(&item) => Some(started.elapsed()),
            _ => None,
        };
        let deadline = started + step::NOTICE_TIMEOUT;
        let closed = loop {
            match has_gone() {
                None if Instant::now() < deadline => sleep(CLOSE_POLL_INTERVAL),
                closed => break closed,
            }
        };
        let observed =
            closed.map_or_else(|| "open".to_owned(), |after| format!("closed after {} ms", after.as_millis()));
        let is_in_time = closed.is_some_and(|after| after <= CLOSE_LIMIT);
        let mut step = Step::checked("item closes", "closed in 1 s", observed, is_in_time);
        step.delay_seconds = closed.map(|after| after.as_secs_f64());
        Ok(Some(step))
    }

    fn allow_from_inbox(&self) -> TrialResult<Option<Step>> {
        let item = self.wait_for_item()?;
        self.coven.call(&["inbox", "answer", &item, "allow"])?;
        Ok(None)
    }

    fn wait_for_item(&self) -> TrialResult<String> {
        eventually(SCREEN_TIMEOUT, || self.inbox_item().ok()?).ok_or_else(|| "the inbox has no item".into())
    }

    /// Returns the id of the session's pending request.
    fn inbox_item(&self) -> TrialResult<Option<String>> {
        let page: serde_json::Value = self.coven.json(&["inbox", "--json"])?;
        let first = page["items"].as_array().and_then(|items| items.first());
        Ok(first.and_then(|item| item["id"].as_str()).map(str::to_owned))
    }

    /// Lets the model refuse a request. The delay counts from the moment at which the agent shows the refusal, or coven reports
    /// it: some agents first retry for minutes.
    fn limit(&self) -> TrialResult<Step> {
        const NAME: &str = "rate limit";
        let trial = self.subject.trial.limit;
        self.enter("fail 429 rate limit reached")?;
        let entered = Instant::now();
        let works = self.observe(NAME, &[Activity::Working, Activity::Limited])?;
        if works.verdict == Verdict::Wrong {
            return Ok(works);
        }
        let mut is_shown = false;
        let before = self.watch(REFUSAL_TIMEOUT, &[Activity::Working], |screen| {
            is_shown = screen.contains(trial.refusal);
            is_shown
        });
        let silence = entered.elapsed();
        if !is_shown && before.is_none() {
            let mut step = self.observe(NAME, &[Activity::Limited])?;
            step.delay_seconds = Some(silence.as_secs_f64());
            if let Some(reason) = trial.is_hidden.filter(|_| step.verdict == Verdict::Wrong) {
                step.verdict = Verdict::Hidden;
                step.note = reason.to_owned();
            }
            return Ok(step);
        }
        let mut step = self.observe(NAME, &[Activity::Limited])?;
        if silence > NOTABLE_SILENCE {
            step.note = format!("the agent retried silently for {:.0} s", silence.as_secs_f64());
        }
        if let Some(before) = before.filter(|before| *before != Activity::Limited) {
            step.went_wrong(&format!("{before} before the agent showed the refusal"));
        }
        let allowed = [Activity::Limited];
        if let Some(other) = self.watch(LIMIT_HOLD, &allowed, |screen| !screen.contains(trial.refusal)) {
            step.went_wrong(&format!("{other} while the refusal was on the screen"));
        }
        Ok(step)
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
        let elapsed = started.elapsed();
        let has_ended = ended.is_some();
        let observed = ended.map_or_else(|| "running".to_owned(), |session| session.status.to_string());
        let mut step = Step::checked("kill -9", "ended", observed, has_ended);
        step.delay_seconds = Some(elapsed.as_secs_f64());
        Ok(step)
    }

    /// The turn after a dialog ends; a session that stays in another state makes the step wrong.
    fn expect_idle(&self, step: &mut Step) -> TrialResult<()> {
        let after = self.observe("", &[Activity::Idle, Activity::Unknown])?;
        if after.verdict == Verdict::Wrong {
            step.went_wrong(&format!("{} instead of idle", after.observed));
        }
        Ok(())
    }

    fn observe(&self, name: &'static str, expected: &[Activity]) -> TrialResult<Step> {
        step::observe(self.coven, &self.id, name, expected)
    }

    fn watch(&self, within: Duration, allowed: &[Activity], has_ended: impl FnMut(&str) -> bool) -> Option<Activity> {
        step::watch(self.coven, &self.id, within, allowed, has_ended)
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
