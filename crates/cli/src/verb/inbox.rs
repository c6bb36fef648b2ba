//! `coven inbox`: lists, shows and answers inbox items.

use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use coven_api::SessionRecord;
use coven_api::inbox::{InboxItem, InboxKind, InboxQuery, InboxStatus};
use coven_api::routes::{Endpoint, GetInboxItem, ListInbox, ListSessions};
use coven_api::session::ListSessionsQuery;
use coven_api::task::TaskRecord;
use coven_app::View;
use coven_domain::operation::OperationKind;
use coven_holder::clock;
use coven_host::home::Home;

use super::answer_reply::ReplyArgs;
use super::inbox_answer::{send, what_happened};
use super::inbox_follow;
use super::inbox_text::{details, reason, table, waiting_table};
use crate::app::{self, Opening};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::listing::{self, Paging};
use crate::{format, inbox_alerts, operation, output};

/// Lists, shows and answers inbox items: everything that needs a human
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  coven inbox                         opens the Inbox of the app on a terminal
  coven inbox --plain
  coven inbox --follow                prints changes until Ctrl-C
  coven inbox show 1a2b               one item in full
  coven inbox answer 1a2b allow       a permission: allow, always, deny or one of its options
  coven inbox answer 7f3c SQLite      a question with options
  coven inbox answer 7f3c --question 1 --option SQLite --question 2 --text soon    several questions
  coven inbox answer 7f3c --reject --reason \"too vague\"
  coven inbox answer 5b1f yes         a terminal prompt: types this line
  coven inbox answer 9d0e approve     a finished task: merges its work
  coven inbox answer 9d0e reject --reason \"no tests\"    or sends it back
  coven inbox answer 9d0e retry       a blocked task: retries its step; or unblock, close
  coven inbox --json --all | jq '.items[].title'

Only the first answer counts; a later one exits with 4."
)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Include items that were answered, rejected or cancelled
    #[arg(long)]
    all: bool,
    /// Show only items of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Keep running and print new and closed items
    #[arg(long, short, conflicts_with_all = ["all", "limit", "cursor"])]
    follow: bool,
    #[command(flatten)]
    paging: Paging,
    /// Print a table, even on a terminal
    #[arg(long, conflicts_with = "json")]
    plain: bool,
    /// Print JSON; with --follow one object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Shows an inbox item and how to answer it
    #[command(after_help = "Examples:
  coven inbox show 1a2b")]
    Show {
        /// Item id or unique prefix
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Answers a permission, question, question set, terminal prompt or task
    #[command(after_help = "Examples:
  coven inbox answer 1a2b allow
  coven inbox answer 1a2b always      the agent asks no more for this, if it offers that
  coven inbox answer 7f3c SQLite
  coven inbox answer 7f3c --text \"neither: use files\"
  coven inbox answer 9d0e reject --reason \"no tests\"")]
    Answer {
        /// Item id or unique prefix
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Permission: allow, always, deny or an option; question: an option; review: approve or reject; blocked task:
        /// retry, unblock or close; terminal prompt: the line to type
        #[arg(value_name = "ANSWER", group = "reasoned", conflicts_with_all = ["option", "text", "question", "answers", "reject"])]
        answer: Option<String>,
        #[command(flatten)]
        reply: ReplyArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let wants_list =
        args.plain || args.json || args.all || args.follow || args.session.is_some() || args.verb.is_some();
    if app::is_wanted(wants_list) {
        return app::open(&home, Opening::view(View::Inbox));
    }
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        match args.verb {
            None if args.follow => {
                let session = full_id(&mut link, args.session).await?;
                let rings = output::is_terminal() && inbox_alerts::is_bell_enabled(&home);
                inbox_follow::follow(&home, link, session, args.json, rings).await?;
            }
            None => list(&mut link, args.all, args.session, args.paging, args.json).await?,
            Some(Verb::Show { id, json: true }) => link.print_json(GetInboxItem::of(&id)).await?,
            Some(Verb::Show { id, json: false }) => {
                let item = link.call(GetInboxItem::of(&id)).await?;
                output::text(&details(&item, clock::now()))?;
            }
            Some(Verb::Answer { id, answer, reply, json }) => {
                let item = send(&mut link, &id, answer, reply).await?;
                if item.kind == InboxKind::Merge && item.answer.as_deref() == Some("approve") {
                    wait_for_merge(&home, &mut link, &item).await?;
                }
                match json {
                    true => output::json(&serde_json::to_vec(&item).expect("plain data"))?,
                    false => output::line(format_args!("{}", what_happened(&item)))?,
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Resolves a session id prefix to the full id.
async fn full_id(link: &mut DaemonClient, session: Option<String>) -> Result<Option<String>, Failure> {
    match session {
        Some(id) => Ok(Some(link.session(&id).await?.id.to_string())),
        None => Ok(None),
    }
}

async fn list(
    link: &mut DaemonClient,
    all: bool,
    session: Option<String>,
    paging: Paging,
    as_json: bool,
) -> Result<(), Failure> {
    let session = full_id(link, session).await?;
    let query = InboxQuery { all: all.then_some(true), session, ..InboxQuery::default() };
    let request = ListInbox::request().query(&query);
    if as_json {
        return listing::print_json(link, request, paging).await;
    }
    let items = listing::items(link, request, paging.clone()).await?;
    let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
    if items.is_empty() {
        output::note(format_args!("the inbox is empty"));
    } else {
        output::text(&table(&items, all, clock::now()).text(width))?;
    }
    // The table truncates long cells, but users need the full paths in a reason.
    for item in items.iter().filter(|item| item.status == InboxStatus::Pending) {
        if let Some(why) = reason(item) {
            output::line(format_args!("\n{}: {}", format::short_id(&item.id), format::sanitize_line(&why)))?;
        }
    }
    // A page of the list does not show which sessions have an item.
    if paging.limit.is_none() && paging.cursor.is_none() {
        let waiting = waiting_elsewhere(link, query.session.as_deref(), &items).await?;
        if !waiting.is_empty() {
            output::line(format_args!("\nWaiting in a terminal; answer with `coven attach ID`:"))?;
            output::text(&waiting_table(&waiting, clock::now()).text(width))?;
        }
    }
    Ok(())
}

/// Returns the sessions whose agents need the user without an item in the inbox.
async fn waiting_elsewhere(
    link: &mut DaemonClient,
    session: Option<&str>,
    items: &[InboxItem],
) -> Result<Vec<SessionRecord>, Failure> {
    let asks = Some("permission,question".to_owned());
    let query = ListSessionsQuery { activity: asks, all: Some(true), ..ListSessionsQuery::default() };
    let mut waiting = listing::items(link, ListSessions::request().query(&query), Paging::default()).await?;
    let has_item = |it: &SessionRecord| {
        items.iter().any(|item| item.session_id == Some(it.id) && item.status == InboxStatus::Pending)
    };
    waiting.retain(|it: &SessionRecord| session.is_none_or(|id| it.id.to_string() == id) && !has_item(it));
    waiting.sort_by_key(|it| it.activity_since);
    Ok(waiting)
}

/// Waits for the merge that an answer started, and returns its error if it failed.
async fn wait_for_merge(home: &Home, link: &mut DaemonClient, item: &InboxItem) -> Result<(), Failure> {
    // An inbox item about a task has the id of the task.
    match operation::newest(link, OperationKind::TaskApprove, &item.id).await? {
        Some(started) => operation::result::<TaskRecord>(home, link, started).await.map(drop),
        None => Ok(()),
    }
}
