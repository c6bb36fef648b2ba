//! Trial data for OpenCode.

use serde_json::json;

use crate::trial::{
    AcpTrial, ActivityTrial, KEY, McpTrial, Package, PrintTrial, PromptBy, Question, Settings, Streaming, Surroundings,
    TerminalTrial, Trial,
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
        has_answers: true,
        question: Some(Question::Inbox),
        interrupt: &["\x1b", "\x1b"],
        is_bound: true,
        ..ActivityTrial::USUAL
    }),
};

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
