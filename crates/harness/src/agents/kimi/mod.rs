//! Kimi Code.

use crate::agent::{Acp, Agent, DefaultChoice, Missing, Print, Resume, Terminal};
use crate::launch::{Program, PromptStyle};
use crate::print_mode::Condition::Is;
use crate::print_mode::{Kind, Place, PrintPrompt, Rules, TextRule};

pub const AGENT: Agent = Agent {
    id: "kimi",
    label: "Kimi Code",
    install: "install it with: npm install -g @moonshot-ai/kimi-code",
    program: Program::Named("kimi"),
    identity: "kimi",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "does not accept a prompt as an argument, so coven types it; first asks whether to trust a new folder",
    default_choice: DefaultChoice::Later,
    terminal: Ok(Terminal { args: &[], prompt: PromptStyle::Typed }),
    acp: Ok(Acp::with_args(&["acp"])),
    print: Ok(Print {
        prompt: PrintPrompt::FlagEquals("--prompt"),
        ..Print::new(&RULES, &["--output-format", "stream-json"], Resume::Flag("--session"))
    }),
    mcp: Err(Missing("coven does not know where Kimi Code lists MCP servers; add the server there by hand")),
    hooks: Err(Missing("hooks can only be added to the user's own config file")),
    rules: Some(include_str!("screen.toml")),
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};

const RULES: Rules = Rules {
    format: "kimi-json",
    session: Some("/session_id"),
    text: &[TextRule { when: &[Is("/role", "assistant")], at: Place::At("/content"), kind: Kind::Whole }],
    breaks: &[],
    usage: &[],
    trouble: &[],
};

#[cfg(feature = "trial")]
mod trial {
    use crate::trial::{
        AcpTrial, ActivityTrial, Counting, FirstPrompt, KEY, Package, PrintTrial, Question, QuestionAnswer, Settings,
        Streaming, Surroundings, TerminalTrial, Trial,
    };

    pub const TRIAL: Trial = Trial {
        package: Package::npm("kimi", "@moonshot-ai/kimi-code"),
        program: "node_modules/.bin/kimi",
        settings,
        terminal: Some(TerminalTrial {
            first_prompt: FirstPrompt::Typed { dialog: "Trust this folder?", ready: "No session yet" },
            limit: Some("does not accept a prompt as an argument; asks whether to trust a new folder"),
        }),
        acp: &[AcpTrial::new("kimi", &[], "node_modules/.bin/kimi")],
        print: Some(PrintTrial {
            streaming: Streaming::WholeMessages,
            counting: Counting::NotTold,
            ..PrintTrial::USUAL
        }),
        mcp: None,
        activity: Some(ActivityTrial {
            start: FirstPrompt::Typed { dialog: "Trust this folder?", ready: "No session yet" },
            inbox: Err("coven passes no hooks to it"),
            // The second one submits the answers.
            question: Ok(Question { mode_keys: None, answer: QuestionAnswer::Keys(&["\r", "\r"]) }),
            ..ActivityTrial::new(Err("its hooks can only be set in the user's own config file"), "429")
        }),
    };

    fn settings(at: &Surroundings) -> Settings {
        let config = format!(
            r#"default_model = "stub"
default_permission_mode = "manual"
telemetry = false
[providers.stub]
type = "openai"
base_url = "{url}/v1"
api_key = "{KEY}"
[models.stub]
provider = "stub"
model = "stub-model"
max_context_size = 200000
capabilities = ["tool_use", "thinking"]
"#,
            url = at.model_url,
        );
        Settings { env: vec![], files: vec![(".kimi-code/config.toml", config)] }
    }
}
