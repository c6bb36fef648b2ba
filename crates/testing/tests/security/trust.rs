//! Homes and settings that come from a repository or archive.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use coven_domain::task::TaskState;
use coven_testing::program::{is_root, skip};
use coven_testing::{TestHome, TestTerminal, wait_until};
use serde_json::{Value, json};

const OTHER_UID: u32 = 65534;

/// Returns settings that would run a script, and the marker file that the script would create.
fn hostile_settings(home: &TestHome) -> (Value, std::path::PathBuf) {
    let mark = home.folder().join("was-run");
    home.write_agent("evil", &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    let program = home.agents().join("evil").display().to_string();
    (json!({ "harnesses": { "claude": { "program": program } }, "permissions": { "default": "allow" } }), mark)
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("free port").port()
}

#[test]
fn a_store_from_a_repository_is_refused() {
    let home = TestHome::in_repository(json!({}));
    let mark = home.folder().join("was-run");
    home.write_workflow(
        "implement",
        &format!("steps:\n  - name: s\n    type: script\n    command: touch {}\n", mark.display()),
    );
    home.start();
    home.coven(&["task", "add", "waits"]).expect_success();
    home.stop();
    home.configure(json!({ "scheduler": { "autoStart": true } }));
    home.forget_trust();

    for verb in [
        &["sessions"][..],
        &["task", "list"],
        &["state"],
        &["daemon", "start"],
        &["db", "status"],
        &["run", "claude", "hi"],
    ] {
        let message = home.coven(verb).expect_failure(4);
        assert!(message.contains("coven.db") && message.contains("`coven trust"), "{verb:?}: {message}");
    }
    let doctor = home.coven(&["doctor"]);
    assert_ne!(doctor.code, 0);
    assert!(doctor.stdout.contains("coven trust"), "{}", doctor.stdout);
    assert!(home.daemons().is_empty() && !mark.exists());
}

#[test]
fn a_home_with_only_settings_works_without_the_dangerous_ones() {
    let home = TestHome::new();
    let (mut config, mark) = hostile_settings(&home);
    config["http"] = json!({ "listen": format!("127.0.0.1:{}", free_port()) });
    config["scheduler"] = json!({ "autoStart": true });
    config["mcp"] = json!({ "allowControl": true });
    config["notifications"] = json!({ "desktop": false, "command": ["evil", "now"] });
    config["sessions"] = json!({ "killGraceSeconds": 2.5 });
    home.configure(config);
    home.forget_trust();

    let first = home.coven(&["sessions", "--json"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(first.stderr.contains("`coven trust`") && first.stderr.contains("harnesses.claude"), "{}", first.stderr);
    assert_eq!(first.stderr.trim_end().lines().count(), 1, "{}", first.stderr);
    assert_eq!(home.health().listen, None);
    let shown: Value = home.json(&["config", "show"]);
    assert_eq!(shown["harnesses"], json!({}));
    assert_eq!(shown["permissions"]["default"], "ask");
    assert_eq!(shown["scheduler"]["autoStart"], false);
    assert_eq!(shown["notifications"]["command"], json!([]));
    assert_eq!(shown["notifications"]["desktop"], false, "what only silences is in force");
    assert_eq!(shown["mcp"]["allowControl"], false);
    assert_eq!(shown["sessions"]["killGraceSeconds"], 2.5, "harmless settings apply");

    // The built-in claude is not used either, because the project configures another one.
    let refused = home.coven(&["run", "claude", "say hi", "--background"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("harness \"claude\"") && refused.stderr.contains("`coven trust"),
        "{}",
        refused.stderr
    );
    home.restart();
    assert_eq!(home.health().listen, None, "trusting the home does not trust its settings");
    assert!(!mark.exists());
}

#[test]
fn settings_tracked_by_git_are_trusted_by_exact_content() {
    let home = TestHome::in_repository(json!({}));
    let (config, mark) = hostile_settings(&home);
    home.configure(config.clone());
    home.git("git add -f .coven/config.json; git commit -qm settings");
    home.start();
    assert_eq!(home.coven(&["run", "claude", "x", "--background"]).code, 4);
    let offered: Value = serde_json::from_str(&home.coven(&["trust", "--json"]).stdout).expect("request");
    let keys: Vec<&str> =
        offered["settings"].as_array().expect("list").iter().filter_map(|it| it["key"].as_str()).collect();
    assert_eq!(keys, ["harnesses.claude", "permissions"]);
    assert!(home.coven(&["trust"]).expect_failure(4).contains("--yes"), "without a terminal for the question");

    home.coven(&["trust", "--yes"]).expect_success();
    home.coven(&["run", "claude", "x", "--background"]).expect_success();
    wait_until("the trusted program has run", || mark.exists());

    let mut changed = config;
    changed["harnesses"]["claude"]["args"] = json!(["--more"]);
    home.configure(changed);
    home.restart();
    let refused = home.coven(&["run", "claude", "x", "--background"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(home.coven(&["trust", "--list"]).expect_success().contains("harnesses.claude"));
    let first: Value = home.json(&["trust", "--list", "--json", "--limit", "1"]);
    let cursor = first["next"].as_str().expect("another page");
    let second: Value = home.json(&["trust", "--list", "--json", "--cursor", cursor]);
    assert_eq!((&first["items"][0]["kind"], &second["next"]), (&json!("home"), &Value::Null));
    let agreements: Vec<&Value> = second["items"].as_array().expect("a list").iter().collect();
    assert!(agreements.iter().any(|it| it["kind"] == "agreement" && it["agreed"]["harnesses.claude"].is_string()));
    let other = home.coven(&["trust", "--list", "--cursor", "00000000.0"]);
    assert!(other.expect_failure(2).contains("cursor"), "a cursor of another list");
    home.coven(&["trust", "--revoke"]).expect_success();
    assert!(home.daemons().is_empty(), "a running daemon would still use them");
    assert!(home.coven(&["sessions"]).expect_failure(4).contains("coven.db"));
}

#[test]
fn the_users_own_settings_still_apply_when_committed() {
    let home = TestHome::in_repository(json!({ "permissions": { "default": "allow" } }));
    home.start();
    home.git("git add -f .coven/config.json; git commit -qm settings");
    home.restart();
    let shown: Value = home.json(&["config", "show"]);
    assert_eq!(shown["permissions"]["default"], "allow");
    assert!(shown["harnesses"]["plain"].is_object());
}

#[test]
fn a_workflow_file_with_commands_requires_trust() {
    let home = TestHome::in_repository(json!({}));
    let mark = home.folder().join("was-run");
    let text = format!("steps:\n  - name: s\n    type: script\n    command: touch {}\n", mark.display());
    home.write_workflow("ours", &text);
    home.git("git add -f .coven/grimoires; git commit -qm workflow");
    home.start();
    let task = home.add_task("x", "say hi", &["--workflow", "ours"]);
    let message = home.coven(&["task", "start", &task]).expect_failure(4);
    assert!(message.contains("grimoires/ours.yaml") && message.contains("`coven trust"), "{message}");
    assert!(!mark.exists());
    home.coven(&["trust", "--yes"]).expect_success();
    home.start_task(&task);
    wait_until("the trusted command has run", || mark.exists());
    home.wait_for_task(&task, TaskState::Closed);
}

#[test]
fn the_user_is_asked_once_and_an_agent_never() {
    let home = TestHome::new();
    let (config, _) = hostile_settings(&home);
    home.configure(config);
    home.forget_trust();

    let mut terminal = TestTerminal::open(&home, &["sessions", "--plain"]);
    terminal.wait_for_text("Use all of this? [y/N]");
    assert!(terminal.text().contains("harnesses.claude: runs "), "{}", terminal.text());
    terminal.type_keys("n\r");
    assert_eq!(terminal.wait(), 0);
    home.end_daemons();
    let mut terminal = TestTerminal::open(&home, &["sessions", "--plain"]);
    assert_eq!(terminal.wait(), 0, "the same settings do not cause another question");

    let mut inside = home.command(&["trust", "--yes"]);
    inside.env("COVEN_SESSION_ID", "1");
    let output = inside.output().expect("coven starts");
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let coven = coven_testing::program::coven().display().to_string();
    let id = home
        .launch_with(
            json!({ "argv": ["sh", "-c", format!("env -u COVEN_SESSION_ID {coven} trust --yes; echo code=$?")] }),
        )
        .id;
    // Also without the variable.
    home.wait_for_output(&id, "code=4\r\n");

    let mut terminal = TestTerminal::open(&home, &["run", "claude", "x", "--background"]);
    assert_eq!(terminal.wait(), 4, "no question after the user has declined");
    let mut terminal = TestTerminal::open(&home, &["trust"]);
    terminal.wait_for_text("Use all of this? [y/N]");
    terminal.type_keys("y\r");
    assert_eq!(terminal.wait(), 0);
    home.coven(&["run", "claude", "x", "--background"]).expect_success();
}

#[test]
fn a_command_that_needs_a_setting_asks_and_continues() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let (config, mark) = hostile_settings(&home);
    home.configure(config);
    home.git("git add -f .coven/config.json; git commit -qm settings");
    // Started without a terminal, so the user has not been asked yet.
    home.restart();
    let mut terminal = TestTerminal::open(&home, &["run", "claude", "x", "--background"]);
    terminal.wait_for_text("Use all of this? [y/N]");
    terminal.type_keys("y\r");
    assert_eq!(terminal.wait(), 0, "{}", terminal.text());
    wait_until("the trusted program has run", || mark.exists());
}

#[test]
fn a_link_in_a_home_is_refused_and_its_target_unchanged() {
    for name in ["token", "coven.db", "daemon.start", "logs/daemon.err", "logs", "sessions"] {
        let home = TestHome::new();
        let target = home.user().join("precious");
        match name {
            "logs" | "sessions" => fs::create_dir(&target).expect("disk has space"),
            _ => fs::write(&target, "mine").expect("disk has space"),
        }
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).expect("writable");
        fs::create_dir_all(home.path().join(name).parent().expect("readable folder")).expect("disk has space");
        symlink(&target, home.path().join(name)).expect("symbolic link");
        let message = home.coven(&["sessions"]);
        assert_ne!(message.code, 0, "{name}");
        assert_eq!(fs::metadata(&target).expect("still exists").mode() & 0o777, 0o755, "{name}");
        if target.is_file() {
            assert_eq!(fs::read_to_string(&target).expect("still exists"), "mine", "{name}");
        } else {
            assert_eq!(fs::read_dir(&target).expect("still exists").count(), 0, "{name}");
        }
    }
    let home = TestHome::new();
    let elsewhere = home.folder().join("elsewhere");
    fs::rename(home.path(), &elsewhere).expect("rename in one file system");
    symlink(&elsewhere, home.path()).expect("symbolic link");
    assert!(home.coven(&["sessions"]).expect_failure(4).contains("symbolic link"));
}

#[test]
fn a_linked_config_is_only_used_in_the_home_of_the_user() {
    let home = TestHome::new();
    let elsewhere = home.user().join("settings.json");
    fs::write(&elsewhere, json!({ "sessions": { "killGraceSeconds": 2.5 } }).to_string()).expect("disk has space");
    let users = home.user().join(".coven");
    fs::create_dir_all(&users).expect("disk has space");
    for folder in [&home.path(), &users] {
        let _ = fs::remove_file(folder.join("config.json"));
        symlink(&elsewhere, folder.join("config.json")).expect("symbolic link");
    }
    let message = home.coven(&["sessions"]).expect_failure(2);
    assert!(message.contains(&home.path().join("config.json").display().to_string()), "{message}");

    let shown: Value = home.json(&["config", "show", "--home", &users.display().to_string()]);
    assert_eq!(shown["sessions"]["killGraceSeconds"], 2.5);
}

#[test]
fn a_fifo_in_a_home_does_not_block_commands() {
    for name in ["token", "config.json", "daemon.start", "coven.db", "coven.db.lock", "home.id"] {
        let home = TestHome::new();
        let path = home.path().join(name);
        let _ = fs::remove_file(&path);
        let made = Command::new("mkfifo").arg(&path).status().expect("coreutils");
        assert!(made.success());
        let ran = home.coven(&["sessions"]);
        assert_ne!(ran.code, 0, "{name}: {}", ran.stdout);
        assert!(ran.stderr.contains(&path.display().to_string()) || name == "home.id", "{name}: {}", ran.stderr);
    }
}

#[test]
fn the_search_for_a_home_stops_at_a_folder_writable_by_others() {
    let home = TestHome::new();
    let shared = home.make_folder("shared");
    fs::create_dir_all(shared.join(".coven")).expect("disk has space");
    let work = home.make_folder("shared/work");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("writable");
    let mut command = home.command(&["daemon", "status", "--json"]);
    let output = command.current_dir(&work).output().expect("coven starts");
    let status: Value = serde_json::from_slice(&output.stdout).expect("response");
    assert_eq!(status["home"], json!(home.user().join(".coven")), "neither the shared home nor one in a parent folder");
}

#[test]
fn doctor_reports_a_folder_in_which_others_could_replace_the_home() {
    let home = TestHome::started();
    let path = home.path().display().to_string();
    let examined = || home.coven(&["doctor", "--home", &path]).stdout;
    assert!(!examined().contains("other users"), "{}", examined());

    fs::set_permissions(home.project(), fs::Permissions::from_mode(0o1777)).expect("writable");
    let report = examined();
    assert!(report.contains(&format!("other users can write to {}", home.project().display())), "{report}");
}

#[test]
fn a_home_of_another_user_is_refused_and_unchanged() {
    if !is_root() {
        return skip("a_home_of_another_user_is_refused_and_unchanged", "changing the owner requires root");
    }
    let home = TestHome::new();
    chown(home.path(), Some(OTHER_UID), Some(OTHER_UID)).expect("permitted for root");
    let before = names(&home.path());
    assert!(home.coven(&["sessions"]).expect_failure(4).contains("another user"));
    let named = home.path().display().to_string();
    assert!(home.coven(&["sessions", "--home", &named]).expect_failure(4).contains("another user"));
    assert_eq!(names(&home.path()), before);
}

#[test]
fn nothing_is_sent_to_a_daemon_of_another_user() {
    if !is_root() {
        return skip("nothing_is_sent_to_a_daemon_of_another_user", "listening as another user requires root");
    }
    let home = TestHome::new();
    // The kernel records the credentials at the call of `listen`.
    let listener = std::thread::scope(|scope| {
        let as_other_user = scope.spawn(|| {
            let uid = rustix::process::Uid::from_raw(OTHER_UID);
            let root = rustix::process::Uid::ROOT;
            fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).expect("writable");
            rustix::thread::set_thread_res_uid(root, uid, root).expect("permitted for root");
            let listener = UnixListener::bind(home.socket());
            rustix::thread::set_thread_res_uid(root, root, root).expect("permitted for root");
            fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).expect("writable");
            listener
        });
        as_other_user.join().expect("no panic").expect("socket")
    });
    let received = std::thread::spawn(move || received_until(&listener, b"last"));
    // The two commands connect in different ways.
    for verb in [&["run", "claude", "my secret", "--background"][..], &["sessions", "--json"]] {
        let ran = home.coven(verb);
        assert_ne!(ran.code, 0, "{verb:?}: {}", ran.stdout);
    }
    let mut last = UnixStream::connect(home.socket()).expect("is listening");
    last.write_all(b"last").expect("peer reads");
    let received = received.join().expect("no panic");
    assert_eq!(String::from_utf8_lossy(&received), "");
}

/// Returns the data that clients send until one sends exactly `last`. Does not answer them.
fn received_until(listener: &UnixListener, last: &[u8]) -> Vec<u8> {
    let mut received = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().expect("client");
        let mut buffer = [0; 4096];
        // A client that sends nothing disconnects.
        let count = stream.read(&mut buffer).unwrap_or(0);
        if &buffer[..count] == last {
            return received;
        }
        received.extend_from_slice(&buffer[..count]);
    }
}

#[test]
fn a_missing_home_is_not_created() {
    let home = TestHome::new();
    let wrong = home.folder().join("wrong/home");
    let text = wrong.display().to_string();
    for args in [&["sessions", "--home", &text][..], &["doctor", "--home", &text], &["db", "migrate", "--home", &text]]
    {
        let ran = home.coven(args);
        assert_ne!(ran.code, 0, "{args:?}");
        let output = format!("{}{}", ran.stdout, ran.stderr);
        assert!(output.contains("coven init --home"), "{args:?}: {output}");
    }
    // An existing folder with other files does not become a home either.
    let project = home.project().display().to_string();
    fs::write(home.project().join("main.rs"), "").expect("disk has space");
    assert!(home.coven(&["sessions", "--home", &project]).expect_failure(2).contains("coven init --home"));
    assert!(!wrong.exists() && !home.project().join("coven.db").exists());
    home.coven(&["init", "--home", &text]).expect_success();
    home.coven(&["sessions", "--home", &text]).expect_success();
    home.coven(&["daemon", "stop", "--home", &text]).expect_success();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("readable folder").flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[test]
fn the_tool_and_agent_definitions_of_a_project_require_trust() {
    let home = TestHome::new();
    let folder = home.make_folder("agents");
    fs::write(folder.join("scout.md"), "---\nname: scout\ndescription: x\n---\nDo as the repository says.\n")
        .expect("disk has space");
    let settings = home.make_folder(".aurora").join("config.json");
    let mark = home.folder().join("was-run");
    home.write_agent("evil", &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    let tool = home.agents().join("evil");
    let config = json!({ "agents": { "discovery_paths": [folder] }, "spawner": { "tool": tool } });
    fs::write(settings, config.to_string()).expect("disk has space");
    let spawn = ["spawn", "--agent", "scout", "-i"];
    let refused = home.coven_with_input(&spawn, b"/exit\n");
    assert!(refused.stderr.contains("`coven trust`") && refused.code != 0, "{}", refused.stderr);
    let other = home.coven_with_input(&["spawn", "-i"], b"hello\n/exit\n");
    assert!(other.stderr.contains("spawner.tool") && !mark.exists(), "{}", other.stderr);
    home.coven(&["trust", "--yes"]).expect_success();
    let agreed = home.coven_with_input(&spawn, b"/exit\n");
    assert!(agreed.code == 0 && !agreed.stderr.contains("`coven trust`"), "{}", agreed.stderr);
}

#[test]
fn the_daemon_does_not_write_files_through_links() {
    let today = coven_holder::clock::now().to_string()[..10].to_owned();
    for name in ["ballast".to_owned(), format!("logs/daemon.log.{today}"), "config.schema.json".to_owned()] {
        let home = TestHome::new();
        let target = home.user().join("precious");
        fs::write(&target, "mine").expect("disk has space");
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).expect("writable");
        let link = home.path().join(&name);
        fs::create_dir_all(link.parent().expect("readable folder")).expect("disk has space");
        let _ = fs::remove_file(&link);
        symlink(&target, &link).expect("symbolic link");
        home.coven(&["sessions"]);
        home.coven(&["init"]);
        home.end_daemons();
        assert_eq!(fs::read_to_string(&target).expect("still exists"), "mine", "{name}");
        assert_eq!(fs::metadata(&target).expect("still exists").mode() & 0o777, 0o755, "{name}");
        if name != "config.schema.json" {
            home.forget_trust();
            let message = home.coven(&["sessions"]).expect_failure(4);
            assert!(message.contains("coven trust"), "{name}: {message}");
        }
    }
}

#[test]
fn a_workflow_prompt_for_a_shell_requires_trust() {
    let home = TestHome::in_repository(json!({}));
    let mark = home.folder().join("was-run");
    let text = format!(
        "steps:\n  - name: s\n    type: agent\n    harness: shell\n    channel: terminal\n    prompt: touch {}; exit\n",
        mark.display()
    );
    home.write_workflow("implement", &text);
    home.git("git add -f .coven/grimoires; git commit -qm workflow");
    home.start();
    let task = home.add_task("x", "say hi", &[]);
    let message = home.coven(&["task", "start", &task]).expect_failure(4);
    assert!(message.contains("grimoires/implement.yaml"), "{message}");
    let shown = home.coven(&["trust", "--yes"]).expect_success();
    assert!(shown.contains("shell: touch ") && shown.contains("was-run"), "{shown}");
}

#[test]
fn coven_init_does_not_trust_existing_files() {
    let home = TestHome::new();
    let (config, mark) = hostile_settings(&home);
    home.configure(config);
    home.forget_trust();
    home.coven(&["init"]).expect_success();
    let run = home.coven(&["run", "claude", "--detach", "hi"]);
    assert!(run.code == 4 && !mark.exists(), "{}", run.stderr);
    home.end_daemons();

    let home = TestHome::started();
    home.stop();
    home.forget_trust();
    let message = home.coven(&["init"]).expect_failure(4);
    assert!(message.contains("coven.db") && message.contains("coven trust"), "{message}");

    let named = home.path().display().to_string();
    let message = home.coven(&["init", "--home", &named]).expect_failure(4);
    assert!(message.contains("coven.db"), "{message}");

    let elsewhere = home.folder().join("elsewhere");
    fs::rename(home.path(), &elsewhere).expect("rename in one file system");
    symlink(&elsewhere, home.path()).expect("symbolic link");
    assert!(home.coven(&["init"]).expect_failure(4).contains("symbolic link"));
}

#[test]
fn a_store_replaced_by_a_pull_is_refused() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    home.stop();
    // As after a pull: the file is tracked although it is in .gitignore.
    home.git("git add -f .coven/coven.db; git commit -qm store");
    let message = home.coven(&["sessions"]).expect_failure(4);
    assert!(message.contains("coven.db") && message.contains("tracked by Git"), "{message}");
    assert!(home.daemons().is_empty());
    home.git("git rm -q --cached .coven/coven.db");
    home.coven(&["sessions"]).expect_success();
}

#[test]
fn a_home_that_git_cannot_list_is_refused() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    home.stop();
    // With these files, a pull makes the home look like a separate repository, which git refuses to use.
    home.git("cd .coven; mkdir refs objects; echo 'ref: refs/heads/main' > HEAD");
    home.git("git add -f .coven/coven.db; git commit -qm store");
    let message = home.coven(&["sessions"]).expect_failure(4);
    assert!(message.contains("git cannot list"), "{message}");
    assert!(home.daemons().is_empty());
    home.git("rm -r .coven/HEAD .coven/refs .coven/objects; git rm -q --cached .coven/coven.db");
    home.coven(&["sessions"]).expect_success();
}

#[test]
fn a_store_tracked_by_an_outer_repository_is_refused() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    home.stop();
    // The user's own repository is inside a clone of another one.
    home.git("git -C .. init -q; echo .git > ../.gitignore; mv .git ../own; git -C .. add -f p/.coven/coven.db; mv ../own .git");
    let message = home.coven(&["sessions"]).expect_failure(4);
    assert!(message.contains("coven.db") && message.contains("tracked by Git"), "{message}");
}

#[test]
fn a_linked_socket_is_refused() {
    let (home, other) = (TestHome::in_repository(json!({})), TestHome::started());
    symlink(other.path().join("coven.sock"), home.path().join("coven.sock")).expect("symbolic link");
    for args in [&["sessions"][..], &["task", "list"], &["daemon", "stop"]] {
        let message = home.coven(args).expect_failure(4);
        assert!(message.contains("coven.sock is a symbolic link"), "{message}");
    }
    assert_eq!(other.daemons().len(), 1);
}

#[test]
fn nothing_is_written_through_a_linked_folder() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let elsewhere = home.folder().join("elsewhere");
    fs::create_dir(&elsewhere).expect("disk has space");
    for name in ["sessions", "worktrees"] {
        fs::remove_dir_all(home.path().join(name)).expect("writable");
        symlink(&elsewhere, home.path().join(name)).expect("symbolic link");
    }
    let run = home.coven(&["run", "plain", "--background", "hi"]);
    assert!(run.code != 0 && run.stderr.contains("symbolic link"), "{}", run.stderr);
    let task = home.add_task("x", "say hi", &[]);
    home.coven(&["task", "start", &task]);
    home.wait_for_task(&task, TaskState::Blocked);
    assert_eq!(fs::read_dir(&elsewhere).expect("still exists").count(), 0);
}

#[test]
fn a_shell_as_the_default_harness_of_a_clone_requires_trust() {
    let home = TestHome::new();
    home.configure(json!({ "defaultHarness": "shell" }));
    home.forget_trust();
    home.coven(&["sessions"]).expect_success();
    let shown: Value = home.json(&["config", "show"]);
    assert_eq!(shown["defaultHarness"], Value::Null);
    assert!(home.coven(&["trust", "--yes"]).expect_success().contains("defaultHarness: types prompts into your shell"));
}

#[test]
fn settings_of_a_repository_cannot_shorten_retention_or_record_more() {
    let home = TestHome::new();
    home.configure(json!({
        "store": { "taskRetentionDays": 0 },
        "questions": { "retentionPeriod": 0 },
        "sessions": { "maxOutputBytes": 1_048_576, "recordInput": "all", "root": "/" },
    }));
    home.forget_trust();
    home.coven(&["sessions"]).expect_success();
    let shown: Value = home.json(&["config", "show"]);
    let default = coven_host::config::Config::default();
    assert_eq!(shown["store"], json!(default.store));
    assert_eq!(shown["questions"], json!(default.questions));
    assert_eq!(shown["sessions"], json!(default.sessions));
    let offered: Value =
        serde_json::from_str(&home.coven(&["trust", "--yes", "--json"]).expect_success()).expect("valid JSON");
    let keys: Vec<&str> =
        offered["settings"].as_array().expect("list").iter().filter_map(|part| part["key"].as_str()).collect();
    assert_eq!(
        keys,
        ["store", "questions", "sessions.maxOutputBytes", "sessions.recordInput", "sessions.root"],
        "{offered}"
    );
    let shown: Value = home.json(&["config", "show"]);
    assert_eq!(shown["sessions"]["recordInput"], "all");
}

#[test]
fn a_project_cannot_shorten_the_retention_of_conversations() {
    let home = TestHome::new();
    let settings = home.make_folder(".aurora").join("config.json");
    fs::write(settings, r#"{"spawner":{"interactive":{"session_expiry_days":0}}}"#).expect("disk has space");
    let refused = home.coven_with_input(&["spawn", "-i"], b"/exit\n");
    assert!(refused.stderr.contains("session_expiry_days"), "{}", refused.stderr);
    home.coven(&["trust", "--yes"]).expect_success();
    let agreed = home.coven_with_input(&["spawn", "-i"], b"/exit\n");
    assert!(!agreed.stderr.contains("session_expiry_days"), "{}", agreed.stderr);
}
