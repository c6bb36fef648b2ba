//! `coven events`: lists and follows events.

use std::process::ExitCode;

use coven_api::event::{EventRecord, EventsQuery};
use coven_api::routes::{Endpoint, ListEvents};
use coven_client::{Address, ClientError, EventFollower, Followed, SseEvent};
use serde_json::value::RawValue;

use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::{self, Failure};
use crate::{format, output};

/// Events per request.
const PAGE_SIZE: usize = 1000;

/// Lists stored events, or follows new ones
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven events
  coven events --follow --json
  coven events --since 2026-11-15T08:00:00Z")]
pub struct Args {
    /// Keep running and print new events
    #[arg(long, short)]
    follow: bool,
    /// Start after this event number or ISO 8601 time
    #[arg(long, visible_alias = "cursor", value_name = "NUMBER|TIME")]
    since: Option<String>,
    /// With --json: number of events on the page, 1 to 1000
    #[arg(long, value_name = "COUNT", conflicts_with = "follow", requires = "json")]
    limit: Option<usize>,
    /// Print one page as JSON; with --follow one event per line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        if !args.follow {
            let since = args.since.unwrap_or_else(|| "0".to_owned());
            match args.json {
                true => {
                    let page = page(&mut link, &since, args.limit.unwrap_or(PAGE_SIZE)).await?;
                    output::json(&serde_json::to_vec(&page).expect("plain data"))?;
                }
                false => list(&mut link, since).await?,
            }
            return Ok(ExitCode::SUCCESS);
        }
        // A daemon that restarts closes its streams; the follower continues after the last event.
        let mut follower = EventFollower::new(Address::from(home.socket()?), args.since);
        loop {
            match follower.next().await? {
                Followed::Events(events) => events.iter().try_for_each(|event| show(event, args.json))?,
                Followed::Disconnected(error) if !error.is_transient() => return Err(error.into()),
                Followed::Connected | Followed::Disconnected(_) => {}
            }
        }
    })
}

/// A page with the events as the daemon sent them.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next: u64,
    gap: bool,
}

async fn page(link: &mut DaemonClient, since: &str, limit: usize) -> Result<Page, Failure> {
    let query = EventsQuery { since: Some(since.to_owned()), limit: Some(limit), ..EventsQuery::default() };
    let body = link.bytes(ListEvents::request().query(&query)).await?;
    let page: Page = serde_json::from_slice(&body).map_err(ClientError::from)?;
    if page.gap && since != "0" {
        print_gap(since.parse().ok(), page.next);
    }
    Ok(page)
}

async fn list(link: &mut DaemonClient, mut since: String) -> Result<(), Failure> {
    loop {
        let page = page(link, &since, PAGE_SIZE).await?;
        for event in &page.items {
            print(&serde_json::from_str(event.get()).map_err(ClientError::from)?)?;
        }
        if page.items.is_empty() || since == page.next.to_string() {
            return Ok(());
        }
        since = page.next.to_string();
    }
}

fn show(event: &SseEvent, as_json: bool) -> Result<(), Failure> {
    match serde_json::from_str::<EventRecord>(&event.data) {
        Ok(_) if as_json => output::json(event.data.as_bytes()),
        Ok(record) => print(&record),
        // `gap` and `snapshot` are not stored events, but a reader must not miss them.
        Err(_) if as_json => {
            let data: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
            output::json(serde_json::json!({"kind": event.kind, "payload": data}).to_string().as_bytes())
        }
        Err(_) if event.kind == "gap" => {
            let gap: Gap = serde_json::from_str(&event.data).unwrap_or_default();
            print_gap(Some(gap.after), gap.resumes_at);
            Ok(())
        }
        Err(_) => Ok(()),
    }
}

/// The requested and the actual position of a subscription.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
struct Gap {
    after: u64,
    resumes_at: u64,
}

fn print_gap(after: Option<u64>, newest: u64) {
    match after {
        Some(after) if after > newest => {
            failure::print_error(&format!("event {after} does not exist yet; the newest is {newest}."));
        }
        _ => failure::print_error("events after that point have expired; see the current state with `coven state`."),
    }
}

fn print(event: &EventRecord) -> Result<(), Failure> {
    let subject = format::sanitize_line(&event.subject);
    output::line(format_args!("{:>8}  {}  {:<22} {subject}", event.number, event.at, event.kind))
}
