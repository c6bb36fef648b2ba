//! `coven questions`: the question sets of this user, whoever asked them.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use coven_api::list::TimeCursor;
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

/// Lists the questions of agents, shows them, takes them away, and gives their answers
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  coven questions                        what waits for an answer, the oldest first
  coven questions list --all --json | jq -r '.items[].status'
  coven questions show 1a2b
  coven questions answers 1a2b           as the agent gets them
  coven questions history --search database
  coven questions dismiss 1a2b           into the archive; whoever waits for it is told

Answer them with `coven answer`. Needs no daemon and no home: the sets are folders below AUQ_SESSION_DIR, else below
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
    /// What is finished or broken too
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
    /// The set: its id, or any beginning of it that no other set has
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists the sets that wait for an answer, the oldest first
    #[command(after_help = "Examples:
  coven questions list --all --json | jq -r '.items[].status'")]
    List(List),
    /// Shows one set: its questions, options and answers
    #[command(after_help = "Examples:
  coven questions show 1a2b")]
    Show {
        #[command(flatten)]
        set: Set,
        /// Print the record
        #[arg(long)]
        json: bool,
    },
    /// Takes a set away, into the archive
    #[command(after_help = "Examples:
  coven questions dismiss 1a2b --yes")]
    Dismiss {
        #[command(flatten)]
        set: Set,
        /// Do not ask, although it waits for an answer
        #[arg(long)]
        yes: bool,
    },
    /// Lists the sets that are finished, the newest first
    #[command(after_help = "Examples:
  coven questions history --search database --limit 5")]
    History {
        /// Only sets with these words in questions, options or answers
        #[arg(long, value_name = "WORDS")]
        search: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Prints the answers as the agent gets them, and marks them as read
    #[command(after_help = "Examples:
  coven questions answers 1a2b

Exits with 0 if there are answers, 4 while it waits for them, 10 if it was rejected,
11 if it timed out, 12 if it was abandoned.")]
    Answers {
        #[command(flatten)]
        set: Set,
        /// Print the record
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

/// What `coven answer` prints where it has no screen.
pub fn list_waiting(folder: &QuestionFolder) -> Result<(), Failure> {
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
        output::note(format_args!("{broken} broken, left out; --all shows why"));
    }
    let mut places: Vec<(TimeCursor, Listed)> = listed.into_iter().map(|it| (place(folder, &it), it)).collect();
    places.sort_by(|(a, _), (b, _)| a.cmp(b));
    let after = how.page.cursor()?;
    let rest = places.into_iter().skip_while(|(place, _)| after.as_ref().is_some_and(|after| place <= after));
    let page = coven_api::List::page(rest, how.page.limit(), |(place, _)| place.to_string());
    if how.json {
        return output::record(&page.map(|(place, listed)| match listed {
            Listed::Sound(set) => QuestionSetRecord::from(set),
            Listed::Broken { id, why } => QuestionSetRecord::broken(id.into(), why.to_string(), place.at),
        }));
    }
    if page.items.is_empty() {
        let hint = if count > broken && !how.all { "; `coven questions history` has what is finished" } else { "" };
        output::note(format_args!("no questions wait{hint}"));
        return Ok(());
    }
    let page = page.map(|(_, listed)| listed);
    print_table(&list_table(&page.items, clock::now()))?;
    page::say_more(page.next.as_deref());
    Ok(())
}

/// The position of a set in the list: a set that cannot be read has the time when it was last changed.
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
    let last = page.cursor()?;
    let rest = sets.into_iter().skip_while(|set| last.as_ref().is_some_and(|last| place(set) >= *last));
    let page = coven_api::List::page(rest, page.limit(), |set| place(set).to_string());
    if as_json {
        return output::record(&page.map(QuestionSetRecord::from));
    }
    if page.items.is_empty() {
        output::note(format_args!(
            "nothing is finished{}",
            if search.is_some() { " with these words in it" } else { "" }
        ));
        return Ok(());
    }
    print_table(&history_table(&page.items, clock::now()))?;
    page::say_more(page.next.as_deref());
    Ok(())
}

fn print_table(table: &crate::table::Table) -> Result<(), Failure> {
    let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
    output::text(&table.text(width))
}

fn dismiss(folder: &QuestionFolder, prefix: &str, is_meant: bool) -> Result<(), Failure> {
    let id = folder.find(prefix)?;
    // A broken set cannot be read, and nobody waits for it.
    let is_waiting = folder.read(&id).is_ok_and(|set| set.state == QuestionSetState::Pending);
    if is_waiting && !is_meant {
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            let what = format!("the set waits for an answer and dismissing it was not confirmed: {id}");
            return Err(Failure::usage(what, "Add --yes if it is meant"));
        }
        confirm(&format!("It waits for an answer. Dismiss it all the same ({id})? [y/N] "))?;
    }
    folder.dismiss(&id)?;
    output::line(format_args!("dismissed, kept in {}: {id}", folder.archive().display()))
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
            // Somebody dismissed it since: it has been read all the same.
            Ok(()) | Err(QuestionError::NotFound { .. } | QuestionError::NoAnswers { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ExitCode::from(code))
}
