//! Bad input: one clear sentence with advice, the exit code of its class, and no changes.

use std::fs;
use std::os::unix::fs::symlink;

use coven_domain::Timestamp;
use coven_testing::{CommandOutput, TestHome, check_invariants, samples};
use serde_json::json;

const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;

/// Asserts that a command is refused and changes nothing, and returns the message.
#[track_caller]
fn assert_refused(home: &TestHome, args: &[&str], code: i32) -> String {
    assert_refused_by(home, code, || home.coven(args))
}

#[track_caller]
fn assert_refused_by(home: &TestHome, code: i32, run: impl FnOnce() -> CommandOutput) -> String {
    let before = (home.sessions(), home.health().last_event, folders(home));
    let message = run().expect_failure(code);
    let after = (home.sessions(), home.health().last_event, folders(home));
    assert_eq!(after, before, "the home changed: {message}");
    assert!(message.trim_end().ends_with('.'), "not a sentence: {message}");
    message
}

fn folders(home: &TestHome) -> Vec<String> {
    let entries = fs::read_dir(home.path().join("sessions")).expect("a folder").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().display().to_string()).collect();
    names.sort();
    names
}

#[test]
fn an_unknown_harness_is_refused_with_a_list_of_known_ones() {
    let home = TestHome::started();

    let message = assert_refused(&home, &["run", "cluade", "hello", "--background"], USAGE);

    assert!(message.contains("cluade") && message.contains("claude") && message.contains("coven run --"), "{message}");
}

#[test]
fn a_harness_that_is_not_installed_is_refused_with_the_install_command() {
    let home = TestHome::started();

    let message = assert_refused(&home, &["run", "codex", "hello", "--background"], USAGE);
    assert!(message.contains("not installed") && message.contains("npm install"), "{message}");
    let message = assert_refused(&home, &["run", "--background", "--", "no-such-program", "x"], USAGE);
    assert!(message.contains("no-such-program"), "{message}");
}

#[test]
fn a_working_folder_that_is_missing_or_outside_is_refused() {
    let home = TestHome::started();
    symlink("/usr", home.project().join("link")).expect("a link");
    fs::write(home.project().join("file"), "").expect("room on disk");

    for (missing, why) in [("nowhere", "does not exist"), ("file", "is not a folder"), ("file/below", "does not exist")]
    {
        let message = assert_refused(&home, &["run", "claude", "--cwd", missing, "--background"], USAGE);
        assert!(message.contains(why) && message.contains("--cwd"), "{message}");
    }
    for outside in ["/", "..", "link", "link/../usr"] {
        let message = assert_refused(&home, &["run", "claude", "--cwd", outside, "--background"], USAGE);
        assert!(message.contains("outside the project root"), "{message}");
    }
}

#[test]
fn a_root_that_is_not_a_folder_is_refused() {
    let home = TestHome::started();
    fs::write(home.project().join("file"), "").expect("room on disk");

    for root in ["file", "nowhere"] {
        let message = assert_refused(&home, &["run", "claude", "--root", root, "--background"], USAGE);
        assert!(message.contains("is not a folder"), "{message}");
    }
}

#[test]
fn any_text_is_a_prompt() {
    let home = TestHome::started();

    for text in ["a; b", "$(id)", "`id`", "\"double\" 'single'", "two\nlines", "tab\tand \\", "--help", "käse 写代码"]
    {
        let session: coven_testing::records::SessionRecord =
            home.json(&["run", "claude", "--json", "--prompt", &format!("say {text}")]);
        home.wait_for_end(&session.id);
        assert_eq!(home.log_text(&session.id), format!("{}\r\n", text.replace('\n', "\r\n")));
    }
    check_invariants(&home);
}

#[test]
fn a_prompt_of_a_mebibyte_or_with_a_nul_is_refused() {
    let home = TestHome::started();
    let long = "x".repeat(1 << 20);

    let message = assert_refused_by(&home, USAGE, || {
        home.coven_with_input(&["run", "claude", "-", "--background"], long.as_bytes())
    });
    assert!(message.contains("1048576 bytes") && message.contains("file"), "{message}");
    let message =
        assert_refused_by(&home, USAGE, || home.coven_with_input(&["run", "claude", "-", "--background"], b"a\0b"));
    assert!(message.contains("NUL"), "{message}");
}

#[test]
fn an_argument_that_is_too_long_or_has_a_nul_is_refused() {
    let home = TestHome::started();
    let before = home.health().last_event;

    let request = json!({ "argv": ["/bin/echo", "x".repeat(200_000)] });
    assert_eq!(home.post("/api/v1/sessions", &request).status, 400);
    assert_eq!(home.post("/api/v1/sessions", &json!({ "argv": ["/bin/echo", "a\0b"] })).status, 400);
    assert_eq!(home.post("/api/v1/sessions", &json!({ "argv": [] })).status, 400);

    assert_eq!((home.sessions(), home.health().last_event), (Vec::new(), before));
}

#[test]
fn a_record_is_checked_again_when_it_is_started() {
    let home = TestHome::started();
    let sub = home.make_folder("sub");
    let id = home.launch_with(json!({ "harness": "claude", "cwd": sub, "prompt": "cwd", "detach": true })).id;

    fs::remove_dir(&sub).expect("ours");
    assert_refused(&home, &["start", &id], USAGE);
    symlink("/usr", &sub).expect("a link");
    assert_refused(&home, &["start", &id], USAGE);
    fs::remove_file(&sub).expect("ours");
    fs::create_dir(&sub).expect("room on disk");

    home.coven(&["start", &id]).expect_success();
    assert_eq!(home.wait_for_end(&id).status, "completed");
}

#[test]
fn advice_is_given_once() {
    let home = TestHome::started();
    let ended = home.run_to_end("exit 0").id;

    for args in
        [&["show", "abcdef"][..], &["input", &ended, "x"], &["run", "cluade", "--background"], &["kill", &ended]]
    {
        let message = home.coven(args).stderr;
        for advice in ["coven sessions --all", "coven replay", "coven harness list"] {
            assert!(message.matches(advice).count() <= 1, "{message}");
        }
    }
}

#[test]
fn a_title_with_control_characters_is_refused() {
    let home = TestHome::started();

    for title in ["two\nlines", "\x1b[31mred", "bell\x07", ""] {
        let message = assert_refused(&home, &["run", "claude", "--title", title, "--background"], USAGE);
        assert!(message.contains("the title"), "{message}");
        assert!(!message.trim_end().contains(|c: char| c.is_control()), "{message:?}");
    }
    let long = "x".repeat(201);
    let message = assert_refused(&home, &["run", "claude", "--title", &long, "--background"], USAGE);
    assert!(message.contains("200"), "{message}");
}

#[test]
fn an_ambiguous_or_unknown_id_is_refused_with_the_reason() {
    let home = TestHome::new();
    samples::put(&home, [samples::finished(0x00aa_0001), samples::finished(0x00aa_0002)]);
    home.start();

    for verb in ["show", "attach", "kill", "archive", "replay", "screen", "start", "finish", "wait"] {
        let message = assert_refused(&home, &[verb, "00aa"], USAGE);
        assert!(message.contains("00aa0001") && message.contains("00aa0002"), "{verb}: {message}");
        let message = assert_refused(&home, &[verb, "00bb"], NOT_FOUND);
        assert!(message.contains("00bb") && message.contains("coven sessions --all"), "{verb}: {message}");
        assert_refused(&home, &[verb, "not-an-id"], NOT_FOUND);
        assert_refused(&home, &[verb, "../../etc/passwd"], NOT_FOUND);
        assert_refused(&home, &[verb, "--", "-"], NOT_FOUND);
    }
    assert_refused(&home, &["input", "00aa", "x"], USAGE);
    assert_refused(&home, &["sacrifice", "00aa", "--yes"], USAGE);
    assert_refused(&home, &["export", "00bb", "--format", "text"], NOT_FOUND);
    let record: coven_testing::records::SessionRecord = home.json(&["show", "00aa0001", "--json"]);
    assert_eq!(record.title, "session 11141121");
}

#[test]
fn input_to_a_session_that_is_not_live_is_refused() {
    let home = TestHome::started();
    let id = home.run_to_end("exit 0").id;

    let message = assert_refused(&home, &["input", &id, "x"], REFUSED);
    assert!(message.contains("completed") && message.contains("coven replay"), "{message}");
    assert_refused(&home, &["kill", &id], REFUSED);
    assert_refused(&home, &["finish", &id], REFUSED);
    assert_refused(&home, &["start", &id], REFUSED);
    let live = home.launch("hang").id;
    let message = assert_refused(&home, &["input", &live, ""], USAGE);
    assert!(message.contains("input is empty"), "{message}");
}

#[test]
fn a_running_session_is_neither_archived_nor_sacrificed() {
    let home = TestHome::started();
    let id = home.launch("hang").id;

    for args in [&["archive", id.as_str()][..], &["sacrifice", &id, "--yes"]] {
        let message = assert_refused(&home, args, REFUSED);
        assert!(message.contains("running") && message.contains("kill") && message.contains(&id), "{message}");
    }
    assert_refused(&home, &["summon", &id], REFUSED);
}

#[test]
fn a_config_mistake_is_reported_with_its_location_and_the_daemon_does_not_start() {
    for (text, wanted) in [
        ("{\n  \"store\": {\"eventRetentionHour\": 1}\n}", &["line 2", "eventRetentionHour"][..]),
        (r#"{"sesions": {}}"#, &["sesions", "line 1"]),
        (r#"{"store": {"taskRetentionDays": "7"}}"#, &["store.taskRetentionDays"]),
        (r#"{"store": {"taskRetentionDays": -1}}"#, &["store.taskRetentionDays", "between 0 and"]),
        (r#"{"harnesses": {"x": {"program": "a b"}}}"#, &["harnesses.x"]),
        (r#"{"sessions": {"detachKeys": "d"}}"#, &["sessions.detachKeys"]),
        ("{", &["line 1"]),
        ("", &["line"]),
    ] {
        let home = TestHome::new();
        fs::write(home.path().join("config.json"), text).expect("room on disk");

        for args in [&["daemon", "start"][..], &["sessions", "--json"], &["config", "check"], &["config", "show"]] {
            let message = home.coven(args).expect_failure(USAGE);
            for part in wanted.iter().chain(&["config.json"]) {
                assert!(message.contains(part), "{args:?}: {part:?} is not in {message}");
            }
        }
        assert!(home.daemons().is_empty());
        assert!(!home.path().join("coven.db").exists());
    }
}

#[test]
fn config_check_names_every_mistake_with_its_line() {
    let home = TestHome::new();
    let text = "{\n  \"sesions\": {},\n  \"store\": {\"taskRetentionDays\": -1},\n  \"http\": {\"allowRemote\": 1}\n}";
    fs::write(home.path().join("config.json"), text).expect("room on disk");

    let ran = home.coven(&["config", "check"]);

    assert_eq!(ran.code, USAGE, "{ran:?}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{ran:?}");
    assert!(lines[0].contains("line 2") && lines[0].contains("sesions") && lines[0].contains("did you mean sessions?"));
    assert!(lines[1].contains("line 3") && lines[1].contains("store.taskRetentionDays"), "{ran:?}");
    assert!(lines[2].contains("line 4") && lines[2].contains("http.allowRemote"), "{ran:?}");
}

#[test]
fn restart_keeps_the_daemon_if_a_new_one_could_not_start() {
    let mut home = TestHome::started();
    let before = home.health().pid;

    for (config, flag, variable) in [("{\"sesions\": {}}", None, ""), ("{}", Some("nowhere"), ""), ("{}", None, "many")]
    {
        fs::write(home.path().join("config.json"), config).expect("room on disk");
        home.env = vec![("AGENT_MAX_SESSIONS".to_owned(), variable.to_owned())];
        let flags: Vec<&str> = flag.into_iter().flat_map(|address| ["--listen", address]).collect();
        home.coven(&[&["daemon", "restart"], flags.as_slice()].concat()).expect_failure(USAGE);
        assert_eq!(home.health().pid, before);
    }

    home.env.clear();
    home.coven(&["daemon", "restart"]).expect_success();
    assert_ne!(home.health().pid, before);
}

#[test]
fn a_home_whose_socket_path_is_too_long_is_refused_and_not_created() {
    let home = TestHome::new();
    let long = home.folder().join("x".repeat(110));

    for verb in [&["sessions", "--json"][..], &["daemon", "start"], &["init"]] {
        let args = [&["--home", long.to_str().expect("text")], verb].concat();
        let message = home.coven(&args).expect_failure(USAGE);
        assert!(message.contains("107") && message.contains("--home"), "{message}");
    }
    assert!(!long.exists());
}

#[test]
fn a_home_that_is_a_file_is_refused() {
    let home = TestHome::new();
    let file = home.folder().join("file");
    fs::write(&file, "mine").expect("room on disk");

    let message = home.coven(&["--home", file.to_str().expect("text"), "sessions", "--json"]).expect_failure(USAGE);

    assert!(message.contains("not a folder") && message.contains("--home"), "{message}");
    assert_eq!(fs::read_to_string(&file).expect("there"), "mine");
}

#[test]
fn a_clock_that_was_set_back_does_not_change_times_or_break_anything() {
    let home = TestHome::new();
    // Written when the clock was in another century.
    let then = Timestamp::from_millis(4_102_444_800_000);
    let mut session = samples::finished(1);
    (session.created_at, session.updated_at) = (then, then);
    samples::put(&home, [session]);

    home.start();
    let id = samples::id(1).to_string();
    home.coven(&["archive", &id]).expect_success();
    let now = home.run_to_end("say hello").id;

    let old = home.session(&id);
    assert_eq!(old.updated_at, then.to_string());
    assert!(old.archived_at.is_some());
    let table = home.coven(&["sessions", "--all"]).expect_success();
    assert!(table.contains(&now[..8]) && table.contains(&id[..8]), "{table}");
    let events = home.events_since("0");
    assert!(events.items.windows(2).all(|pair| pair[0].number < pair[1].number));
    assert!(!home.events_since(&then.to_string()).gap);
}

#[test]
fn wrong_usage_of_the_command_line_has_exit_code_two() {
    let home = TestHome::started();

    for args in [
        &["no-such-verb"][..],
        &["run", "claude", "--detach", "--background"],
        &["sessions", "--limit", "many"],
        &["sessions", "--limit", "1001"],
        &["sessions", "--json", "--plain"],
        &["sessions", "--json", "--status", "tired"],
        &["kill"],
        &["attach", ""],
        &["replay", "x", "--speed", "never"],
        &["export", "x", "--format", "pdf"],
        &["completions", "tcsh"],
        &["daemon", "start", "--listen", "nonsense"],
    ] {
        let before = (home.sessions(), home.health().last_event);
        let ran = home.coven(args);
        // A running daemon keeps its addresses.
        let expected = if args.contains(&"--listen") { REFUSED } else { USAGE };
        assert_eq!(ran.code, expected, "{args:?}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{args:?}: {ran:?}");
        assert_eq!((home.sessions(), home.health().last_event), before);
    }
}

#[test]
fn a_command_for_the_newest_session_has_exit_code_three_if_there_is_none() {
    let home = TestHome::started();
    for verb in ["attach", "replay", "chat"] {
        let message = home.coven(&[verb]).expect_failure(3);
        assert!(message.contains("coven run"), "{verb}: {message}");
    }
}

#[test]
fn commands_that_do_not_start_a_daemon_have_exit_code_five_without_one() {
    let home = TestHome::new();

    let message = home.coven(&["daemon", "status"]).expect_failure(5);
    assert!(message.contains("coven daemon start"), "{message}");
    assert_eq!(home.coven(&["daemon", "status", "--json"]).code, 5);
    assert!(home.daemons().is_empty());
    // Stopping a daemon that is not running succeeds.
    home.coven(&["daemon", "stop"]).expect_success();
    home.configure(json!({}));
}
