//! How Codex is tried.

use crate::trial::{
    AcpTrial, Asking, KEY, McpTrial, Package, PrintTrial, Settings, Streaming, Surroundings, TerminalTrial, Trial,
};

pub const TRIAL: Trial = Trial {
    package: Package::npm("codex", "@openai/codex"),
    program: "node_modules/.bin/codex",
    settings,
    terminal: Some(TerminalTrial::limited(
        "its own daemon must be off, and its screen is not restored when it is killed",
    )),
    acp: &[
        AcpTrial {
            asking: Asking::WhenEscalatedIn("workspace-write"),
            limit: Some("in its first mode a model judges commands and nobody is asked; asked in mode workspace-write"),
            ..AcpTrial::new(
                "codex-acp",
                &[Package::npm("codex-acp", "@agentclientprotocol/codex-acp")],
                "node_modules/.bin/codex-acp",
            )
        },
        AcpTrial {
            identity: "codex-acp",
            asking: Asking::WhenEscalated,
            limit: Some("asks only to leave its sandbox; outlives a closed input"),
            ..AcpTrial::new(
                "codex-acp-rust",
                &[Package::npm("codex-acp-rust", "@zed-industries/codex-acp")],
                "node_modules/.bin/codex-acp",
            )
        },
    ],
    print: Some(PrintTrial { streaming: Streaming::WholeMessages, ..PrintTrial::USUAL }),
    mcp: Some(McpTrial {
        limit: Some("working off one prompt it declines every form by itself"),
        // Without the flag it refuses tools of servers when nobody can be asked.
        ..McpTrial::new("ask_user_questions", &["exec", "--dangerously-bypass-approvals-and-sandbox", "--"])
    }),
};

fn settings(at: &Surroundings) -> Settings {
    // The switch for its daemon is missing on purpose: coven's harness must bring it.
    let config = format!(
        r#"model = "stub-model"
model_provider = "stub"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
check_for_update_on_startup = false
[model_providers.stub]
name = "Stub"
base_url = "{url}/v1"
env_key = "STUB_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[projects."{project}"]
trust_level = "trusted"
"#,
        url = at.model_url,
        project = at.project.display(),
    );
    Settings { env: vec![("STUB_API_KEY", KEY.to_owned())], files: vec![(".codex/config.toml", config)] }
}
