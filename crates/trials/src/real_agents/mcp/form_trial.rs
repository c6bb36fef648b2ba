//! The client's own form beside the files: accepted, declined, closed, and too late.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::Outcome;
use super::super::report::Check;
use super::client::Client;
use super::client_trial::{ASK, ClientTrial, FETCH, expect, question};

/// What is declined sooner was not declined by a human.
const READING: Duration = Duration::from_millis(1500);

impl ClientTrial<'_> {
    pub fn form_accepted(&self) -> Outcome<String> {
        let prompt = "Said in the form?";
        let (mut client, id) = self.form(prompt)?;
        client.say(&json!({ "action": "accept", "content": { "question_1": "PostgreSQL" } }))?;
        let answers = json!([{ "questionIndex": 0, "selected": ["PostgreSQL"] }]);
        expect(&client.hear("result")?, &id, prompt, "PostgreSQL", &answers)?;
        self.stands(&id, "completed")
    }

    /// At once it is the client that does so, and the question stays; later it is the human.
    pub fn form_declined(&self) -> Outcome<String> {
        let decline = json!({ "action": "decline" });
        let prompt = "Declined by nobody?";
        let (mut client, id) = self.form(prompt)?;
        client.say(&decline)?;
        self.desk_answers(&mut client, &id, prompt)?;

        let (mut client, id) = self.form("Declined?")?;
        sleep(READING);
        client.say(&decline)?;
        let result = client.hear("result")?;
        match result["data"]["status"] == "rejected" {
            true => self.stands(&id, "rejected"),
            false => Err(format!("declined, and told {result}").into()),
        }
    }

    /// The question is still open elsewhere.
    pub fn form_closed(&self) -> Outcome<String> {
        let prompt = "Closed?";
        let (mut client, id) = self.form(prompt)?;
        client.say(&json!({ "action": "cancel" }))?;
        self.desk_answers(&mut client, &id, prompt)?;
        Ok("still asked".to_owned())
    }

    pub fn answered_elsewhere(&self) -> Outcome<Check> {
        let prompt = "Answered elsewhere?";
        let (mut client, id) = self.form(prompt)?;
        self.answer_option(&id)?;
        let check = match self.sdk.revision {
            None => {
                client.hear("form_taken_back")?;
                Check::Passed("form taken back".to_owned())
            }
            Some(_) => {
                // The call came back with the form, so nobody is there to be told before it is closed.
                client.say(&json!({ "action": "accept", "content": { "question_1": "PostgreSQL" } }))?;
                Check::Limit("the first answer stands".to_owned())
            }
        };
        expect_file(&client.hear("result")?, &id, prompt)?;
        self.stands(&id, "completed")?;
        Ok(check)
    }

    /// Asks with a client that takes forms, and waits until its form is open.
    fn form(&self, prompt: &str) -> Outcome<(Client, String)> {
        let mut client = self.open(true)?;
        client.call(ASK, &question(prompt))?;
        let form = client.hear("form")?;
        if form["message"] != prompt || form["requestedSchema"]["properties"]["question_1"]["type"] != "string" {
            return Err(format!("the form is {form}").into());
        }
        let id = self.desk.asked(prompt, || None)?.id;
        Ok((client, id))
    }

    /// The form said nothing, so the call goes on and the answer comes from here.
    fn desk_answers(&self, client: &mut Client, id: &str, prompt: &str) -> Outcome<()> {
        // Fetched behind it on the same connection, so what was said has been heard.
        client.call(FETCH, &json!({ "session_id": id }))?;
        let standing = client.hear("result")?;
        if standing["data"]["status"] != "pending" {
            return Err(format!("the form says nothing, and the set stands as {standing}").into());
        }
        self.answer_option(id)?;
        expect_file(&client.hear("result")?, id, prompt)
    }

    fn answer_option(&self, id: &str) -> Outcome<()> {
        self.coven.call(&["answer", id, "--option", "SQLite"]).map(drop)
    }

    fn stands(&self, id: &str, wanted: &str) -> Outcome<String> {
        let status = self.desk.status(id)?;
        match status == wanted {
            true => Ok(status),
            false => Err(format!("the set is {status}, not {wanted}").into()),
        }
    }
}

/// What `answer_option` gave, with what the option means.
fn expect_file(result: &Value, id: &str, prompt: &str) -> Outcome<()> {
    expect(result, id, prompt, "SQLite — a file", &json!([{ "questionIndex": 0, "selected": ["SQLite"] }]))
}
