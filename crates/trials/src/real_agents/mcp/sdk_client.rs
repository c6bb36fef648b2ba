//! The SDK clients that are tested with `coven mcp`.

use coven_harness::trial::Package as Known;

use super::super::install::Package;

/// The client of an official SDK, driven by a script in this folder.
pub struct SdkClient {
    pub name: &'static str,
    pub package: Package,
    pub script: Script,
    /// The required protocol revision; negotiated if `None`.
    pub revision: Option<&'static str>,
    pub giving_up: GivingUp,
    pub limit: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// The package was renamed with its second version.
    TypeScript {
        line: &'static str,
    },
    Python,
}

/// A client's default behaviour for a long call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivingUp {
    /// Times out after one minute, or one minute after the last progress notification if configured so.
    AfterAMinute,
    Never,
}

/// The revision in which a server cannot send requests to its client.
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
        limit: Some("no default timeout for a call"),
    };
    let newest = Some(WITHOUT_REQUESTS);
    vec![
        SdkClient {
            limit: Some("supports no revision after 2025-11-25; version 2 of the SDK does"),
            ..typescript("sdk-ts", "mcp-sdk-ts", "@modelcontextprotocol/sdk", "sdk")
        },
        SdkClient {
            revision: newest,
            limit: Some("a form cannot be withdrawn in this revision; closing it returns the answer given elsewhere"),
            ..typescript("sdk-ts-2", "mcp-client-ts", "@modelcontextprotocol/client", "client")
        },
        python("sdk-python"),
        SdkClient {
            revision: newest,
            limit: Some("like sdk-ts-2; no default timeout for a call"),
            ..python("sdk-python-2")
        },
    ]
}
