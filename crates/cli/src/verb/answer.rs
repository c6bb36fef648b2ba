//! `coven answer`: answers questions, on a screen or with one command.

use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use coven_api::question::QuestionSetRecord;
use coven_holder::clock;
use coven_host::config::NotificationsConfig;
use coven_interop::questions::QuestionFolder;

use super::answer_reply::{Reply, ReplyArgs};
use super::questions;
use crate::command_line::Place;
use crate::failure::Failure;
use crate::{answer, inbox_alerts, output};

/// Answers the questions of agents: on a screen, or one set with one command
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven answer                                   all that wait, the oldest first; ? shows the keys
  coven answer 1a2b --option SQLite
  coven answer 1a2b --option Auth --option Logs --text \"and search\"    a multiple choice
  coven answer 1a2b --question 1 --option A --question 2 --text \"as it is\"
  coven answer 1a2b --answers '{\"0\":{\"selectedOption\":\"A\"},\"1\":{\"selectedOptions\":[]}}'
  coven answer 1a2b --reject --reason \"too vague\"

Needs no daemon and no home. Without a terminal it lists what waits. On the screen, what was chosen and typed is kept until it is sent.
Exits with 0 if the answers were given, 2 if they are wrong, 3 if there is no such set, 4 if it is finished already.")]
pub struct Args {
    /// The set: its id, or any beginning of it that no other set has [default: the screen with all that wait]
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: Option<String>,
    #[command(flatten)]
    reply: ReplyArgs,
    /// Print the record
    #[arg(long, requires = "id")]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let folder = QuestionFolder::locate();
    let Some(prefix) = &args.id else {
        return if args.reply.is_empty() { screen(folder, rings(place)) } else { Err(no_id()) };
    };
    if args.reply.is_empty() {
        return Err(Failure::usage(
            "there is no answer",
            "Give --option, --text, --answers or --reject; `coven answer` without an id opens the screen",
        ));
    }
    folder.abandon_orphans(clock::now());
    let id = folder.find(prefix)?;
    let what_happened = match args.reply.reply(&folder.read(&id)?.questions)? {
        Reply::Rejection(reason) => {
            folder.reject(&id, reason.as_deref(), clock::now())?;
            "rejected"
        }
        Reply::Answers(answers) => {
            folder.answer(&id, answers, clock::now())?;
            "answered"
        }
    };
    match args.json {
        true => output::record(&QuestionSetRecord::from(folder.read(&id)?))?,
        false => output::line(format_args!("{what_happened}: {id}"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The home's config says so, where there is a home: answering needs none.
fn rings(place: &Place) -> bool {
    place.home().map_or(NotificationsConfig::default().bell, |home| inbox_alerts::is_bell_enabled(&home))
}

fn screen(folder: QuestionFolder, rings: bool) -> Result<ExitCode, Failure> {
    if !output::has_screen() {
        questions::list_waiting(&folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    match answer::open(folder, rings)? {
        0 => {}
        1 => output::note(format_args!("[a question set waits; what you chose is kept — coven answer]")),
        count => output::note(format_args!("[{count} question sets wait; what you chose is kept — coven answer]")),
    }
    Ok(ExitCode::SUCCESS)
}

fn no_id() -> Failure {
    Failure::usage("no set is named", "Give its id: `coven questions list` has them")
}
