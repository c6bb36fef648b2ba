//! Goose.

use crate::agent::{Acp, Agent, DefaultChoice, Missing, Print, Resume, Terminal};
use crate::launch::{Program, PromptStyle};
use crate::print_mode::Condition::Is;
use crate::print_mode::{Counting, Kind, Place, Rules, TextRule, TroubleRule, UsageRule};

pub const AGENT: Agent = Agent {
    id: "goose",
    label: "Goose",
    install: "install it with: npm install -g @aaif/goose-binary-linux-x64, or the package for your system",
    program: Program::Named("goose"),
    identity: "goose",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "asks about usage data on first start unless its settings already answer",
    default_choice: DefaultChoice::Later,
    terminal: Ok(Terminal { args: &["run", "--interactive"], prompt: PromptStyle::FlagEquals("--text") }),
    acp: Ok(Acp::with_args(&["acp"])),
    print: Ok(Print {
        instructions: &["--system", "{instructions}"],
        ..Print::new(
            &RULES,
            &["run", "--quiet", "--output-format", "stream-json", "-n", "{session}", "-i", "-"],
            Resume::Args(&["run", "--quiet", "--output-format", "stream-json", "-r", "-n", "{session}", "-i", "-"]),
        )
    }),
    mcp: Err(Missing("coven cannot edit YAML; add the server as an extension of Goose by hand")),
    hooks: Err(Missing("hooks can only be added to the user's own plugin folder")),
    rules: Some(include_str!("screen.toml")),
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};

const RULES: Rules = Rules {
    format: "goose-json",
    session: None,
    text: &[TextRule {
        when: &[Is("/type", "message"), Is("/message/role", "assistant")],
        at: Place::Each("/message/content", "text", "/text"),
        kind: Kind::Piece,
    }],
    breaks: &[&[Is("/type", "message"), Is("/message/role", "user")]],
    usage: &[UsageRule {
        when: &[Is("/type", "complete")],
        input: &["/input_tokens"],
        output: &["/output_tokens"],
        counting: Counting::Session,
    }],
    trouble: &[TroubleRule { when: &[Is("/type", "error")], at: "/error" }],
};

#[cfg(feature = "trial")]
mod trial {
    use crate::trial::{
        AcpTrial, ActivityTrial, Cancelling, Failing, KEY, Package, PrintTrial, Settings, Surroundings, TerminalTrial,
        Trial,
    };

    const PROGRAM: &str = "node_modules/@aaif/goose-binary-linux-x64/bin/goose";

    pub const TRIAL: Trial = Trial {
        package: Package::npm("goose", "@aaif/goose-binary-linux-x64"),
        program: PROGRAM,
        settings,
        terminal: Some(TerminalTrial::limited(
            "asks about usage data on first start unless its settings already answer",
        )),
        acp: &[AcpTrial {
            cancelling: Cancelling::MaySayEndTurn,
            limit: Some(
                "keeps running after its input closes; \
                 up to 1.34 it reports end_turn for a cancelled turn and no version",
            ),
            ..AcpTrial::new("goose", &[], PROGRAM)
        }],
        print: Some(PrintTrial { failing: Failing::AnswersIt, ..PrintTrial::USUAL }),
        mcp: None,
        activity: Some(ActivityTrial {
            prompt: Some("say ready"),
            // Goose shows that it works only until the first word of an answer, which takes a real model a moment.
            working: "hang 1 ;; slow 16 250",
            inbox: Err("coven passes no hooks to it"),
            question: Err("it has no tool that asks the user"),
            interrupt: &["\x03"],
            ..ActivityTrial::new(Err("coven passes no hooks to it"), "Rate limit exceeded")
        }),
    };

    fn settings(at: &Surroundings) -> Settings {
        let config = "GOOSE_TELEMETRY_ENABLED: false
extensions:
  developer:
    enabled: true
    type: builtin
    name: developer
    timeout: 300
";
        Settings {
            env: vec![
                ("OPENAI_HOST", at.model_url.to_owned()),
                ("OPENAI_API_KEY", KEY.to_owned()),
                ("GOOSE_DISABLE_KEYRING", "1".to_owned()),
                ("GOOSE_PROVIDER", "openai".to_owned()),
                ("GOOSE_MODEL", "stub-model".to_owned()),
                ("GOOSE_MODE", "approve".to_owned()),
            ],
            files: vec![(".config/goose/config.yaml", config.to_owned())],
        }
    }
}
