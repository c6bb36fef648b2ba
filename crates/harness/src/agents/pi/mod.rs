//! Pi.

mod hooks;

use crate::agent::{Acp, Agent, DefaultChoice, Missing, Print, Resume, Terminal};
use crate::launch::{Program, PromptStyle};
use crate::print_mode::Condition::Is;
use crate::print_mode::{Counting, Kind, Place, Rules, TextRule, TroubleRule, UsageRule};

pub const AGENT: Agent = Agent {
    id: "pi",
    label: "Pi",
    // 1.x depends on a package that is not in the registry.
    install: "install it with: npm install -g @earendil-works/pi-coding-agent@0.87.1",
    program: Program::Named("pi"),
    identity: "pi",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "the command line is just `pi`, so a restarted daemon recognizes it mainly by pid and start time",
    default_choice: DefaultChoice::Later,
    terminal: Ok(Terminal { args: &[], prompt: PromptStyle::AfterDashes }),
    acp: Ok(Acp::by_adapter("pi-acp", "pi-acp")),
    print: Ok(Print {
        instructions: &["--append-system-prompt", "{instructions}"],
        ..Print::new(
            &RULES,
            &["-p", "--mode", "json", "--session-id", "{session}"],
            Resume::Args(&["-p", "--mode", "json", "--session", "{session}"]),
        )
    }),
    mcp: Err(Missing("coven does not know an MCP server setting of Pi")),
    hooks: Ok(&hooks::HOOKS),
    rules: Some(include_str!("screen.toml")),
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};

const RULES: Rules = Rules {
    format: "pi-json",
    session: None,
    text: &[
        TextRule {
            when: &[Is("/type", "message_update"), Is("/assistantMessageEvent/type", "text_delta")],
            at: Place::At("/assistantMessageEvent/delta"),
            kind: Kind::Piece,
        },
        TextRule {
            when: &[Is("/type", "message_end"), Is("/message/role", "assistant")],
            at: Place::Each("/message/content", "text", "/text"),
            kind: Kind::Whole,
        },
    ],
    breaks: &[],
    usage: &[UsageRule {
        when: &[Is("/type", "message_end"), Is("/message/role", "assistant")],
        input: &["/message/usage/input", "/message/usage/cacheRead", "/message/usage/cacheWrite"],
        output: &["/message/usage/output"],
        counting: Counting::Step,
    }],
    trouble: &[TroubleRule { when: &[Is("/type", "message_end")], at: "/message/errorMessage" }],
};

#[cfg(feature = "trial")]
mod trial {
    use serde_json::json;

    use crate::trial::{
        AcpTrial, ActivityTrial, Asking, Failing, KEY, OwnHook, Package, PrintTrial, Settings, Surroundings,
        TerminalTrial, Trial,
    };

    // 1.x depends on a package that is not in the registry.
    const PACKAGE: Package =
        Package { version: Some("0.87.1"), ..Package::npm("pi", "@earendil-works/pi-coding-agent") };

    pub const TRIAL: Trial = Trial {
        package: PACKAGE,
        program: "node_modules/.bin/pi",
        settings,
        terminal: Some(TerminalTrial::limited("the command line is just `pi`, which identifies it poorly")),
        acp: &[AcpTrial {
            asking: Asking::Never,
            limit: Some("never asks for permission"),
            // The adapter starts `pi`.
            ..AcpTrial::new("pi-acp", &[Package::npm("pi-acp", "pi-acp"), PACKAGE], "node_modules/.bin/pi-acp")
        }],
        print: Some(PrintTrial { failing: Failing::SaysSo, ..PrintTrial::USUAL }),
        mcp: None,
        activity: Some(ActivityTrial {
            asking: Err("it runs tools without asking"),
            inbox: Err("it runs tools without asking"),
            question: Err("it has no tool that asks the user"),
            // It notes the version whose changes it has shown.
            rewrites: &[".pi/agent/settings.json"],
            ..ActivityTrial::new(Ok(prepare), "429")
        }),
    };

    fn prepare(hook: &OwnHook<'_>, settings: &mut Settings) {
        let extension = format!(
            r#"import {{ writeFileSync }} from "node:fs"
export default (pi) => pi.on("agent_end", () => writeFileSync({}, ""))
"#,
            json!(hook.marker)
        );
        settings.files.push((".pi/agent/extensions/own.js", extension));
    }

    fn settings(at: &Surroundings) -> Settings {
        let model = json!({
            "id": "stub-model",
            "name": "Stub",
            "reasoning": false,
            "input": ["text"],
            "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0 },
            "contextWindow": 200_000,
            "maxTokens": 8192,
        });
        let models = json!({ "providers": { "stub": {
            "baseUrl": format!("{}/v1", at.model_url),
            "apiKey": KEY,
            "api": "openai-completions",
            "models": [model],
        } } });
        let settings = json!({ "defaultProvider": "stub", "defaultModel": "stub-model" });
        Settings {
            env: vec![("PI_OFFLINE", "1".to_owned()), ("PI_SKIP_VERSION_CHECK", "1".to_owned())],
            files: vec![
                (".pi/agent/models.json", models.to_string()),
                (".pi/agent/settings.json", settings.to_string()),
            ],
        }
    }
}
