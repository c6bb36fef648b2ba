//! Trial data for Claude Code.

use serde_json::json;

use crate::trial::{
    AcpTrial, ActivityTrial, KEY, McpTrial, OwnHook, Package, PrintTrial, Question, QuestionAnswer, Settings,
    Surroundings, TerminalTrial, Trial,
};

pub const TRIAL: Trial = Trial {
    package: Package::npm("claude", "@anthropic-ai/claude-code"),
    program: "node_modules/.bin/claude",
    settings,
    terminal: Some(TerminalTrial::limited("a prompt that consists of a subcommand's name runs that subcommand")),
    acp: &[AcpTrial {
        identity: "claude-agent-acp",
        ..AcpTrial::new(
            "claude-acp",
            &[Package::npm("claude-acp", "@agentclientprotocol/claude-agent-acp")],
            "node_modules/.bin/claude-agent-acp",
        )
    }],
    print: Some(PrintTrial::USUAL),
    mcp: Some(McpTrial {
        limit: Some("the model gets the data of an answer, not the text"),
        ..McpTrial::new(
            "mcp__coven__ask_user_questions",
            &["-p", "--allowedTools", "mcp__coven__ask_user_questions", "--"],
        )
    }),
    activity: Some(ActivityTrial {
        args: &["--permission-mode", "manual"],
        question: Ok(Question { mode_keys: None, answer: QuestionAnswer::Inbox }),
        rewrites: &[".claude.json"],
        is_bound: true,
        ..ActivityTrial::new(Ok(prepare), "retrying in")
    }),
};

fn prepare(hook: &OwnHook<'_>, settings: &mut Settings) {
    let hooks = json!({ "Stop": [{ "hooks": [{ "type": "command", "command": hook.command() }] }] });
    settings.set_json(".claude/settings.json", "hooks", hooks);
}

fn settings(at: &Surroundings) -> Settings {
    // Claude identifies an approved key by its last 20 characters.
    let end_of_key = &KEY[KEY.len() - 20..];
    let state = json!({
        "hasCompletedOnboarding": true,
        "customApiKeyResponses": { "approved": [end_of_key], "rejected": [] },
        "projects": { at.project.to_string_lossy(): { "hasTrustDialogAccepted": true, "allowedTools": [] } },
    });
    Settings {
        env: vec![
            ("ANTHROPIC_BASE_URL", at.model_url.to_owned()),
            ("ANTHROPIC_API_KEY", KEY.to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ],
        files: vec![(".claude.json", state.to_string())],
    }
}
