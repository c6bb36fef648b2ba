//! The settings that coven passes to Claude Code: the user's own `--settings` with coven's hooks added.

use std::path::{Path, PathBuf};

use coven_files::{Limit, Links};
use serde_json::{Map, Value, json};

use crate::hooks::{HookSetup, Injection};

const FLAG: &str = "--settings";
const FILE: &str = "settings.json";
const USER_SETTINGS: Limit = Limit::new("the settings that --settings names", 4 << 20);
/// Claude starts with a dialog if the settings name an event that it does not know, so this list is short.
const EVENTS: [&str; 8] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Notification",
    "Stop",
    "StopFailure",
];
/// The event whose hook waits for the inbox.
const ASKING_EVENT: &str = "PermissionRequest";
/// Claude ends a hook after ten minutes by default. A request waits for a human as long as the dialog does: a week.
const WAIT_SECONDS: u32 = 7 * 24 * 3600;
/// Tools whose rules are patterns of files.
const FILE_TOOLS: [&str; 8] = ["Read", "Edit", "Write", "MultiEdit", "NotebookEdit", "Glob", "Grep", "LS"];

pub(super) fn inject(setup: &HookSetup<'_>) -> Result<Injection, String> {
    let (mut args, value) = without_settings(setup.args)?;
    let mut settings = match value {
        Some(value) => user_settings(&value, setup.cwd)?,
        None => Map::new(),
    };
    if settings.get("disableAllHooks") == Some(&Value::Bool(true)) {
        return Err("the settings passed with --settings contain disableAllHooks".to_owned());
    }
    add_hooks(&mut settings, setup.coven)?;
    args.splice(..0, [FLAG.to_owned(), setup.folder.join(FILE).to_string_lossy().into_owned()]);
    let files = vec![(FILE.to_owned(), Value::Object(settings).to_string())];
    Ok(Injection { args, env: Vec::new(), files })
}

/// Takes `--settings` out of the arguments; Claude uses the last one.
fn without_settings(args: &[String]) -> Result<(Vec<String>, Option<String>), String> {
    let (mut kept, mut value) = (Vec::new(), None);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if arg == FLAG {
            value = Some(rest.next().ok_or("--settings has no value")?.clone());
        } else if let Some(given) = arg.strip_prefix(FLAG).and_then(|arg| arg.strip_prefix('=')) {
            value = Some(given.to_owned());
        } else {
            kept.push(arg.clone());
        }
    }
    Ok((kept, value))
}

/// Reads the user's settings: JSON itself, or the path of a file.
fn user_settings(value: &str, cwd: &Path) -> Result<Map<String, Value>, String> {
    let is_json = value.trim_start().starts_with('{');
    let (text, folder) = if is_json {
        (value.to_owned(), None)
    } else {
        let path = cwd.join(value);
        let text = coven_files::read_text(&path, USER_SETTINGS, Links::Follow)
            .map_err(|error| format!("cannot read the settings passed with --settings: {error}"))?;
        (text, path.parent().map(Path::to_owned))
    };
    let mut settings: Map<String, Value> = serde_json::from_str(&text)
        .map_err(|error| format!("the settings passed with --settings are not a JSON object: {error}"))?;
    if let Some(folder) = folder {
        anchor_rules(&mut settings, &folder);
    }
    Ok(settings)
}

/// Makes rules absolute that are relative to the folder of the user's file, because the merged file is in another folder.
fn anchor_rules(settings: &mut Map<String, Value>, folder: &Path) {
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| PathBuf::from(folder));
    let Some(permissions) = settings.get_mut("permissions").and_then(Value::as_object_mut) else { return };
    for list in ["allow", "deny", "ask"] {
        for rule in permissions.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(anchored) = rule.as_str().and_then(|text| anchored(text, &folder)) {
                *rule = Value::String(anchored);
            }
        }
    }
}

/// Returns `Read(/x)` as `Read(//folder/x)`. Rules with `//`, `~/` or no slash mean the same in every file.
fn anchored(rule: &str, folder: &Path) -> Option<String> {
    let (tool, pattern) = rule.strip_suffix(')')?.split_once('(')?;
    if !FILE_TOOLS.contains(&tool) || !pattern.starts_with('/') || pattern.starts_with("//") {
        return None;
    }
    Some(format!("{tool}(/{}{pattern})", folder.to_string_lossy().trim_end_matches('/')))
}

fn add_hooks(settings: &mut Map<String, Value>, coven: &Path) -> Result<(), String> {
    let hooks = settings.entry("hooks").or_insert_with(|| json!({}));
    let hooks = hooks.as_object_mut().ok_or("hooks in the settings passed with --settings are not an object")?;
    for event in EVENTS.into_iter().chain([ASKING_EVENT]) {
        let mut command = format!("{} hook claude {event}", quoted(&coven.to_string_lossy()));
        let mut hook = Map::new();
        if event == ASKING_EVENT {
            command.push_str(" wait");
            hook.insert("timeout".to_owned(), json!(WAIT_SECONDS));
        }
        hook.insert("type".to_owned(), json!("command"));
        hook.insert("command".to_owned(), json!(command));
        let list = hooks.entry(event).or_insert_with(|| json!([]));
        let list = list.as_array_mut().ok_or_else(|| format!("the hooks for {event} in --settings are not a list"))?;
        list.push(json!({ "hooks": [hook] }));
    }
    Ok(())
}

/// Quotes a word for the shell that Claude runs hooks with.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn injected(args: &[&str], cwd: &Path) -> Result<(Vec<String>, Value), String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let setup = HookSetup {
            coven: Path::new("/opt/it's/coven"),
            folder: Path::new("/home/s1/hooks"),
            args: &args,
            env: &BTreeMap::new(),
            cwd,
        };
        let injection = inject(&setup)?;
        assert_eq!((injection.files.len(), injection.files[0].0.as_str()), (1, "settings.json"));
        Ok((injection.args, serde_json::from_str(&injection.files[0].1).expect("JSON")))
    }

    #[test]
    fn the_hooks_are_passed_in_a_file_of_the_session() {
        let (args, settings) = injected(&["--model", "opus"], Path::new("/")).expect("injected");
        assert_eq!(args, ["--settings", "/home/s1/hooks/settings.json", "--model", "opus"]);
        let hooks = settings["hooks"].as_object().expect("hooks");
        assert_eq!(hooks.len(), EVENTS.len() + 1);
        let stop = &settings["hooks"]["Stop"][0]["hooks"][0];
        assert_eq!(stop, &json!({ "type": "command", "command": r"'/opt/it'\''s/coven' hook claude Stop" }));
        let asking = &settings["hooks"]["PermissionRequest"][0]["hooks"][0];
        assert_eq!(asking["timeout"], json!(WAIT_SECONDS));
        assert!(asking["command"].as_str().is_some_and(|command| command.ends_with("PermissionRequest wait")));
    }

    #[test]
    fn settings_of_the_user_stay_complete() {
        let own = json!({
            "model": "opus",
            "hooks": {
                "Stop": [{ "hooks": [{ "type": "command", "command": "say done" }] }],
                "PreCompact": [{ "matcher": "auto", "hooks": [] }],
            },
        });
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("mine.json"), own.to_string()).expect("written");
        let inline = format!("--settings={own}");
        let given: [&[&str]; 3] =
            [&["-c", inline.as_str()], &["--settings", "mine.json", "-c"], &["--settings=x.json", "-c", &inline]];
        for args in given {
            let (args, merged) = injected(args, folder.path()).expect("merged");
            assert_eq!(args, ["--settings", "/home/s1/hooks/settings.json", "-c"]);
            assert_eq!(
                (&merged["model"], &merged["hooks"]["PreCompact"]),
                (&own["model"], &own["hooks"]["PreCompact"])
            );
            let stop = merged["hooks"]["Stop"].as_array().expect("a list");
            assert_eq!((stop.len(), &stop[0]), (2, &own["hooks"]["Stop"][0]));
        }
    }

    #[test]
    fn rules_that_are_relative_to_the_file_stay_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("it exists");
        let rules = json!(["Read(/secret/**)", "Edit(//etc/**)", "Read(~/x)", "Bash(/bin/ls:*)", "Read"]);
        std::fs::write(folder.path().join("s.json"), json!({ "permissions": { "deny": rules } }).to_string())
            .expect("written");
        let (_, merged) = injected(&["--settings", "s.json"], folder.path()).expect("merged");
        let first = format!("Read(/{}/secret/**)", real.display());
        let expected = json!([first, "Edit(//etc/**)", "Read(~/x)", "Bash(/bin/ls:*)", "Read"]);
        assert_eq!(merged["permissions"]["deny"], expected);
    }

    #[test]
    fn settings_that_cannot_be_merged_are_left_to_claude() {
        for (args, reason) in [
            (&["--settings"][..], "no value"),
            (&["--settings", "missing.json"], "cannot read"),
            (&["--settings", "{"], "not a JSON object"),
            (&["--settings", r#"{"hooks":[]}"#], "not an object"),
            (&["--settings", r#"{"hooks":{"Stop":1}}"#], "not a list"),
            (&["--settings", r#"{"disableAllHooks":true}"#], "disableAllHooks"),
        ] {
            let error = injected(args, Path::new("/nowhere")).expect_err("refused");
            assert!(error.contains(reason), "{args:?}: {error}");
        }
    }
}
