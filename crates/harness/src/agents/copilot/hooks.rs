//! Hooks of Copilot CLI: a plugin folder that is loaded for one launch. They only report.
//!
//! Its permission hook runs before its own rules, so an answer would replace rules that allow or deny without asking.

use coven_domain::activity::ActivityFact;
use serde_json::{Map, Value, json};

use crate::agents::gemini::hooks::{did, quoted};
use crate::hooks::{HookMeaning, HookRequest, HookRequestBody, HookSetup, Hooks, Injection};

pub(super) static HOOKS: Hooks = Hooks { inject, read, answer: |_, _| None };

const TIMEOUT_SECONDS: u64 = 5;
const EVENTS: &[&str] =
    &["sessionStart", "userPromptSubmitted", "postToolUse", "agentStop", "errorOccurred", "notification"];

fn inject(setup: &HookSetup<'_>) -> Result<Injection, String> {
    if setup.args.first().is_some_and(|arg| !arg.starts_with('-')) {
        return Err("the arguments are a command of Copilot CLI".to_owned());
    }
    let mut hooks = Map::new();
    for event in EVENTS {
        let command = format!("{} hook copilot {event}", quoted(setup.coven));
        hooks.insert(
            (*event).to_owned(),
            json!([{ "type": "command", "bash": command, "timeoutSec": TIMEOUT_SECONDS }]),
        );
    }
    let plugin = json!({
        "name": "coven",
        "version": "1.0.0",
        "description": "Reports to coven what the agent does.",
        "hooks": "hooks.json",
    });
    let mut args = setup.args.to_vec();
    args.extend(["--plugin-dir".to_owned(), setup.folder.to_string_lossy().into_owned()]);
    let files = vec![
        ("plugin.json".to_owned(), plugin.to_string()),
        ("hooks.json".to_owned(), json!({ "version": 1, "hooks": hooks }).to_string()),
    ];
    Ok(Injection { args, env: Vec::new(), files })
}

fn read(event: &str, payload: &Value) -> Vec<HookMeaning> {
    match event {
        "sessionStart" => vec![HookMeaning::Started, conversation(payload)],
        "userPromptSubmitted" => vec![did(ActivityFact::Worked)],
        // The tool ran, so its permission or question is settled.
        "postToolUse" => vec![did(ActivityFact::Worked)],
        "agentStop" => vec![conversation(payload), did(ActivityFact::TurnEnded)],
        "errorOccurred" => failed(payload),
        "notification" => notified(payload),
        _ => Vec::new(),
    }
}

fn conversation(payload: &Value) -> HookMeaning {
    let text = |name: &str| payload[name].as_str().map(str::to_owned);
    HookMeaning::Conversation { id: text("sessionId").unwrap_or_default(), transcript: text("transcriptPath") }
}

fn notified(payload: &Value) -> Vec<HookMeaning> {
    let message = payload["message"].as_str().unwrap_or_default();
    match payload["notification_type"].as_str() {
        Some("permission_prompt") => {
            let title = match message.strip_prefix("Run command: ") {
                Some(command) => format!("wants to run: {command}"),
                None => format!("asks for permission: {message}"),
            };
            let body = HookRequestBody::Permission { title, options: Vec::new(), tool_call: payload.clone() };
            vec![HookMeaning::Asked(HookRequest { key: None, body, is_answerable: false })]
        }
        Some("elicitation_dialog") => {
            let detail = Some(message.to_owned());
            vec![HookMeaning::Activity { fact: ActivityFact::QuestionAsked, detail }]
        }
        _ => Vec::new(),
    }
}

/// An error during a request to the model. Copilot CLI retries some of them for a minute and then calls no further hook.
fn failed(payload: &Value) -> Vec<HookMeaning> {
    let error = payload["error"]["message"].as_str().unwrap_or_default();
    // A provider's error is JSON with a code and a message.
    let parsed: Value = serde_json::from_str(error).unwrap_or_default();
    let code = parsed["code"].as_str().map(str::to_owned).or_else(|| parsed["code"].as_u64().map(|it| it.to_string()));
    let message = parsed["message"].as_str().unwrap_or(error);
    let lower = error.to_lowercase();
    let is_limit = matches!(code.as_deref(), Some("429" | "402" | "rate_limit_exceeded" | "insufficient_quota"))
        || ["rate limit", "ratelimit", "quota", "too many requests"].iter().any(|text| lower.contains(text));
    if !is_limit {
        return Vec::new();
    }
    vec![HookMeaning::Activity { fact: ActivityFact::LimitReached, detail: Some(message.to_owned()) }]
}
