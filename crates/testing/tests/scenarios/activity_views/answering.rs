//! Answers to permissions and questions of agents, from the command line.

use coven_api::inbox::InboxItem;
use coven_testing::TestHome;
use serde_json::{Value, json};

use super::converse;

#[test]
fn a_permission_takes_a_word_for_its_options() {
    let home = TestHome::started_with_agent(json!({}));
    let id = converse(&home, "asks", "permit touch x ;; permit touch y ;; permit_of allow_once,reject_once touch z");
    let ask = |command: &str, words: &[&str]| {
        let item = home.wait_for_request(&id).id;
        let line: Vec<&str> = command.split(' ').chain([item.as_str()]).chain(words.iter().copied()).collect();
        (item.clone(), home.coven(&line))
    };

    let (first, said) = ask("inbox answer", &["always"]);
    assert_eq!(said.expect_success(), "answered: touch x: allow_always\n");
    home.wait_for_text(&id, "chose:o0-allow_always");
    let (_, said) = ask("answer", &["--option", "reject_once"]);
    assert_eq!(said.expect_success(), "answered: touch y: reject_once\n");
    let (third, said) = ask("inbox answer", &["always"]);
    let refused = said.expect_failure(2);
    assert!(refused.contains("offers no option \"always\"") && refused.contains("o0-allow_once"), "{refused}");
    let (_, said) = ask("inbox answer", &[]);
    assert!(said.expect_failure(2).contains("allow|deny"), "it says how to answer");
    home.coven(&["answer", &third, "--reject"]).expect_success();
    home.wait_for_text(&id, "chose:o1-reject_once");
    home.coven(&["inbox", "answer", &first, "deny"]).expect_failure(4);
    home.coven(&["answer", "ffffffff", "--option", "x"]).expect_failure(3);
}

/// Stores questions of the session, as a hook does.
fn ask_questions(home: &TestHome, session: &str, id: &str, questions: &Value) {
    let body = json!({ "questions": questions });
    let insert = "INSERT INTO requests (id, session_key, kind, source, state, title, body, created_at, updated_at)
        VALUES (?1, (SELECT key FROM sessions WHERE id = ?2), 'question', 'hook', 'pending', 'Which database?', ?3, 1, 1)";
    home.database().execute(insert, (id, session, body.to_string())).expect("a row");
}

fn question(prompt: &str, labels: &[&str], is_multiple: bool) -> Value {
    let options: Vec<Value> = labels.iter().map(|label| json!({ "label": label })).collect();
    json!({ "prompt": prompt, "title": "T", "options": options, "multiSelect": is_multiple })
}

#[test]
fn questions_of_an_agent_take_options_and_texts() {
    let home = TestHome::started_with_agent(json!({}));
    let session = home.launch("hang").id;
    let [one, two, three] = [1, 2, 3].map(|nth| format!("0000000{nth}-1b2c-4d3e-8f4a-5b6c7d8e9f0a"));
    let which = question("Which database?", &["SQLite", "PostgreSQL"], false);
    ask_questions(&home, &session, &one, &json!([which]));
    ask_questions(&home, &session, &two, &json!([which, question("Which parts?", &["Auth", "Logs", "UI"], true)]));
    ask_questions(&home, &session, &three, &json!([which]));

    let text = home.coven(&["inbox"]).expect_success();
    assert!(text.contains("question") && text.contains("SQLite, PostgreSQL"), "{text}");
    let shown = home.coven(&["inbox", "show", &two]).expect_success();
    assert!(shown.contains("Which parts?") && shown.contains("Logs") && shown.contains("--option LABEL"), "{shown}");
    let unknown = home.coven(&["inbox", "answer", &one, "MySQL"]).expect_failure(2);
    assert!(unknown.contains("\"SQLite\", \"PostgreSQL\""), "{unknown}");

    home.coven(&["inbox", "answer", &one, "sqlite"]).expect_success();
    let line = ["answer", &two, "--question", "1", "--text", "files", "--question", "2", "--option", "Auth"];
    home.coven(&[&line[..], &["--option", "UI"]].concat()).expect_success();
    home.coven(&["answer", &three, "--reject", "--reason", "not now"]).expect_success();

    let answers = |id: &str| -> (String, Value) {
        let item: InboxItem = home.json(&["inbox", "show", id, "--json"]);
        let set = item.question_set().expect("questions").clone();
        (item.status.to_string(), serde_json::to_value(set.answers).expect("plain data"))
    };
    let (status, given) = answers(&one);
    assert_eq!((status.as_str(), &given[0]["selected_options"]), ("completed", &json!(["SQLite"])));
    let (_, given) = answers(&two);
    assert_eq!(given[0]["custom_text"], "files");
    assert_eq!(given[1]["selected_options"], json!(["Auth", "UI"]));
    assert_eq!(answers(&three).0, "rejected");
    home.coven(&["inbox", "answer", &one, "SQLite"]).expect_failure(4);
}
