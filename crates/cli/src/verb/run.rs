//! `coven run`: launches a harness, or any command, and attaches to it.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;

use coven_api::session::CreateSessionRequest;
use coven_api::{ClientError, SessionRecord};
use hyper::Method;

use super::attach::signal_code;
use super::{environment, print_record};
use crate::attach::{self, Options, Outcome, Start};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::output;

/// Launches an agent, or any command, and attaches to it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven run demo                                a scripted agent; needs nothing installed
  coven run claude fix the failing tests        words are joined to one prompt
  coven run codex \"review\" --title Review --background
  coven run gemini - < prompt.md                the prompt comes on standard input
  coven run -- cargo watch -x test              any command, as it stands
  coven run claude --detach                     writes the record only; `coven start` launches it

An attached run ends with the harness's exit code. `coven harness list` shows the harnesses.")]
pub struct Args {
    /// The harness: claude, codex, gemini, opencode, copilot, shell, demo, or one of the config
    #[arg(required_unless_present = "argv")]
    harness: Option<String>,
    /// What to ask it; `-` reads standard input
    prompt: Vec<String>,
    /// Any command instead of a harness; behind a harness, the prompt
    #[arg(last = true, value_name = "ARGV")]
    argv: Vec<String>,
    /// The folder to work in [default: this one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// One line that names the session [default: the beginning of the prompt]
    #[arg(long)]
    title: Option<String>,
    /// The repository the session is bound to
    #[arg(long, value_name = "ID")]
    repo: Option<String>,
    /// The folder that the working folder must lie in
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Write the record and launch nothing
    #[arg(long, conflicts_with = "background")]
    detach: bool,
    /// Launch and return
    #[arg(long)]
    background: bool,
    /// Print the session's record and return
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let request = request(&args)?;
    let returns_at_once = args.detach || args.background || args.json;
    let body = serde_json::to_vec(&request).map_err(ClientError::from)?;
    let answer = block_on(async {
        let mut link = Link::open(&home).await?;
        Ok(link.bytes(Method::POST, "/api/v1/sessions", Some(body)).await?)
    })?;
    if returns_at_once {
        let what = if args.detach { "created" } else { "started" };
        print_record(&answer, args.json, what)?;
        return Ok(ExitCode::SUCCESS);
    }
    let record: SessionRecord = serde_json::from_slice(&answer).map_err(ClientError::from)?;
    let options = Options { start: Start::Beginning, is_read_only: false };
    match attach::open(&home, &record.id, options)? {
        Outcome::Detached => Ok(ExitCode::SUCCESS),
        Outcome::Exited(status) => Ok(ExitCode::from(u8::try_from(status.code() & 0xff).unwrap_or(1))),
        Outcome::Signalled(signal) => Ok(signal_code(signal)),
        // It was over before it could be watched, and nothing tells how.
        Outcome::Shown => Ok(ExitCode::FAILURE),
    }
}

fn request(args: &Args) -> Result<CreateSessionRequest, Failure> {
    let (prompt, argv) = match &args.harness {
        Some(_) => (prompt(&args.prompt, &args.argv)?, None),
        None => (None, Some(args.argv.clone())),
    };
    let (rows, cols) = output::terminal_size().unzip();
    Ok(CreateSessionRequest {
        harness: args.harness.clone(),
        argv,
        prompt,
        cwd: Some(folder(args.cwd.clone())?),
        project_root: args.root.clone().map(|root| folder(Some(root))).transpose()?,
        title: args.title.clone(),
        repo_id: args.repo.clone(),
        resume: None,
        channel: None,
        detach: args.detach.then_some(true),
        env: Some(environment()),
        rows,
        cols,
    })
}

fn prompt(words: &[String], behind_dashes: &[String]) -> Result<Option<String>, Failure> {
    match (words, behind_dashes) {
        ([], []) => Ok(None),
        ([dash], []) if dash == "-" => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text).map_err(Failure::Input)?;
            Ok(Some(text))
        }
        _ => Ok(Some([words, behind_dashes].concat().join(" "))),
    }
}

/// A folder as the daemon, which works elsewhere, can find it; it checks what is there.
fn folder(given: Option<PathBuf>) -> Result<String, Failure> {
    let given = given.unwrap_or_else(|| PathBuf::from("."));
    let whole = std::env::current_dir()
        .map(|here| if given.as_os_str() == "." { here } else { here.join(&given) })
        .map_err(|source| Failure::File { path: given.clone(), source })?;
    whole.into_os_string().into_string().map_err(|path| {
        Failure::usage(format!("{} is not UTF-8", path.display()), "Rename the folder, or work in another one")
    })
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches};

    use super::*;

    fn parse(line: &[&str]) -> Result<CreateSessionRequest, clap::Error> {
        let command = Args::augment_args(clap::Command::new("run")).no_binary_name(true);
        let matches = command.try_get_matches_from(line)?;
        let args = Args::from_arg_matches(&matches)?;
        Ok(request(&args).expect("this folder has a name"))
    }

    #[test]
    fn flags_may_stand_before_and_behind_the_prompt() {
        for line in [
            &["claude", "fix", "it", "--title", "T", "--background"][..],
            &["--title", "T", "claude", "--background", "fix", "it"],
            &["--title=T", "--background", "claude", "fix it"],
        ] {
            let request = parse(line).expect("a good line");
            assert_eq!(request.harness.as_deref(), Some("claude"));
            assert_eq!(request.prompt.as_deref(), Some("fix it"));
            assert_eq!(request.title.as_deref(), Some("T"));
        }
    }

    #[test]
    fn a_command_behind_dashes_is_taken_as_it_stands() {
        let request = parse(&["--title", "T", "--", "sh", "-c", "echo --json; exit 3"]).expect("a good line");
        assert_eq!((request.harness, request.prompt), (None, None));
        assert_eq!(request.argv, Some(vec!["sh".into(), "-c".into(), "echo --json; exit 3".into()]));
    }

    #[test]
    fn behind_a_harness_dashes_protect_the_prompt() {
        let request = parse(&["claude", "--", "--help", "me"]).expect("a good line");
        assert_eq!((request.argv, request.prompt.as_deref()), (None, Some("--help me")));
        let line = "a;b $(c) \"d\"\n'e'";
        assert_eq!(parse(&["demo", line]).expect("any text").prompt.as_deref(), Some(line));
    }

    #[test]
    fn nothing_to_run_and_contradictions_are_refused() {
        assert!(parse(&[]).is_err());
        assert!(parse(&["demo", "--detach", "--background"]).is_err());
        assert!(parse(&["demo", "--no-such-flag"]).is_err());
    }

    #[test]
    fn the_folder_is_whole() {
        let request = parse(&["demo", "--cwd", "some/where"]).expect("a good line");
        let cwd = request.cwd.expect("always sent");
        assert!(cwd.starts_with('/') && cwd.ends_with("/some/where"), "{cwd}");
    }
}
