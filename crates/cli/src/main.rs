//! The `coven` binary: dispatches hidden subcommands directly and everything else to the command line.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod activity;
mod app;
mod attach;
mod board;
mod changes;
mod chat;
mod command_line;
mod daemon_client;
mod daemon_connector;
mod demo_agent;
mod export;
mod failure;
mod format;
mod help;
mod hook;
mod inbox_alerts;
mod ledger;
mod listing;
mod log_check;
mod looking;
#[cfg(test)]
mod man;
mod operation;
mod output;
mod own_session;
mod piped;
mod replay;
mod serve;
mod spawn;
mod table;
mod trust_prompt;
mod verb;

use std::ffi::OsString;
use std::process::ExitCode;

/// Release and build commit.
pub const VERSION: &str = env!("COVEN_VERSION");

fn main() -> ExitCode {
    // Holders and `--version` start often: building the parser for all verbs would slow them down.
    let args: Vec<OsString> = std::env::args_os().skip(1).take(2).collect();
    let words: Vec<Option<&str>> = args.iter().map(|word| word.to_str()).collect();
    match words.as_slice() {
        [Some("--version" | "-V")] => {
            output::line(format_args!("coven {VERSION}")).map_or_else(failure::end, |()| ExitCode::SUCCESS)
        }
        [Some("hold"), ..] => coven_holder::run(),
        [Some("hook"), ..] => hook::run(std::env::args_os().skip(2)),
        [Some("complete"), ..] => verb::complete::run(std::env::args_os().skip(2)),
        [Some("demo-agent"), ..] => demo_agent::run(std::env::args_os().skip(2)),
        [Some("daemon"), Some("serve")] => verb::serve::run(std::env::args_os().skip(3)),
        _ => command_line::run(),
    }
}
