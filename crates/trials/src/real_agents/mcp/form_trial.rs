//! The client's own form: accepted, declined, closed, and answered elsewhere first.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::TrialResult;
use super::super::report::Check;
use super::client::Client;
use super::client_trial::{ASK, ClientTrial, FETCH, expect, question};

/// Minimum time for a human to decline; coven treats an earlier decline as automatic.
const MIN_HUMAN_DELAY: Duration = Duration::from_millis(1500);

impl ClientTrial<'_> {
    pub fn form_accepted(&self) -> TrialResult<String> {
        let prompt = "Said in the form?";
        let (mut client, id) = self.form(prompt)?;
        client.answer_form(&json!({ "action": "accept", "content": { "question_1": "PostgreSQL" } }))?;
        let answers = json!([{ "questionIndex": 0, "selected": ["PostgreSQL"] }]);
        expect(&client.wait_for_event("result")?, &id, prompt, "PostgreSQL", &answers)?;
        self.expect_status(&id, "completed")
    }

    /// An immediate decline comes from the client, and the question stays open; a later one comes from the human.
    pub fn form_declined(&self) -> TrialResult<String> {
        let decline = json!({ "action": "decline" });
        let prompt = "Declined automatically?";
        let (mut client, id) = self.form(prompt)?;
        client.answer_form(&decline)?;
        self.desk_answers(&mut client, &id, prompt)?;

        let (mut client, id) = self.form("Declined?")?;
        sleep(MIN_HUMAN_DELAY);
        client.answer_form(&decline)?;
        let result = client.wait_for_event("result")?;
        match result["data"]["status"] == "rejected" {
            true => self.expect_status(&id, "rejected"),
            false => Err(format!("declined, but the result is {result}").into()),
        }
    }

    /// Closing the form leaves the question open elsewhere.
    pub fn form_closed(&self) -> TrialResult<String> {
        let prompt = "Closed?";
        let (mut client, id) = self.form(prompt)?;
        client.answer_form(&json!({ "action": "cancel" }))?;
        self.desk_answers(&mut client, &id, prompt)?;
        Ok("still pending".to_owned())
    }

    pub fn answered_elsewhere(&self) -> TrialResult<Check> {
        let prompt = "Answered elsewhere?";
        let (mut client, id) = self.form(prompt)?;
        self.answer_option(&id)?;
        let check = match self.sdk.revision {
            None => {
                client.wait_for_event("form_taken_back")?;
                Check::Passed("form withdrawn".to_owned())
            }
            Some(_) => {
                // The form ended the call, so coven cannot withdraw it before the client closes it.
                client.answer_form(&json!({ "action": "accept", "content": { "question_1": "PostgreSQL" } }))?;
                Check::Limit("the first answer is kept".to_owned())
            }
        };
        expect_sqlite_answer(&client.wait_for_event("result")?, &id, prompt)?;
        self.expect_status(&id, "completed")?;
        Ok(check)
    }

    /// Asks with a client that supports forms, and waits until its form is open.
    fn form(&self, prompt: &str) -> TrialResult<(Client, String)> {
        let mut client = self.open(true)?;
        client.call(ASK, &question(prompt))?;
        let form = client.wait_for_event("form")?;
        if form["message"] != prompt || form["requestedSchema"]["properties"]["question_1"]["type"] != "string" {
            return Err(format!("the form is {form}").into());
        }
        let id = self.desk.asked(prompt, || None)?.id;
        Ok((client, id))
    }

    /// Checks that the call continues after a form without an answer, then answers elsewhere.
    fn desk_answers(&self, client: &mut Client, id: &str, prompt: &str) -> TrialResult<()> {
        // The server handles requests in order, so it has processed the form's reply before this fetch.
        client.call(FETCH, &json!({ "session_id": id }))?;
        let current = client.wait_for_event("result")?;
        if current["data"]["status"] != "pending" {
            return Err(format!("the form has no answer, but the set is {current}").into());
        }
        self.answer_option(id)?;
        expect_sqlite_answer(&client.wait_for_event("result")?, id, prompt)
    }

    fn answer_option(&self, id: &str) -> TrialResult<()> {
        self.coven.call(&["answer", id, "--option", "SQLite"]).map(drop)
    }

    fn expect_status(&self, id: &str, wanted: &str) -> TrialResult<String> {
        let status = self.desk.status(id)?;
        match status == wanted {
            true => Ok(status),
            false => Err(format!("the set is {status}, not {wanted}").into()),
        }
    }
}

/// Checks for the answer of `answer_option`, with the option's description.
fn expect_sqlite_answer(result: &Value, id: &str, prompt: &str) -> TrialResult<()> {
    expect(result, id, prompt, "SQLite — a file", &json!([{ "questionIndex": 0, "selected": ["SQLite"] }]))
}
