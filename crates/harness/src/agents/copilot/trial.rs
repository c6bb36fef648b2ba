//! Trial data for Copilot CLI.

use serde_json::json;

use crate::trial::{
    AcpTrial, ActivityTrial, Counting, KEY, McpTrial, OwnHook, Package, PrintTrial, Settings, Surroundings,
    TerminalTrial, Trial,
};

pub const TRIAL: Trial = Trial {
    package: Package::npm("copilot", "@github/copilot"),
    program: "node_modules/.bin/copilot",
    settings,
    terminal: Some(TerminalTrial::limited("the child process briefly outlives the launcher")),
    acp: &[AcpTrial::new("copilot", &[], "node_modules/.bin/copilot")],
    print: Some(PrintTrial { counting: Counting::NotTold, ..PrintTrial::USUAL }),
    mcp: Some(McpTrial {
        limit: Some("declines every form when run with a single prompt"),
        ..McpTrial::new("coven-ask_user_questions", &["--allow-all-tools", "-p"])
    }),
    activity: Some(ActivityTrial {
        inbox: Err("its permission hook runs before its own rules and would replace them"),
        interrupt: &["\x1b[27u", "\x1b[27u"],
        // Its state; settings of the user are in another file.
        rewrites: &[".copilot/config.json"],
        ..ActivityTrial::new(Ok(prepare), "429")
    }),
};

fn prepare(hook: &OwnHook<'_>, settings: &mut Settings) {
    let hooks = json!({ "agentStop": [{ "type": "command", "bash": hook.command() }] });
    settings.set_json(".copilot/hooks/own.json", "version", json!(1));
    settings.set_json(".copilot/hooks/own.json", "hooks", hooks);
}

fn settings(at: &Surroundings) -> Settings {
    Settings {
        env: vec![
            ("COPILOT_OFFLINE", "true".to_owned()),
            ("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", at.model_url)),
            ("COPILOT_PROVIDER_API_KEY", KEY.to_owned()),
            ("COPILOT_MODEL", "stub-model".to_owned()),
            ("COPILOT_AUTO_UPDATE", "false".to_owned()),
        ],
        files: vec![(".copilot/config.json", json!({ "trustedFolders": [at.project] }).to_string())],
    }
}
