//! Trial data for Gemini CLI.

use serde_json::json;

use crate::trial::{
    AcpTrial, ActivityTrial, KEY, LimitTrial, Loading, McpTrial, OwnHook, Package, PrintTrial, Settings, Surroundings,
    Telling, TerminalTrial, Trial,
};

pub const TRIAL: Trial = Trial {
    package: Package::npm("gemini", "@google/gemini-cli"),
    program: "node_modules/.bin/gemini",
    settings,
    terminal: Some(TerminalTrial::limited("ignores SIGTERM unless its relaunch is off")),
    acp: &[AcpTrial {
        telling: Telling::Nothing,
        loading: Loading::FromTheNextMinute,
        limit: Some(
            "loading a session within the minute of its creation destroys it, so the trial waits; \
             does not report a command's output",
        ),
        ..AcpTrial::new("gemini", &[], "node_modules/.bin/gemini")
    }],
    print: Some(PrintTrial::USUAL),
    mcp: Some(McpTrial::new("mcp_coven_ask_user_questions", &["--yolo", "-p"])),
    activity: Some(ActivityTrial {
        inbox: Err("a hook before a tool can only deny"),
        limit: LimitTrial {
            refusal: REFUSAL,
            is_hidden: Some("it retries a refused request for minutes and does not show it"),
        },
        ..ActivityTrial::new(Ok(prepare), REFUSAL)
    }),
};

const REFUSAL: &str = "[API Error: 429";

fn prepare(hook: &OwnHook<'_>, settings: &mut Settings) {
    let entry = json!({ "matcher": "*", "hooks": [{ "type": "command", "command": hook.command() }] });
    settings.set_json(".gemini/settings.json", "hooks", json!({ "AfterAgent": [entry] }));
}

fn settings(at: &Surroundings) -> Settings {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
        "general": { "enableAutoUpdate": false },
        "privacy": { "usageStatisticsEnabled": false },
    });
    Settings {
        env: vec![("GEMINI_API_KEY", KEY.to_owned()), ("GOOGLE_GEMINI_BASE_URL", at.model_url.to_owned())],
        files: vec![(".gemini/settings.json", settings.to_string())],
    }
}
