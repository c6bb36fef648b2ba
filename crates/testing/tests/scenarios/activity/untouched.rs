//! Hooks are passed per launch: nothing in the user's home or in the repository changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use coven_harness::agents;
use coven_testing::TestHome;
use coven_testing::records::SessionRecord;
use serde_json::json;

/// Settings that users have, with hooks of their own.
const OWN_SETTINGS: [(&str, &str); 6] = [
    (".claude/settings.json", r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"true"}]}]}}"#),
    (".claude.json", "{}"),
    (".codex/config.toml", "model = \"own\"\n"),
    (".gemini/settings.json", r#"{"hooks":{}}"#),
    (".qwen/settings.json", r#"{"hooks":{}}"#),
    (".config/opencode/opencode.json", r#"{"plugin":[]}"#),
];

#[test]
fn no_launch_with_hooks_changes_the_users_home_or_the_repository() {
    let home = TestHome::in_repository(json!({}));
    let hooked: Vec<&str> = agents::ids(|agent| agent.hooks.is_ok());
    assert!(hooked.len() >= 7, "{hooked:?}");
    // Codex gets its hooks as arguments and not in files.
    let codex_args = home.agents().join("codex-args");
    home.write_agent("codex", &format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > '{}'\n", codex_args.display()));
    for id in hooked.iter().filter(|id| !home.agents().join(id).exists()) {
        home.install(id);
    }
    for (name, content) in OWN_SETTINGS {
        let file = home.user().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("room on disk");
        fs::write(file, content).expect("room on disk");
    }
    home.start();
    let before = (contents(&home.user()), contents(&home.project()));

    for id in hooked {
        let request = json!({ "harness": id, "prompt": "say hello", "cwd": home.project() });
        let session: SessionRecord = home.post("/api/v1/sessions", &request).json();
        home.wait_for_end(&session.id);
        let hooks = home.session_dir(&session.id).join("hooks");
        let reason = fs::read_to_string(hooks.join("unavailable")).ok();
        match id {
            // It accepts hooks only from folders that belong to root, and the folder for temporary files belongs to all.
            "gemini" => assert!(reason.is_some_and(|reason| reason.contains("only root can change")), "{id}"),
            _ => assert_eq!(reason, None, "{id}: it was launched without hooks"),
        }
        let has_files = fs::read_dir(&hooks).is_ok_and(|mut files| files.next().is_some());
        assert_eq!(has_files, id != "codex", "{id}: files of its hooks");
    }
    let args = fs::read_to_string(&codex_args).expect("Codex was launched");
    let args: Vec<&str> = args.lines().collect();
    let overrides: Vec<&str> = args.windows(2).filter(|pair| pair[0] == "-c").map(|pair| pair[1]).collect();
    for start in ["hooks.Stop=[{", "hooks.PermissionRequest=[{", "hooks.state={", "tui.notifications="] {
        assert!(overrides.iter().any(|setting| setting.starts_with(start)), "no {start} in {overrides:?}");
    }

    let after = (contents(&home.user()), contents(&home.project()));
    assert_eq!(before, after);
}

/// Returns every file below a folder with its content, except the home of coven.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder").flatten() {
            let path = entry.path();
            if path.file_name().is_some_and(|name| name == ".coven") {
                continue;
            }
            match entry.file_type().expect("a type") {
                kind if kind.is_dir() => folders.push(path),
                kind if kind.is_symlink() => {
                    let target = fs::read_link(&path).expect("a link");
                    files.insert(path, target.into_os_string().into_encoded_bytes());
                }
                _ => {
                    let content = fs::read(&path).expect("a file");
                    files.insert(path, content);
                }
            }
        }
    }
    files
}
