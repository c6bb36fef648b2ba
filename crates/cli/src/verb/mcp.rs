//! `coven mcp`: the MCP server, and its entry in the settings of agents.

use std::io::{self, BufRead, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use coven_harness::agents;
use coven_harness::settings_file::{McpEntry, Plan};
use coven_host::program;
use coven_interop::questions::QuestionFolder;
use serde_json::json;

use crate::command_line::Place;
use crate::failure::Failure;
use crate::{VERSION, format, output};

/// Serves MCP: agents ask you questions and see other sessions
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven mcp install claude           shows the change and asks for confirmation
  coven mcp install codex --yes      writes the change
  coven mcp uninstall claude         removes it
  coven mcp                          runs the server; agents start it

Tools: ask_user_questions and get_answered_questions (answer with `coven answer`), list_sessions and read_session;
with mcp.allowControl in the config also start_session and send_input.
However the agent exits, its pending question sets are abandoned.")]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Adds the server to an agent's settings
    #[command(after_help = "Examples:
  coven mcp install claude
  coven mcp install codex --dry-run    only shows the change")]
    Install(Target),
    /// Removes the server from an agent's settings
    #[command(after_help = "Examples:
  coven mcp uninstall claude")]
    Uninstall(Target),
}

#[derive(Debug, clap::Args)]
struct Target {
    #[arg(value_parser = agent, help = format!("Agent: {}", known()))]
    agent: KnownAgent,
    /// Write without confirmation
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    /// Show the change without writing it
    #[arg(long, alias = "print")]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An agent whose settings coven can edit.
#[derive(Debug, Clone, Copy)]
struct KnownAgent {
    id: &'static str,
    mcp: &'static McpEntry,
}

fn agent(name: &str) -> Result<KnownAgent, String> {
    match agents::find(name).map(|agent| (agent.id, &agent.mcp)) {
        Some((id, Ok(mcp))) => Ok(KnownAgent { id, mcp }),
        Some((_, Err(reason))) => Err(reason.to_string()),
        None => Err(format!("unknown agent; known: {}. Configure any other agent to start `coven mcp`", known())),
    }
}

fn known() -> String {
    agents::ids(|agent| agent.mcp.is_ok()).join(", ")
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    match args.verb {
        None => serve(place),
        Some(Verb::Install(target)) => {
            let path = target.agent.mcp.file.path()?;
            change(&target, &target.agent.mcp.install(&path, &this_program())?, "installed")
        }
        Some(Verb::Uninstall(target)) => {
            let path = target.agent.mcp.file.path()?;
            change(&target, &target.agent.mcp.uninstall(&path)?, "uninstalled")
        }
    }
}

fn serve(place: &Place) -> Result<ExitCode, Failure> {
    if io::stdin().is_terminal() {
        return Err(Failure::usage(
            "the MCP server needs an agent on standard input, not a terminal",
            "Add it to your agent with `coven mcp install <agent>`",
        ));
    }
    let (home, config, _) = place.config()?;
    coven_mcp::serve(coven_mcp::Options {
        folder: QuestionFolder::locate(),
        questions: config.questions,
        home,
        may_control: config.mcp.allow_control,
        session: crate::own_session::id(),
        progress_every: coven_mcp::PROGRESS_EVERY,
        min_human_response: coven_mcp::HUMAN_NEEDS,
        version: VERSION,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command for agents: `coven` if PATH leads to this program, else its full path.
fn this_program() -> String {
    let this = std::env::current_exe().unwrap_or_else(|_| "coven".into());
    let is_this = |found: &Path| found.canonicalize().ok() == this.canonicalize().ok();
    match program::find("coven", std::env::var_os("PATH").as_deref()) {
        Some(found) if is_this(&found) => "coven".to_owned(),
        _ => this.to_string_lossy().into_owned(),
    }
}

fn change(target: &Target, plan: &Plan, done: &str) -> Result<ExitCode, Failure> {
    let is_done = plan.is_done();
    if !target.json {
        show(plan, is_done, done)?;
    }
    let may_write = !is_done && !target.dry_run && (target.yes || confirm(target, plan)?);
    if may_write {
        plan.write()?;
    }
    let outcome = match (is_done, may_write) {
        (true, _) => "unchanged",
        (false, true) => done,
        (false, false) => "not written",
    };
    match (target.json, may_write) {
        (true, _) => output::json(
            json!({"agent": target.agent.id, "file": plan.path, "entry": plan.entry, "replaced": plan.replaced, "outcome": outcome})
                .to_string()
                .as_bytes(),
        )?,
        (false, true) if plan.entry.is_some() => {
            let name = target.agent.id;
            output::line(format_args!("written; restart {name}. Remove it with `coven mcp uninstall {name}`"))?;
        }
        (false, true) => output::line(format_args!("removed"))?,
        (false, false) if !is_done => output::line(format_args!("nothing was written"))?,
        (false, false) => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn show(plan: &Plan, is_done: bool, done: &str) -> Result<(), Failure> {
    let file = plan.path.display();
    match (is_done, &plan.entry) {
        (true, _) => return output::line(format_args!("{file}: already {done}")),
        (false, Some(entry)) => output::line(format_args!("add to {file}:\n\n{}\n", indented(entry)))?,
        (false, None) => output::line(format_args!("remove from {file}:"))?,
    }
    match &plan.replaced {
        Some(old) if plan.entry.is_some() => output::line(format_args!("replacing:\n\n{}\n", indented(old))),
        Some(old) => output::line(format_args!("\n{}\n", indented(old))),
        None => Ok(()),
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = format::readable(text).lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

fn confirm(target: &Target, plan: &Plan) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || target.json {
        return Err(Failure::usage(
            format!("{} was not written: cannot ask for confirmation without a terminal", plan.path.display()),
            "Use --yes to write it, or --dry-run to only show it",
        ));
    }
    output::bytes(b"Write it? [y/N] ")?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(Failure::Input)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
