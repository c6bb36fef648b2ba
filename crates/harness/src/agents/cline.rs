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
    note: "opens a session over ACP only with an account of its vendor",
    // Without an account it cannot work, and coven cannot see whether there is one.
    default_choice: DefaultChoice::Never,
    terminal: Err(Missing("coven has not been tried with it in a terminal; set harnesses.cline.prompt in the config")),
    acp: Ok(Acp::with_args(&["--acp"])),
    print: Err(Missing("coven has not been tried with it in print mode; set harnesses.cline.print in the config")),
    mcp: Err(Missing("coven does not know where Cline lists MCP servers; add the server there by hand")),
    #[cfg(feature = "trial")]
    trial: Some(trial::TRIAL),
};

#[cfg(feature = "trial")]
mod trial {
    use crate::trial::{AcpTrial, Opening, Package, Settings, Trial};

    pub const TRIAL: Trial = Trial {
        package: Package::npm("cline", "cline"),
        program: "node_modules/.bin/cline",
        // It has no settings that would let it open a session over ACP.
        settings: |_| Settings { env: Vec::new(), files: Vec::new() },
        terminal: None,
        acp: &[AcpTrial {
            opening: Opening::WantsAccount,
            limit: Some("opens no session over ACP without an account of its vendor"),
            ..AcpTrial::new("cline", &[], "node_modules/.bin/cline")
        }],
        print: None,
        mcp: None,
    };
}
