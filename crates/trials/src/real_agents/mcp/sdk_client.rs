//! The clients of the official SDKs that are tried against `coven mcp`, as data.

use coven_harness::trial::Package as Known;

use super::super::install::Package;

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

/// The revision in which a server cannot ask its client anything by itself.
const WITHOUT_REQUESTS: &str = "2026-07-28";

pub fn all() -> Vec<SdkClient> {
    let typescript = |name, folder, package, line| SdkClient {
        name,
        package: Known::npm(folder, package).into(),
        script: Script::TypeScript { line },
        revision: None,
        giving_up: GivingUp::AfterAMinute,
        limit: None,
    };
    let python = |name| SdkClient {
        name,
        package: Known::pip("mcp-sdk-python", "mcp").into(),
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
