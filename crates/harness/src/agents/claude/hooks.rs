//! What the hook calls of Claude Code mean, and how a request is answered.
//!
//! Claude shows its dialog while the hook of a permission waits, and the first answer wins. An Esc or a refusal in the
//! dialog ends the hook; an approval does not, so the title or the end of the tool closes the request.

use coven_domain::activity::ActivityFact;
use coven_domain::question::{Choice, Question, QuestionAnswer};
use coven_domain::request::PermissionOption;
use serde_json::{Map, Value, json};

use super::settings;
use crate::hooks::{HookAnswer, HookMeaning, HookRequest, HookRequestBody, Hooks};

pub(super) static HOOKS: Hooks = Hooks { inject: settings::inject, read, answer };

const QUESTION_TOOL: &str = "AskUserQuestion";
const PLAN_TOOL: &str = "ExitPlanMode";
/// Errors that end a turn because of a limit.
const LIMITS: [&str; 3] = ["rate_limit", "billing_error", "overloaded"];

fn read(event: &str, payload: &Value) -> Vec<HookMeaning> {
    let mut meanings = Vec::new();
    // A subagent has its own transcript, but the conversation is that of the session.
    if let Some(id) = text(payload, "session_id") {
        let transcript = text(payload, "transcript_path").map(str::to_owned);
        meanings.push(HookMeaning::Conversation { id: id.to_owned(), transcript });
    }
    match event {
        "SessionStart" => {
            meanings.push(HookMeaning::Started);
            // At launch a prompt may follow, so only the end of a conversation says that the agent rests.
            if text(payload, "source") == Some("clear") {
                meanings.push(HookMeaning::BackgroundCount(0));
                meanings.push(activity(ActivityFact::TurnEnded, None));
            }
        }
        "UserPromptSubmit" => meanings.push(activity(ActivityFact::Worked, None)),
        // The permission request, which follows immediately, reports a question.
        "PreToolUse" if tool(payload) == QUESTION_TOOL => {}
        "PreToolUse" => meanings.push(activity(ActivityFact::Worked, Some(doing(payload)))),
        "PostToolUse" | "PostToolUseFailure" => {
            meanings.push(HookMeaning::Settled { key: Some(key(payload)) });
            meanings.push(activity(ActivityFact::Worked, None));
        }
        "PermissionRequest" => meanings.push(HookMeaning::Asked(request(payload))),
        "Notification" => meanings.extend(notification(payload)),
        "Stop" => {
            meanings.push(HookMeaning::BackgroundCount(background(payload)));
            meanings.push(activity(ActivityFact::TurnEnded, None));
        }
        "StopFailure" => {
            let is_limit = text(payload, "error").is_some_and(|error| LIMITS.contains(&error));
            let fact = if is_limit { ActivityFact::LimitReached } else { ActivityFact::TurnEnded };
            let message = text(payload, "last_assistant_message").or_else(|| text(payload, "error"));
            meanings.push(activity(fact, message.map(str::to_owned)));
        }
        _ => {}
    }
    meanings
}

const fn activity(fact: ActivityFact, detail: Option<String>) -> HookMeaning {
    HookMeaning::Activity { fact, detail }
}

/// Notifications follow some seconds after their cause, so they add only what no other hook says.
fn notification(payload: &Value) -> Option<HookMeaning> {
    match text(payload, "notification_type")? {
        "permission_prompt" => Some(activity(ActivityFact::PermissionAsked, None)),
        "elicitation_dialog" => {
            Some(activity(ActivityFact::QuestionAsked, text(payload, "message").map(str::to_owned)))
        }
        "idle_prompt" => Some(activity(ActivityFact::Rested, None)),
        _ => None,
    }
}

/// Returns the number of background tasks that are running, and of prompts that the session has scheduled for itself: both
/// continue the work without the user.
fn background(payload: &Value) -> u32 {
    let listed = |field: &str| payload[field].as_array().into_iter().flatten();
    let is_running = |task: &&Value| matches!(text(task, "status"), Some("running" | "pending"));
    let count = listed("background_tasks").filter(is_running).count() + listed("session_crons").count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn request(payload: &Value) -> HookRequest {
    let input = &payload["tool_input"];
    // Claude shows the dialog of a background subagent only after the hook has returned.
    let is_answerable = payload.get("agent_id").is_none();
    let questions = if tool(payload) == QUESTION_TOOL { questions(input) } else { Vec::new() };
    let body = if questions.is_empty() {
        HookRequestBody::Permission { title: wish(payload), options: options(payload), tool_call: tool_call(payload) }
    } else {
        HookRequestBody::Question { questions }
    };
    HookRequest { key: Some(key(payload)), body, is_answerable }
}

/// Identifies a tool call: a permission request has no id, and the answers of a question are added to its input.
fn key(payload: &Value) -> String {
    let mut input = payload["tool_input"].clone();
    if tool(payload) == QUESTION_TOOL {
        input = input["questions"].take();
    }
    format!("{} {input}", tool(payload))
}

fn tool_call(payload: &Value) -> Value {
    json!({ "title": wish(payload), "tool": tool(payload), "rawInput": payload["tool_input"] })
}

fn options(payload: &Value) -> Vec<PermissionOption> {
    let option = |id: &str, name: String| PermissionOption { id: id.to_owned(), name, kind: id.to_owned() };
    let rules = always_rules(payload);
    let always = (!rules.is_empty()).then(|| option("allow_always", format!("Always allow: {}", rule_names(&rules))));
    let mut options = vec![option("allow_once", "Allow".to_owned())];
    options.extend(always);
    options.push(option("reject_once", "Deny".to_owned()));
    options
}

/// Returns the rules that Claude suggests. A change of the mode allows more than the request, so it is used only alone.
fn always_rules(payload: &Value) -> Vec<Value> {
    let all = payload["permission_suggestions"].as_array().cloned().unwrap_or_default();
    let rules: Vec<Value> = all.iter().filter(|it| text(it, "type") != Some("setMode")).cloned().collect();
    if rules.is_empty() { all } else { rules }
}

fn rule_names(rules: &[Value]) -> String {
    let names = rules.iter().map(|rule| {
        let scope = match text(rule, "destination") {
            Some("session") => " in this session",
            Some("localSettings") => " in this project",
            Some("projectSettings") => " for everyone in this project",
            Some("userSettings") => " everywhere",
            _ => "",
        };
        format!("{}{scope}", rule_name(rule))
    });
    names.collect::<Vec<_>>().join("; ")
}

fn rule_name(rule: &Value) -> String {
    let listed = |field: &str, name: fn(&Value) -> Option<String>| {
        let names = rule[field].as_array().into_iter().flatten().filter_map(name);
        names.collect::<Vec<_>>().join(", ")
    };
    match text(rule, "type") {
        Some("addRules") => listed("rules", |rule| {
            let tool = text(rule, "toolName")?;
            Some(text(rule, "ruleContent").map_or_else(|| tool.to_owned(), |what| format!("{tool}({what})")))
        }),
        Some("addDirectories") => format!("access to {}", listed("directories", |it| it.as_str().map(str::to_owned))),
        Some("setMode") => format!("mode {}", text(rule, "mode").unwrap_or("unknown")),
        other => other.unwrap_or("the suggested rule").to_owned(),
    }
}

fn questions(input: &Value) -> Vec<Question> {
    let choice = |choice: &Value| {
        let description = text(choice, "description").map(str::to_owned);
        Some(Choice { description, label: text(choice, "label")?.to_owned() })
    };
    let question = |question: &Value| {
        Some(Question {
            options: question["options"].as_array()?.iter().filter_map(choice).collect(),
            prompt: text(question, "question")?.to_owned(),
            title: text(question, "header").unwrap_or_default().to_owned(),
            multi_select: question["multiSelect"] == true,
        })
    };
    input["questions"].as_array().into_iter().flatten().filter_map(question).collect()
}

fn answer(payload: &Value, answer: &HookAnswer<'_>) -> Option<String> {
    let decision = match answer {
        HookAnswer::Option(option) if option.kind == "allow_always" => {
            json!({ "behavior": "allow", "updatedPermissions": always_rules(payload) })
        }
        HookAnswer::Option(option) if option.kind.starts_with("allow") => json!({ "behavior": "allow" }),
        HookAnswer::Option(_) => json!({ "behavior": "deny", "message": "The user denied this request." }),
        HookAnswer::Rejected => json!({ "behavior": "deny", "message": "The user declined to answer." }),
        HookAnswer::Answers(answers) => {
            let mut input = payload["tool_input"].clone();
            input.as_object_mut()?.insert("answers".to_owned(), Value::Object(answers_by_question(payload, answers)));
            json!({ "behavior": "allow", "updatedInput": input })
        }
    };
    Some(json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": decision } }).to_string())
}

fn answers_by_question(payload: &Value, answers: &[QuestionAnswer]) -> Map<String, Value> {
    let questions = questions(&payload["tool_input"]);
    let mut by_question: Map<String, Value> = Map::new();
    for answer in answers {
        let Some(question) = questions.get(answer.question_index) else { continue };
        let chosen = answer.selected().chain(answer.custom_text.as_deref()).filter(|it| !it.is_empty());
        let mut all: Vec<&str> = by_question.get(&question.prompt).and_then(Value::as_str).into_iter().collect();
        all.extend(chosen);
        let all = all.join(", ");
        by_question.insert(question.prompt.clone(), Value::String(all));
    }
    by_question
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str().filter(|text| !text.is_empty())
}

fn tool(payload: &Value) -> &str {
    text(payload, "tool_name").unwrap_or_default()
}

/// Returns what a tool call does, such as `("run", "runs", "cargo test")`.
fn deed(payload: &Value) -> (&'static str, &'static str, String) {
    let input = &payload["tool_input"];
    let field = |name| text(input, name).unwrap_or_default().to_owned();
    match tool(payload) {
        "Bash" | "PowerShell" => ("run", "runs", field("command")),
        "Edit" | "MultiEdit" => ("edit", "edits", field("file_path")),
        "NotebookEdit" => ("edit", "edits", field("notebook_path")),
        "Write" => ("write", "writes", field("file_path")),
        "Read" => ("read", "reads", field("file_path")),
        "Glob" | "Grep" => ("search", "searches", field("pattern")),
        "WebFetch" => ("fetch", "fetches", field("url")),
        "WebSearch" => ("search the web", "searches the web", field("query")),
        "Agent" | "Task" => ("start a subagent", "starts a subagent", field("description")),
        PLAN_TOOL => ("carry out its plan", "proposes a plan", field("plan").trim().to_owned()),
        other => ("use", "uses", other.to_owned()),
    }
}

fn wish(payload: &Value) -> String {
    let (verb, _, object) = deed(payload);
    if object.is_empty() { format!("wants to {verb}") } else { format!("wants to {verb}: {object}") }
}

fn doing(payload: &Value) -> String {
    let (_, verb, object) = deed(payload);
    if object.is_empty() { verb.to_owned() } else { format!("{verb}: {object}") }
}

#[cfg(test)]
mod tests;
