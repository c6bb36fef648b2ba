//! Qwen Code.

mod hooks;

use serde_json::json;

use super::claude::print::TEXT;
use crate::agent::{Acp, Agent, DefaultChoice, Print, Resume, Terminal};
use crate::launch::{Program, PromptStyle};
use crate::print_mode::Condition::{Is, IsTrue};
use crate::print_mode::{Counting, Rules, TroubleRule, UsageRule};
use crate::settings_file::{DAY_SECONDS, Form, McpEntry, SettingsFile};

pub(super) const DEFINITIONS: &str = ".config/qwen-coder/agents";

pub const AGENT: Agent = Agent {
    id: "qwen",
    label: "Qwen Code",
    install: "install it with: npm install -g @qwen-code/qwen-code",
    program: Program::Named("qwen"),
    identity: "qwen",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "three processes; coven signals all of them, and the last one briefly outlives the launcher",
    default_choice: DefaultChoice::Later,
    terminal: Ok(Terminal { args: &[], prompt: PromptStyle::FlagEquals("--prompt-interactive") }),
    acp: Ok(Acp::with_args(&["--acp"])),
    print: Ok(Print {
        step_args: &["--allowed-tools=write_file,edit"],
        instructions: &["--append-system-prompt", "{instructions}"],
        ..Print::new(
            &RULES,
            &["--output-format", "stream-json", "--include-partial-messages"],
            Resume::Flag("--resume"),
        )
    }),
    mcp: Ok(McpEntry {
        file: SettingsFile { variable: None, folder: ".qwen", names: &["settings.json"] },
        form: Form::JSON,
        entry: |program| json!({"command": program, "args": ["mcp"], "timeout": DAY_SECONDS * 1000}),
    }),
    hooks: Ok(&hooks::HOOKS),
    rules: Some(include_str!("screen.toml")),
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};

/// Same lines as Claude Code, except that the result's usage covers the whole session.
const RULES: Rules = Rules {
    format: "qwen-json",
    session: Some("/session_id"),
    text: TEXT,
    breaks: &[],
    usage: &[UsageRule {
        when: &[Is("/type", "assistant")],
        input: &["/message/usage/input_tokens"],
        output: &["/message/usage/output_tokens"],
        counting: Counting::Step,
    }],
    trouble: &[TroubleRule { when: &[Is("/type", "result"), IsTrue("/is_error")], at: "/error/message" }],
};

#[cfg(feature = "trial")]
mod trial {
    use serde_json::json;

    use crate::trial::{
        AcpTrial, ActivityTrial, KEY, McpTrial, OwnHook, Package, PrintTrial, Settings, Surroundings, TerminalTrial,
        Trial,
    };

    pub const TRIAL: Trial = Trial {
        package: Package::npm("qwen", "@qwen-code/qwen-code"),
        program: "node_modules/.bin/qwen",
        settings,
        terminal: Some(TerminalTrial::limited("three processes; the last one briefly outlives the launcher")),
        acp: &[AcpTrial::new("qwen", &[], "node_modules/.bin/qwen")],
        print: Some(PrintTrial::USUAL),
        mcp: Some(McpTrial::new("mcp__coven__ask_user_questions", &["--yolo", "-p"])),
        activity: Some(ActivityTrial {
            args: &["--approval-mode", "default"],
            // It adds the version of the format.
            rewrites: &[".qwen/settings.json"],
            is_bound: true,
            clear: Some("\x15"),
            ..ActivityTrial::new(Ok(prepare), "[API Error: 429")
        }),
    };

    fn prepare(hook: &OwnHook<'_>, settings: &mut Settings) {
        let entry = json!({ "matcher": "*", "hooks": [{ "type": "command", "command": hook.command() }] });
        settings.set_json(".qwen/settings.json", "hooks", json!({ "Stop": [entry] }));
        settings.set_json(".qwen/settings.json", "model", json!({}));
    }

    fn settings(at: &Surroundings) -> Settings {
        let settings = json!({
            "security": { "auth": { "selectedType": "openai" } },
            "general": { "enableAutoUpdate": false },
            // Without it, a refused request is repeated for a minute and more.
            "model": { "generationConfig": { "maxRetries": 0 } },
            "privacy": { "usageStatisticsEnabled": false },
        });
        Settings {
            env: vec![
                ("OPENAI_API_KEY", KEY.to_owned()),
                ("OPENAI_BASE_URL", format!("{}/v1", at.model_url)),
                ("OPENAI_MODEL", "stub-model".to_owned()),
            ],
            files: vec![(".qwen/settings.json", settings.to_string())],
        }
    }
}
