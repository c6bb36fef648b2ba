//! Homes and settings that came with a repository or archive.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use coven_testing::program::{is_root, skip};
use coven_testing::{TestHome, TestTerminal, wait_until};
use serde_json::{Value, json};

const NOBODY: u32 = 65534;

/// Settings that would start a script, and where the script leaves its mark.
fn hostile_settings(home: &TestHome) -> (Value, std::path::PathBuf) {
    let mark = home.folder().join("was-run");
    home.write_agent("evil", &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    let program = home.agents().join("evil").display().to_string();
    (json!({ "harnesses": { "claude": { "program": program } }, "permissions": { "default": "allow" } }), mark)
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port()
}

#[test]
fn a_store_that_came_with_a_repository_starts_nothing() {
    let home = TestHome::in_repository(json!({}));
    let mark = home.folder().join("was-run");
    home.write_workflow(
        "implement",
        &format!("steps:\n  - name: s\n    type: script\n    command: touch {}\n", mark.display()),
    );
    home.start();
    home.coven(&["task", "add", "waits"]).done();
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
        let message = home.coven(verb).refused(4);
        assert!(message.contains("coven.db") && message.contains("`coven trust"), "{verb:?}: {message}");
    }
    let doctor = home.coven(&["doctor"]);
    assert_ne!(doctor.code, 0);
    assert!(doctor.stdout.contains("coven trust"), "{}", doctor.stdout);
    assert!(home.daemons().is_empty() && !mark.exists());
}

#[test]
fn a_home_that_holds_only_settings_works_without_the_ones_that_run_or_open_something() {
    let home = TestHome::new();
    let (mut config, mark) = hostile_settings(&home);
    config["http"] = json!({ "listen": format!("127.0.0.1:{}", free_port()) });
    config["scheduler"] = json!({ "autoStart": true });
    config["mcp"] = json!({ "allowControl": true });
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
    assert_eq!(shown["mcp"]["allowControl"], false);
    assert_eq!(shown["sessions"]["killGraceSeconds"], 2.5, "harmless settings are in force");

    // Not the built-in claude either: the project asked for another one.
    let refused = home.coven(&["run", "claude", "say hi", "--background"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("harness \"claude\"") && refused.stderr.contains("`coven trust"),
        "{}",
        refused.stderr
    );
    home.restart();
    assert_eq!(home.health().listen, None, "the record of the home does not make its settings the user's own");
    assert!(!mark.exists());
}

#[test]
fn settings_that_git_tracks_need_agreement_to_exactly_their_content() {
    let home = TestHome::in_repository(json!({}));
    let (config, mark) = hostile_settings(&home);
    home.configure(config.clone());
    home.git("git add -f .coven/config.json; git commit -qm settings");
    home.start();
    assert_eq!(home.coven(&["run", "claude", "x", "--background"]).code, 4);
    let offered: Value = serde_json::from_str(&home.coven(&["trust", "--json"]).stdout).expect("a request");
    let keys: Vec<&str> =
        offered["settings"].as_array().expect("parts").iter().filter_map(|it| it["key"].as_str()).collect();
    assert_eq!(keys, ["harnesses.claude", "permissions"]);
    assert!(home.coven(&["trust"]).refused(4).contains("--yes"), "no terminal to ask on");

    home.coven(&["trust", "--yes"]).done();
    home.coven(&["run", "claude", "x", "--background"]).done();
    wait_until("the agreed program has run", || mark.exists());

    let mut changed = config;
    changed["harnesses"]["claude"]["args"] = json!(["--more"]);
    home.configure(changed);
    home.restart();
    let refused = home.coven(&["run", "claude", "x", "--background"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(home.coven(&["trust", "--list"]).done().contains("harnesses.claude"));
    home.coven(&["trust", "--revoke"]).done();
    assert!(home.daemons().is_empty(), "a daemon would keep them in force");
    assert!(home.coven(&["sessions"]).refused(4).contains("coven.db"));
}

#[test]
fn the_users_own_settings_stay_in_force_when_they_are_committed() {
    let home = TestHome::in_repository(json!({ "permissions": { "default": "allow" } }));
    home.start();
    home.git("git add -f .coven/config.json; git commit -qm settings");
    home.restart();
    let shown: Value = home.json(&["config", "show"]);
    assert_eq!(shown["permissions"]["default"], "allow");
    assert!(shown["harnesses"]["plain"].is_object());
}

#[test]
fn a_workflow_file_with_commands_needs_agreement() {
    let home = TestHome::in_repository(json!({}));
    let mark = home.folder().join("was-run");
    let text = format!("steps:\n  - name: s\n    type: script\n    command: touch {}\n", mark.display());
    home.write_workflow("ours", &text);
    home.git("git add -f .coven/grimoires; git commit -qm workflow");
    home.start();
    let task = home.add_task("x", "say hi", &["--workflow", "ours"]);
    let message = home.coven(&["task", "start", &task]).refused(4);
    assert!(message.contains("grimoires/ours.yaml") && message.contains("`coven trust"), "{message}");
    assert!(!mark.exists());
    home.coven(&["trust", "--yes"]).done();
    home.start_task(&task);
    wait_until("the agreed command has run", || mark.exists());
    home.wait_for_task(&task, "closed");
}

#[test]
fn a_person_is_asked_once_and_an_agent_never() {
    let home = TestHome::new();
    let (config, _) = hostile_settings(&home);
    home.configure(config);
    home.forget_trust();

    let mut terminal = TestTerminal::open(&home, &["sessions", "--plain"]);
    terminal.shows("Use all of this? [y/N]");
    assert!(terminal.text().contains("harnesses.claude: runs "), "{}", terminal.text());
    terminal.types("n\r");
    assert_eq!(terminal.wait(), 0);
    home.end_daemons();
    let mut terminal = TestTerminal::open(&home, &["sessions", "--plain"]);
    assert_eq!(terminal.wait(), 0, "the same settings are not asked about again");

    let mut inside = home.command(&["trust", "--yes"]);
    inside.env("COVEN_SESSION_ID", "1");
    let output = inside.output().expect("coven runs");
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let coven = coven_testing::program::coven().display().to_string();
    let id = home
        .launch_with(
            json!({ "argv": ["sh", "-c", format!("env -u COVEN_SESSION_ID {coven} trust --yes; echo code=$?")] }),
        )
        .id;
    assert!(home.wait_for_output(&id, "code=").contains("code=4"), "without the variable, too");

    let mut terminal = TestTerminal::open(&home, &["run", "claude", "x", "--background"]);
    assert_eq!(terminal.wait(), 4, "not even by a command that needs them");
    let mut terminal = TestTerminal::open(&home, &["trust"]);
    terminal.shows("Use all of this? [y/N]");
    terminal.types("y\r");
    assert_eq!(terminal.wait(), 0);
    home.coven(&["run", "claude", "x", "--background"]).done();
}

#[test]
fn a_command_that_needs_a_setting_asks_and_goes_on() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let (config, mark) = hostile_settings(&home);
    home.configure(config);
    home.git("git add -f .coven/config.json; git commit -qm settings");
    // Started without a terminal: the question is still open.
    home.restart();
    let mut terminal = TestTerminal::open(&home, &["run", "claude", "x", "--background"]);
    terminal.shows("Use all of this? [y/N]");
    terminal.types("y\r");
    assert_eq!(terminal.wait(), 0, "{}", terminal.text());
    wait_until("the agreed program has run", || mark.exists());
}

#[test]
fn a_link_in_a_home_is_refused_and_its_target_stays_as_it_is() {
    for name in ["token", "coven.db", "daemon.start", "logs/daemon.err", "logs", "sessions"] {
        let home = TestHome::new();
        let target = home.user().join("precious");
        match name {
            "logs" | "sessions" => fs::create_dir(&target).expect("room on disk"),
            _ => fs::write(&target, "mine").expect("room on disk"),
        }
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).expect("ours");
        fs::create_dir_all(home.path().join(name).parent().expect("a folder")).expect("room on disk");
        symlink(&target, home.path().join(name)).expect("a link");
        let message = home.coven(&["sessions"]);
        assert_ne!(message.code, 0, "{name}");
        assert_eq!(fs::metadata(&target).expect("still there").mode() & 0o777, 0o755, "{name}");
        if target.is_file() {
            assert_eq!(fs::read_to_string(&target).expect("still there"), "mine", "{name}");
        } else {
            assert_eq!(fs::read_dir(&target).expect("still there").count(), 0, "{name}");
        }
    }
    let home = TestHome::new();
    let elsewhere = home.folder().join("elsewhere");
    fs::rename(home.path(), &elsewhere).expect("one file system");
    symlink(&elsewhere, home.path()).expect("a link");
    assert!(home.coven(&["sessions"]).refused(4).contains("symbolic link"));
}

#[test]
fn a_config_that_is_a_link_is_used_in_the_users_own_home_only() {
    let home = TestHome::new();
    let elsewhere = home.user().join("settings.json");
    fs::write(&elsewhere, json!({ "sessions": { "killGraceSeconds": 2.5 } }).to_string()).expect("room on disk");
    let users = home.user().join(".coven");
    fs::create_dir_all(&users).expect("room on disk");
    for folder in [&home.path(), &users] {
        let _ = fs::remove_file(folder.join("config.json"));
        symlink(&elsewhere, folder.join("config.json")).expect("a link");
    }
    let message = home.coven(&["sessions"]).refused(2);
    assert!(message.contains(&home.path().join("config.json").display().to_string()), "{message}");

    let shown: Value = home.json(&["config", "show", "--home", &users.display().to_string()]);
    assert_eq!(shown["sessions"]["killGraceSeconds"], 2.5);
}

#[test]
fn a_fifo_in_a_home_hangs_no_command() {
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
fn the_search_for_a_home_stops_at_a_folder_that_others_can_write() {
    let home = TestHome::new();
    let shared = home.make_folder("shared");
    fs::create_dir_all(shared.join(".coven")).expect("room on disk");
    let work = home.make_folder("shared/work");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("ours");
    let mut command = home.command(&["daemon", "status", "--json"]);
    let output = command.current_dir(&work).output().expect("coven runs");
    let status: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    assert_eq!(status["home"], json!(home.user().join(".coven")), "neither the shared one nor one above it");
}

#[test]
fn doctor_names_a_folder_in_which_others_could_replace_the_home() {
    let home = TestHome::started();
    let path = home.path().display().to_string();
    let examined = || home.coven(&["doctor", "--home", &path]).stdout;
    assert!(!examined().contains("other users"), "{}", examined());

    fs::set_permissions(home.project(), fs::Permissions::from_mode(0o1777)).expect("ours");
    let below = examined();
    assert!(below.contains(&format!("other users can write to {}", home.project().display())), "{below}");
}

#[test]
fn a_home_of_another_user_is_left_as_it_is() {
    if !is_root() {
        return skip("a_home_of_another_user_is_left_as_it_is", "giving a folder away takes root");
    }
    let home = TestHome::new();
    chown(home.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    let before = names(&home.path());
    assert!(home.coven(&["sessions"]).refused(4).contains("another user"));
    let named = home.path().display().to_string();
    assert!(home.coven(&["sessions", "--home", &named]).refused(4).contains("another user"));
    assert_eq!(names(&home.path()), before);
}

#[test]
fn nothing_is_sent_to_a_daemon_of_another_user() {
    if !is_root() {
        return skip("nothing_is_sent_to_a_daemon_of_another_user", "listening as another user takes root");
    }
    let home = TestHome::new();
    // The listener's credentials are those of the process when it starts to listen.
    let listener = std::thread::scope(|scope| {
        let as_nobody = scope.spawn(|| {
            let uid = rustix::process::Uid::from_raw(NOBODY);
            let root = rustix::process::Uid::ROOT;
            fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).expect("ours");
            rustix::thread::set_thread_res_uid(root, uid, root).expect("root may");
            let listener = UnixListener::bind(home.socket());
            rustix::thread::set_thread_res_uid(root, root, root).expect("root again");
            fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).expect("ours");
            listener
        });
        as_nobody.join().expect("no panic").expect("a socket")
    });
    let received = std::thread::spawn(move || received_until(&listener, b"last"));
    // Each of them connects in its own way.
    for verb in [&["run", "claude", "my secret", "--background"][..], &["sessions", "--json"]] {
        let ran = home.coven(verb);
        assert_ne!(ran.code, 0, "{verb:?}: {}", ran.stdout);
    }
    let mut last = UnixStream::connect(home.socket()).expect("it listens");
    last.write_all(b"last").expect("it reads");
    let received = received.join().expect("no panic");
    assert_eq!(String::from_utf8_lossy(&received), "");
}

/// What the clients of a listener send, until one sends exactly `last`. Nobody is answered.
fn received_until(listener: &UnixListener, last: &[u8]) -> Vec<u8> {
    let mut received = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut buffer = [0; 4096];
        // One that sends nothing has gone, or goes.
        let count = stream.read(&mut buffer).unwrap_or(0);
        if &buffer[..count] == last {
            return received;
        }
        received.extend_from_slice(&buffer[..count]);
    }
}

#[test]
fn a_wrong_home_is_not_made() {
    let home = TestHome::new();
    let wrong = home.folder().join("wrong/home");
    let text = wrong.display().to_string();
    for args in [&["sessions", "--home", &text][..], &["doctor", "--home", &text], &["db", "migrate", "--home", &text]]
    {
        let ran = home.coven(args);
        assert_ne!(ran.code, 0, "{args:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("coven init --home"), "{args:?}: {said}");
    }
    // An existing folder that is something else is not turned into a home either.
    let project = home.project().display().to_string();
    fs::write(home.project().join("main.rs"), "").expect("room on disk");
    assert!(home.coven(&["sessions", "--home", &project]).refused(2).contains("coven init --home"));
    assert!(!wrong.exists() && !home.project().join("coven.db").exists());
    home.coven(&["init", "--home", &text]).done();
    home.coven(&["sessions", "--home", &text]).done();
    home.coven(&["daemon", "stop", "--home", &text]).done();
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[test]
fn the_tool_and_agent_definitions_that_a_project_brings_need_agreement() {
    let home = TestHome::new();
    let folder = home.make_folder("agents");
    fs::write(folder.join("scout.md"), "---\nname: scout\ndescription: x\n---\nDo as the repository says.\n")
        .expect("room on disk");
    let settings = home.make_folder(".aurora").join("config.json");
    let mark = home.folder().join("was-run");
    home.write_agent("evil", &format!("#!/bin/sh\ntouch {}\n", mark.display()));
    let tool = home.agents().join("evil");
    let config = json!({ "agents": { "discovery_paths": [folder] }, "spawner": { "tool": tool } });
    fs::write(settings, config.to_string()).expect("room on disk");
    let spawn = ["spawn", "--agent", "scout", "-i"];
    let refused = home.coven_with_input(&spawn, b"/exit\n");
    assert!(refused.stderr.contains("`coven trust`") && refused.code != 0, "{}", refused.stderr);
    let other = home.coven_with_input(&["spawn", "-i"], b"hello\n/exit\n");
    assert!(other.stderr.contains("spawner.tool") && !mark.exists(), "{}", other.stderr);
    home.coven(&["trust", "--yes"]).done();
    let agreed = home.coven_with_input(&spawn, b"/exit\n");
    assert!(agreed.code == 0 && !agreed.stderr.contains("`coven trust`"), "{}", agreed.stderr);
}

#[test]
fn files_that_the_daemon_writes_are_not_reached_through_links() {
    let today = coven_holder::clock::now().to_string()[..10].to_owned();
    for name in ["ballast".to_owned(), format!("logs/daemon.log.{today}"), "config.schema.json".to_owned()] {
        let home = TestHome::new();
        let target = home.user().join("precious");
        fs::write(&target, "mine").expect("room on disk");
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).expect("ours");
        let link = home.path().join(&name);
        fs::create_dir_all(link.parent().expect("a folder")).expect("room on disk");
        let _ = fs::remove_file(&link);
        symlink(&target, &link).expect("a link");
        home.coven(&["sessions"]);
        home.coven(&["init"]);
        home.end_daemons();
        assert_eq!(fs::read_to_string(&target).expect("still there"), "mine", "{name}");
        assert_eq!(fs::metadata(&target).expect("still there").mode() & 0o777, 0o755, "{name}");
        if name != "config.schema.json" {
            home.forget_trust();
            let message = home.coven(&["sessions"]).refused(4);
            assert!(message.contains("coven trust"), "{name}: {message}");
        }
    }
}

#[test]
fn a_prompt_that_a_repository_would_type_into_a_shell_needs_agreement() {
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
    let message = home.coven(&["task", "start", &task]).refused(4);
    assert!(message.contains("grimoires/implement.yaml"), "{message}");
    let shown = home.coven(&["trust", "--yes"]).done();
    assert!(shown.contains("shell: touch ") && shown.contains("was-run"), "{shown}");
}

#[test]
fn coven_init_does_not_agree_to_what_is_there() {
    let home = TestHome::new();
    let (config, mark) = hostile_settings(&home);
    home.configure(config);
    home.forget_trust();
    home.coven(&["init"]).done();
    let run = home.coven(&["run", "claude", "--detach", "hi"]);
    assert!(run.code == 4 && !mark.exists(), "{}", run.stderr);
    home.end_daemons();

    let home = TestHome::started();
    home.stop();
    home.forget_trust();
    let message = home.coven(&["init"]).refused(4);
    assert!(message.contains("coven.db") && message.contains("coven trust"), "{message}");

    let named = home.path().display().to_string();
    let message = home.coven(&["init", "--home", &named]).refused(4);
    assert!(message.contains("coven.db"), "{message}");

    let elsewhere = home.folder().join("elsewhere");
    fs::rename(home.path(), &elsewhere).expect("one file system");
    symlink(&elsewhere, home.path()).expect("a link");
    assert!(home.coven(&["init"]).refused(4).contains("symbolic link"));
}

#[test]
fn a_store_that_a_pull_replaced_is_not_used() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    home.stop();
    // What a pull leaves behind: the file is tracked, although Git ignores it.
    home.git("git add -f .coven/coven.db; git commit -qm store");
    let message = home.coven(&["sessions"]).refused(4);
    assert!(message.contains("coven.db") && message.contains("tracked by Git"), "{message}");
    assert!(home.daemons().is_empty());
    home.git("git rm -q --cached .coven/coven.db");
    home.coven(&["sessions"]).done();
}

#[test]
fn a_home_that_git_cannot_list_is_not_used() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    home.stop();
    // With these a pull makes the home look like a repository of its own, which git refuses to use.
    home.git("cd .coven; mkdir refs objects; echo 'ref: refs/heads/main' > HEAD");
    home.git("git add -f .coven/coven.db; git commit -qm store");
    let message = home.coven(&["sessions"]).refused(4);
    assert!(message.contains("git cannot list"), "{message}");
    assert!(home.daemons().is_empty());
    home.git("rm -r .coven/HEAD .coven/refs .coven/objects; git rm -q --cached .coven/coven.db");
    home.coven(&["sessions"]).done();
}

#[test]
fn a_repository_further_out_may_not_bring_the_store_either() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    home.stop();
    // The user's own repository lies in a clone of somebody else's.
    home.git("git -C .. init -q; echo .git > ../.gitignore; mv .git ../own; git -C .. add -f p/.coven/coven.db; mv ../own .git");
    let message = home.coven(&["sessions"]).refused(4);
    assert!(message.contains("coven.db") && message.contains("tracked by Git"), "{message}");
}

#[test]
fn a_socket_that_became_a_link_is_not_used() {
    let (home, other) = (TestHome::in_repository(json!({})), TestHome::started());
    symlink(other.path().join("coven.sock"), home.path().join("coven.sock")).expect("a link");
    for args in [&["sessions"][..], &["task", "list"], &["daemon", "stop"]] {
        let message = home.coven(args).refused(4);
        assert!(message.contains("coven.sock is a symbolic link"), "{message}");
    }
    assert_eq!(other.daemons().len(), 1);
}

#[test]
fn nothing_is_written_through_a_folder_that_became_a_link() {
    let home = TestHome::in_repository(json!({}));
    home.start();
    let elsewhere = home.folder().join("elsewhere");
    fs::create_dir(&elsewhere).expect("room on disk");
    for name in ["sessions", "worktrees"] {
        fs::remove_dir_all(home.path().join(name)).expect("ours");
        symlink(&elsewhere, home.path().join(name)).expect("a link");
    }
    let run = home.coven(&["run", "plain", "--background", "hi"]);
    assert!(run.code != 0 && run.stderr.contains("symbolic link"), "{}", run.stderr);
    let task = home.add_task("x", "say hi", &[]);
    home.coven(&["task", "start", &task]);
    home.wait_for_task(&task, "blocked");
    assert_eq!(fs::read_dir(&elsewhere).expect("still there").count(), 0);
}

#[test]
fn a_shell_as_the_default_agent_of_a_clone_needs_agreement() {
    let home = TestHome::new();
    home.configure(json!({ "defaultHarness": "shell" }));
    home.forget_trust();
    home.coven(&["sessions"]).done();
    let shown: Value = home.json(&["config", "show"]);
    assert_eq!(shown["defaultHarness"], Value::Null);
    assert!(home.coven(&["trust", "--yes"]).done().contains("defaultHarness: types prompts into your shell"));
}

#[test]
fn settings_that_a_repository_brings_do_not_delete_sooner_or_record_more() {
    let home = TestHome::new();
    home.configure(json!({
        "store": { "taskRetentionDays": 0 },
        "questions": { "retentionPeriod": 0 },
        "sessions": { "maxOutputBytes": 1_048_576, "recordInput": "all", "root": "/" },
    }));
    home.forget_trust();
    home.coven(&["sessions"]).done();
    let shown: Value = home.json(&["config", "show"]);
    let usual = coven_host::config::Config::default();
    assert_eq!(shown["store"], json!(usual.store));
    assert_eq!(shown["questions"], json!(usual.questions));
    assert_eq!(shown["sessions"], json!(usual.sessions));
    let asked: Value = serde_json::from_str(&home.coven(&["trust", "--yes", "--json"]).done()).expect("JSON");
    let keys: Vec<&str> =
        asked["settings"].as_array().expect("a list").iter().filter_map(|part| part["key"].as_str()).collect();
    assert_eq!(
        keys,
        ["store", "questions", "sessions.maxOutputBytes", "sessions.recordInput", "sessions.root"],
        "{asked}"
    );
    let shown: Value = home.json(&["config", "show"]);
    assert_eq!(shown["sessions"]["recordInput"], "all");
}

#[test]
fn a_project_does_not_shorten_how_long_conversations_are_kept() {
    let home = TestHome::new();
    let settings = home.make_folder(".aurora").join("config.json");
    fs::write(settings, r#"{"spawner":{"interactive":{"session_expiry_days":0}}}"#).expect("room on disk");
    let refused = home.coven_with_input(&["spawn", "-i"], b"/exit\n");
    assert!(refused.stderr.contains("session_expiry_days"), "{}", refused.stderr);
    home.coven(&["trust", "--yes"]).done();
    let agreed = home.coven_with_input(&["spawn", "-i"], b"/exit\n");
    assert!(!agreed.stderr.contains("session_expiry_days"), "{}", agreed.stderr);
}
