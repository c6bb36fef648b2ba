//! The plugin that coven passes to OpenCode, and what its calls mean.

use std::path::Path;

use coven_domain::activity::ActivityFact;
use coven_domain::question::{Choice, Question, QuestionAnswer};
use coven_domain::request::PermissionOption;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::CstRootNode;
use serde_json::{Value, json};

use crate::hooks::{HookAnswer, HookMeaning, HookRequest, HookRequestBody, HookSetup, Hooks, Injection};

pub(super) static HOOKS: Hooks = Hooks { inject, read, answer };

/// OpenCode merges this JSON with the config files of the user; lists are joined.
const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";
const PLUGIN_FILE: &str = "coven.js";
/// How the messages of failed connections start.
const UNREACHABLE: [&str; 3] = ["Cannot connect", "Connection reset", "Unable to connect"];
const PLUGIN: &str = include_str!("plugin.js");

fn inject(setup: &HookSetup<'_>) -> Result<Injection, String> {
    if setup.args.iter().any(|arg| arg == "--pure") {
        return Err("OpenCode was started with --pure, which disables plugins".to_owned());
    }
    let mut config = match setup.env.get(CONFIG).filter(|text| !text.trim().is_empty()) {
        // OpenCode accepts comments in it.
        Some(text) => CstRootNode::parse(text, &ParseOptions::default())
            .map_err(|error| format!("{CONFIG} is not valid JSON: {error}"))?
            .to_serde_value()
            .unwrap_or_else(|| json!({})),
        None => json!({}),
    };
    let url = file_url(&setup.folder.join(PLUGIN_FILE));
    let plugins = config
        .as_object_mut()
        .ok_or_else(|| format!("{CONFIG} is not a JSON object"))?
        .entry("plugin")
        .or_insert_with(|| json!([]));
    plugins.as_array_mut().ok_or_else(|| format!("plugin in {CONFIG} is not a list"))?.push(json!(url));
    let coven = json!(setup.coven.to_str().ok_or("the path of coven is not valid UTF-8")?);
    Ok(Injection {
        args: setup.args.to_vec(),
        env: vec![(CONFIG.to_owned(), config.to_string())],
        files: vec![(PLUGIN_FILE.to_owned(), format!("const coven = {coven}\n{PLUGIN}"))],
    })
}

fn file_url(path: &Path) -> String {
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'_' | b'-' | b'~' => url.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => url.push(char::from(*byte)),
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

fn read(event: &str, payload: &Value) -> Vec<HookMeaning> {
    let conversation =
        payload["conversation"].as_str().map(|id| HookMeaning::Conversation { id: id.to_owned(), transcript: None });
    let meaning = match event {
        "started" => Some(HookMeaning::Started),
        "status" => status(payload),
        "permission.asked" => Some(asked(payload, permission(payload))),
        "question.asked" => questions(payload).map(|questions| asked(payload, HookRequestBody::Question { questions })),
        "permission.replied" | "question.replied" | "question.rejected" => {
            Some(HookMeaning::Settled { key: text(&payload["requestID"]) })
        }
        _ => None,
    };
    conversation.into_iter().chain(meaning).collect()
}

fn status(payload: &Value) -> Option<HookMeaning> {
    let (fact, detail) = match payload["status"]["type"].as_str()? {
        "busy" => (ActivityFact::Worked, None),
        "retry" => retried(text(&payload["status"]["message"])),
        "idle" => ended(&payload["error"]),
        _ => return None,
    };
    Some(HookMeaning::Activity { fact, detail })
}

/// Returns what a retry means. OpenCode retries a model that refuses or is overloaded, and one that it cannot reach.
fn retried(message: Option<String>) -> (ActivityFact, Option<String>) {
    let is_unreachable = message.as_deref().is_some_and(|message| UNREACHABLE.iter().any(|it| message.starts_with(it)));
    (if is_unreachable { ActivityFact::Worked } else { ActivityFact::LimitReached }, message)
}

/// Returns how a turn ended. A turn that the user interrupted has no detail.
fn ended(error: &Value) -> (ActivityFact, Option<String>) {
    if error.is_null() || error["name"] == "MessageAbortedError" {
        return (ActivityFact::TurnEnded, None);
    }
    let message = text(&error["data"]["message"]).or_else(|| text(&error["name"]));
    match error["data"]["statusCode"].as_u64() {
        // Payment required, too many requests.
        Some(402 | 429) => (ActivityFact::LimitReached, message),
        _ => (ActivityFact::TurnEnded, message.map(|message| format!("failed: {message}"))),
    }
}

fn asked(payload: &Value, body: HookRequestBody) -> HookMeaning {
    HookMeaning::Asked(HookRequest { key: text(&payload["id"]), body, is_answerable: true })
}

fn permission(payload: &Value) -> HookRequestBody {
    let (kind, input) = (payload["permission"].as_str().unwrap_or("a tool"), &payload["metadata"]);
    let pattern = payload["patterns"][0].as_str().unwrap_or_default();
    let (verb, object, acp_kind) = match kind {
        "bash" => ("run", input["command"].as_str().unwrap_or(pattern), "execute"),
        "edit" => ("edit", input["filepath"].as_str().unwrap_or(pattern), "edit"),
        "read" => ("read", pattern, "read"),
        "webfetch" => ("fetch", input["url"].as_str().unwrap_or(pattern), "fetch"),
        "external_directory" => ("use the folder", pattern, "other"),
        _ => ("use", kind, "other"),
    };
    let tool_call = json!({ "title": format!("{verb} {object}"), "kind": acp_kind, "rawInput": input });
    HookRequestBody::Permission { title: format!("wants to {verb}: {object}"), options: options(payload), tool_call }
}

/// Returns OpenCode's own three answers; it offers "always" only with the patterns to allow.
fn options(payload: &Value) -> Vec<PermissionOption> {
    let option = |kind: &str, name: String| PermissionOption { id: kind.to_owned(), name, kind: kind.to_owned() };
    let always: Vec<&str> = payload["always"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut options = vec![option("allow_once", "Allow once".to_owned())];
    if !always.is_empty() {
        let name = format!("Allow {} until OpenCode ends", always.join(", "));
        options.push(option("allow_always", name));
    }
    options.push(option("reject_once", "Reject".to_owned()));
    options
}

fn questions(payload: &Value) -> Option<Vec<Question>> {
    let read = |question: &Value| {
        let options = question["options"]
            .as_array()?
            .iter()
            .map(|option| Some(Choice { label: text(&option["label"])?, description: text(&option["description"]) }));
        Some(Question {
            options: options.collect::<Option<_>>()?,
            prompt: text(&question["question"])?,
            title: text(&question["header"]).unwrap_or_default(),
            multi_select: question["multiple"] == true,
        })
    };
    payload["questions"].as_array()?.iter().map(read).collect()
}

fn answer(payload: &Value, answer: &HookAnswer<'_>) -> Option<String> {
    let is_question = payload["questions"].is_array();
    let decision = match answer {
        HookAnswer::Option(option) => json!({ "reply": reply(&option.id)? }),
        HookAnswer::Rejected if is_question => json!({ "reject": true }),
        HookAnswer::Rejected => json!({ "reply": "reject" }),
        HookAnswer::Answers(answers) => json!({ "answers": labels(payload["questions"].as_array()?.len(), answers) }),
    };
    Some(decision.to_string())
}

/// Returns OpenCode's name of an option.
fn reply(option: &str) -> Option<&'static str> {
    match option {
        "allow_once" => Some("once"),
        "allow_always" => Some("always"),
        "reject_once" => Some("reject"),
        _ => None,
    }
}

/// Returns the chosen labels and the user's own text for each question.
fn labels(count: usize, answers: &[QuestionAnswer]) -> Vec<Vec<&str>> {
    let mut labels = vec![Vec::new(); count];
    for answer in answers {
        if let Some(labels) = labels.get_mut(answer.question_index) {
            labels.extend(answer.selected().chain(answer.custom_text.as_deref().filter(|text| !text.is_empty())));
        }
    }
    labels
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
