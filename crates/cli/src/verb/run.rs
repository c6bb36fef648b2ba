//! `coven run`: launches a harness, or any command, and attaches to it.

use std::path::PathBuf;
use std::process::ExitCode;

use coven_api::SessionRecord;
use coven_api::routes::{CreateSession, Endpoint};
use coven_api::session::CreateSessionRequest;
use coven_client::ClientError;
use coven_domain::session::SessionState;
use coven_host::home::Home;

use super::attach::signal_code;
use super::{environment, folder, print_record};
use crate::attach::{self, AttachOutcome, Options, Start};
use crate::chat::past::Extent;
use crate::chat::transcript::Detail;
use crate::chat::{self, Ending};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::{output, piped};

/// Launches an agent, or any command, and attaches to it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven run demo                                a scripted agent; needs nothing installed
  coven run claude fix the failing tests        words are joined to one prompt
  coven run claude \"fix it\" -- --model opus     arguments after -- go to the agent
  coven run claude --prompt \"--help is wrong\"   a prompt that starts with a dash
  coven run codex \"review\" --title Review --background
  coven run gemini - < prompt.md                the prompt comes on standard input
  coven run -- cargo watch -x test              any command, as it stands
  coven run claude --detach                     writes the record only; `coven start` launches it
  coven run opencode --acp fix the tests        a conversation instead of a terminal
  coven run opencode --acp --resume 1a2b        goes on with an earlier conversation

An attached run ends with the harness's exit code. `coven harness list` shows the harnesses.")]
pub struct Args {
    #[arg(help = harness_help())]
    harness: Option<String>,
    /// What to ask it; `-` reads standard input
    #[arg(value_name = "PROMPT")]
    words: Vec<String>,
    /// Arguments for the agent; without a harness, any command to run
    #[arg(last = true, value_name = "ARGS")]
    agent_args: Vec<String>,
    /// What to ask it; for a prompt that starts with a dash, or if no harness is named
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "words")]
    prompt: Option<String>,
    /// The folder to work in [default: this one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// One line that names the session [default: the beginning of the prompt]
    #[arg(long)]
    title: Option<String>,
    /// The repository the session is bound to; with --acp its name or path will do
    #[arg(long, value_name = "ID")]
    repo: Option<String>,
    /// Talk to the agent over the Agent Client Protocol, in a Git repository
    #[arg(long)]
    acp: bool,
    /// Go on with the conversation of an earlier session
    #[arg(long, value_name = "ID", requires = "acp")]
    resume: Option<String>,
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

fn harness_help() -> String {
    let known = coven_harness::agents::ids(coven_harness::Agent::is_launchable).join(", ");
    format!(
        "The harness: {known}, or one of the config \
         [default: defaultHarness in the config, else the first one installed]"
    )
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let mut request = request(&args)?;
    if args.acp {
        block_on(complete(&home, &mut request))?;
    }
    let returns_at_once = args.detach || args.background || args.json;
    let answer = block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        Ok(link.bytes(CreateSession::request().body(&request)).await?)
    })?;
    if returns_at_once {
        let what = if args.detach { "created" } else { "started" };
        print_record(&answer, args.json, what)?;
        return Ok(ExitCode::SUCCESS);
    }
    let record: SessionRecord = serde_json::from_slice(&answer).map_err(ClientError::from)?;
    if args.acp {
        return open_chat(&home, &record.id.to_string());
    }
    if output::is_terminal() {
        output::note(format_args!("[attached; {} leaves it running]", attach::leave_keys(&home)));
    }
    let options = Options { start: Start::Beginning, is_read_only: false };
    match attach::open(&home, &record.id.to_string(), options)? {
        AttachOutcome::Detached => Ok(ExitCode::SUCCESS),
        AttachOutcome::Exited(status) => Ok(ExitCode::from(u8::try_from(status.code() & 0xff).unwrap_or(1))),
        AttachOutcome::Signalled(signal) => Ok(signal_code(signal)),
        // It was over before it could be watched, and nothing tells how.
        AttachOutcome::Shown => Ok(ExitCode::FAILURE),
    }
}

/// Fills in what people leave to us: the repository's id, and the harness of an earlier session.
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
            // Where the conversation was, not where it is gone on with.
            if request.repo_id.is_none() {
                (request.repo_id, request.cwd) = (earlier.repo_id.map(|id| id.to_string()), Some(earlier.cwd));
            }
            Ok(())
        }
        (Some(_), _) | (None, None) => Ok(()),
    }
}

/// The conversation, from its first message.
fn open_chat(home: &Home, id: &str) -> Result<ExitCode, Failure> {
    let options = chat::Options { extent: Extent::Recent, detail: Detail::default(), is_read_only: false };
    Ok(match chat::open(home, id, options)? {
        Ending::Left => ExitCode::SUCCESS,
        Ending::Over(record) if record.status == SessionState::Completed => ExitCode::SUCCESS,
        Ending::Over(_) => ExitCode::FAILURE,
        Ending::Signalled(signal) => signal_code(signal),
    })
}

fn request(args: &Args) -> Result<CreateSessionRequest, Failure> {
    let prompt = match &args.prompt {
        Some(text) => Some(text.clone()),
        None => prompt(&args.words)?,
    };
    // An earlier session knows its harness.
    let (argv, agent_args) = match args.harness.is_some() || args.resume.is_some() || args.agent_args.is_empty() {
        true => (None, args.agent_args.clone()),
        false => (Some(args.agent_args.clone()), Vec::new()),
    };
    // A request must say what to start; an empty prompt asks for the default agent.
    let prompt = prompt.or_else(|| (args.harness.is_none() && argv.is_none()).then(String::new));
    // An agent that is talked to has no terminal.
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

/// The end of the last line is not part of a prompt; a terminal would take it for Enter.
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
    fn without_a_harness_the_daemon_chooses_the_default() {
        let request = parse(&["--title", "T"]).expect("a good line");
        assert_eq!((request.harness, request.argv, request.prompt.as_deref()), (None, None, Some("")));
    }

    #[test]
    fn behind_a_harness_dashes_start_the_arguments_of_the_agent() {
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
    fn contradictions_are_refused() {
        assert!(parse(&["demo", "--detach", "--background"]).is_err());
        assert!(parse(&["demo", "--no-such-flag"]).is_err());
    }

    #[test]
    fn a_conversation_is_asked_for_by_its_channel() {
        let request = parse(&["goose", "--acp", "fix", "it", "--resume", "1a2b"]).expect("a good line");
        assert_eq!((request.channel.as_deref(), request.resume.as_deref()), (Some("acp"), Some("1a2b")));
        assert_eq!((request.prompt.as_deref(), request.rows), (Some("fix it"), None));
        assert!(parse(&["goose", "--resume", "1a2b"]).is_err(), "a terminal cannot be gone on with");
        let resumed = parse(&["--acp", "--resume", "1a2b", "--prompt", "go on"]).expect("its harness is known");
        assert_eq!((resumed.harness, resumed.argv, resumed.prompt.as_deref()), (None, None, Some("go on")));
        assert_eq!(parse(&["goose"]).expect("a good line").channel, None);
    }

    #[test]
    fn the_last_newline_of_a_prompt_from_standard_input_is_not_typed() {
        assert_eq!(without_last_newline("one\ntwo\r\n"), "one\ntwo");
    }

    #[test]
    fn the_folder_is_whole() {
        let request = parse(&["demo", "--cwd", "some/where"]).expect("a good line");
        let cwd = request.cwd.expect("always sent");
        assert!(cwd.starts_with('/') && cwd.ends_with("/some/where"), "{cwd}");
    }
}
