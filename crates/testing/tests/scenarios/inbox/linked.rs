//! A question asked inside a session has the session's id, and is in one list with permission requests.

use coven_api::inbox::InboxStatus;
use coven_testing::{TestHome, TestTerminal, check_invariants, program, wait_until};
use serde_json::json;

use super::{ask, show, waiting};

/// Returns the command line of a session that asks without waiting.
fn asking(prompt: &str) -> serde_json::Value {
    let coven = program::coven();
    let script = format!("{} ask --prompt {prompt} --option A --option B --no-wait; exec cat", coven.display());
    json!({ "argv": ["/bin/sh", "-c", script], "title": "the asker" })
}

#[test]
fn a_question_asked_in_a_session_has_the_id_of_the_session() {
    let home = TestHome::started();
    let session = home.launch_with(asking("Inside?"));
    let asked = waiting(&home, 1).remove(0);
    let outside = ask(&home, "Outside?");

    assert_eq!(asked.session_id, session.id.to_string().parse().ok());
    assert_eq!(asked.harness.as_deref(), Some(session.harness.as_str()));
    let of = |id: &str| -> Vec<String> {
        home.inbox(&format!("?session={id}")).into_iter().map(|item| item.title).collect()
    };
    assert_eq!(of(&session.id), ["Inside?"]);
    assert_eq!(of(&home.launch("hang").id), [""; 0]);
    assert_eq!(home.coven(&["inbox", "--session", &session.id[..8]]).expect_success().lines().count(), 2);
    assert_eq!(show(&home, &outside).session_id, None);
    check_invariants(&home);
}

#[test]
fn a_session_can_answer_its_own_question_only_if_the_config_allows_it() {
    for (is_allowed, code) in [(false, 4), (true, 0)] {
        let home = TestHome::started_with(json!({ "permissions": { "allowSelfAnswer": is_allowed } }));
        let coven = program::coven().display().to_string();
        let script = format!(
            "id=$({coven} ask --prompt Inside? --option A --option B --no-wait); \
             env -u COVEN_SESSION_ID {coven} inbox answer $id --option A; echo code=$?.; exec cat"
        );
        let session = home.launch_with(json!({ "argv": ["/bin/sh", "-c", script] })).id;

        home.wait_for_output(&session, &format!("code={code}."));

        let item = home.inbox("?all=true").remove(0);
        let by = is_allowed.then(|| format!("session:{session}"));
        assert_eq!((item.status == InboxStatus::Pending, item.answered_by), (!is_allowed, by));
        check_invariants(&home);
    }
}

#[test]
fn permission_requests_and_question_sets_are_one_list_oldest_first() {
    let home = TestHome::started_with_agent(json!({}));
    let session = home.open(&home.make_repo("app")).id;
    let first = ask(&home, "First?");
    home.prompt(&session, "permit touch x");
    let second = home.wait_for_request(&session).id;
    let third = ask(&home, "Third?");

    let ids: Vec<String> = waiting(&home, 3).into_iter().map(|item| item.id).collect();

    assert_eq!(ids, [first, second.clone(), third]);
    let refusal = home.coven(&["inbox", "answer", &second, "--option", "A"]).expect_failure(2);
    assert!(refusal.contains("no option \"A\"") && refusal.contains("allow, deny or one of"), "{refusal}");
    home.coven(&["inbox", "answer", &second, "allow"]).expect_success();
    home.wait_for_text(&session, "chose:");
}

#[test]
fn a_conversation_in_the_app_shows_its_permission_request_and_rings_for_any_item() {
    let home = TestHome::started_with_agent(json!({}));
    let session = home.open(&home.make_repo("app")).id;
    home.wait_for_rest(&session);
    let first = ask(&home, "First?");
    let mut terminal = TestTerminal::with_size(&home, &["chat", &session[..8]], 24, 120);
    terminal.wait_for_text("Inbox 1");
    terminal.wait_until_live();
    // The conversation has the focus.
    terminal.wait_for_text("Enter send");
    assert!(!terminal.bytes().contains(&0x07), "no new item yet");

    home.coven(&["answer", &first, "--option", "A"]).expect_success();
    terminal.wait_until_hidden("Inbox 1");
    ask(&home, "Elsewhere?");
    terminal.wait_for_text("Inbox 1");
    wait_until("the terminal rings", || terminal.bytes().contains(&0x07));
    terminal.type_keys("permit touch x\r");
    terminal.wait_for_text("wants permission:");
    terminal.wait_for_text("Inbox 2");
    // Typed text goes to the agent; the keys of permissions work in the list.
    terminal.type_keys("\x1c");
    terminal.wait_for_text("y allow");
    wait_until("the permission is answered with one key", || {
        terminal.type_keys("y");
        home.inbox("").len() == 1
    });
    home.wait_for_text(&session, "chose:");
    terminal.wait_for_text("Inbox 1");
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
}
