//! The clients and agents that are tried against `coven mcp`, as data.

use super::super::choice::Candidate;
use super::super::install::Package;
use super::super::settings::{self, Settings, Surroundings};

pub enum Subject {
    Client(SdkClient),
    Agent(McpAgent),
}

/// The client of an official SDK, driven by a script of ours.
pub struct SdkClient {
    pub name: &'static str,
    pub package: Package,
    pub script: Script,
    /// The revision of the protocol to insist on; the one that both agree on if there is none.
    pub revision: Option<&'static str>,
    pub giving_up: GivingUp,
    pub limit: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// The package has changed its name with its second version.
    TypeScript {
        line: &'static str,
    },
    Python,
}

/// What a client does with a call that takes long, if nobody tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivingUp {
    /// It gives up after a minute, or a minute after the last sign of life where it is asked to heed those.
    AfterAMinute,
    Never,
}

/// An agent with `coven mcp` in its own settings.
pub struct McpAgent {
    /// As `coven mcp install` knows it.
    pub name: &'static str,
    pub package: Package,
    /// The program, below the folder it is installed in.
    pub program: &'static str,
    /// What makes it work off one prompt without asking for permission.
    pub args: &'static [&'static str],
    pub prompt: PromptBy,
    /// What makes it run against the stub model.
    pub settings: fn(&Surroundings) -> Settings,
    pub env: &'static [(&'static str, &'static str)],
    /// The file that gets the entry, below the home.
    pub file: &'static str,
    /// What it calls the tool towards its model.
    pub tool: &'static str,
    pub limit: Option<&'static str>,
}

/// How the prompt gets to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptBy {
    Argument,
    /// It changes quotes in arguments.
    Input,
}

impl McpAgent {
    fn new(
        name: &'static str,
        package: &'static str,
        program: &'static str,
        args: &'static [&'static str],
        settings: fn(&Surroundings) -> Settings,
        (file, tool): (&'static str, &'static str),
    ) -> Self {
        let package = Package::npm(name, package);
        Self { name, package, program, args, prompt: PromptBy::Argument, settings, env: &[], file, tool, limit: None }
    }
}

impl Candidate for Subject {
    fn name(&self) -> &'static str {
        match self {
            Self::Client(client) => client.name,
            Self::Agent(agent) => agent.name,
        }
    }

    fn package(&mut self) -> &mut Package {
        match self {
            Self::Client(client) => &mut client.package,
            Self::Agent(agent) => &mut agent.package,
        }
    }
}

/// The revision in which a server cannot ask its client anything by itself.
const WITHOUT_REQUESTS: &str = "2026-07-28";

pub fn all() -> Vec<Subject> {
    clients().into_iter().map(Subject::Client).chain(agents().into_iter().map(Subject::Agent)).collect()
}

fn clients() -> Vec<SdkClient> {
    let typescript = |name, folder, package, line| SdkClient {
        name,
        package: Package::npm(folder, package),
        script: Script::TypeScript { line },
        revision: None,
        giving_up: GivingUp::AfterAMinute,
        limit: None,
    };
    let python = |name| SdkClient {
        name,
        package: Package::pip("mcp-sdk-python", "mcp"),
        script: Script::Python,
        revision: None,
        giving_up: GivingUp::Never,
        limit: Some("no limit of its own for a call"),
    };
    let newest = Some(WITHOUT_REQUESTS);
    vec![
        SdkClient {
            limit: Some("speaks no revision after 2025-11-25; the second line of the SDK does"),
            ..typescript("sdk-ts", "mcp-sdk-ts", "@modelcontextprotocol/sdk", "sdk")
        },
        SdkClient {
            revision: newest,
            limit: Some("a form cannot be taken back in this revision; its end brings the answer given elsewhere"),
            ..typescript("sdk-ts-2", "mcp-client-ts", "@modelcontextprotocol/client", "client")
        },
        python("sdk-python"),
        SdkClient {
            revision: newest,
            limit: Some("as sdk-ts-2; no limit of its own for a call"),
            ..python("sdk-python-2")
        },
    ]
}

fn agents() -> Vec<McpAgent> {
    vec![
        McpAgent {
            limit: Some("its model gets the data of an answer, not the text"),
            ..McpAgent::new(
                "claude",
                "@anthropic-ai/claude-code",
                "node_modules/.bin/claude",
                &["-p", "--allowedTools", "mcp__coven__ask_user_questions", "--"],
                settings::claude,
                (".claude.json", "mcp__coven__ask_user_questions"),
            )
        },
        McpAgent {
            limit: Some("working off one prompt it declines every form by itself"),
            ..McpAgent::new(
                "codex",
                "@openai/codex",
                "node_modules/.bin/codex",
                // It refuses tools of servers otherwise when nobody can be asked.
                &["exec", "--dangerously-bypass-approvals-and-sandbox", "--"],
                settings::codex,
                (".codex/config.toml", "ask_user_questions"),
            )
        },
        McpAgent {
            // As coven's harness sets it.
            env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
            ..McpAgent::new(
                "gemini",
                "@google/gemini-cli",
                "node_modules/.bin/gemini",
                &["--yolo", "-p"],
                settings::gemini,
                (".gemini/settings.json", "mcp_coven_ask_user_questions"),
            )
        },
        McpAgent {
            prompt: PromptBy::Input,
            ..McpAgent::new(
                "opencode",
                "opencode-ai",
                "node_modules/.bin/opencode",
                &["run", "--auto"],
                settings::opencode,
                (".config/opencode/opencode.json", "coven_ask_user_questions"),
            )
        },
        McpAgent::new(
            "qwen",
            "@qwen-code/qwen-code",
            "node_modules/.bin/qwen",
            &["--yolo", "-p"],
            settings::qwen,
            (".qwen/settings.json", "mcp__coven__ask_user_questions"),
        ),
        McpAgent {
            limit: Some("working off one prompt it declines every form by itself"),
            ..McpAgent::new(
                "copilot",
                "@github/copilot",
                "node_modules/.bin/copilot",
                &["--allow-all-tools", "-p"],
                settings::copilot,
                (".copilot/mcp-config.json", "coven-ask_user_questions"),
            )
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn clients_and_agents_have_names_of_their_own() {
        let names: BTreeSet<&str> = all().iter().map(Candidate::name).collect();
        assert_eq!(names.len(), all().len());
    }
}
