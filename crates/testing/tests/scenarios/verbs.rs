//! Every verb of the command line, on a home like that of a user.

use std::fs;

use coven_testing::records::SessionRecord;
use coven_testing::{TestHome, TestTerminal, check_invariants};
use serde_json::{Value, json};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("one JSON value a line")).collect()
}

#[test]
fn init_creates_a_home_for_commands_in_subfolders() {
    let home = TestHome::new();
    fs::remove_dir_all(home.path()).expect("exists");

    let output = home.coven(&["init"]).expect_success();

    assert!(output.contains(".coven") && output.contains("coven run demo"), "{output}");
    home.coven(&["config", "check"]).expect_success();
    let below = home.make_folder("a/b");
    let output = home.command(&["daemon", "status", "--json"]).current_dir(&below).output().expect("coven runs");
    let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let expected = fs::canonicalize(home.path()).expect("exists");
    assert_eq!((&status["ok"], &status["home"]), (&json!(false), &json!(expected)));
    // A second init changes nothing.
    let config = fs::read(home.path().join("config.json")).expect("a config");
    home.coven(&["init"]).expect_success();
    // Git only sees the files that a project may share.
    let script = "git init -q; mkdir -p .coven/grimoires; touch .coven/grimoires/a.yaml .coven/coven.db; git add -A; git ls-files";
    let shared =
        std::process::Command::new("sh").args(["-c", script]).current_dir(home.project()).output().expect("git");
    let shared = String::from_utf8_lossy(&shared.stdout).into_owned();
    assert_eq!(
        shared.lines().collect::<Vec<_>>(),
        [".coven/.gitignore", ".coven/config.json", ".coven/grimoires/a.yaml"]
    );
    assert_eq!(fs::read(home.path().join("config.json")).expect("a config"), config);
}

#[test]
fn the_demo_shows_a_plan_asks_and_ends() {
    let mut home = TestHome::started();
    home.env.push(("COVEN_DEMO_SPEED".to_owned(), "0.02".to_owned()));

    let mut terminal = TestTerminal::open(&home, &["run", "demo"]);

    assert_eq!(terminal.wait(), 0);
    terminal.wait_for_text("session ended: exit code 0");
    terminal.assert_settings_restored();
    let id = home.sessions().remove(0).id;
    assert_eq!(home.wait_for_end(&id).status, "completed");
    check_invariants(&home);
}

#[test]
fn the_question_of_the_demo_times_out_and_late_keys_are_not_shown() {
    let mut home = TestHome::started();
    home.env.push(("COVEN_DEMO_SPEED".to_owned(), "0.2".to_owned()));
    let mut terminal = TestTerminal::with_size(&home, &["run", "demo"], 50, 120);

    terminal.wait_for_text("continuing with yes");
    terminal.type_keys("late");

    assert_eq!(terminal.wait(), 0);
    let id = home.sessions().remove(0).id;
    home.wait_for_end(&id);
    let log = home.log_text(&id);
    assert!(!log.contains("late"), "{log}");
    // The full path is printed because `coven` is not on PATH.
    let program = coven_testing::program::coven().display().to_string();
    assert!(log.contains(&format!("{program} replay\r\n  and all sessions with\r\n  {program}\r\n")), "{log}");
}

#[test]
fn attach_without_a_running_session_shows_the_newest_ended_one() {
    let home = TestHome::started();
    let message = home.coven(&["attach"]).expect_failure(3);
    assert!(message.contains("no session exists yet") && message.contains("coven run"), "{message}");
    home.wait_for_end(&home.launch("say first").id);
    let newest = home.launch("say second").id;
    home.wait_for_end(&newest);

    let ran = home.coven(&["attach"]);

    assert!(ran.stderr.contains("no session is running") && ran.stderr.contains(&newest), "{ran:?}");
    assert!(ran.expect_success().contains("second"));
}

#[test]
fn any_command_runs_unchanged_and_a_prompt_is_typed_into_the_shell() {
    let home = TestHome::started();

    let ran = home.coven(&["run", "--", "/bin/sh", "-c", "echo \"$0 $1\"; exit 4", "--json", "two words"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (4, "--json two words\r\n"));
    let session = home.launch_with(json!({ "harness": "shell", "prompt": "echo $((6*7)); exit 5" }));
    let ended = home.wait_for_end(&session.id);
    assert_eq!(ended.exit_code, Some(5), "{}", home.log_text(&session.id));
    assert!(home.log_text(&session.id).contains("42\r\n"));
}

#[test]
fn a_harness_from_the_config_is_run_with_its_settings() {
    let home = TestHome::new();
    home.install("my-agent");
    let mine = json!({
        "program": "my-agent", "prompt": { "flag": "--ask" }, "env": { "MODE": "quiet" }, "label": "Mine",
    });
    home.configure(json!({ "harnesses": { "mine": mine } }));
    home.start();

    let listed: Value = home.json(&["harness", "list", "--json"]);
    let found = listed["items"].as_array().expect("a list").iter().find(|it| it["id"] == "mine").expect("exists");
    assert_eq!(
        (&found["label"], &found["is_installed"], &found["is_builtin"]),
        (&json!("Mine"), &json!(true), &json!(false))
    );
    let session: SessionRecord = home.json(&["run", "mine", "env MODE ;; args", "--json"]);
    home.wait_for_end(&session.id);

    // The flag comes first, and the prompt is one argument.
    assert_eq!(home.log_text(&session.id), "prompt:--ask env MODE\r\n[\"--ask\", \"env MODE ;; args\"]\r\n");
    let doctor = home.coven(&["harness", "doctor"]).expect_success();
    assert!(doctor.contains("fake-agent 1.0.0"), "{doctor}");
}

#[test]
fn a_session_can_be_shown_in_every_format() {
    let home = TestHome::started();
    let id = home.run_to_end("say hello ;; exit 3").id;

    assert!(home.coven(&["show", &id]).expect_success().contains("exit code 3"));
    assert_eq!(home.coven(&["screen", &id]).expect_success(), "hello\n");
    let screen: Value = home.json(&["screen", &id, "--format", "json"]);
    assert_eq!((&screen["rows"], &screen["text"]), (&json!(24), &json!("hello")));
    assert_eq!(home.coven(&["export", &id, "--format", "text"]).expect_success(), "hello\n");
    let cast = lines(&home.coven(&["export", &id, "--format", "asciicast"]).expect_success());
    assert_eq!((&cast[0]["version"], &cast[0]["width"], &cast[1][1]), (&json!(2), &json!(80), &json!("o")));
    assert_eq!(cast[1][2], "hello\r\n");
    let ledger = lines(&home.coven(&["export", &id, "--format", "jsonl"]).expect_success());
    assert_eq!(
        ledger.iter().map(|it| it["kind"].as_str().expect("a kind")).collect::<Vec<_>>(),
        ["start", "output", "exit"]
    );
    let file = home.project().join("out.html");
    home.coven(&["export", &id, "--format", "html", "--output", file.to_str().expect("text")]).expect_success();
    assert!(fs::read_to_string(&file).expect("a page").contains("hello"));
    let waited = home.coven(&["wait", &id, "--json"]);
    assert_eq!(waited.code, 1, "the session failed");
}

#[test]
fn replay_on_a_terminal_plays_and_restores_the_terminal() {
    let home = TestHome::started();
    let session = home.launch("say hello ;; full_screen inside ;; say bye");
    home.wait_for_output(&session.id, "inside");
    home.type_in(&session.id, "\r");
    home.wait_for_end(&session.id);

    let mut terminal = TestTerminal::open(&home, &["replay", &session.id, "--speed", "max"]);

    assert_eq!(terminal.wait(), 0);
    terminal.wait_for_text("bye");
    terminal.assert_settings_restored();
}

#[test]
fn events_and_state_are_printed_as_json() {
    let home = TestHome::started();
    let id = home.run_to_end("exit 0").id;

    let page: Value = home.json(&["events", "--json"]);
    let events = page["items"].as_array().expect("a page");
    assert_eq!((&page["next"], &page["gap"]), (&events.last().expect("some")["number"], &json!(false)));
    assert_eq!(events.last().map(|it| (&it["kind"], &it["subject"])), Some((&json!("session.completed"), &json!(id))));
    let state: Value = home.json(&["state", "--json"]);
    assert_eq!(
        (&state["sessions"][0]["id"], &state["event_number"]),
        (&json!(id), &events.last().expect("some")["number"])
    );
    for block in ["tasks", "agents", "workflows", "questions"] {
        assert_eq!(state[block], json!([]), "{block}");
    }
}

#[test]
fn the_schema_can_be_rolled_back_and_migrated_without_a_daemon() {
    let home = TestHome::started();
    let id = home.run_to_end("say kept").id;
    home.stop();

    home.coven(&["db", "rollback"]).expect_success();
    assert!(home.coven(&["db", "status"]).expect_success().contains("0001"));
    home.coven(&["db", "migrate"]).expect_success();
    home.start();

    assert_eq!(home.log_text(&id), "kept\r\n");
    check_invariants(&home);
}

#[test]
fn stop_leaves_sessions_running_and_kill_sessions_ends_them() {
    let home = TestHome::started();
    let id = home.launch("echo").id;
    home.wait_for_output(&id, "ready\r\n");

    home.coven(&["daemon", "stop"]).expect_success();
    assert_eq!(home.harness_processes(&id).len(), 1);
    home.start();
    assert_eq!(home.session(&id).status, "running");
    home.coven(&["daemon", "stop", "--kill-sessions"]).expect_success();

    assert!(home.harness_processes(&id).is_empty());
    home.start();
    assert_eq!(home.session(&id).status, "killed");
    check_invariants(&home);
}

#[test]
fn earlier_names_of_verbs_have_the_help_of_their_verbs_and_are_not_listed() {
    let home = TestHome::new();
    let commands = home.coven(&["--help"]).expect_success();
    for (earlier, verb) in
        [("migrate", &["db", "import"]), ("retention", &["db", "sweep"]), ("rescue", &["task", "rescue"])]
    {
        let help = home.coven(&[verb[0], verb[1], "--help"]).expect_success();
        assert!(help.contains(&format!("Usage: coven {} ", verb.join(" "))), "{help}");
        assert_eq!(home.coven(&[earlier, "--help"]).expect_success(), help);
        assert_eq!(home.coven(&["help", earlier]).expect_success(), help);
        assert!(!commands.contains(&format!("\n  {earlier} ")), "{commands}");
    }
}

#[test]
fn doctor_completions_version_logs_and_schemas_work() {
    let home = TestHome::started();

    let report = home.coven(&["doctor"]).expect_success();
    assert!(report.contains("daemon") && report.contains("claude"), "{report}");
    let findings: Value = home.json(&["doctor", "--json"]);
    assert!(findings["items"].is_array() && findings["next"].is_null(), "{findings}");
    for shell in ["bash", "zsh", "fish"] {
        assert!(home.coven(&["completions", shell]).expect_success().contains("coven complete"), "{shell}");
    }
    assert!(home.coven(&["--version"]).expect_success().starts_with("coven "));
    assert!(home.coven(&["daemon", "logs"]).expect_success().contains("the daemon is ready"));
    assert!(home.json::<Value>(&["config", "schema"])["properties"].is_object());
    let openapi: Value = home.read("/api/openapi.json");
    assert!(openapi["paths"]["/api/v1/sessions"].is_object());
}
