//! The extension that coven passes to Pi, and what its calls mean. Pi runs tools without asking.

use coven_domain::activity::ActivityFact;
use serde_json::{Value, json};

use crate::hooks::{HookMeaning, HookSetup, Hooks, Injection};

pub(super) static HOOKS: Hooks = Hooks { inject, read, answer: |_, _| None };

const EXTENSION_FILE: &str = "coven.js";
const EXTENSION: &str = include_str!("extension.js");
/// Subcommands that run no agent; they do not accept the flag.
const COMMANDS: [&str; 6] = ["install", "remove", "uninstall", "update", "list", "config"];
/// Texts in the errors of providers that say that a limit was reached.
const LIMITS: [&str; 6] =
    ["rate limit", "rate_limit", "quota", "usage limit", "too many requests", "insufficient credit"];

fn inject(setup: &HookSetup<'_>) -> Result<Injection, String> {
    if let Some(command) = setup.args.first().filter(|first| COMMANDS.contains(&first.as_str())) {
        return Err(format!("pi {command} runs no agent"));
    }
    let path = |path: &std::path::Path| path.to_str().map(str::to_owned);
    let file = path(&setup.folder.join(EXTENSION_FILE)).ok_or("the path of the session is not valid UTF-8")?;
    let coven = json!(path(setup.coven).ok_or("the path of coven is not valid UTF-8")?);
    let args = ["-e".to_owned(), file].into_iter().chain(setup.args.iter().cloned()).collect();
    let files = vec![(EXTENSION_FILE.to_owned(), format!("const coven = {coven}\n{EXTENSION}"))];
    Ok(Injection { args, env: Vec::new(), files })
}

fn read(event: &str, payload: &Value) -> Vec<HookMeaning> {
    let error = payload["error"].as_str();
    let (fact, detail) = match event {
        "session_start" => return started(payload),
        "working" => (ActivityFact::Worked, None),
        // Pi retries other failures.
        "failed" | "settled" if error.is_some_and(is_limit) => (ActivityFact::LimitReached, error.map(message)),
        "settled" => (ActivityFact::TurnEnded, error.map(|error| format!("failed: {}", message(error)))),
        "prompt_start" => {
            let title = payload["title"].as_str().unwrap_or("an extension waits for an answer");
            (ActivityFact::QuestionAsked, Some(format!("asks: {title}")))
        }
        "prompt_end" => (ActivityFact::Settled, None),
        _ => return Vec::new(),
    };
    vec![HookMeaning::Activity { fact, detail }]
}

fn started(payload: &Value) -> Vec<HookMeaning> {
    let transcript = payload["file"].as_str().map(str::to_owned);
    let conversation = payload["id"].as_str().map(|id| HookMeaning::Conversation { id: id.to_owned(), transcript });
    std::iter::once(HookMeaning::Started).chain(conversation).collect()
}

fn is_limit(error: &str) -> bool {
    let error = error.to_lowercase();
    let has_status = error.split(|c: char| !c.is_alphanumeric()).any(|word| matches!(word, "402" | "429"));
    has_status || LIMITS.iter().any(|limit| error.contains(limit))
}

/// Returns the provider's message from an error such as `429: {"message":"slow down"}`.
fn message(error: &str) -> String {
    let json = error.find('{').and_then(|start| serde_json::from_str::<Value>(&error[start..]).ok());
    let found = json.as_ref().and_then(|json| json["message"].as_str().or_else(|| json["error"]["message"].as_str()));
    found.unwrap_or(error).to_owned()
}
