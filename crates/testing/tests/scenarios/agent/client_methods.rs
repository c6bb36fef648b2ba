//! Client methods: files and terminals in the agent's repository, and the state that the agent reports.

use std::fs;

use coven_api::acp_state::AcpStateRecord;
use coven_testing::sessions::path;
use coven_testing::{TestHome, check_invariants, eventually, wait_until};
use serde_json::json;

fn open_session() -> (TestHome, String, String) {
    let home = TestHome::started_with_agent(json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    (home, id, repo.path)
}

#[test]
fn an_agent_reads_and_writes_files_of_its_repository() {
    let (home, id, folder) = open_session();

    home.turn(
        &id,
        &format!("write {folder}/notes.txt some words ;; read {folder}/notes.txt ;; read {folder}/gone.txt"),
    );

    let text = home.agent_text(&id);
    assert!(text.contains("read:some words"), "{text}");
    assert_eq!(fs::read_to_string(format!("{folder}/notes.txt")).expect("text"), "some words");
    // Agents recognize a missing file by one of these texts.
    let missing = text.split("read error").nth(1).expect("an error").to_owned();
    assert!(["Resource not found", "ENOENT", "does not exist"].iter().any(|it| missing.contains(it)), "{missing}");
}

#[test]
fn files_of_git_itself_need_a_permission() {
    let (home, id, folder) = open_session();
    let hook = format!("{folder}/.git/hooks/pre-commit");

    home.prompt(&id, &format!("write {hook} anything ;; read {folder}/.git/config"));
    let asked = home.wait_for_request(&id);
    assert!(asked.title.contains(&hook), "{asked:?}");
    assert!(!fs::exists(&hook).expect("a folder"));
    assert_eq!(home.answer_request(&asked.id, &json!({ "decision": "deny" })).status, 200);
    let second = eventually("the next request", || home.inbox("").pop().filter(|it| it.id != asked.id));
    assert!(second.title.contains(".git/config"), "{second:?}");
    // After a restart, the request is still pending, and the file is read once it is allowed.
    home.coven(&["daemon", "restart"]).expect_success();
    assert_eq!(home.answer_request(&second.id, &json!({ "decision": "allow" })).status, 200);
    home.wait_for_rest(&id);

    let text = home.agent_text(&id);
    assert!(text.contains("wrote error") && text.contains("did not permit"), "{text}");
    assert!(text.contains("repositoryformatversion"), "{text}");
    assert!(!fs::exists(&hook).expect("a folder"));
    check_invariants(&home);
}

#[test]
fn an_agent_runs_commands_in_terminals_of_its_repository() {
    let (home, id, folder) = open_session();

    home.turn(&id, "shell pwd; echo to-stderr >&2; exit 3");
    home.turn(&id, "terminal_kill sleep 1000");
    home.turn(&id, "terminal no-such-program-anywhere");

    let text = home.agent_text(&id);
    assert!(text.contains("terminal:exit=3"), "{text}");
    assert!(text.contains(&folder) && text.contains("to-stderr"), "{text}");
    assert_eq!(text.matches("terminal:exit=").count() + text.matches("terminal error").count(), 3, "{text}");
    wait_until("no command is running", || home.harness_processes(&id).len() == 1);
    check_invariants(&home);
}

#[test]
fn terminals_end_with_their_session() {
    let (home, id, _) = open_session();
    home.prompt(&id, "terminal sleep 1000");
    wait_until("the command is running", || home.harness_processes(&id).len() == 2);

    home.cancel_session(&id);
    home.wait_for_end(&id);

    wait_until("all processes have exited", || home.harness_processes(&id).is_empty());
    check_invariants(&home);
}

#[test]
fn mode_and_options_can_be_changed_and_are_reported() {
    let (home, id, _) = open_session();
    let state = home.wait_for_rest(&id);
    assert_eq!(current_mode(&state), Some("ask"));
    assert!(state.agent_session_id.as_deref().is_some_and(|it| it.starts_with("fake-")), "{state:?}");
    assert_eq!(state.agent.and_then(|it| it.version).as_deref(), Some("1.0.0"));

    assert_eq!(home.post(&path(&id, "/mode"), &json!({ "mode_id": "code" })).status, 202);
    let model = json!({ "config_id": "model", "value": "large" });
    assert_eq!(home.post(&path(&id, "/config"), &model).status, 202);
    home.turn(&id, "settings ;; usage 1234 ;; title A better title ;; commands web,test");

    assert!(home.agent_text(&id).contains("mode=code model=large"), "{}", home.agent_text(&id));
    let state = home.agent_state(&id);
    assert_eq!(current_mode(&state), Some("code"));
    assert_eq!(state.config_options.expect("options")[0].current_value.as_deref(), Some("large"));
    assert_eq!(state.usage.map(|it| (it.used, it.size)), Some((Some(1234), Some(200_000))));
    assert_eq!(state.title.as_deref(), Some("A better title"));
    assert_eq!(state.commands.expect("commands")[1].name, "test");
    home.turn(&id, "mode ask");
    assert_eq!(current_mode(&home.agent_state(&id)), Some("ask"));
}

fn current_mode(state: &AcpStateRecord) -> Option<&str> {
    state.modes.as_ref()?.current_mode_id.as_deref()
}

#[test]
fn an_acp_session_has_no_terminal() {
    let (home, id, _) = open_session();
    home.wait_for_rest(&id);

    home.post(&path(&id, "/input"), &json!({ "data": "x" })).expect_error(409, "session_conflict");
    home.get(&path(&id, "/screen")).expect_error(409, "session_conflict");

    assert_eq!(home.turn(&id, "say fine").len(), 2);
}
