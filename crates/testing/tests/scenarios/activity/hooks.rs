//! The generic hooks of a program that only the config defines.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use coven_api::routes::{AnswerInboxItem, Endpoint};
use coven_domain::activity::{Activity, ActivityFact, ActivitySource, Verdict};
use coven_domain::request::{RequestState, SettledFrom};
use coven_testing::{TestHome, TestTerminal, process, wait_until};
use serde_json::json;

use super::{source_and_detail, step};

/// A permission with two options.
const PERMISSION: &str = r#"{"title":"wants to run: ls","key":"7","options":[{"id":"y","name":"Yes","kind":"allow_once"},{"id":"n","name":"No","kind":"reject_once"}]}"#;
const QUESTION: &str =
    r#"{"questions":[{"title":"DB","prompt":"Which?","options":[{"label":"SQLite"},{"label":"Other"}]}]}"#;

#[test]
fn every_event_changes_the_activity() {
    let home = TestHome::started_with_rules(&json!([]));
    let script = r#"hook started {"conversation":"c1"} ;; ask 0 ;; hook working {"detail":"builds"} ;; ask 1 ;; hook limited {"detail":"until 9"} ;; ask 2
        ;; hook working ;; hook background {"count":1} ;; hook idle ;; ask 3 ;; hook background {"count":0} ;; ask 4
        ;; hook permission {"detail":"wants a key"} ;; ask 5 ;; hook question ;; ask 6"#;
    let id = home.launch_fake(script).id;
    home.wait_for_output(&id, "0\r\n");
    let started = home.evidence(&id);
    assert_eq!((started.activity, started.hooks.as_str()), (Some(Activity::Unknown), "reporting"));
    assert_eq!(home.session(&id).metadata["conversations"][0]["id"], "c1");

    let working = step(&home, &id, Activity::Working);
    assert_eq!(source_and_detail(&working), ("hook".to_owned(), Some("builds")));
    assert_eq!(step(&home, &id, Activity::Limited).detail.as_deref(), Some("until 9"));
    let background = step(&home, &id, Activity::Working);
    assert_eq!(background.source, Some(ActivitySource::Hook));
    home.wait_for_output(&id, "3\r\n");
    assert_eq!(home.evidence(&id).detail.as_deref(), Some("1 background task"));
    step(&home, &id, Activity::Idle);
    assert_eq!(step(&home, &id, Activity::Permission).detail.as_deref(), Some("wants a key"));
    assert!(home.inbox(&format!("?session={id}")).is_empty(), "without options it is only shown");
    step(&home, &id, Activity::Question);
}

#[test]
fn each_change_of_the_background_tasks_is_in_the_evidence() {
    let home = TestHome::started_with_rules(&json!([]));
    let count = |count| format!(r#"hook background {{"count":{count}}}"#);
    let id = home
        .launch_fake(&format!(
            "hook working ;; {} ;; hook idle ;; ask 1 ;; {} ;; ask 2 ;; {} ;; ask 3",
            count(2),
            count(1),
            count(0)
        ))
        .id;
    home.wait_for_output(&id, "1\r\n");
    home.type_in(&id, "\r");
    home.wait_for_output(&id, "2\r\n");
    wait_until("the record has the new number", || {
        home.session(&id).activity_detail.as_deref() == Some("1 background task")
    });

    let idle = step(&home, &id, Activity::Idle);

    let rows: Vec<_> = idle.observations.iter().map(|it| (it.fact, it.verdict, it.detail.as_deref())).collect();
    let expected = [
        (ActivityFact::Worked, Verdict::Changed, None),
        (ActivityFact::TurnEnded, Verdict::Confirmed, Some("2 background tasks")),
        (ActivityFact::TurnEnded, Verdict::Confirmed, Some("1 background task")),
        (ActivityFact::TurnEnded, Verdict::Changed, None),
    ];
    assert_eq!(rows, expected);
    let text = home.coven(&["why", &id]).expect_success();
    assert!(text.contains("1 background task"), "{text}");
}

#[test]
fn the_end_of_a_background_task_is_seen_by_a_client_that_shows_the_session() {
    let home = TestHome::started_with_rules(&json!([]));
    let script = r#"hook idle ;; ask 1 ;; hook working ;; hook background {"count":1} ;; hook idle ;; ask 2
        ;; hook background {"count":0} ;; ask 3"#;
    let id = home.launch_fake(script).id;
    assert!(home.wait_for_evidence(&id, Activity::Idle).unseen);
    let terminal = TestTerminal::open(&home, &["attach", &id]);
    wait_until("the session is seen", || !home.evidence(&id).unseen);
    home.type_in(&id, "\r");
    home.wait_for_output(&id, "2\r\n");
    assert_eq!(home.evidence(&id).activity, Some(Activity::Working));

    let idle = step(&home, &id, Activity::Idle);

    assert!(!idle.unseen, "the terminal shows it already");
    terminal.hang_up();
}

#[test]
fn a_new_detail_of_the_same_activity_is_in_the_evidence_and_in_the_record() {
    let home = TestHome::started_with_rules(&json!([]));
    let details = ["builds", "builds", "tests"];
    let calls = details.map(|detail| format!(r#"hook working {{"detail":"{detail}"}}"#));
    let id = home.launch_fake(&format!("{} ;; ask 1", calls.join(" ;; "))).id;

    home.wait_for_output(&id, "1\r\n");

    let evidence = home.evidence(&id);
    let rows: Vec<_> = evidence.observations.iter().map(|it| (it.verdict, it.detail.as_deref())).collect();
    assert_eq!(rows, [(Verdict::Changed, Some("builds")), (Verdict::Confirmed, Some("tests"))]);
    wait_until("the record has the last detail", || home.session(&id).activity_detail.as_deref() == Some("tests"));
}

#[test]
fn a_permission_is_answered_from_the_inbox() {
    let home = TestHome::started_with_rules(&json!([]));
    let script = format!("hook permission wait {PERMISSION} ;; hook permission wait {PERMISSION} ;; ask 1");
    let id = home.launch_fake(&script).id;

    for (option, answer) in [("y", "allow"), ("n", "deny")] {
        let asked = home.wait_for_request(&id);
        assert_eq!(asked.title, "wants to run: ls");
        assert_eq!(home.wait_for_evidence(&id, Activity::Permission).detail.as_deref(), Some("wants to run: ls"));
        assert_eq!(home.answer_request(&asked.id, &json!({ "option": option })).status, 200);
        home.wait_for_output(&id, &format!(r#"{{"decision":"{answer}","option":"{option}"}}"#));
        let note = home.wait_for_note(&id, "request answered", &asked.id);
        assert_eq!((note.title.as_deref(), note.answer.as_deref()), (Some("wants to run: ls"), Some(option)));
        assert_eq!((note.by.as_deref(), note.from), (Some("human"), Some(SettledFrom::Socket)));
        assert_eq!(note.status, Some(RequestState::Answered));
    }
    home.wait_for_evidence(&id, Activity::Working);
}

#[test]
fn the_ledger_says_that_an_answer_came_over_tcp() {
    let home = TestHome::new();
    home.install("fake");
    let mut config = coven_testing::evidence::with_rules(&json!([]));
    config["http"] = json!({ "listen": "127.0.0.1:0" });
    home.configure(config);
    home.start();
    let id = home.launch_fake(&format!("hook permission wait {PERMISSION} ;; ask 1")).id;
    let asked = home.wait_for_request(&id);

    let (address, body) = (home.health().listen.expect("is listening"), r#"{"decision":"allow"}"#);
    let token = fs::read_to_string(home.path().join("token")).expect("a token");
    let mut stream = TcpStream::connect(&address).expect("is listening");
    let route = AnswerInboxItem::of(&asked.id);
    write!(
        stream,
        "POST {} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        route.target(),
        token.trim(),
        body.len()
    )
    .expect("the daemon reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response");

    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(home.wait_for_note(&id, "request answered", &asked.id).from, Some(SettledFrom::Tcp));
}

#[test]
fn a_question_is_answered_from_the_inbox() {
    let home = TestHome::started_with_rules(&json!([]));
    let id = home.launch_fake(&format!("hook question wait {QUESTION} ;; ask 1")).id;

    let asked = home.wait_for_request(&id);
    assert_eq!(home.wait_for_evidence(&id, Activity::Question).detail.as_deref(), Some("asks: Which?"));
    let answer = json!({ "answers": [{ "questionIndex": 0, "selectedOption": "SQLite" }] });
    let answered = home.answer_request(&asked.id, &answer);
    assert_eq!(answered.status, 200, "{}", String::from_utf8_lossy(&answered.body));
    let output = home.wait_for_output(&id, "decision");
    assert!(output.contains("SQLite"), "{output}");
    assert_eq!(home.wait_for_note(&id, "request answered", &asked.id).answer.as_deref(), Some("SQLite"));
}

#[test]
fn an_answer_in_the_agents_own_dialog_closes_the_item() {
    let home = TestHome::started_with_rules(&json!([]));
    let agent = home
        .launch_fake(&format!(
            "background_hook permission wait {PERMISSION} ;; ask 1 ;; hook settled {{\"key\":\"7\"}} ;; ask 2"
        ))
        .id;
    let asked = home.wait_for_request(&agent);
    assert_eq!(home.wait_for_note(&agent, "requested", &asked.id).from, Some(SettledFrom::Hook));

    home.type_in(&agent, "\r");
    home.wait_for_output(&agent, "2\r\n");
    assert!(home.inbox(&format!("?session={agent}")).is_empty());
    home.wait_for_evidence(&agent, Activity::Working);
    let note = home.wait_for_note(&agent, "request settled", &asked.id);
    assert_eq!((note.from, note.status), (Some(SettledFrom::Terminal), Some(RequestState::Cancelled)));
}

#[test]
fn ending_the_waiting_hook_takes_the_item_back() {
    let home = TestHome::started_with_rules(&json!([]));
    let id = home.launch_fake(&format!("hook permission wait {PERMISSION} ;; ask 1")).id;
    let asked = home.wait_for_request(&id);

    let is_hook =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("hook\0fake"));
    let hooks: Vec<u32> = home.harness_processes(&id).into_iter().filter(is_hook).collect();
    hooks.iter().for_each(|pid| process::kill_hard(*pid));

    wait_until("the item is gone", || home.inbox(&format!("?session={id}")).is_empty());
    home.wait_for_evidence(&id, Activity::Working);
    assert_eq!(home.wait_for_note(&id, "request settled", &asked.id).from, Some(SettledFrom::Hook));
    home.answer_request(&asked.id, &json!({ "decision": "allow" })).expect_error(409, "already_answered");
}
