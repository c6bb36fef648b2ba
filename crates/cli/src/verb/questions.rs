//! `coven questions`: lists, shows and dismisses this user's question sets, and prints their answers.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use coven_api::list::{ListKey, TimeCursor};
use coven_api::question::QuestionSetRecord;
use coven_domain::question::{format_answers, format_rejection, header};
use coven_domain::question_set::QuestionSetState;
use coven_holder::clock;
use coven_interop::questions::{Listed, QuestionError, QuestionFolder, QuestionSet};

use super::ask::{ABANDONED, REJECTED, TIMED_OUT};
use super::page::{self, PageArgs};
use super::questions_text::{details, history_table, list_table, mentions};
use crate::command_line::Place;
use crate::failure::{Failure, REFUSED};
use crate::output;

/// Lists, shows and dismisses question sets, and prints their answers
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  coven questions                        pending sets, oldest first
  coven questions list --all --json | jq -r '.items[].status'
  coven questions show 1a2b
  coven questions answers 1a2b           in the form that the agent gets
  coven questions history --search database
  coven questions dismiss 1a2b           moves it to the archive; the asking program stops waiting

Answer them with `coven answer`. Needs no daemon and no home: the sets are folders in AUQ_SESSION_DIR, or else in
$XDG_DATA_HOME/auq/sessions."
)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Include finished and broken sets
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    page: PageArgs,
}

#[derive(Debug, clap::Args)]
struct Set {
    /// Question set id or unique prefix
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists pending sets, oldest first
    #[command(after_help = "Examples:
  coven questions list --all --json | jq -r '.items[].status'")]
    List(List),
    /// Shows a set: questions, options and answers
    #[command(after_help = "Examples:
  coven questions show 1a2b")]
    Show {
        #[command(flatten)]
        set: Set,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Moves a set to the archive
    #[command(after_help = "Examples:
  coven questions dismiss 1a2b --yes")]
    Dismiss {
        #[command(flatten)]
        set: Set,
        /// Dismiss a pending set without confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Lists finished sets, newest first
    #[command(after_help = "Examples:
  coven questions history --search database --limit 5")]
    History {
        /// Filter by text in questions, options or answers
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Prints the answers in the form that the agent gets, and marks them as read
    #[command(after_help = "Examples:
  coven questions answers 1a2b

Exits with 0 if the set is answered, 4 if it is pending, 10 if rejected,
11 if timed out, 12 if abandoned.")]
    Answers {
        #[command(flatten)]
        set: Set,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args, _place: &Place) -> Result<ExitCode, Failure> {
    let folder = QuestionFolder::locate();
    folder.abandon_orphans(clock::now());
    match args.verb.unwrap_or(Verb::List(args.list)) {
        Verb::List(how) => list(&folder, how)?,
        Verb::Show { set, json } => {
            let set = folder.read(&folder.find(&set.id)?)?;
            match json {
                true => output::record(&QuestionSetRecord::from(&set))?,
                false => output::text(&details(&set, clock::now()))?,
            }
        }
        Verb::Dismiss { set, yes } => dismiss(&folder, &set.id, yes)?,
        Verb::History { search, json, page } => history(&folder, search.as_deref(), &page, json)?,
        Verb::Answers { set, json } => return answers(&folder, &set.id, json),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the pending sets, for `coven answer` without a screen.
pub fn list_pending(folder: &QuestionFolder) -> Result<(), Failure> {
    folder.abandon_orphans(clock::now());
    list(folder, List { all: false, json: false, page: PageArgs::default() })
}

fn list(folder: &QuestionFolder, how: List) -> Result<(), Failure> {
    let mut listed = folder.list()?;
    let count = listed.len();
    let is_waiting = |listed: &Listed| matches!(listed, Listed::Sound(set) if set.state == QuestionSetState::Pending);
    let broken = listed.iter().filter(|listed| matches!(listed, Listed::Broken { .. })).count();
    listed.retain(|listed| how.all || is_waiting(listed));
    if broken > 0 && !how.all {
        output::note(format_args!("{broken} broken sets are not shown; see them with --all"));
    }
    let mut places: Vec<(TimeCursor, Listed)> = listed.into_iter().map(|it| (place(folder, &it), it)).collect();
    places.sort_by(|(a, _), (b, _)| a.cmp(b));
    let key = ListKey::new(&["questions", if how.all { "all" } else { "waiting" }]);
    let after = how.page.place(key)?;
    let rest = places.into_iter().skip_while(|(place, _)| after.as_ref().is_some_and(|after| place <= after));
    let page = coven_api::List::page(rest, how.page.limit(), |(place, _)| key.cursor(place));
    if how.json {
        return output::record(&page.map(|(place, listed)| match listed {
            Listed::Sound(set) => QuestionSetRecord::from(set),
            Listed::Broken { id, why } => QuestionSetRecord::broken(id.into(), why.to_string(), place.at),
        }));
    }
    if page.items.is_empty() {
        let hint = if count > broken && !how.all { "; list finished sets with `coven questions history`" } else { "" };
        output::note(format_args!("no question set is pending{hint}"));
        return Ok(());
    }
    let page = page.map(|(_, listed)| listed);
    print_table(&list_table(&page.items, clock::now()))?;
    page::print_next_page(page.next.as_deref());
    Ok(())
}

/// Returns the position of a set in the list. A broken set has the time of its last change.
fn place(folder: &QuestionFolder, listed: &Listed) -> TimeCursor {
    match listed {
        Listed::Sound(set) => TimeCursor::new(set.created_at, set.id),
        Listed::Broken { id, .. } => TimeCursor::new(folder.touched_at(id).unwrap_or_else(clock::now), id),
    }
}

fn history(folder: &QuestionFolder, search: Option<&str>, page: &PageArgs, as_json: bool) -> Result<(), Failure> {
    let finished = |listed| match listed {
        Listed::Sound(set) if set.state != QuestionSetState::Pending => Some(set),
        Listed::Sound(_) | Listed::Broken { .. } => None,
    };
    let mut sets: Vec<QuestionSet> = folder.list()?.into_iter().filter_map(finished).collect();
    sets.retain(|set| search.is_none_or(|words| mentions(set, words)));
    let place = |set: &QuestionSet| TimeCursor::new(set.modified_at, set.id);
    sets.sort_by_cached_key(|set| std::cmp::Reverse(place(set)));
    let key = ListKey::new(&["questions", "history", search.unwrap_or_default()]);
    let last = page.place(key)?;
    let rest = sets.into_iter().skip_while(|set| last.as_ref().is_some_and(|last| place(set) >= *last));
    let page = coven_api::List::page(rest, page.limit(), |set| key.cursor(place(set)));
    if as_json {
        return output::record(&page.map(QuestionSetRecord::from));
    }
    if page.items.is_empty() {
        output::note(format_args!(
            "no finished question set{}",
            if search.is_some() { " contains this text" } else { "" }
        ));
        return Ok(());
    }
    print_table(&history_table(&page.items, clock::now()))?;
    page::print_next_page(page.next.as_deref());
    Ok(())
}

fn print_table(table: &crate::table::Table) -> Result<(), Failure> {
    let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
    output::text(&table.text(width))
}

fn dismiss(folder: &QuestionFolder, prefix: &str, is_confirmed: bool) -> Result<(), Failure> {
    let id = folder.find(prefix)?;
    // A broken set needs no confirmation: no program waits for it.
    let is_waiting = folder.read(&id).is_ok_and(|set| set.state == QuestionSetState::Pending);
    if is_waiting && !is_confirmed {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            let what = format!("question set {id} is unanswered; dismissing it needs confirmation");
            return Err(Failure::usage(what, "Add --yes to dismiss it"));
        }
        confirm(&format!("Question set {id} is unanswered. Dismiss it anyway? [y/N] "))?;
    }
    folder.dismiss(&id)?;
    output::line(format_args!("dismissed, archived in {}: {id}", folder.archive().display()))
}

fn confirm(question: &str) -> Result<(), Failure> {
    let mut err = io::stderr().lock();
    err.write_all(question.as_bytes()).and_then(|()| err.flush()).map_err(Failure::Output)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::Input)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::refused("nothing was dismissed", "Type y to dismiss it")),
    }
}

fn answers(folder: &QuestionFolder, prefix: &str, as_json: bool) -> Result<ExitCode, Failure> {
    let id = folder.find(prefix)?;
    let set = folder.read(&id)?;
    let word = set.state.as_str();
    let (code, text) = match (set.state, &set.answers) {
        (QuestionSetState::Completed, Some(given)) => {
            let answers = format_answers(&set.questions, &given.answers);
            (0, format!("{}\n\n{answers}", header(&id, Some(set.questions.len()), None)))
        }
        (QuestionSetState::Rejected, _) => {
            let rejection = format_rejection(set.rejection_reason.as_deref());
            (REJECTED, format!("{}\n\n{}", header(&id, None, Some(word)), rejection.trim_end()))
        }
        (QuestionSetState::Pending, _) | (QuestionSetState::Completed, None) => {
            (REFUSED, format!("{}\n\nNo answers yet.", header(&id, None, Some(word))))
        }
        (QuestionSetState::TimedOut, _) => {
            (TIMED_OUT, format!("{}\n\nSession status: {word}", header(&id, None, Some(word))))
        }
        (QuestionSetState::Abandoned, _) => {
            (ABANDONED, format!("{}\n\nSession status: {word}", header(&id, None, Some(word))))
        }
    };
    match as_json {
        true => output::record(&QuestionSetRecord::from(&set))?,
        false if output::is_terminal() => output::line(format_args!("{text}"))?,
        false => output::bytes(format!("{text}\n").as_bytes())?,
    }
    if code == 0 {
        match folder.mark_read(&id, clock::now()) {
            // The set was dismissed meanwhile; the answers were printed anyway.
            Ok(()) | Err(QuestionError::NotFound { .. } | QuestionError::NoAnswers { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ExitCode::from(code))
}
