//! `coven ask`: asks a human one to five questions, waits and prints the answers.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use coven_domain::QuestionSetId;
use coven_domain::question::{Question, format_answers, format_rejection};
use coven_domain::question_set::QuestionSetState;
use coven_holder::clock;
use coven_interop::questions::{Limits, NewQuestionSet, QuestionFolder, Waited};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Value, json};

use super::ask_input::{self, Input};
use crate::attach::signals::Signals;
use crate::command_line::Place;
use crate::failure::{self, Failure};
use crate::{format, output, piped};

/// Exit code if the human declined to answer.
pub const REJECTED: u8 = 10;
pub const TIMED_OUT: u8 = 11;
/// Exit code if the set was abandoned or dismissed.
pub const ABANDONED: u8 = 12;

/// Asks a human one to five questions, waits and prints the answers
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven ask --prompt \"Which database?\" --option SQLite --option \"PostgreSQL=for many writers\"
  coven ask '{\"questions\":[{\"title\":\"Database\",\"prompt\":\"Which?\",\"options\":[{\"label\":\"A\"}]}]}'
  coven ask --json < questions.json | jq '.answers[0].selectedOption'
  id=$(coven ask --no-wait - < questions.json); coven questions answers \"$id\"

A prompt may contain Markdown; a label with (recommended) is highlighted. Answer with `coven answer`.
Ctrl-C, SIGTERM, SIGHUP and a closed output pipe abandon the set. COVEN_SESSION_ID links it to a session.
Exits with 0 if answered, 10 if rejected, 11 if timed out, 12 if abandoned or dismissed, 1 on failure,
2 if the questions are invalid, 4 if too many sets are pending.")]
pub struct Args {
    /// Questions as JSON; `-`, or no argument and a pipe, reads standard input
    #[arg(value_name = "JSON", conflicts_with = "prompt")]
    questions: Option<String>,
    /// Ask this single question
    #[arg(long)]
    prompt: Option<String>,
    /// Option to choose from, optionally with a description; give two to five
    #[arg(long = "option", value_name = "LABEL[=DESCRIPTION]", requires = "prompt")]
    options: Vec<String>,
    /// Allow several options to be chosen
    #[arg(long, requires = "prompt")]
    multi: bool,
    /// Short title of the question
    #[arg(long, requires = "prompt")]
    title: Option<String>,
    /// Print the id and return without waiting
    #[arg(long)]
    no_wait: bool,
    /// Timeout in milliseconds; 0 waits forever [default: questions.sessionTimeout in the config]
    #[arg(long, value_name = "MS", conflicts_with = "no_wait")]
    timeout: Option<u64>,
    /// Print id, status and answers as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let settings = place.config()?.1.questions;
    let Input { questions, working_directory } = input(&args)?;
    let folder = QuestionFolder::locate();
    let here = || std::env::current_dir().ok().and_then(|here| here.into_os_string().into_string().ok());
    let new = NewQuestionSet {
        questions,
        call_id: (!args.no_wait).then(|| uuid::Uuid::new_v4().to_string()),
        working_directory: working_directory.or_else(here),
        session: crate::own_session::id(),
    };
    let limits = Limits { max_sessions: settings.max_sessions };
    let retention = Duration::from_millis(settings.retention_period);
    std::thread::scope(|scope| {
        if args.no_wait {
            let id = folder.create(&new, &limits, clock::now())?;
            scope.spawn(|| clean_up(&folder, retention));
            match args.json {
                true => output::json(json!({"id": id, "status": "pending"}).to_string().as_bytes())?,
                false => output::line(format_args!("{id}"))?,
            }
            return Ok(ExitCode::SUCCESS);
        }
        // Before the set is created, so that a signal cannot leave a pending set behind.
        let signals = Signals::listen().map_err(Failure::Runtime)?;
        let (running, ended) = UnixStream::pair().map_err(Failure::Runtime)?;
        let id = folder.create(&new, &limits, clock::now())?;
        scope.spawn(|| clean_up(&folder, retention));
        let asked = &folder;
        scope.spawn(move || abandon_on_exit(asked, id, signals, &ended));
        let timeout = match args.timeout.unwrap_or(settings.session_timeout) {
            0 => None,
            millis => Some(Duration::from_millis(millis)),
        };
        let waited = folder.wait(&id, new.call_id.as_deref(), timeout);
        drop(running);
        report(&id, &new.questions, waited?, args.json)
    })
}

fn input(args: &Args) -> Result<Input, Failure> {
    let text = match (&args.prompt, &args.questions) {
        (Some(prompt), _) => {
            return Ok(ask_input::from_flags(prompt.clone(), args.title.clone(), &args.options, args.multi));
        }
        (None, Some(text)) if text != "-" => text.clone(),
        (None, None) if io::stdin().is_terminal() => {
            return Err(Failure::usage(
                "no question was given",
                "Use --prompt with at least two --option, or pass JSON as an argument or on standard input",
            ));
        }
        (None, _) => piped::text()?,
    };
    ask_input::from_json(&text)
}

/// Removes expired sets. Prints failures and continues.
fn clean_up(folder: &QuestionFolder, retention: Duration) {
    for (id, why) in folder.clean_up(retention, clock::now()).failed {
        failure::print_error(&format!("cannot remove expired question set {id}: {}", format::sanitize_line(&why)));
    }
}

/// Abandons the set on a termination signal or when the output pipe is closed. The waiting thread then returns.
fn abandon_on_exit(folder: &QuestionFolder, id: QuestionSetId, mut signals: Signals, ended: &UnixStream) {
    let out = io::stdout();
    loop {
        // poll reports a closed pipe even without requested events.
        let reader = PollFd::from_borrowed_fd(out.as_fd(), PollFlags::empty());
        let mut fds = [PollFd::new(&signals, PollFlags::IN), PollFd::new(ended, PollFlags::IN), reader];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        let [_, ended, reader] = fds.map(|fd| fd.revents());
        if !ended.is_empty() {
            return;
        }
        let is_unread = reader.intersects(PollFlags::ERR | PollFlags::HUP);
        if signals.ending().is_some() || is_unread {
            break;
        }
        // SIGWINCH and SIGCONT wake this loop too.
        signals.drain();
    }
    if let Err(error) = folder.end_without_answer(&id, QuestionSetState::Abandoned, clock::now()) {
        failure::print_error(&Failure::from(error).sentence());
        // The waiting thread would never return.
        std::process::exit(1);
    }
}

fn report(id: &QuestionSetId, questions: &[Question], waited: Waited, as_json: bool) -> Result<ExitCode, Failure> {
    let (code, status) = match &waited {
        Waited::Answered(_) => (0, "completed"),
        Waited::Rejected(_) => (REJECTED, "rejected"),
        Waited::TimedOut => (TIMED_OUT, "timed_out"),
        Waited::Abandoned(_) => (ABANDONED, "abandoned"),
        Waited::Gone => (ABANDONED, "dismissed"),
    };
    if as_json {
        let mut record = json!({"id": id, "status": status, "answers": []});
        match &waited {
            Waited::Answered(answers) => record["answers"] = json!(answers),
            Waited::Rejected(reason) => record["rejectionReason"] = reason.clone().map_or(Value::Null, Value::String),
            Waited::Abandoned(reason) => record["abandonReason"] = reason.clone().map_or(Value::Null, Value::String),
            Waited::TimedOut | Waited::Gone => {}
        }
        output::json(record.to_string().as_bytes())?;
        return Ok(ExitCode::from(code));
    }
    match waited {
        Waited::Answered(answers) => print(&format_answers(questions, &answers))?,
        Waited::Rejected(reason) => print(format_rejection(reason.as_deref()).trim_end())?,
        Waited::TimedOut => failure::print_error(&format!("question set {id} timed out without an answer")),
        Waited::Abandoned(None) => failure::print_error(&format!("question set {id} was abandoned")),
        Waited::Abandoned(Some(reason)) => {
            failure::print_error(&format!("question set {id} was abandoned: {}", format::readable(&reason)));
        }
        Waited::Gone => failure::print_error(&format!("question set {id} was dismissed")),
    }
    Ok(ExitCode::from(code))
}

/// Prints text of people and agents; on a terminal without control characters.
fn print(text: &str) -> Result<(), Failure> {
    match output::is_terminal() {
        true => output::line(format_args!("{text}")),
        false => output::bytes(format!("{text}\n").as_bytes()),
    }
}
