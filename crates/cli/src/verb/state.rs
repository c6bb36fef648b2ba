//! `coven state`: prints a snapshot of the store.

use std::process::ExitCode;

use coven_api::list::MAX_LIMIT;
use coven_api::routes::{Endpoint, ReadState};
use coven_api::state::StateQuery;
use coven_domain::session::SessionState;

use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::output;

/// Prints a snapshot of the store, with the number of the last event
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  coven state\n  coven state --json | jq .event_number\n  coven state --json --limit 100 | jq .next"
)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Number of rows to print
    #[arg(long, value_name = "N", requires = "json")]
    limit: Option<usize>,
    /// Start after another page: its `next` value
    #[arg(long, value_name = "CURSOR", requires = "json")]
    cursor: Option<String>,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        if args.json {
            let query = StateQuery { limit: args.limit, cursor: args.cursor };
            let mut pieces = link.stream(ReadState::request().query(&query)).await?;
            while let Some(piece) = pieces.next().await? {
                output::bytes(&piece)?;
            }
            output::json(b"")?;
            return Ok(ExitCode::SUCCESS);
        }
        let (mut counts, mut running, mut event_number) = ([0; 5], 0, None);
        let mut query = StateQuery { limit: Some(MAX_LIMIT), cursor: None };
        loop {
            let page = link.call(ReadState::request().query(&query)).await?;
            let here =
                [page.sessions.len(), page.tasks.len(), page.agents.len(), page.workflows.len(), page.questions.len()];
            counts.iter_mut().zip(here).for_each(|(count, here)| *count += here);
            running += page.sessions.iter().filter(|session| session.status == SessionState::Running).count();
            event_number.get_or_insert(page.event_number);
            query.cursor = page.next;
            if query.cursor.is_none() {
                break;
            }
        }
        let [sessions, tasks, agents, workflows, questions] = counts;
        let event_number = event_number.unwrap_or_default();
        let text = format!(
            "sessions   {sessions} ({running} running)\ntasks      {tasks}\nagents     {agents}\n\
             workflows  {workflows}\nquestions  {questions}\nlast event {event_number}\n",
        );
        output::text(&text)?;
        Ok(ExitCode::SUCCESS)
    })
}
