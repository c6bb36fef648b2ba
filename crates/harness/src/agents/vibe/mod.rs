//! Mistral Vibe.

use crate::agent::{Acp, Agent, DefaultChoice, Missing, Print, Resume, Terminal};
use crate::launch::{Program, PromptStyle};
use crate::print_mode::Condition::Is;
use crate::print_mode::{Kind, Place, Rules, TextRule};

pub const AGENT: Agent = Agent {
    id: "vibe",
    label: "Mistral Vibe",
    install: "install it with: pip install mistral-vibe",
    program: Program::Named("vibe"),
    identity: "vibe",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "the server runs in a separate process group of the same session; coven signals both",
    default_choice: DefaultChoice::Later,
    terminal: Ok(Terminal { args: &["--trust"], prompt: PromptStyle::AfterDashes }),
    acp: Ok(Acp::by_adapter("vibe-acp", "mistral-vibe")),
    print: Ok(Print::new(&RULES, &["--trust", "--output", "streaming", "-p"], Resume::Flag("--resume"))),
    mcp: Err(Missing("coven does not know where Mistral Vibe lists MCP servers; add the server there by hand")),
    hooks: Err(Missing("no documented hooks")),
    rules: None,
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};

const RULES: Rules = Rules {
    format: "vibe-json",
    session: Some("/sessionId"),
    text: &[TextRule {
        when: &[Is("/type", "message"), Is("/role", "assistant")],
        at: Place::Each("/content", "text", "/text"),
        kind: Kind::Whole,
    }],
    breaks: &[],
    usage: &[],
    trouble: &[],
};

#[cfg(feature = "trial")]
mod trial {
    use crate::trial::{
        AcpTrial, Counting, KEY, Package, PrintTrial, Settings, Streaming, Surroundings, TerminalTrial, Trial,
    };

    pub const TRIAL: Trial = Trial {
        package: Package::pip("vibe", "mistral-vibe"),
        program: "bin/vibe",
        settings,
        terminal: Some(TerminalTrial::limited("the server runs in a separate process group of the same session")),
        acp: &[AcpTrial {
            limit: Some("echoes each prompt as a user message"),
            ..AcpTrial::new("vibe", &[], "bin/vibe-acp")
        }],
        print: Some(PrintTrial {
            streaming: Streaming::WholeMessages,
            counting: Counting::NotTold,
            ..PrintTrial::USUAL
        }),
        mcp: None,
        activity: None,
    };

    fn settings(at: &Surroundings) -> Settings {
        let config = format!(
            r#"active_model = "stub"
enable_telemetry = false
enable_update_checks = false
[[providers]]
name = "stub"
api_base = "{url}/v1"
api_key_env_var = "STUB_API_KEY"
api_style = "openai"
backend = "generic"
[[models]]
name = "stub-model"
provider = "stub"
alias = "stub"
"#,
            url = at.model_url,
        );
        Settings {
            env: vec![("STUB_API_KEY", KEY.to_owned()), ("MISTRAL_API_KEY", KEY.to_owned())],
            files: vec![(".vibe/config.toml", config)],
        }
    }
}
