//! Trial data for Gemini CLI.

use serde_json::json;

use crate::trial::{
    AcpTrial, ActivityTrial, KEY, Loading, McpTrial, Package, PrintTrial, Settings, Surroundings, Telling,
    TerminalTrial, Trial,
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
        shows_limits: false,
        limit: Some("shows nothing while it repeats a refused request, so coven reports working"),
        ..ActivityTrial::USUAL
    }),
};

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
