//! Question sets are listed, shown, answered and rejected, over REST and from the command line.

use std::thread;

use coven_api::inbox::{InboxItem, InboxStatus};
use coven_testing::{TestHome, check_invariants};
use serde_json::{Value, json};

use super::{TWO, ask, asker, choosing, end, events_of, folder, nth_id, put_set, show, wait_for_event, waiting};

const UNKNOWN_ID: &str = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";

#[test]
fn a_question_set_is_in_the_inbox_and_its_answers_reach_the_asking_command() {
    let home = TestHome::started();
    let asking = asker(&home, &[TWO]);
    let asked = waiting(&home, 1).remove(0);

    assert_eq!((asked.kind.as_str(), asked.status.as_str()), ("question_set", "pending"));
    assert_eq!(asked.title, "Which database?", "one line");
    assert_eq!((&asked.session_id, &asked.harness, &asked.repo_id), (&None, &None, &None));
    assert_eq!((&asked.answer, &asked.answered_at, &asked.answered_by), (&None, &None, &None));
    let given: Value = serde_json::from_str(TWO).expect("JSON");
    let questions = &asked.question_set().expect("a set").questions;
    let labels = |value: &Value| -> Vec<Value> {
        value["options"].as_array().expect("a list").iter().map(|option| option["label"].clone()).collect()
    };
    assert_eq!(labels(&json!(questions[0])), labels(&given["questions"][0]));
    assert_eq!((questions[1].prompt.as_str(), questions[1].multi_select), ("Which features?", true));
    assert_eq!(show(&home, &asked.id[..8]), asked, "by a prefix");
    wait_for_event(&home, &asked.id, "question_set.asked");

    let answers = json!([
        { "questionIndex": 0, "selectedOption": "PostgreSQL" },
        { "questionIndex": 1, "selectedOptions": ["Auth"], "customText": "it's" },
    ]);
    let answer = home.answer_request(&asked.id, &json!({ "answers": answers }));

    let answered: InboxItem = answer.json();
    assert_eq!((answer.status, answered.status.as_str()), (200, "completed"));
    assert_eq!((answered.answered_by.as_deref(), answered.answered_at.is_some()), (Some("human"), true));
    let answers = answered.question_set().and_then(|set| set.answers.clone()).expect("answers");
    assert_eq!(answers[1].custom_text.as_deref(), Some("it's"));
    assert_eq!(
        events_of(&home, &asked.id),
        ["question_set.asked", "question_set.completed"],
        "the event exists when the answer returns"
    );
    let ran = end(asking);
    let expected = "Here are the user's answers:\n\n1. Which\n database?\n→ PostgreSQL\n\n\
                    2. Which features?\n→ Auth\n→ Other: 'it\\'s'\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (0, expected));
    assert_eq!(home.inbox(""), []);
    assert_eq!(home.inbox("?all=true"), [answered]);
    home.answer_request(&asked.id, &json!({ "answers": answers })).expect_error(409, "already_answered");
    home.answer_request(&asked.id, &json!({ "reject": {} })).expect_error(409, "already_answered");
    check_invariants(&home);
}

#[test]
fn an_invalid_answer_is_refused_with_the_reason_and_changes_nothing() {
    let home = TestHome::started();
    let id = home.coven(&["ask", TWO, "--no-wait"]).expect_success().trim().to_owned();
    let post_refused = |body: Value| home.answer_request(&id, &body).expect_error(400, "invalid_request");

    let unknown = post_refused(json!({ "answers": [{ "questionIndex": 0, "selectedOption": "Oracle" }] }));
    assert_eq!(unknown, "Answer for question 0 references non-existent option: Oracle");
    let half = post_refused(json!({ "answers": [{ "questionIndex": 0, "selectedOption": "PostgreSQL" }] }));
    assert_eq!(half, "Question 1 has no answer");
    assert_eq!(post_refused(json!({ "answers": [] })), "No answers provided");
    for body in [json!({ "option": "A" }), json!({ "decision": "allow" })] {
        assert!(post_refused(body).ends_with("takes answers or reject, not option or decision"));
    }
    let one_of = "set exactly one of option, decision, answers, reject";
    assert_eq!(post_refused(json!({})), one_of);
    assert_eq!(post_refused(json!({ "answers": [], "reject": {} })), one_of);
    assert!(post_refused(json!({ "reject": { "why": "x" } })).contains("unknown field"));
    assert!(post_refused(json!({ "reject": {}, "reason": "x" })).contains("set the reason of reject in reject"));
    home.answer_request(UNKNOWN_ID, &choosing("A")).expect_error(404, "inbox_item_not_found");
    home.answer_request("..%2F..%2Fetc", &choosing("A")).expect_error(404, "inbox_item_not_found");

    assert_eq!(show(&home, &id).status, InboxStatus::Pending);
    wait_for_event(&home, &id, "question_set.asked");
    assert_eq!(events_of(&home, &id), ["question_set.asked"]);
}

#[test]
fn a_rejection_reaches_the_asking_command_with_its_reason() {
    let home = TestHome::started();
    let asking = asker(&home, &[TWO]);
    let id = waiting(&home, 1).remove(0).id;

    let rejected: InboxItem = home.answer_request(&id, &json!({ "reject": { "reason": "too vague" } })).json();

    let reason = rejected.question_set().and_then(|set| set.rejection_reason.as_deref());
    assert_eq!((rejected.status.as_str(), reason), ("rejected", Some("too vague")));
    let ran = end(asking);
    assert_eq!(ran.code, 10);
    assert!(ran.stdout.contains("Rejection reason: \"too vague\""), "{}", ran.stdout);
    assert_eq!(events_of(&home, &id).last().map(String::as_str), Some("question_set.rejected"));
}

#[test]
fn the_command_line_lists_shows_and_answers_question_sets() {
    let home = TestHome::started();
    let (first, second) = (ask(&home, "First?"), ask(&home, "Second?"));

    let listed = home.coven(&["inbox"]).expect_success();
    let places = [&first, &second].map(|id| listed.find(&id[..8]).expect("is listed"));
    assert!(places[0] < places[1] && listed.contains("First?") && listed.contains("A, B"), "{listed}");
    let shown = home.coven(&["inbox", "show", &first[..8]]).expect_success();
    assert!(shown.contains("kind      question_set") && shown.contains("   - B"), "{shown}");
    assert_eq!(home.coven(&["inbox", "answer", &first, "--option", "b"]).expect_success(), "answered: First?: B\n");
    let line = ["inbox", "answer", &second, "--reject", "--reason", "no", "--json"];
    let rejected: InboxItem = home.json(&line);

    assert_eq!((rejected.id, rejected.status.as_str()), (second.clone(), "rejected"));
    assert_eq!(home.coven(&["inbox"]).expect_success(), "");
    let all = home.coven(&["inbox", "--all"]).expect_success();
    assert!(all.contains("answered: B") && all.contains("rejected"), "{all}");
    let third = ask(&home, "Third?");
    let given = r#"{"0":{"customText":"neither"}}"#;
    assert_eq!(
        home.coven(&["inbox", "answer", &third, "--answers", given]).expect_success(),
        "answered: Third?: neither\n"
    );
    let refusal = home.coven(&["inbox", "answer", &first, "--text", "late"]).expect_failure(4);
    assert!(refusal.contains("already completed"), "{refusal}");
    home.coven(&["inbox", "answer", &first]).expect_failure(2);
    let fourth = ask(&home, "Fourth?");
    let refusal = home.coven(&["inbox", "answer", &fourth, "allow"]).expect_failure(2);
    assert!(refusal.contains("no option \"allow\". Choose from"), "{refusal}");
    home.coven(&["inbox", "answer", &fourth, "--option", "ZZZ"]).expect_failure(2);
    assert_eq!(home.coven(&["inbox", "answer", &fourth, "--option", "A", "--reason", "x"]).code, 2);
    home.coven(&["inbox", "answer", UNKNOWN_ID, "--reject"]).expect_failure(3);
    assert_eq!(show(&home, &fourth).status, InboxStatus::Pending);
}

/// `coven answer` does not use the daemon, so it competes with the daemon.
#[test]
fn the_first_answer_wins_with_and_without_the_daemon() {
    let home = TestHome::started();
    let asking = asker(&home, &["--prompt", "Which?", "--option", "A", "--option", "B"]);
    let id = waiting(&home, 1).remove(0).id;

    let outcomes: Vec<Option<&str>> = thread::scope(|scope| {
        let (home, id) = (&home, &id);
        let here = |_| {
            scope.spawn(move || match home.coven(&["answer", id, "--option", "A"]).code {
                0 => Some("A"),
                code => (code != 4).then_some("an error"),
            })
        };
        let there = |_| {
            scope.spawn(move || match home.answer_request(id, &choosing("B")).status {
                200 => Some("B"),
                status => (status != 409).then_some("an error"),
            })
        };
        let threads: Vec<_> = (0..4).map(here).chain((0..4).map(there)).collect();
        threads.into_iter().map(|it| it.join().expect("an answer")).collect()
    });

    let won: Vec<&str> = outcomes.into_iter().flatten().collect();
    assert_eq!(won.len(), 1, "{won:?}");
    assert_eq!(end(asking).stdout, format!("Here are the user's answers:\n\n1. Which?\n→ {}\n", won[0]));
    wait_for_event(&home, &id, "question_set.completed");
    assert_eq!(events_of(&home, &id), ["question_set.asked", "question_set.completed"]);
}

#[test]
fn a_prefix_must_be_unique_among_the_pending_items_of_all_kinds() {
    let home = TestHome::started_with_agent(json!({}));
    let session = home.open(&home.make_repo("app")).id;
    home.prompt(&session, "permit touch x");
    let permission = home.wait_for_request(&session).id;
    let prefix = &permission[..8];
    let set = format!("{prefix}-0000-4000-8000-000000000001");
    put_set(&home, &set, "Which?");
    assert_eq!(waiting(&home, 2).len(), 2);

    let message = home.get(&format!("/api/v1/inbox/{prefix}")).expect_error(400, "ambiguous_id");
    assert!(message.contains(&permission) && message.contains(&set), "{message}");
    home.answer_request(prefix, &choosing("A")).expect_error(400, "ambiguous_id");
    home.coven(&["inbox", "show", prefix]).expect_failure(2);

    let wrong = home.answer_request(&permission, &choosing("A")).expect_error(400, "invalid_request");
    assert!(wrong.ends_with("takes option or decision, not answers or reject"), "{wrong}");
    let reasoned = json!({ "decision": "deny", "reason": "no" });
    let wrong = home.answer_request(&permission, &reasoned).expect_error(400, "invalid_request");
    assert!(wrong.ends_with("takes no reason"), "{wrong}");
    assert_eq!(home.answer_request(&set, &choosing("A")).status, 200);
    assert_eq!(show(&home, prefix).id, permission, "the question set is answered");
    home.coven(&["inbox", "answer", prefix, "deny"]).expect_success();
    home.get(&format!("/api/v1/inbox/{prefix}")).expect_error(400, "ambiguous_id");
}

#[test]
fn a_set_of_another_tool_is_in_the_list_immediately() {
    let home = TestHome::started();
    put_set(&home, &nth_id(7), "Theirs?");

    assert_eq!(home.inbox("").iter().map(|item| item.title.as_str()).collect::<Vec<_>>(), ["Theirs?"]);
    assert_eq!(home.answer_request("00000007", &choosing("B")).status, 200);
    assert!(folder(&home).join(nth_id(7)).join("answers.json").is_file());
}

#[test]
fn an_abandoned_set_is_listed_with_the_reason() {
    let home = TestHome::started();
    let asker = asker(&home, &[TWO]);
    let id = waiting(&home, 1).remove(0).id;
    let set = folder(&home).join(&id);
    // Renamed into place, because a partly written file would be another reason.
    std::fs::write(set.join("new"), r#"{"answers":[{"questionIndex":7,"selectedOption":"A"}]}"#).expect("the set");
    std::fs::rename(set.join("new"), set.join("answers.json")).expect("the set");
    assert_eq!(end(asker).code, 12);

    let item = home.inbox("?all=true").remove(0);

    assert_eq!((item.id.as_str(), item.status.as_str()), (id.as_str(), "abandoned"));
    let reason = item.question_set().and_then(|set| set.abandon_reason.as_deref()).unwrap_or_default();
    assert!(reason.contains("invalid question index: 7"), "{item:?}");
}
