//! `coven answer`: answers questions of agents, in the app or with one command.

use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use coven_api::question::QuestionSetRecord;
use coven_app::View;
use coven_holder::clock;
use coven_interop::questions::{QuestionError, QuestionFolder};

use super::answer_reply::{Reply, ReplyArgs};
use super::inbox_answer::{send, what_happened};
use super::questions;
use crate::app::{self, Opening};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::output;

/// Answers questions of agents, in the app or with one command
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven answer                                   opens the Inbox of the app on a terminal
  coven answer 1a2b --option SQLite
  coven answer 1a2b --option Auth --option Logs --text \"and search\"    a multiple choice
  coven answer 1a2b --question 1 --option A --question 2 --text \"as it is\"
  coven answer 1a2b --answers '{\"0\":{\"selectedOption\":\"A\"},\"1\":{\"selectedOptions\":[]}}'
  coven answer 1a2b --reject --reason \"too vague\"

Answers questions and permissions of agents in sessions too, like `coven inbox answer`; for those the daemon must run.
For question sets this needs no daemon and no home. Without an id it opens the app on its Inbox, and without a terminal it lists the pending sets.
Exits with 0 on success, 2 if an answer is invalid, 3 if the set does not exist, 4 if it is already finished.")]
pub struct Args {
    /// Id of a question set or inbox item, or unique prefix [default: open the Inbox of the app]
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: Option<String>,
    #[command(flatten)]
    reply: ReplyArgs,
    /// List the pending sets, even on a terminal
    #[arg(long, conflicts_with = "id")]
    plain: bool,
    /// Print JSON
    #[arg(long, requires = "id")]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let folder = QuestionFolder::locate();
    let Some(prefix) = &args.id else {
        if !args.reply.is_empty() {
            return Err(no_id());
        }
        if app::is_wanted(args.plain) {
            return app::open(&place.home()?, Opening::view(View::Inbox));
        }
        questions::list_pending(&folder)?;
        return Ok(ExitCode::SUCCESS);
    };
    if args.reply.is_empty() {
        return Err(Failure::usage(
            "no answer was given",
            "Use --option, --text, --answers or --reject; or run `coven answer` without an id for the app",
        ));
    }
    folder.abandon_orphans(clock::now());
    let id = match folder.find(prefix) {
        Ok(id) => id,
        // It may be a question or a permission of an agent in a session.
        Err(error @ QuestionError::NotFound { .. }) => return answer_in_inbox(args, place, error.into()),
        Err(error) => return Err(error.into()),
    };
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

/// Answers an item of the inbox. Without a running daemon there is none.
fn answer_in_inbox(args: Args, place: &Place, not_found: Failure) -> Result<ExitCode, Failure> {
    let (Some(id), Ok(home)) = (args.id, place.home()) else { return Err(not_found) };
    block_on(async {
        let Ok(Some(mut link)) = DaemonClient::running(&home).await else { return Err(not_found) };
        let item = match send(&mut link, &id, None, args.reply).await {
            Err(failure) if failure.is_not_found() => return Err(not_found),
            item => item?,
        };
        match args.json {
            true => output::record(&item)?,
            false => output::line(format_args!("{}", what_happened(&item)))?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn no_id() -> Failure {
    Failure::usage("no question set id was given", "List them with `coven questions list`")
}
