//! Permission requests of agents: the inbox, its answers, and rules that answer automatically.

use std::fs;
use std::path::PathBuf;
use std::thread;

use coven_api::inbox::{InboxDetail, InboxItem, InboxOption, InboxStatus};
use coven_domain::message::Activity;
use coven_domain::request::{RequestState, SettledFrom};
use coven_testing::agents::agent_with_traits;
use coven_testing::program::coven;
use coven_testing::records::SessionRecord;
use coven_testing::{EventFeed, TestHome, check_invariants, eventually};
use rustix::fs::{FileType, Mode};
use serde_json::{Value, json};

const UNKNOWN_ID: &str = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";

fn option(id: &str, kind: &str) -> InboxOption {
    InboxOption { id: id.to_owned(), name: kind.to_owned(), kind: kind.to_owned() }
}

#[test]
fn a_permission_request_is_in_the_inbox_and_the_answer_reaches_the_agent() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    let mut feed = EventFeed::open(&home);

    home.prompt(&id, "permit touch x");
    let asked = home.wait_for_request(&id);

    assert_eq!((asked.kind.as_str(), asked.status.as_str()), ("permission", "pending"));
    assert_eq!((asked.session_id, asked.harness.as_deref()), (id.parse().ok(), Some("gemini")));
    assert_eq!((asked.repo_id, asked.title.as_str()), (repo.id.parse().ok(), "touch x"));
    assert_eq!((&asked.answer, &asked.answered_at, &asked.answered_by), (&None, &None, &None));
    let options = [
        option("o0-allow_always", "allow_always"),
        option("o1-allow_once", "allow_once"),
        option("o2-reject_once", "reject_once"),
    ];
    assert_eq!(asked.options, options);
    let InboxDetail::Permission { permission } = &asked.detail else { panic!("{asked:?}") };
    assert_eq!(permission.tool_call["rawInput"], json!({ "command": "touch x" }));
    assert_eq!(home.agent_state(&id).activity, Activity::Waiting);
    assert_eq!(home.read::<InboxItem>(&format!("/api/v1/inbox/{}", &asked.id[..8])), asked, "by a prefix");
    feed.next_of("permission.requested");

    let answer = home.answer_request(&asked.id, &json!({ "option": "o0-allow_always" }));

    let answered: InboxItem = answer.json();
    assert_eq!((answer.status, answered.status.as_str()), (200, "answered"));
    assert_eq!((answered.answer.as_deref(), answered.answered_by.as_deref()), (Some("o0-allow_always"), Some("human")));
    feed.next_of("permission.answered");
    home.wait_for_text(&id, "chose:o0-allow_always");
    assert_eq!(home.inbox(""), []);
    assert_eq!(home.inbox("?all=true"), [answered]);
    check_invariants(&home);
}

#[test]
fn the_first_answer_wins_and_invalid_answers_change_nothing() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.prompt(&id, "permit touch x");
    let asked = home.wait_for_request(&id);

    home.answer_request(UNKNOWN_ID, &json!({ "decision": "allow" })).expect_error(404, "inbox_item_not_found");
    for bad in [json!({}), json!({ "option": "o9" }), json!({ "decision": "perhaps" }), json!({ "colour": "red" })] {
        home.answer_request(&asked.id, &bad).expect_error(400, "invalid_request");
    }
    assert_eq!(home.inbox(""), std::slice::from_ref(&asked));
    let statuses: Vec<u16> = thread::scope(|scope| {
        let answer = |decision: &'static str| {
            let (home, id) = (&home, &asked.id);
            scope.spawn(move || home.answer_request(id, &json!({ "decision": decision })).status)
        };
        let threads: Vec<_> = ["allow", "deny"].into_iter().cycle().take(10).map(answer).collect();
        threads.into_iter().map(|it| it.join().expect("an answer")).collect()
    });

    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 9, "{statuses:?}");
    home.wait_for_rest(&id);
    let answered = home.inbox("?all=true").pop().expect("the request");
    assert_eq!(home.agent_text(&id), format!("chose:{}", answered.answer.expect("an answer")));
    home.answer_request(&asked.id, &json!({ "decision": "allow" })).expect_error(409, "already_answered");
    check_invariants(&home);
}

#[test]
fn the_command_line_lists_and_answers_requests() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.prompt(&id, "permit touch x");
    let asked = home.wait_for_request(&id);

    let listed: Value = home.json(&["inbox", "--json"]);
    assert!(listed.to_string().contains(&asked.id), "{listed}");
    assert!(home.coven(&["inbox"]).expect_success().contains("touch x"));
    home.coven(&["inbox", "answer", &asked.id[..8], "deny"]).expect_success();

    home.wait_for_text(&id, "chose:o2-reject_once");
    let message = home.coven(&["inbox", "answer", &asked.id, "allow"]).expect_failure(4);
    assert!(message.contains("already answered"), "{message}");
    home.coven(&["inbox", "answer", UNKNOWN_ID, "allow"]).expect_failure(3);
}

#[test]
fn rules_answer_automatically_and_the_stricter_rule_wins() {
    let home = TestHome::started_with_agent(json!({
        "agents": { "maxSessions": 20 },
        "harnesses": { "trusted": agent_with_traits(""), "banned": agent_with_traits("") },
        "permissions": {
            "harnesses": { "trusted": "allow", "banned": "deny" },
            "repos": { "secret": "deny", "careful": "ask" },
        },
    }));
    let chosen = |harness: &str, repo: &str, script: &str| {
        let id = home.open_as(&home.make_repo(repo), harness).id;
        home.prompt(&id, script);
        home.wait_for_text(&id, "chose:");
        home.wait_for_rest(&id);
        assert_eq!(home.inbox(""), []);
        home.agent_text(&id)
    };

    assert_eq!(chosen("trusted", "app", "permit x"), "chose:o1-allow_once");
    assert_eq!(chosen("trusted", "app", "permit_of reject_once,allow_always x"), "chose:o1-allow_always");
    assert_eq!(chosen("trusted", "secret", "permit x"), "chose:o2-reject_once");
    assert_eq!(chosen("gemini", "secret", "permit_of allow_once,reject_always x"), "chose:o1-reject_always");
    assert_eq!(chosen("banned", "app", "permit_of allow_once x"), "chose:cancelled");
    let by_rule = home.inbox("?all=true");
    assert!(by_rule.iter().all(|it| it.answered_by.as_deref() == Some("rule")), "{by_rule:?}");
    // The repository requires a question although the harness is trusted.
    let id = home.open_as(&home.make_repo("careful"), "trusted").id;
    home.prompt(&id, "permit x");
    assert_eq!(home.wait_for_request(&id).status, InboxStatus::Pending);
}

#[test]
fn cancelling_a_turn_withdraws_its_request_and_the_queue_and_keeps_the_session() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    let cancel = || home.act(&id, "cancel");
    home.wait_for_rest(&id);
    cancel().expect_error(409, "session_conflict");
    home.prompt(&id, "permit touch x");
    let asked = home.wait_for_request(&id);
    home.prompt(&id, "say never");

    assert_eq!(cancel().status, 202);

    let state = home.wait_for_rest(&id);
    assert_eq!(state.stop_reason.as_deref(), Some("cancelled"));
    assert_eq!(
        home.inbox("?all=true").pop().map(|it| (it.id, it.status)),
        Some((asked.id.clone(), InboxStatus::Cancelled))
    );
    assert_eq!(home.wait_for_note(&id, "request settled", &asked.id).from, Some(SettledFrom::Protocol));
    let late = home.answer_request(&asked.id, &json!({ "decision": "allow" }));
    assert_eq!(late.status, 409);
    let turn = json!({ "type": "turn", "stopReason": "cancelled" });
    assert!(home.messages(&id).iter().any(|it| it.role == "system" && it.content == turn), "{:?}", home.messages(&id));
    home.turn(&id, "say still here");
    assert_eq!(home.received_prompts(&id), ["permit touch x", "say still here"]);
    check_invariants(&home);
}

#[test]
fn a_request_without_options_can_be_denied() {
    let home = TestHome::started_with_agent(json!({}));
    let id = home.open(&home.make_repo("app")).id;
    home.prompt(&id, "permit_of , touch x");
    let asked = home.wait_for_request(&id);
    assert_eq!(asked.options, []);

    home.answer_request(&asked.id, &json!({ "decision": "allow" })).expect_error(400, "invalid_request");
    home.coven(&["inbox", "answer", &asked.id, "deny"]).expect_success();

    home.wait_for_text(&id, "chose:cancelled");
    let denied = home.inbox("?all=true").pop().expect("the request");
    assert_eq!((denied.status.as_str(), denied.answered_by.as_deref()), ("cancelled", Some("human")));
    home.answer_request(&asked.id, &json!({ "decision": "deny" })).expect_error(409, "already_answered");
    check_invariants(&home);
}

/// A script that reads an id and allows that request, without the variable that contains its session id.
struct AnswerScript {
    script: PathBuf,
    ids: PathBuf,
    output: PathBuf,
}

impl AnswerScript {
    fn new(home: &TestHome) -> Self {
        let [script, ids, output] = ["answer.sh", "ids", "output"].map(|name| home.folder().join(name));
        rustix::fs::mknodat(rustix::fs::CWD, &ids, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a fifo");
        let text = format!(
            "read -r id < {ids}\nenv -u COVEN_SESSION_ID {coven} inbox answer \"$id\" allow > {output}.part 2>&1\n\
             echo \"exit $?\" >> {output}.part\nmv {output}.part {output}\n",
            ids = ids.display(),
            coven = coven().display(),
            output = output.display(),
        );
        fs::write(&script, text).expect("disk has space");
        Self { script, ids, output }
    }

    /// Passes the id to the script and waits for the output of its command.
    fn answer(&self, id: &str) -> String {
        fs::write(&self.ids, format!("{id}\n")).expect("script reads");
        eventually("the command has ended", || fs::read_to_string(&self.output).ok())
    }
}

#[test]
fn an_answer_from_inside_the_asking_session_is_refused() {
    let home = TestHome::started_with_agent(json!({}));
    let id = home.open(&home.make_repo("app")).id;
    let answering = AnswerScript::new(&home);
    home.prompt(&id, &format!("terminals 1 /bin/sh {} ;; permit touch x", answering.script.display()));
    let asked = home.wait_for_request(&id);

    let output = answering.answer(&asked.id);

    assert!(output.contains("permissions.allowSelfAnswer") && output.contains("exit 4"), "{output}");
    assert_eq!(home.inbox(""), std::slice::from_ref(&asked));
    home.coven(&["inbox", "answer", &asked.id, "allow"]).expect_success();
    home.wait_for_text(&id, "chose:o1-allow_once");
    assert_eq!(home.inbox("?all=true").pop().and_then(|it| it.answered_by).as_deref(), Some("human"));
    check_invariants(&home);
}

#[test]
fn an_answer_from_a_session_is_recorded_with_that_session() {
    let home = TestHome::started_with_agent(json!({ "permissions": { "allowSelfAnswer": true } }));
    let id = home.open(&home.make_repo("app")).id;
    let recorded = |home: &TestHome| home.inbox("?all=true").pop().and_then(|it| it.answered_by).expect("an answer");

    let itself = AnswerScript::new(&home);
    home.prompt(&id, &format!("terminals 1 /bin/sh {} ;; permit touch x", itself.script.display()));
    let output = itself.answer(&home.wait_for_request(&id).id);
    assert!(output.contains("exit 0"), "{output}");
    assert_eq!(recorded(&home), format!("session:{id}"));
    home.wait_for_rest(&id);

    [&itself.ids, &itself.output].into_iter().for_each(|file| fs::remove_file(file).expect("writable"));
    let another = AnswerScript::new(&home);
    let argv = ["/bin/sh".to_owned(), another.script.display().to_string()];
    let other: SessionRecord = home.post("/api/v1/sessions", &json!({ "argv": argv, "cwd": home.project() })).json();
    home.prompt(&id, "permit touch y");
    let output = another.answer(&home.wait_for_request(&id).id);
    assert!(output.contains("exit 0"), "{output}");
    assert_eq!(recorded(&home), format!("session:{}", other.id));
    home.wait_for_end(&other.id);
    check_invariants(&home);
}

#[test]
fn the_ledger_says_that_a_request_ended_with_its_session() {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    home.prompt(&id, "permit touch x");
    let asked = home.wait_for_request(&id);

    coven_testing::process::kill_hard(home.session(&id).pid.expect("a live session"));

    home.wait_for_end(&id);
    let note = home.wait_for_note(&id, "request settled", &asked.id);
    assert_eq!((note.from, note.status), (Some(SettledFrom::Session), Some(RequestState::Cancelled)));
    assert!(home.inbox(&format!("?session={id}")).is_empty());
}
