//! `coven sessions`: opens the app on a terminal, or prints a table or JSON.

use std::process::ExitCode;

use coven_api::list::{ListKey, MAX_LIMIT, TimeCursor};
use coven_api::routes::{Endpoint, ListSessions};
use coven_api::session::ListSessionsQuery;
use coven_app::View;
use coven_domain::activity::Activity;
use coven_domain::conversation::{ConversationState, Summary};
use coven_domain::lifecycle::UnknownValue;
use coven_domain::session::SessionState;
use coven_holder::clock;
use coven_host::home::Home;
use coven_interop::conversations::{Conversations, Filter};

use super::page;
use super::sessions_list::{self, Cursor};
use crate::app::{self, Opening};
use crate::command_line::Place;
use crate::daemon_client::quick_get;
use crate::failure::{self, Failure};
use crate::{format, output};

/// Shows sessions in the app; prints a table into a pipe, with conversations
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven sessions                                 opens the app on a terminal
  coven sessions --plain --status running
  coven sessions --activity permission,question --plain     those that wait for you
  coven sessions --json --all | jq -r '.items[].id'
  coven sessions --kind conversation --plain     resume one with `coven spawn --resume ID`
  coven sessions --harness claude --limit 5 | cat

The table lists the sessions that need you first, then the working, idle and finished ones.
DETAIL is what the agent wants or does.")]
pub struct Args {
    /// Print a table
    #[arg(long, conflicts_with_all = ["json", "manage"])]
    plain: bool,
    /// Print a page of JSON records
    #[arg(long, conflicts_with = "manage")]
    json: bool,
    /// Include archived sessions
    #[arg(long)]
    all: bool,
    /// Open the app on the terminal, even if standard input or output is redirected
    #[arg(long)]
    manage: bool,
    /// Filter by status: created, running, completed, failed, killed, orphaned; conversations: active, completed, interrupted
    #[arg(long, value_delimiter = ',', value_name = "STATUS")]
    status: Vec<String>,
    /// Filter by activity: permission, question, working, idle, limited, unknown; only running sessions have one
    #[arg(long, value_delimiter = ',', value_name = "ACTIVITY", value_parser = activity)]
    activity: Vec<Activity>,
    /// Filter by kind [default: both]
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Filter by harness
    #[arg(long)]
    harness: Option<String>,
    /// Maximum number of items, newest first
    #[arg(long, value_name = "N", default_value_t = MAX_LIMIT, value_parser = page::limit())]
    limit: usize,
    /// Start after another page: its `next` value
    #[arg(long, conflicts_with = "manage")]
    cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Session of the daemon
    Session,
    /// Conversation of `coven spawn`; read-only here
    Conversation,
}

/// Parses an activity; an unknown one is refused with the known values.
fn activity(word: &str) -> Result<Activity, UnknownValue> {
    word.parse()
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let is_list = args.plain || args.json || args.limit != MAX_LIMIT || args.cursor.is_some();
    if args.manage || app::is_wanted(is_list) {
        output::onto_terminal()?;
        let view = if args.all { View::History } else { View::Agents };
        return app::open(&home, Opening { filter: filter(&args), ..Opening::view(view) });
    }
    let mut query = session_query(&args);
    let list = ListKey::of::<ListSessions>(&query);
    let cursor = page::place::<TimeCursor>(list, args.cursor.as_deref())?.map(Cursor::from);
    query.cursor = cursor.as_ref().map(|cursor| list.cursor(cursor.of_sessions()));
    let conversations = conversations(&args, cursor.as_ref())?;
    let sessions = sessions(&home, &args, &query)?;
    if args.json {
        output::bytes(sessions_list::page(list, &sessions, &conversations, args.limit)?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
    let (table, next) = sessions_list::table(list, &sessions, &conversations, args.limit, clock::now(), width)?;
    output::text(&table)?;
    page::print_next_page(next.as_deref());
    if !conversations.is_empty() {
        output::note(format_args!("resume a conversation with `coven spawn --resume ID`"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The filters of the command line as the filter of the app's list.
fn filter(args: &Args) -> String {
    let activities = args.activity.iter().map(|activity| activity.as_str());
    let words = args.harness.iter().chain(&args.status).map(String::as_str).chain(activities);
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the conversations that match the filters.
fn conversations(args: &Args, cursor: Option<&Cursor>) -> Result<Vec<Summary>, Failure> {
    if args.kind == Some(Kind::Session) || !args.activity.is_empty() {
        return Ok(Vec::new());
    }
    let mut listing = Conversations::locate().list(&Filter::default())?;
    for (id, why) in &listing.broken {
        failure::print_error(&format!("skipped conversation {id}: {}", format::sanitize_line(&why.to_string())));
    }
    let is_wanted = |it: &Summary| {
        (args.status.is_empty() || args.status.iter().any(|word| word == it.status.as_str()))
            && args.harness.as_ref().is_none_or(|harness| it.harness.as_ref() == Some(harness))
            && cursor.is_none_or(|cursor| cursor.is_before(it))
    };
    listing.conversations.retain(is_wanted);
    listing.conversations.sort_by(|a, b| (b.created_at, &a.id).cmp(&(a.created_at, &b.id)));
    Ok(listing.conversations)
}

/// Removes statuses that only conversations have, which the daemon would reject.
fn session_statuses(words: &[String]) -> Vec<String> {
    let is_foreign = |word: &str| word.parse::<ConversationState>().is_ok() && word.parse::<SessionState>().is_err();
    words.iter().filter(|word| !is_foreign(word)).cloned().collect()
}

/// Returns the query for the first page of sessions.
fn session_query(args: &Args) -> ListSessionsQuery {
    let status = session_statuses(&args.status);
    let activities: Vec<&str> = args.activity.iter().map(|activity| activity.as_str()).collect();
    ListSessionsQuery {
        activity: (!activities.is_empty()).then(|| activities.join(",")),
        status: (!status.is_empty()).then(|| status.join(",")),
        harness: args.harness.clone(),
        all: args.all.then_some(true),
        limit: Some(args.limit),
        ..ListSessionsQuery::default()
    }
}

/// Fetches a page of sessions from the daemon, as bytes.
fn sessions(home: &Home, args: &Args, query: &ListSessionsQuery) -> Result<Vec<u8>, Failure> {
    let wants_none = query.status.is_none() && !args.status.is_empty();
    if args.kind == Some(Kind::Conversation) || wants_none {
        return Ok(sessions_list::EMPTY.to_vec());
    }
    quick_get(home, ListSessions::request().query(query))
}
