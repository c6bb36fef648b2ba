//! Hooks of agents: a daemon that dies, calls that come twice, from foreign processes or too large, and many changes at once.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use coven_domain::activity::{Activity, ActivityFact, Verdict};
use coven_domain::request::SettledFrom;
use coven_testing::process::signal;
use coven_testing::{TestHome, check_invariants, eventually, journal, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

const PERMISSION: &str = r#"{"title":"wants to run: ls","options":[{"id":"y","name":"Yes","kind":"allow_once"},{"id":"n","name":"No","kind":"reject_once"}]}"#;
const ALLOWED: &str = r#"{"decision":"allow","option":"y"}"#;
const CALL: &str = "5f0c1d9a-0000-4000-8000-000000000007";

fn started() -> TestHome {
    TestHome::started_with_rules(&json!([]))
}

fn touch(home: &TestHome, name: &str) {
    fs::write(home.project().join(name), "").expect("disk has space");
}

/// Kills the daemon and waits until its socket refuses connections: a hook whose connection breaks waits for the next
/// daemon.
fn kill_daemon_and_socket(home: &TestHome) {
    home.kill_daemon();
    wait_until("the socket is closed", || UnixStream::connect(home.socket()).is_err());
}

fn log_without_daemon(dir: &Path) -> String {
    String::from_utf8_lossy(&journal::log_until(dir, journal::log_end(dir)).1).into_owned()
}

fn requests(home: &TestHome, id: &str) -> usize {
    home.inbox(&format!("?session={id}&all=true")).len()
}

#[test]
fn a_permission_survives_the_daemon_while_its_hook_waits() {
    let home = started();
    let id = home.launch_fake(&format!("hook permission wait {PERMISSION} ;; ask 1")).id;
    let asked = home.wait_for_request(&id);

    for _ in 0..2 {
        home.kill_daemon();
        home.start();
        let again = home.wait_for_request(&id);
        assert_eq!((again.id, again.created_at), (asked.id.clone(), asked.created_at));
        assert_eq!(home.wait_for_evidence(&id, Activity::Permission).detail.as_deref(), Some("wants to run: ls"));
    }
    assert_eq!(home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);

    home.wait_for_output(&id, ALLOWED);
    home.wait_for_evidence(&id, Activity::Working);
    assert_eq!(requests(&home, &id), 1);
    check_invariants(&home);
}

#[test]
fn a_daemon_that_dies_after_it_stored_a_permission_finds_it_again() {
    let mut home = TestHome::new();
    home.install("fake");
    home.configure(coven_testing::evidence::with_rules(&json!([])));
    home.start_with_fault("after_hook_request");
    let id = home.launch_fake(&format!("until go ;; hook permission wait {PERMISSION} ;; ask 1")).id;

    touch(&home, "go");
    home.restart_after_death();
    let asked = home.wait_for_request(&id);
    assert_eq!(home.wait_for_evidence(&id, Activity::Permission).detail.as_deref(), Some("wants to run: ls"));
    assert_eq!(home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);

    home.wait_for_output(&id, ALLOWED);
    assert_eq!(requests(&home, &id), 1);
    check_invariants(&home);
}

#[test]
fn an_answer_given_while_the_hook_reconnects_arrives() {
    let home = started();
    let id = home.launch_fake(&format!("hook permission wait {PERMISSION} ;; ask 1")).id;
    let asked = home.wait_for_request(&id);

    home.kill_daemon();
    home.start();
    // The hook has perhaps not returned yet.
    assert_eq!(home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);

    home.wait_for_output(&id, ALLOWED);
}

#[test]
fn a_permission_whose_hook_ended_without_a_daemon_is_withdrawn() {
    let home = started();
    let id = home.launch_fake(&format!("hook permission wait {PERMISSION} ;; ask 1")).id;
    home.wait_for_request(&id);

    home.kill_daemon();
    let hooks: Vec<u32> = home.harness_processes(&id).into_iter().filter(|pid| is_hook(*pid)).collect();
    assert_eq!(hooks.len(), 1);
    coven_testing::process::kill_hard(hooks[0]);
    wait_until("the hook is gone", || !coven_testing::process::is_alive(hooks[0]));
    home.start();

    wait_until("the request is withdrawn", || home.inbox(&format!("?session={id}")).is_empty());
}

fn is_hook(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.split(|byte| *byte == 0).nth(1) == Some(b"hook"))
}

#[test]
fn a_call_that_is_delivered_twice_counts_once() {
    let home = started();
    let post = format!("background_post_hook self {CALL} permission {PERMISSION}");
    let background = r#"post_hook self 5f0c1d9a-0000-4000-8000-000000000008 idle {"detail":"over"}"#;
    let id = home.launch_fake(&format!("{post} ;; {post} ;; ask 1 ;; {background} ;; {background} ;; ask 2")).id;

    let asked = home.wait_for_request(&id);
    assert_eq!(asked.id, CALL, "the call's id is the id of the request");
    assert_eq!(home.answer_request(&asked.id, &json!({ "decision": "allow" })).status, 200);
    wait_until("both calls got the answer", || home.log_text(&id).matches(r#"\"option\":\"y\""#).count() == 2);
    assert_eq!(requests(&home, &id), 1);

    home.type_in(&id, "\r");
    home.wait_for_output(&id, "2\r\n");
    let count = |fact| home.evidence(&id).observations.iter().filter(|it| it.fact == fact).count();
    assert_eq!((count(ActivityFact::PermissionAsked), count(ActivityFact::TurnEnded)), (1, 1));
}

#[test]
fn a_foreign_process_with_a_stolen_session_id_is_refused() {
    let home = started();
    let victim = home.launch_fake("hook working ;; ask 1").id;
    let before = home.wait_for_evidence(&victim, Activity::Working);

    // From outside of all sessions, over the API and with the agent's own command.
    let call = json!({ "id": CALL, "event": "permission", "payload": serde_json::from_str::<Value>(PERMISSION).expect("JSON") });
    let path = coven_testing::sessions::path(&victim, "/hook");
    let refused = home.post(&path, &call);
    assert_eq!(refused.status, 403, "{}", String::from_utf8_lossy(&refused.body));
    let mut command = home.command(&["hook", "fake", "permission", "wait"]);
    command.env("COVEN_HOME", home.path()).env("COVEN_SESSION_ID", &victim);
    let output = command.output().expect("coven runs");
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    // From another session.
    let thief = home.launch_fake(&format!("post_hook {victim} {CALL} permission {PERMISSION} ;; ask 1")).id;
    home.wait_for_output(&thief, "posted permission: 403");

    let after = home.evidence(&victim);
    assert_eq!((after.activity, after.observations), (before.activity, before.observations));
    assert_eq!(requests(&home, &victim), 0);
}

#[test]
fn a_payload_of_ten_megabytes_harms_no_one() {
    let home = started();
    let script = "hook working huge 10000000 ;; ask 1 ;; hook permission wait huge 10000000 ;; ask 2 ;; post_hook self 5f0c1d9a-0000-4000-8000-000000000009 idle huge 10000000 ;; ask 3 ;; hook idle ;; ask 4";
    let id = home.launch_fake(script).id;

    let working = home.wait_for_evidence(&id, Activity::Working);
    assert_eq!(working.detail, None);
    home.wait_for_output(&id, "hook working: exit status: 0 \r\n");
    home.type_in(&id, "\r");
    // Without options in the payload the hook does not wait.
    home.wait_for_evidence(&id, Activity::Permission);
    home.wait_for_output(&id, "hook permission: exit status: 0 \r\n");
    assert_eq!(requests(&home, &id), 0);
    home.type_in(&id, "\r");
    let log = home.wait_for_output(&id, "posted idle: ");
    assert!(!log.contains("posted idle: 200"), "a call that does not come from `coven hook` is too large");
    home.wait_for_output(&id, "3\r\n");
    home.type_in(&id, "\r");
    home.wait_for_evidence(&id, Activity::Idle);
    check_invariants(&home);
}

#[test]
fn a_payload_of_any_form_is_read_without_harm() {
    let home = started();
    let payloads = [
        "[]",
        "7",
        "not JSON",
        r#"{"detail":{}}"#,
        r#"{"options":[[]],"title":7}"#,
        r#"{"count":-1}"#,
        r#"{"questions":[{"prompt":1}]}"#,
        r#"{"key":[]}"#,
        "\u{1b}]2;x",
    ];
    let events =
        ["started", "working", "permission", "question", "settled", "limited", "background", "unknown", "idle"];
    let calls: Vec<String> =
        payloads.iter().flat_map(|payload| events.map(|event| format!("hook {event} {payload}"))).collect();
    let id = home.launch_fake(&format!("{} ;; say over ;; ask 1", calls.join(" ;; "))).id;

    let log = home.wait_for_output(&id, "over\r\n");
    assert_eq!(log.matches("exit status: 0").count(), calls.len());
    home.wait_for_evidence(&id, Activity::Idle);
    assert_eq!(requests(&home, &id), 0);
    check_invariants(&home);
}

#[test]
fn a_hook_without_a_daemon_returns_and_is_read_by_the_next_one() {
    let home = started();
    let script = format!(
        r#"hook working ;; until go ;; hook permission wait {PERMISSION} ;; hook limited {{"detail":"until 9"}} ;; say called ;; ask 1"#
    );
    let id = home.launch_fake(&script).id;
    home.wait_for_evidence(&id, Activity::Working);

    kill_daemon_and_socket(&home);
    touch(&home, "go");
    let dir = home.session_dir(&id);
    wait_until("the agent continues", || log_without_daemon(&dir).contains("called"));
    assert_eq!(stored_calls(&home, &id), 2);
    home.start();

    let limited = home.wait_for_evidence(&id, Activity::Limited);
    assert_eq!(limited.detail.as_deref(), Some("until 9"));
    wait_until("the calls are read once", || stored_calls(&home, &id) == 0);
    let log = home.log_text(&id);
    assert!(log.contains("hook permission: exit status: 0 \r\n"), "no decision without a daemon: {log}");
    assert!(home.inbox(&format!("?session={id}")).is_empty(), "no hook waits for an answer");
    let withdrawn = home.inbox(&format!("?session={id}&all=true"));
    let [request] = withdrawn.as_slice() else { panic!("one request: {withdrawn:?}") };
    assert_eq!(home.wait_for_note(&id, "request settled", &request.id).from, Some(SettledFrom::Hook));
    check_invariants(&home);
}

/// Returns the number of stored calls.
fn stored_calls(home: &TestHome, id: &str) -> usize {
    fs::read_dir(home.session_dir(id).join("hook-calls")).map_or(0, Iterator::count)
}

/// Stores a call as `coven hook` does when the daemon does not answer in time.
fn store_call(home: &TestHome, id: &str, call: &str, event: &str, called_at: &str) {
    let folder = home.session_dir(id).join("hook-calls");
    let unfinished = folder.join(format!(".{call}"));
    let content = json!({ "id": call, "event": event, "payload": { "detail": "late" }, "called_at": called_at });
    fs::write(&unfinished, content.to_string()).expect("disk has space");
    fs::rename(unfinished, folder.join(format!("0-{call}.json"))).expect("disk has space");
}

/// Returns how often the evidence has a fact.
fn count(home: &TestHome, id: &str, fact: ActivityFact) -> usize {
    home.evidence(id).observations.iter().filter(|it| it.fact == fact).count()
}

#[test]
fn a_call_that_a_stopped_daemon_did_not_answer_counts_once() {
    let home = started();
    let script =
        r#"hook working ;; until go ;; hook idle {"detail":"over"} ;; say called ;; ask 1 ;; hook working ;; ask 2"#;
    let id = home.launch_fake(script).id;
    home.wait_for_evidence(&id, Activity::Working);
    let (daemon, dir) = (home.health().pid, home.session_dir(&id));

    signal(daemon, Signal::STOP);
    touch(&home, "go");
    wait_until("the agent continues", || log_without_daemon(&dir).contains("called"));
    assert_ne!(stored_calls(&home, &id), 0);
    signal(daemon, Signal::CONT);

    let idle = home.wait_for_evidence(&id, Activity::Idle);
    assert_eq!(idle.detail.as_deref(), Some("over"));
    wait_until("the call is deleted", || stored_calls(&home, &id) == 0);
    home.type_in(&id, "\r");
    home.wait_for_output(&id, "2\r\n");
    wait_until("the work is stored", || home.session(&id).activity.as_deref() == Some("working"));
    home.kill_daemon();
    home.start();
    wait_until("the session is adopted", || home.health().sessions_live == 1);
    assert_eq!(home.evidence(&id).activity, Some(Activity::Working));
    assert_eq!(count(&home, &id, ActivityFact::TurnEnded), 1);
    check_invariants(&home);
}

#[test]
fn a_stored_call_does_not_replace_a_newer_one_and_is_in_the_evidence() {
    let home = started();
    let script = format!("hook working ;; hook idle ;; ask 1 ;; hook permission wait {PERMISSION} ;; ask 2");
    let id = home.launch_fake(&script).id;
    home.wait_for_evidence(&id, Activity::Idle);
    let late = "2020-01-01T00:00:00.000Z";

    store_call(&home, &id, CALL, "working", late);

    let row = home.wait_for_observation(&id, "the late call", |it| it.detail.as_deref() == Some("late"));
    assert_eq!((row.fact, row.verdict), (ActivityFact::Worked, Verdict::Ignored));
    assert_eq!(home.evidence(&id).activity, Some(Activity::Idle));
    // One that settles all requests settles none that the agent made after it.
    home.type_in(&id, "\r");
    home.wait_for_request(&id);
    store_call(&home, &id, "5f0c1d9a-0000-4000-8000-000000000008", "settled", late);
    wait_until("the call is read", || stored_calls(&home, &id) == 0);
    assert_eq!(home.inbox(&format!("?session={id}")).len(), 1);
    assert_eq!(home.evidence(&id).activity, Some(Activity::Permission));
    assert!(home.coven(&["why", &id]).expect_success().contains("late"));
}

#[test]
fn a_call_that_was_delivered_and_stored_counts_once_across_a_restart() {
    let home = started();
    let post = format!(r#"post_hook self {CALL} idle {{"detail":"over"}}"#);
    let id = home.launch_fake(&format!("hook working ;; ask 1 ;; {post} ;; ask 2 ;; hook working ;; ask 3")).id;
    home.wait_for_output(&id, "1\r\n");
    home.type_in(&id, "\r");
    home.wait_for_evidence(&id, Activity::Idle);
    home.wait_for_output(&id, "2\r\n");
    // The live daemon recognises the call.
    store_call(&home, &id, CALL, "idle", "2099-01-01T00:00:00.000Z");
    wait_until("the call is deleted", || stored_calls(&home, &id) == 0);
    home.type_in(&id, "\r");
    home.wait_for_output(&id, "3\r\n");
    wait_until("the work is stored", || home.session(&id).activity.as_deref() == Some("working"));

    // So does the next one.
    kill_daemon_and_socket(&home);
    store_call(&home, &id, CALL, "idle", "2099-01-01T00:00:00.000Z");
    home.start();
    wait_until("the call is deleted", || stored_calls(&home, &id) == 0);

    assert_eq!(home.evidence(&id).activity, Some(Activity::Working));
    assert_eq!(count(&home, &id, ActivityFact::TurnEnded), 1);
}

#[test]
fn a_daemon_that_dies_before_it_deleted_the_stored_calls_counts_them_once() {
    let mut home = TestHome::new();
    home.install("fake");
    home.configure(coven_testing::evidence::with_rules(&json!([])));
    home.start_with_fault("after_stored_hook_calls");
    let id = home.launch_fake("hook working ;; ask 1").id;
    home.wait_for_evidence(&id, Activity::Working);
    let daemon = home.health().pid;
    // Both are read together.
    signal(daemon, Signal::STOP);
    let later = "2099-01-01T00:00:00.000Z";
    store_call(&home, &id, CALL, "idle", later);
    store_call(&home, &id, "5f0c1d9a-0000-4000-8000-000000000008", "working", later);

    signal(daemon, Signal::CONT);
    home.restart_after_death();

    wait_until("the calls are deleted", || stored_calls(&home, &id) == 0);
    assert_eq!(home.evidence(&id).activity, Some(Activity::Working));
    assert_eq!(count(&home, &id, ActivityFact::TurnEnded), 1);
}

#[test]
fn background_tasks_are_known_to_the_next_daemon() {
    let home = started();
    let background = |count: u32| format!(r#"hook background {{"count":{count}}}"#);
    let script = format!("hook working ;; {} ;; hook idle ;; ask 1 ;; {} ;; ask 2", background(2), background(0));
    let id = home.launch_fake(&script).id;
    home.wait_for_output(&id, "1\r\n");
    wait_until("the number is stored", || home.session(&id).activity_detail.as_deref() == Some("2 background tasks"));

    home.kill_daemon();
    home.start();
    wait_until("the session is adopted", || home.health().sessions_live == 1);
    let after = home.evidence(&id);
    assert_eq!((after.activity, after.background), (Some(Activity::Working), 2));
    home.type_in(&id, "\r");

    home.wait_for_evidence(&id, Activity::Idle);
}

#[test]
fn stored_calls_that_are_torn_or_foreign_files_do_not_stop_the_next_daemon() {
    let home = started();
    let id = home.launch_fake("hook working ;; until go ;; hook idle ;; say called ;; ask 1").id;
    home.wait_for_evidence(&id, Activity::Working);
    kill_daemon_and_socket(&home);
    touch(&home, "go");
    let dir = home.session_dir(&id);
    wait_until("the agent continues", || log_without_daemon(&dir).contains("called"));
    let calls = dir.join("hook-calls");
    fs::write(calls.join("0-torn.json"), "{\"id\":").expect("disk has space");
    fs::write(calls.join("1-huge.json"), vec![b' '; 10 << 20]).expect("disk has space");
    std::os::unix::fs::symlink("/etc/passwd", calls.join("2-link.json")).expect("disk has space");
    fs::create_dir(calls.join("3-folder.json")).expect("disk has space");

    home.start();

    home.wait_for_evidence(&id, Activity::Idle);
}

#[test]
fn a_hundred_sessions_that_change_ten_times_a_second_are_right_in_the_end() {
    const SESSIONS: usize = 100;
    const CHANGES: u64 = 30;
    let home = TestHome::started_with_rules(&json!([
        { "name": "spinner", "on": "title", "means": "working", "starts": ["* "], "detail": "{line}" },
        { "name": "still", "on": "title", "means": "resting", "starts": ["- "], "detail": "{line}" },
    ]));
    let script = format!("until go ;; titles {CHANGES} 100 ;; ask over");
    let ids: Vec<String> = (0..SESSIONS).map(|_| home.launch_fake(&script).id).collect();

    touch(&home, "go");

    for id in &ids {
        let last = format!("- {}", CHANGES - 1);
        let end = eventually(&format!("{id} has changed for the last time"), || {
            Some(home.evidence(id))
                .filter(|it| it.detail.as_deref() == Some(&last) && it.observations.len() as u64 == CHANGES)
        });
        assert_eq!(end.activity, Some(Activity::Idle));
        for (nth, observation) in end.observations.iter().enumerate() {
            let (mark, fact) = if nth % 2 == 0 { ('*', ActivityFact::Worked) } else { ('-', ActivityFact::Rested) };
            assert_eq!(observation.number, nth as u64 + 1);
            assert_eq!((observation.fact, observation.verdict), (fact, Verdict::Changed));
            assert_eq!(observation.detail.as_deref(), Some(format!("{mark} {nth}").as_str()));
        }
        wait_until("the record has the last change", || home.session(id).activity_detail.as_deref() == Some(&last));
    }
    check_invariants(&home);
}
