//! Hooks of Qwen Code: its hooks report turns, its pair of files reports requests and accepts answers.
//!
//! A permission hook of Qwen Code runs before the dialog appears and would lock the user out of the terminal.

use std::path::{Path, PathBuf};

use coven_domain::activity::ActivityFact;
use coven_domain::request::PermissionOption;
use serde_json::{Value, json};

use crate::agents::gemini::hooks::{conversation, did, ensure_no_defaults, questions, settings_with_hooks};
use crate::hooks::{
    ANSWER_FILE, HookAnswer, HookMeaning, HookRequest, HookRequestBody, HookSetup, Hooks, Injection, REPORT_FILE,
};

pub(super) static HOOKS: Hooks = Hooks { inject, read, answer };

const VARIABLE: &str = "QWEN_CODE_SYSTEM_DEFAULTS_PATH";
const FILE: &str = "system-defaults.json";
const TIMEOUT_SECONDS: u64 = 5;

/// Events and matchers. No hook for each tool, because the prompt hook also runs before each further request to the model.
const EVENTS: &[(&str, &str)] = &[
    ("SessionStart", "*"),
    ("UserPromptSubmit", "*"),
    ("PostToolBatch", "*"),
    ("Stop", "*"),
    ("StopFailure", "*"),
    ("Notification", "idle_prompt"),
];

fn inject(setup: &HookSetup<'_>) -> Result<Injection, String> {
    let mut injection = Injection { args: setup.args.to_vec(), ..Injection::default() };
    let settings = setup.env.get("QWEN_CODE_SYSTEM_SETTINGS_PATH").map(PathBuf::from);
    let settings = settings.unwrap_or_else(|| match cfg!(target_os = "macos") {
        true => "/Library/Application Support/QwenCode/settings.json".into(),
        false => "/etc/qwen-code/settings.json".into(),
    });
    let path = |name: &str| setup.folder.join(name).to_string_lossy().into_owned();
    let hooks = ensure_no_defaults(setup, VARIABLE, &settings);
    if hooks.is_ok() {
        injection.env.push((VARIABLE.to_owned(), path(FILE)));
        injection.files.push((FILE.to_owned(), settings_with_hooks(setup.coven, "qwen", EVENTS, TIMEOUT_SECONDS)));
    }
    let files = ensure_free_files(setup);
    if files.is_ok() {
        let flags = ["--json-file", REPORT_FILE, "--input-file", ANSWER_FILE];
        injection.args.extend(flags.chunks(2).flat_map(|flag| [flag[0].to_owned(), path(flag[1])]));
        // Both exist before the start: Qwen Code makes its report file readable for others, and answers that are in the
        // other one at the start do not count.
        injection.files.extend([REPORT_FILE, ANSWER_FILE].map(|name| (name.to_owned(), String::new())));
    }
    match (hooks, files) {
        (Err(hooks), Err(files)) => Err(format!("{hooks}; {files}")),
        _ => Ok(injection),
    }
}

/// Checks that the user does not use the pair of files for another program.
fn ensure_free_files(setup: &HookSetup<'_>) -> Result<(), String> {
    const TAKEN: [&str; 5] = ["--json-file", "--json-fd", "--input-file", "-p", "--prompt"];
    let name_of = |arg: &String| arg.split('=').next().unwrap_or_default().to_owned();
    if let Some(arg) = setup.args.iter().find(|arg| TAKEN.contains(&name_of(arg).as_str())) {
        return Err(format!("the arguments have {arg}"));
    }
    if setup.args.first().is_some_and(|arg| !arg.starts_with('-')) {
        return Err("the arguments are a command of Qwen Code".to_owned());
    }
    let home = setup.env.get("HOME").map(Path::new);
    let settings = home.into_iter().chain([setup.cwd]).map(|folder| folder.join(".qwen/settings.json"));
    for file in settings {
        if std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\"dualOutput\"")) {
            return Err(format!("{} has dualOutput", file.display()));
        }
    }
    Ok(())
}

fn read(event: &str, payload: &Value) -> Vec<HookMeaning> {
    match event {
        // Lines of the report file.
        "system" if payload["subtype"] == "session_start" => vec![HookMeaning::Started],
        "control_request" if payload["request"]["subtype"] == "can_use_tool" => requested(payload),
        "control_response" => {
            let key = payload["response"]["request_id"].as_str();
            key.map(|key| HookMeaning::Settled { key: Some(key.to_owned()) }).into_iter().collect()
        }
        // Calls of hooks.
        "SessionStart" => vec![HookMeaning::Started, conversation(payload)],
        // A subagent's events have its id.
        "UserPromptSubmit" if payload["agent_id"].is_null() => vec![did(ActivityFact::Worked)],
        "PostToolBatch" if payload["agent_id"].is_null() => batch_ended(payload),
        "Stop" if payload["agent_id"].is_null() => vec![running_tasks(payload), did(ActivityFact::TurnEnded)],
        "StopFailure" => vec![failed(payload)],
        // Also after Esc, which calls no other hook. It may arrive after the hook that reports a rate limit.
        "Notification" if payload["notification_type"] == "idle_prompt" => vec![did(ActivityFact::Rested)],
        _ => Vec::new(),
    }
}

fn requested(payload: &Value) -> Vec<HookMeaning> {
    let Some(key) = payload["request_id"].as_str() else { return Vec::new() };
    let request = &payload["request"];
    let tool = request["tool_name"].as_str().unwrap_or("a tool");
    let is_question = tool == "ask_user_question";
    let body = if is_question {
        HookRequestBody::Question { questions: questions(&request["input"]) }
    } else {
        let option =
            |id: &str, name: &str| PermissionOption { id: id.to_owned(), name: name.to_owned(), kind: id.to_owned() };
        HookRequestBody::Permission {
            title: title(tool, &request["input"]),
            options: vec![option("allow_once", "Allow once"), option("reject_once", "Deny and stop")],
            tool_call: request.clone(),
        }
    };
    // An answer in the file is yes or no, so the choice of a question is made in the terminal.
    vec![HookMeaning::Asked(HookRequest { key: Some(key.to_owned()), body, is_answerable: !is_question })]
}

fn title(tool: &str, input: &Value) -> String {
    let text = |name: &str| input[name].as_str();
    match (tool, text("command"), text("file_path").or_else(|| text("absolute_path"))) {
        (_, Some(command), _) => format!("wants to run: {command}"),
        ("write_file" | "edit" | "notebook_edit", None, Some(file)) => format!("wants to change {file}"),
        (_, None, Some(file)) => format!("wants to use {tool}: {file}"),
        ("exit_plan_mode", None, None) => "wants to carry out its plan".to_owned(),
        ("web_fetch", None, None) => format!("wants to fetch {}", text("url").unwrap_or("a page")),
        (_, None, None) => format!("wants to use {tool}"),
    }
}

/// A denied tool is cancelled, which ends the turn. Qwen Code often does not report it in the file.
fn batch_ended(payload: &Value) -> Vec<HookMeaning> {
    let calls = payload["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if calls.iter().all(|call| call["status"] != "cancelled") {
        return Vec::new();
    }
    vec![did(ActivityFact::Settled), HookMeaning::Settled { key: None }, did(ActivityFact::Rested)]
}

/// The end of a turn lists background tasks, the finished ones too.
fn running_tasks(payload: &Value) -> HookMeaning {
    let tasks = payload["background_tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let running = tasks.iter().filter(|task| task["status"] == "running").count();
    HookMeaning::BackgroundCount(u32::try_from(running).unwrap_or(u32::MAX))
}

fn failed(payload: &Value) -> HookMeaning {
    let fact = match payload["error"].as_str() {
        Some("rate_limit" | "billing_error") => ActivityFact::LimitReached,
        _ => ActivityFact::TurnEnded,
    };
    let detail = payload["error_details"].as_str().or_else(|| payload["error"].as_str()).map(str::to_owned);
    HookMeaning::Activity { fact, detail }
}

fn answer(payload: &Value, answer: &HookAnswer<'_>) -> Option<String> {
    let key = payload["request_id"].as_str()?;
    let is_allowed = match answer {
        HookAnswer::Option(option) => option.kind.starts_with("allow"),
        HookAnswer::Rejected => false,
        HookAnswer::Answers(_) => return None,
    };
    Some(json!({ "type": "confirmation_response", "request_id": key, "allowed": is_allowed }).to_string())
}
