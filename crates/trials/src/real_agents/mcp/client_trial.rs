//! One SDK client with `coven mcp`: ask, wait, time out, cancel, die, fetch later, and send invalid calls.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::coven::Coven;
use super::super::report::{Check, Row as _};
use super::super::{TrialResult, seconds};
use super::client::Client;
use super::client_row::ClientRow;
use super::desk::Desk;
use super::sdk_client::{GivingUp, SdkClient};

pub const ASK: &str = "ask_user_questions";
pub const FETCH: &str = "get_answered_questions";
/// Text that a shell, JSON or a template could misinterpret.
const WORDS: &str = "nëither: \"both\" 'or' \\n $(id) `id` — 日本";
/// Progress notifications arrive immediately and then every ten seconds: the seventh after one minute.
const NOTIFICATIONS_IN_OVER_A_MINUTE: usize = 8;
/// Timeout between two notifications on a busy machine.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(30);
/// A call timeout shorter than the interval between two notifications.
const SHORT_CALL_TIMEOUT: Duration = Duration::from_secs(3);

pub struct ClientTrial<'a> {
    pub sdk: &'a SdkClient,
    /// Folder of the package.
    pub folder: &'a Path,
    pub coven: &'a Coven,
    pub desk: Desk<'a>,
}

impl ClientTrial<'_> {
    /// Runs the checks. Each one has its own client and its own question, which identifies its set.
    pub fn run(&self, row: &mut ClientRow) {
        row.protocol = self.opens().into();
        if !row.protocol.has_passed() {
            row.last_lines = self.last_lines();
            return;
        }
        thread::scope(|scope| {
            // In parallel with the others, because it takes more than a minute.
            let slow = scope.spawn(|| self.slow_human());
            row.answer = self.answer().into();
            row.given_up = self.gives_up().into();
            row.cancelled = self.cancels().into();
            row.killed = self.is_killed().into();
            row.form_accepted = self.form_accepted().into();
            row.form_declined = self.form_declined().into();
            row.form_closed = self.form_closed().into();
            row.answered_elsewhere = self.answered_elsewhere().unwrap_or_else(|error| Check::Failed(error.to_string()));
            row.fetched_later = self.fetches_later().into();
            row.bad_call = self.calls_badly().into();
            row.slow_human = slow.join().unwrap_or_else(|_| Err("the check panicked".into())).into();
        });
        if !row.has_passed() {
            row.last_lines = self.last_lines();
        }
    }

    pub fn open(&self, takes_forms: bool) -> TrialResult<Client> {
        Ok(Client::open(self.sdk, self.folder, self.coven, takes_forms)?.0)
    }

    fn opens(&self) -> TrialResult<String> {
        let (_client, opened) = Client::open(self.sdk, self.folder, self.coven, false)?;
        let tools = json!([ASK, FETCH, "list_sessions", "read_session"]);
        if opened["tools"] != tools {
            return Err(format!("the tools are {}", opened["tools"]).into());
        }
        let protocol = opened["protocol"].as_str().ok_or("the client reports no protocol version")?;
        match self.sdk.revision {
            Some(wanted) if wanted != protocol => Err(format!("wanted {wanted}, got {protocol}").into()),
            _ => Ok(protocol.to_owned()),
        }
    }

    fn answer(&self) -> TrialResult<String> {
        let (mut client, prompt) = (self.open(false)?, "Answered immediately?");
        client.call(ASK, &question(prompt))?;
        let id = self.desk.asked(prompt, || None)?.id;
        let started = Instant::now();
        self.desk.answer(&id, WORDS)?;
        expect_words(&client.wait_for_event("result")?, &id, prompt)?;
        let took = seconds(started);
        match client.progress {
            0 => Err("no progress notification arrived".into()),
            _ => Ok(format!("exact in {took}")),
        }
    }

    /// Checks that progress notifications prevent the client's call timeout.
    fn slow_human(&self) -> TrialResult<String> {
        let (mut client, prompt) = (self.open(false)?, "Answered late?");
        client
            .send_command(&json!({ "do": "call", "name": ASK, "arguments": question(prompt), "keep_alive": true }))?;
        let started = Instant::now();
        let id = self.desk.asked(prompt, || None)?.id;
        while client.progress < NOTIFICATIONS_IN_OVER_A_MINUTE {
            client.wait_for_event_within("progress", NOTIFICATION_TIMEOUT)?;
        }
        let waited = started.elapsed().as_secs();
        self.desk.answer(&id, WORDS)?;
        expect_words(&client.wait_for_event("result")?, &id, prompt)?;
        Ok(match self.sdk.giving_up {
            GivingUp::AfterAMinute => format!("kept alive for {waited} s"),
            GivingUp::Never => format!("waits, {waited} s"),
        })
    }

    fn gives_up(&self) -> TrialResult<String> {
        let (mut client, prompt) = (self.open(false)?, "Not waited for?");
        let limit = SHORT_CALL_TIMEOUT.as_millis();
        client
            .send_command(&json!({ "do": "call", "name": ASK, "arguments": question(prompt), "timeout_ms": limit }))?;
        let id = self.desk.asked(prompt, || None)?.id;
        client.wait_for_event("error")?;
        self.desk.abandoned(&id)
    }

    fn cancels(&self) -> TrialResult<String> {
        let (mut client, prompt) = (self.open(false)?, "Cancelled?");
        client.call(ASK, &question(prompt))?;
        let id = self.desk.asked(prompt, || None)?.id;
        client.send_command(&json!({ "do": "cancel" }))?;
        client.wait_for_event("error")?;
        self.desk.abandoned(&id)
    }

    fn is_killed(&self) -> TrialResult<String> {
        let (mut client, prompt) = (self.open(false)?, "Killed?");
        client.call(ASK, &question(prompt))?;
        let id = self.desk.asked(prompt, || None)?.id;
        client.kill();
        self.desk.abandoned(&id)
    }

    fn fetches_later(&self) -> TrialResult<String> {
        let (mut client, prompt) = (self.open(false)?, "Answered some day?");
        let mut arguments = question(prompt);
        arguments["nonBlocking"] = json!(true);
        client.call(ASK, &arguments)?;
        let submitted = client.wait_for_event("result")?;
        let id = submitted["data"]["sessionId"].as_str().ok_or("the result has no session id")?.to_owned();
        let fetch = json!({ "session_id": id });
        client.call(FETCH, &fetch)?;
        let early = client.wait_for_event("result")?;
        if early["data"]["status"] != "pending" || early["is_error"] != false {
            return Err(format!("before the answer: {early}").into());
        }
        self.desk.answer(&id, WORDS)?;
        client.call(FETCH, &fetch)?;
        expect_words(&client.wait_for_event("result")?, &id, prompt)?;
        Ok("yes".to_owned())
    }

    fn calls_badly(&self) -> TrialResult<String> {
        let mut client = self.open(false)?;
        client.call(ASK, &json!({}))?;
        let error = client.wait_for_event("error")?.to_string();
        if !error.contains("questions") {
            return Err(format!("the error does not name the missing argument: {error}").into());
        }
        client.call("no_such_tool", &json!({}))?;
        client.wait_for_event("error")?;
        let mut one_option = question("Which one of one?");
        one_option["questions"][0]["options"] = json!([{ "label": "SQLite" }]);
        client.call(ASK, &one_option)?;
        let refused = client.wait_for_event("result")?;
        match refused["is_error"] == true {
            true => Ok("an error".to_owned()),
            false => Err(format!("a question with one option was accepted: {refused}").into()),
        }
    }

    fn last_lines(&self) -> Option<String> {
        let text = fs::read_to_string(self.coven.home.join("client-errors")).ok()?;
        let lines: Vec<&str> = text.lines().rev().take(12).collect();
        (!lines.is_empty()).then(|| lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
    }
}

pub fn question(prompt: &str) -> Value {
    let options = json!([{ "label": "SQLite", "description": "a file" }, { "label": "PostgreSQL" }]);
    json!({ "questions": [{ "prompt": prompt, "title": "Store", "options": options }] })
}

/// Checks the exact text and the structured data, which the client has validated against the tool's schema.
fn expect_words(result: &Value, id: &str, prompt: &str) -> TrialResult<()> {
    let answers = json!([{ "questionIndex": 0, "selected": [], "customText": WORDS }]);
    // Only the single quote is escaped.
    let escaped = WORDS.replace('\'', "\\'");
    expect(result, id, prompt, &format!("Other: '{escaped}'"), &answers)
}

pub fn expect(result: &Value, id: &str, prompt: &str, said: &str, answers: &Value) -> TrialResult<()> {
    let short: String = id.chars().take(8).collect();
    let text = format!("[Session: {short} | Questions: 1]\n\nHere are the user's answers:\n\n1. {prompt}\n→ {said}");
    let data = json!({ "sessionId": id, "status": "completed", "answers": answers });
    let expected = json!({ "is_error": false, "text": text, "data": data });
    match *result == expected {
        true => Ok(()),
        false => Err(format!("expected {expected}, got {result}").into()),
    }
}
