//! Trial data for OpenCode.

use serde_json::json;

use crate::trial::{
    AcpTrial, ActivityTrial, KEY, McpTrial, OwnHook, Package, PrintTrial, PromptBy, Question, QuestionAnswer, Settings,
    Streaming, Surroundings, TerminalTrial, Trial,
};

pub const TRIAL: Trial = Trial {
    package: Package::npm("opencode", "opencode-ai"),
    program: "node_modules/.bin/opencode",
    settings,
    terminal: Some(TerminalTrial::limited("starts slowly")),
    acp: &[AcpTrial::new("opencode", &[], "node_modules/.bin/opencode")],
    print: Some(PrintTrial { streaming: Streaming::WholeMessages, ..PrintTrial::USUAL }),
    mcp: Some(McpTrial { prompt: PromptBy::Input, ..McpTrial::new("coven_ask_user_questions", &["run", "--auto"]) }),
    activity: Some(ActivityTrial {
        question: Ok(Question { mode_keys: None, answer: QuestionAnswer::Inbox }),
        interrupt: &["\x1b", "\x1b"],
        // It adds the address of the schema.
        rewrites: &[".config/opencode/opencode.json"],
        is_bound: true,
        ..ActivityTrial::new(Ok(prepare), "retrying")
    }),
};

fn prepare(hook: &OwnHook<'_>, settings: &mut Settings) {
    let plugin = format!(
        r#"import {{ writeFileSync }} from "node:fs"
export const Own = async () => ({{
  event: async ({{ event }}) => {{
    if (event.type === "session.idle") writeFileSync({}, "")
  }},
}})
"#,
        json!(hook.marker)
    );
    settings.files.push((".config/opencode/plugin/own.js", plugin));
}

fn settings(at: &Surroundings) -> Settings {
    let config = json!({
        "autoupdate": false,
        "share": "disabled",
        "model": "stub/stub-model",
        "small_model": "stub/stub-small",
        "enabled_providers": ["stub"],
        "permission": { "bash": "ask", "edit": "ask" },
        "provider": { "stub": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Stub",
            "options": { "baseURL": format!("{}/v1", at.model_url), "apiKey": KEY },
            "models": {
                "stub-model": { "name": "Stub", "limit": { "context": 200_000, "output": 8192 } },
                "stub-small": { "name": "Small" },
            },
        } },
    });
    Settings {
        env: vec![("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()), ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned())],
        files: vec![(".config/opencode/opencode.json", config.to_string())],
    }
}
