//! Trial data for Codex.

use crate::trial::{
    AcpTrial, ActivityTrial, Asking, KEY, McpTrial, OwnHook, Package, PrintTrial, Question, QuestionAnswer, Settings,
    Streaming, Surroundings, TerminalTrial, Trial,
};

pub const TRIAL: Trial = Trial {
    package: Package::npm("codex", "@openai/codex"),
    program: "node_modules/.bin/codex",
    settings,
    terminal: Some(TerminalTrial::limited(
        "the daemon of Codex must be off; a killed Codex does not restore the screen",
    )),
    acp: &[
        AcpTrial {
            asking: Asking::WhenEscalatedIn("workspace-write"),
            limit: Some("in the default mode a model approves commands; the user is asked in mode workspace-write"),
            ..AcpTrial::new(
                "codex-acp",
                &[Package::npm("codex-acp", "@agentclientprotocol/codex-acp")],
                "node_modules/.bin/codex-acp",
            )
        },
        AcpTrial {
            identity: "codex-acp",
            asking: Asking::WhenEscalated,
            limit: Some("asks only before leaving its sandbox; keeps running after its input closes"),
            ..AcpTrial::new(
                "codex-acp-rust",
                &[Package::npm("codex-acp-rust", "@zed-industries/codex-acp")],
                "node_modules/.bin/codex-acp",
            )
        },
    ],
    print: Some(PrintTrial { streaming: Streaming::WholeMessages, ..PrintTrial::USUAL }),
    mcp: Some(McpTrial {
        limit: Some("declines every form when run with a single prompt"),
        // Without the flag, Codex rejects MCP tools when it cannot ask the user.
        ..McpTrial::new("ask_user_questions", &["exec", "--dangerously-bypass-approvals-and-sandbox", "--"])
    }),
    activity: Some(ActivityTrial {
        asking: Ok("escalate"),
        inbox: Err("the hook runs before the dialog, so one that waits would lock the terminal out"),
        // Shift+Tab: Codex asks questions only in its plan mode.
        question: Ok(Question { mode_keys: Some("\x1b[Z"), answer: QuestionAnswer::Keys(&["\r"]) }),
        // It notes there which of its own hints it has shown.
        rewrites: &[".codex/config.toml"],
        is_bound: true,
        ..ActivityTrial::new(Ok(prepare), "last status: 429")
    }),
};

fn prepare(hook: &OwnHook<'_>, settings: &mut Settings) {
    let command = hook.command();
    let config = hook.home.join(".codex/config.toml");
    let hash = super::hooks::hash("stop", &command);
    let hooks = format!(
        r#"[[hooks.Stop]]
[[hooks.Stop.hooks]]
type = "command"
command = "{command}"
[hooks.state."{}:stop:0:0"]
trusted_hash = "{hash}"
"#,
        config.display()
    );
    let text = &mut settings.files[0].1;
    *text = text.replace("request_max_retries = 0\nstream_max_retries = 0\n", "");
    text.push_str(&hooks);
}

fn settings(at: &Surroundings) -> Settings {
    // Does not disable the daemon of Codex: coven's harness must do that.
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
