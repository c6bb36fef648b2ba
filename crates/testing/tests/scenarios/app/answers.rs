//! Answering from the app: permissions and questions.

use coven_testing::{TestHome, wait_until};
use serde_json::{Value, json};

use super::{ECHO, ESC, SIZES, launch, open, quit};

#[test]
fn one_key_allows_or_rejects_a_permission_once() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    for (size, (key, option)) in SIZES.iter().zip([("y", "o1-allow_once"), ("n", "o2-reject_once")].iter().cycle()) {
        home.prompt(&id, "permit touch x");
        let asked = home.wait_for_request(&id);
        let mut app = open(&home, &[], *size);
        app.wait_for_text("needs you 1");
        // The hint is there once the request has been read.
        app.wait_for_text("y allow");
        app.type_keys(key);
        app.wait_until_hidden("needs you");
        let answered: Value = home.json(&["inbox", "show", &asked.id, "--json"]);
        assert_eq!(answered["answer"], *option);
        quit(app);
        home.wait_for_rest(&id);
    }
}

#[test]
fn the_options_of_a_permission_are_chosen_in_the_inbox() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    for size in SIZES {
        home.prompt(&id, "permit touch x");
        let asked = home.wait_for_request(&id);
        let mut app = open(&home, &["inbox"], size);
        app.wait_for_text("touch x");
        app.type_keys("\r");
        app.wait_for_text("o2-reject_once".trim_start_matches("o2-"));
        // Nothing is chosen at first: a hasty Enter answers nothing.
        app.type_keys("\r");
        app.wait_for_text("choose with 1");
        app.type_keys("1");
        app.wait_for_text("(•)");
        app.type_keys("\r");
        app.wait_for_text("nothing needs you");
        let answered: Value = home.json(&["inbox", "show", &asked.id, "--json"]);
        assert_eq!(answered["answer"], "o0-allow_always");
        quit(app);
        home.wait_for_rest(&id);
    }
}

fn ask(home: &TestHome) -> String {
    let questions = json!([
        {"title": "Storage", "prompt": "Which **database**?", "multiSelect": false,
         "options": [{"label": "SQLite"}, {"label": "PostgreSQL", "description": "for a team"}]},
        {"title": "Parts", "prompt": "What first?", "multiSelect": true,
         "options": [{"label": "Auth"}, {"label": "Logs"}, {"label": "二番目"}]},
    ]);
    home.coven(&["ask", &questions.to_string(), "--no-wait"]).expect_success().trim().to_owned()
}

#[test]
fn a_set_of_questions_is_answered_with_choices_and_own_words_and_reviewed() {
    let home = TestHome::started();
    for size in SIZES {
        let id = ask(&home);
        let mut app = open(&home, &["answer"], size);
        app.wait_for_text("▌!");
        app.type_keys("\r");
        app.wait_for_text("question 1 of 2");
        app.type_keys("2");
        app.wait_for_text("(•)");
        app.type_keys("\r");
        app.wait_for_text("question 2 of 2");
        app.type_keys("13");
        app.wait_for_text("[x]");
        // Down to the line of own words.
        app.type_keys("\u{1b}[B\u{1b}[B\u{1b}[B");
        app.type_keys("and speed");
        app.wait_for_text("and speed");
        app.type_keys("\r");
        app.wait_for_text("review");
        app.type_keys("\r");
        app.wait_for_text("nothing needs you");
        let set: Value = home.json(&["questions", "show", &id, "--json"]);
        assert_eq!(set["answers"][0]["selected_options"], json!(["PostgreSQL"]), "{set}");
        assert_eq!(set["answers"][1]["selected_options"], json!(["Auth", "二番目"]), "{set}");
        assert_eq!(set["answers"][1]["custom_text"], "and speed", "{set}");
        quit(app);
    }
}

#[test]
fn a_set_of_questions_is_rejected_with_a_reason_and_typed_answers_survive_a_look_elsewhere() {
    let home = TestHome::started();
    let id = ask(&home);
    let mut app = open(&home, &["inbox"], (24, 80));
    app.wait_for_text("▌!");
    app.type_keys("\r");
    app.wait_for_text("question 1 of 2");
    app.type_keys("1");
    app.wait_for_text("(•)");
    app.type_keys(ESC);
    app.wait_for_text("? help");
    app.type_keys("A");
    app.wait_for_text("[Agents]");
    app.type_keys("I");
    app.wait_for_text("(•)");
    app.type_keys("\rX");
    app.wait_for_text("reject, because");
    app.type_keys("too vague\r");
    app.wait_for_text("nothing needs you");
    wait_until("it is rejected", || {
        let set: Value = home.json(&["questions", "show", &id, "--json"]);
        set["status"] == "rejected"
    });
    quit(app);
}

#[test]
fn keys_for_a_question_that_goes_away_reach_nobody() {
    let home = TestHome::started();
    let shell = launch(&home, "shell", ECHO);
    let id = ask(&home);
    let mut app = open(&home, &[], (24, 80));
    app.wait_for_text("needs you 1");
    app.type_keys("g\r");
    app.wait_for_text("question 1 of 2");
    app.type_keys("\u{1b}[B\u{1b}[B\u{1b}[Blet us ");
    app.wait_for_text("let us");
    home.coven(&["answer", &id, "--reject"]).expect_success();
    app.wait_for_text("is gone");
    app.type_keys("acid\r");
    // Keys are ignored for a moment; then the list has them.
    wait_until("the list has the keys", || {
        app.type_keys("I");
        app.text().contains("[Inbox]")
    });
    assert!(!home.log_text(&shell).contains("acid"), "{}", home.log_text(&shell));
    quit(app);
}

#[test]
fn a_need_that_is_answered_elsewhere_leaves_the_screen() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    let app = open(&home, &["inbox"], (24, 80));
    app.wait_for_text("nothing needs you");
    home.prompt(&id, "permit touch x");
    let asked = home.wait_for_request(&id);
    app.wait_for_text("touch x");
    home.coven(&["inbox", "answer", &asked.id, "allow"]).expect_success();
    app.wait_for_text("nothing needs you");
    quit(app);
}
