//! `coven ask`: asks a human, waits for the answers and prints them.

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

/// The human declined to answer.
pub const REJECTED: u8 = 10;
pub const TIMED_OUT: u8 = 11;
/// The set was given up or taken away.
pub const ABANDONED: u8 = 12;

/// Asks a human one to five questions, waits and prints the answers
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven ask --prompt \"Which database?\" --option SQLite --option \"PostgreSQL=for many writers\"
  coven ask '{\"questions\":[{\"title\":\"Database\",\"prompt\":\"Which?\",\"options\":[{\"label\":\"A\"}]}]}'
  coven ask --json < questions.json | jq '.answers[0].selectedOption'
  id=$(coven ask --no-wait - < questions.json); coven questions answers \"$id\"

A prompt may have markdown; a label with (recommended) in it is marked. `coven answer` is where they are answered.
Ctrl-C, SIGTERM, SIGHUP and a reader that has gone make the set abandoned. COVEN_SESSION_ID links it to a session.
Exits with 0 if it was answered, 10 rejected, 11 timed out, 12 abandoned or dismissed, 1 if something failed,
2 if the questions are wrong, 4 if too many sets wait already.")]
pub struct Args {
    /// The questions as JSON; `-`, or nothing and a pipe, reads standard input
    #[arg(value_name = "JSON", conflicts_with = "prompt")]
    questions: Option<String>,
    /// What to ask, as one question
    #[arg(long)]
    prompt: Option<String>,
    /// Something to choose from, with a description behind `=` if you like; give two to five
    #[arg(long = "option", value_name = "LABEL[=DESCRIPTION]", requires = "prompt")]
    options: Vec<String>,
    /// Several options may be chosen
    #[arg(long, requires = "prompt")]
    multi: bool,
    /// A word or two for the question
    #[arg(long, requires = "prompt")]
    title: Option<String>,
    /// Print the id and return at once
    #[arg(long)]
    no_wait: bool,
    /// Give up after so many milliseconds; 0: never [default: questions.sessionTimeout of the config]
    #[arg(long, value_name = "MS", conflicts_with = "no_wait")]
    timeout: Option<u64>,
    /// Print id, status and answers
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
        // Before the set exists, so that no signal leaves it behind.
        let signals = Signals::listen().map_err(Failure::Runtime)?;
        let (running, ended) = UnixStream::pair().map_err(Failure::Runtime)?;
        let id = folder.create(&new, &limits, clock::now())?;
        scope.spawn(|| clean_up(&folder, retention));
        let asked = &folder;
        scope.spawn(move || abandon_when_left(asked, id, signals, &ended));
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
                "there is nothing to ask",
                "Give --prompt and two options, or JSON as an argument or on standard input",
            ));
        }
        (None, _) => piped::text()?,
    };
    ask_input::from_json(&text)
}

/// Sets that ended long ago go. What cannot be removed is told and stops nothing.
fn clean_up(folder: &QuestionFolder, retention: Duration) {
    for (id, why) in folder.clean_up(retention, clock::now()).failed {
        failure::print_error(&format!(
            "an expired question set could not be removed: {}: {id}",
            format::sanitize_line(&why)
        ));
    }
}

/// Ends the set when a signal asks us to end or nobody reads our output any more; the wait sees it and returns.
fn abandon_when_left(folder: &QuestionFolder, id: QuestionSetId, mut signals: Signals, ended: &UnixStream) {
    let out = io::stdout();
    loop {
        // A reader that goes away is told without being asked for.
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
        // A change of the terminal's size is a signal too.
        signals.drain();
    }
    if let Err(error) = folder.settle(&id, QuestionSetState::Abandoned, clock::now()) {
        failure::print_error(&Failure::from(error).sentence());
        // The wait would never end.
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
        Waited::TimedOut => failure::print_error(&format!("nobody answered in time: {id}")),
        Waited::Abandoned(None) => failure::print_error(&format!("the question set was abandoned: {id}")),
        Waited::Abandoned(Some(reason)) => {
            failure::print_error(&format!("the question set was abandoned: {}: {id}", format::readable(&reason)));
        }
        Waited::Gone => failure::print_error(&format!("the question set was dismissed: {id}")),
    }
    Ok(ExitCode::from(code))
}

/// Text of people and agents: as it is for a program, readable on a terminal.
fn print(text: &str) -> Result<(), Failure> {
    match output::is_terminal() {
        true => output::line(format_args!("{text}")),
        false => output::bytes(format!("{text}\n").as_bytes()),
    }
}
