//! Cline.

use crate::agent::{Acp, Agent, DefaultChoice, Missing};
use crate::launch::Program;

pub(super) const DEFINITIONS: &str = ".cline/agents";

pub const AGENT: Agent = Agent {
    id: "cline",
    label: "Cline",
    install: "install it with: npm install -g cline",
    program: Program::Named("cline"),
    identity: "cline",
    env: &[],
    version_args: &["--version"],
    grace_seconds: None,
    note: "needs a vendor account to open a session over ACP",
    // Cline does not work without an account, and coven cannot detect one.
    default_choice: DefaultChoice::Never,
    terminal: Err(Missing("not tested with coven in a terminal; set harnesses.cline.prompt in the config")),
    acp: Ok(Acp::with_args(&["--acp"])),
    print: Err(Missing("not tested with coven in print mode; set harnesses.cline.print in the config")),
    mcp: Err(Missing("coven does not know where Cline lists MCP servers; add the server there by hand")),
    hooks: Err(Missing("coven starts it only over ACP, which reports what the agent does")),
    rules: None,
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};

#[cfg(feature = "trial")]
mod trial {
    use crate::trial::{AcpTrial, Opening, Package, Settings, Trial};

    pub const TRIAL: Trial = Trial {
        package: Package::npm("cline", "cline"),
        program: "node_modules/.bin/cline",
        // No settings let Cline open an ACP session without an account.
        settings: |_| Settings { env: Vec::new(), files: Vec::new() },
        terminal: None,
        acp: &[AcpTrial {
            opening: Opening::WantsAccount,
            limit: Some("needs a vendor account to open a session over ACP"),
            ..AcpTrial::new("cline", &[], "node_modules/.bin/cline")
        }],
        print: None,
        mcp: None,
        activity: None,
    };
}
