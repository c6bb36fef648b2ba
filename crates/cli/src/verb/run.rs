//! `coven run`: starts a harness, or any command, and attaches to it.

use std::path::PathBuf;
use std::process::ExitCode;

use coven_api::SessionRecord;
use coven_api::routes::{CreateSession, Endpoint};
use coven_api::session::CreateSessionRequest;
use coven_client::ClientError;
use coven_host::home::Home;

use super::attach::signal_code;
use super::{environment, folder, print_started, queue};
use crate::attach::{self, AttachOutcome, Options, Start};
use crate::chat;
use crate::chat::past::Extent;
use crate::chat::transcript::Detail;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::{output, piped};

/// Starts an agent, or any command, and attaches to it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven run demo                                a scripted agent; needs nothing installed
  coven run claude fix the failing tests        words are joined to one prompt
  coven run claude \"fix it\" -- --model opus     arguments after -- go to the agent
  coven run claude --prompt \"--help is wrong\"   a prompt that starts with a dash
  coven run codex \"review\" --title Review --background
  coven run gemini - < prompt.md                the prompt comes on standard input
  coven run -- cargo watch -x test              any command, not interpreted by a shell
  coven run claude --detach                     only creates the record; start it with `coven start`
  coven run claude --now fix it                 does not wait for the limits of the config
  coven run opencode --acp fix the tests        a conversation instead of a terminal
  coven run opencode --acp --resume 1a2b        resumes an earlier conversation

An attached run ends with the harness's exit code. `coven harness list` shows the harnesses.")]
pub struct Args {
    #[arg(help = harness_help())]
    harness: Option<String>,
    /// Prompt for the agent; `-` reads standard input
    #[arg(value_name = "PROMPT")]
    words: Vec<String>,
    /// Arguments for the agent; without a harness, any command to run
    #[arg(last = true, value_name = "ARGS")]
    agent_args: Vec<String>,
    /// Prompt that starts with a dash, or prompt without a harness argument
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "words")]
    prompt: Option<String>,
    /// Working folder [default: the current folder]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Title of the session [default: the start of the prompt]
    #[arg(long)]
    title: Option<String>,
    /// Repository id of the session; with --acp also a repository name or path
    #[arg(long, value_name = "ID")]
    repo: Option<String>,
    /// Use the Agent Client Protocol instead of a terminal; needs a Git repository
    #[arg(long)]
    acp: bool,
    /// Resume the conversation of an earlier session
    #[arg(long, value_name = "ID", requires = "acp")]
    resume: Option<String>,
    /// Folder that must contain the working folder
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Create the session record without starting the agent
    #[arg(long, conflicts_with = "background")]
    detach: bool,
    /// Launch it even if a limit of the config is reached
    #[arg(long, conflicts_with = "detach")]
    now: bool,
    /// Start the session and return without attaching
    #[arg(long)]
    background: bool,
    /// Start the session, print its record as JSON and return
    #[arg(long)]
    json: bool,
}

fn harness_help() -> String {
    let known = coven_harness::agents::ids(coven_harness::Agent::is_launchable).join(", ");
    format!(
        "Harness id: {known}, or a harness from the config \
         [default: defaultHarness in the config, else the first one installed]"
    )
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let mut request = request(&args)?;
    if args.acp {
        block_on(complete(&home, &mut request))?;
    }
    let returns_early = args.detach || args.background || args.json;
    let answer = block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        Ok(link.bytes(CreateSession::request().body(&request)).await?)
    })?;
    if returns_early {
        let what = if args.detach { "created" } else { "started" };
        print_started(&answer, args.json, what)?;
        return Ok(ExitCode::SUCCESS);
    }
    let record: SessionRecord = serde_json::from_slice(&answer).map_err(ClientError::from)?;
    if record.queued_launch().is_some() {
        queue::wait_for_launch(&home, record.clone())?;
    }
    if args.acp {
        return open_chat(&home, &record.id.to_string());
    }
    if output::is_terminal() {
        output::note(format_args!("[attached; {} detaches]", attach::leave_keys(&home)));
    }
    let options = Options { start: Start::FirstByte, is_read_only: false };
    match attach::open(&home, &record.id.to_string(), options)? {
        AttachOutcome::Detached => Ok(ExitCode::SUCCESS),
        AttachOutcome::Exited(status) => Ok(ExitCode::from(u8::try_from(status.code() & 0xff).unwrap_or(1))),
        AttachOutcome::Signalled(signal) => Ok(signal_code(signal)),
        // The session ended before it could be watched, and its exit status is unknown.
        AttachOutcome::Shown => Ok(ExitCode::FAILURE),
    }
}

/// Fills in the repository id, and the harness of the session to resume.
async fn complete(home: &Home, request: &mut CreateSessionRequest) -> Result<(), Failure> {
    if request.repo_id.is_none() && request.harness.is_some() {
        return Ok(());
    }
    let mut link = DaemonClient::open(home).await?;
    if let Some(wanted) = &request.repo_id {
        let repo = super::repo::find(&mut link, wanted).await?;
        (request.repo_id, request.cwd) = (Some(repo.id.to_string()), None);
    }
    match (&request.harness, &request.resume) {
        (None, Some(earlier)) => {
            let earlier = link.session(earlier).await?;
            request.harness = Some(earlier.harness);
            // A resumed conversation keeps its folder, regardless of where this command runs.
            if request.repo_id.is_none() {
                (request.repo_id, request.cwd) = (earlier.repo_id.map(|id| id.to_string()), Some(earlier.cwd));
            }
            Ok(())
        }
        (Some(_), _) | (None, None) => Ok(()),
    }
}

/// Opens the conversation from its first message.
fn open_chat(home: &Home, id: &str) -> Result<ExitCode, Failure> {
    chat::open(home, id, chat::Options { extent: Extent::Recent, detail: Detail::default(), wants_text: false })
}

fn request(args: &Args) -> Result<CreateSessionRequest, Failure> {
    let prompt = match &args.prompt {
        Some(text) => Some(text.clone()),
        None => prompt(&args.words)?,
    };
    // With --resume the harness comes from the earlier session.
    let (argv, agent_args) = match args.harness.is_some() || args.resume.is_some() || args.agent_args.is_empty() {
        true => (None, args.agent_args.clone()),
        false => (Some(args.agent_args.clone()), Vec::new()),
    };
    // A request must name a harness, a command or a prompt; an empty prompt selects the default agent.
    let prompt = prompt.or_else(|| (args.harness.is_none() && argv.is_none()).then(String::new));
    // An ACP agent has no terminal.
    let (rows, cols) = output::terminal_size().filter(|_| !args.acp).unzip();
    Ok(CreateSessionRequest {
        harness: args.harness.clone(),
        argv,
        prompt,
        args: agent_args,
        cwd: Some(folder(args.cwd.clone())?),
        project_root: args.root.clone().map(|root| folder(Some(root))).transpose()?,
        title: args.title.clone(),
        repo_id: args.repo.clone(),
        channel: args.acp.then(|| "acp".to_owned()),
        resume: args.resume.clone(),
        detach: args.detach.then_some(true),
        now: args.now.then_some(true),
        env: Some(environment()),
        rows,
        cols,
    })
}

fn prompt(words: &[String]) -> Result<Option<String>, Failure> {
    match words {
        [] => Ok(None),
        [dash] if dash == "-" => Ok(Some(without_last_newline(&piped::text()?).to_owned())),
        _ => Ok(Some(words.join(" "))),
    }
}

/// Removes the final newline: typed into a terminal, it would be an extra Enter.
fn without_last_newline(text: &str) -> &str {
    text.trim_end_matches(['\n', '\r'])
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
    fn flags_may_come_before_and_after_the_prompt() {
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
    fn a_command_after_dashes_is_not_interpreted() {
        let request = parse(&["--title", "T", "--", "sh", "-c", "echo --json; exit 3"]).expect("a good line");
        assert_eq!((request.harness, request.prompt), (None, None));
        assert_eq!(request.argv, Some(vec!["sh".into(), "-c".into(), "echo --json; exit 3".into()]));
    }

    #[test]
    fn without_a_harness_the_daemon_chooses_the_default() {
        let request = parse(&["--title", "T"]).expect("a good line");
        assert_eq!((request.harness, request.argv, request.prompt.as_deref()), (None, None, Some("")));
    }

    #[test]
    fn after_a_harness_dashes_start_the_agents_arguments() {
        let request = parse(&["claude", "fix", "it", "--title", "T", "--", "--model", "opus"]).expect("a good line");
        assert_eq!((request.argv, request.prompt.as_deref()), (None, Some("fix it")));
        assert_eq!(request.args, ["--model", "opus"]);
        let request = parse(&["--acp", "--resume", "1a2b", "--", "--debug"]).expect("a good line");
        assert_eq!((request.argv, request.args), (None, vec!["--debug".to_owned()]));
    }

    #[test]
    fn a_prompt_may_start_with_a_dash_and_needs_no_harness() {
        let request = parse(&["claude", "--prompt", "--help me"]).expect("a good line");
        assert_eq!((request.harness.as_deref(), request.prompt.as_deref()), (Some("claude"), Some("--help me")));
        let request = parse(&["--prompt", "fix it"]).expect("a good line");
        assert_eq!((request.harness, request.argv, request.prompt.as_deref()), (None, None, Some("fix it")));
        assert!(parse(&["claude", "fix", "--prompt", "it"]).is_err(), "two prompts");
        let line = "a;b $(c) \"d\"\n'e'";
        assert_eq!(parse(&["demo", line]).expect("any text").prompt.as_deref(), Some(line));
    }

    #[test]
    fn conflicting_flags_are_rejected() {
        assert!(parse(&["demo", "--detach", "--background"]).is_err());
        assert!(parse(&["demo", "--no-such-flag"]).is_err());
    }

    #[test]
    fn acp_sets_the_channel_of_the_request() {
        let request = parse(&["goose", "--acp", "fix", "it", "--resume", "1a2b"]).expect("a good line");
        assert_eq!((request.channel.as_deref(), request.resume.as_deref()), (Some("acp"), Some("1a2b")));
        assert_eq!((request.prompt.as_deref(), request.rows), (Some("fix it"), None));
        assert!(parse(&["goose", "--resume", "1a2b"]).is_err(), "a terminal session cannot be resumed");
        let resumed = parse(&["--acp", "--resume", "1a2b", "--prompt", "continue"]).expect("its harness is known");
        assert_eq!((resumed.harness, resumed.argv, resumed.prompt.as_deref()), (None, None, Some("continue")));
        assert_eq!(parse(&["goose"]).expect("a good line").channel, None);
    }

    #[test]
    fn the_final_newline_of_a_piped_prompt_is_removed() {
        assert_eq!(without_last_newline("one\ntwo\r\n"), "one\ntwo");
    }

    #[test]
    fn the_folder_is_absolute() {
        let request = parse(&["demo", "--cwd", "some/where"]).expect("a good line");
        let cwd = request.cwd.expect("always sent");
        assert!(cwd.starts_with('/') && cwd.ends_with("/some/where"), "{cwd}");
    }
}
