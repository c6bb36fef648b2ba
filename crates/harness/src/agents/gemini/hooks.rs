//! Hooks of Gemini CLI: a settings file with the lowest precedence adds them to the user's own. They only report.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coven_domain::activity::ActivityFact;
use coven_domain::question::{Choice, Question};
use serde_json::{Map, Value, json};

use crate::hooks::{HookMeaning, HookRequest, HookRequestBody, HookSetup, Hooks, Injection};

pub(super) static HOOKS: Hooks = Hooks { inject, read, answer: |_, _| None };

const VARIABLE: &str = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";
const FILE: &str = "system-defaults.json";
const TIMEOUT_MILLIS: u64 = 5000;

/// Events and matchers. The hook before a tool is only for the tool that asks questions.
const EVENTS: &[(&str, &str)] = &[
    ("SessionStart", "*"),
    ("BeforeAgent", "*"),
    ("AfterAgent", "*"),
    ("Notification", "*"),
    ("BeforeTool", "ask_user"),
    ("AfterTool", "*"),
];

fn inject(setup: &HookSetup<'_>) -> Result<Injection, String> {
    let settings = setup.env.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH").map(PathBuf::from);
    let settings = settings.unwrap_or_else(|| match cfg!(target_os = "macos") {
        true => "/Library/Application Support/GeminiCli/settings.json".into(),
        false => "/etc/gemini-cli/settings.json".into(),
    });
    ensure_no_defaults(setup, VARIABLE, &settings)?;
    ensure_trusted(setup.folder, 0)?;
    let env = vec![(VARIABLE.to_owned(), setup.folder.join(FILE).to_string_lossy().into_owned())];
    let files = vec![(FILE.to_owned(), settings_with_hooks(setup.coven, "gemini", EVENTS, TIMEOUT_MILLIS))];
    Ok(Injection { args: setup.args.to_vec(), env, files })
}

/// Checks that no administrator uses the settings file that coven would replace.
pub(in crate::agents) fn ensure_no_defaults(
    setup: &HookSetup<'_>,
    variable: &str,
    system_settings: &Path,
) -> Result<(), String> {
    if setup.env.contains_key(variable) {
        return Err(format!("{variable} is set already; coven does not replace that file"));
    }
    let defaults = system_settings.with_file_name(FILE);
    match defaults.exists() {
        true => Err(format!("an administrator's {} exists; coven does not replace it", defaults.display())),
        false => Ok(()),
    }
}

/// Checks what Gemini requires of the folders above the file. Otherwise it skips the file and shows a warning.
fn ensure_trusted(folder: &Path, owner: u32) -> Result<(), String> {
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    let existing = existing.canonicalize().map_err(|error| format!("cannot read {}: {error}", existing.display()))?;
    for folder in existing.ancestors() {
        let known = fs::metadata(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
        if known.uid() != owner || known.mode() & 0o022 != 0 {
            return Err(format!(
                "Gemini CLI accepts hooks only from folders that belong to root and that only root can change; {} is not",
                folder.display()
            ));
        }
    }
    Ok(())
}

/// Returns a settings file with only coven's hooks. The agent joins the lists of all its settings files.
pub(in crate::agents) fn settings_with_hooks(
    coven: &Path,
    agent: &str,
    events: &[(&str, &str)],
    timeout: u64,
) -> String {
    let mut hooks = Map::new();
    for (event, matcher) in events {
        let command = format!("{} hook {agent} {event}", quoted(coven));
        let hook = json!({ "type": "command", "command": command, "name": "coven", "timeout": timeout });
        hooks.insert((*event).to_owned(), json!([{ "matcher": matcher, "hooks": [hook] }]));
    }
    json!({ "hooks": hooks }).to_string()
}

/// Quotes a path for a POSIX shell.
pub(in crate::agents) fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

fn read(event: &str, payload: &Value) -> Vec<HookMeaning> {
    match event {
        "SessionStart" => vec![HookMeaning::Started, conversation(payload)],
        "BeforeAgent" => vec![conversation(payload), did(ActivityFact::Worked)],
        // The tool ran, so its permission or question is settled.
        "AfterTool" => vec![did(ActivityFact::Worked)],
        "AfterAgent" => vec![did(ActivityFact::TurnEnded)],
        "BeforeTool" if payload["tool_name"] == "ask_user" => {
            asked(HookRequestBody::Question { questions: questions(&payload["tool_input"]) })
        }
        "Notification" if payload["notification_type"] == "ToolPermission" => permission(&payload["details"]),
        _ => Vec::new(),
    }
}

fn permission(details: &Value) -> Vec<HookMeaning> {
    // The hook of the tool reported the questions already.
    if details["type"] == "ask_user" {
        return Vec::new();
    }
    let text = |name: &str| details[name].as_str().filter(|text| !text.is_empty());
    let title = match (text("command"), text("filePath").or_else(|| text("fileName"))) {
        (Some(command), _) => format!("wants to run: {command}"),
        (None, Some(file)) => format!("wants to change {file}"),
        (None, None) => format!("asks for permission: {}", text("title").unwrap_or("use a tool")),
    };
    asked(HookRequestBody::Permission { title, options: Vec::new(), tool_call: details.clone() })
}

/// A request that is answered in the terminal.
fn asked(body: HookRequestBody) -> Vec<HookMeaning> {
    vec![HookMeaning::Asked(HookRequest { key: None, body, is_answerable: false })]
}

/// Parses the input of a tool that asks questions; Qwen Code's has the same form.
pub(in crate::agents) fn questions(input: &Value) -> Vec<Question> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let questions = input["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let choices = |question: &Value| {
        let options = question["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        options
            .iter()
            .map(|option| Choice {
                label: text(&option["label"]),
                description: option["description"].as_str().map(str::to_owned),
            })
            .collect()
    };
    questions
        .iter()
        .map(|question| Question {
            prompt: text(&question["question"]),
            title: text(&question["header"]),
            options: choices(question),
            multi_select: question["multiSelect"] == true,
        })
        .collect()
}

pub(in crate::agents) fn conversation(payload: &Value) -> HookMeaning {
    let text = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
    let transcript = Some(text("transcript_path")).filter(|path| !path.is_empty());
    HookMeaning::Conversation { id: text("session_id"), transcript }
}

pub(in crate::agents) fn did(fact: ActivityFact) -> HookMeaning {
    HookMeaning::Activity { fact, detail: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(quoted(Path::new("/opt/it's here/coven")), r"'/opt/it'\''s here/coven'");
    }

    #[test]
    fn folders_that_others_own_or_can_change_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let owner = fs::metadata(folder.path()).expect("a folder").uid();
        let refused = ensure_trusted(&folder.path().join("sessions/1/hooks"), owner + 1).expect_err("another owner");
        assert!(refused.contains("belong to root"), "{refused}");
        // The root folder of a machine is not writable by others.
        if owner == 0 {
            assert_eq!(ensure_trusted(Path::new("/"), 0), Ok(()));
        }
    }
}
