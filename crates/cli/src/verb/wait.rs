//! `coven wait`: waits until sessions have ended, or until their agents do something.

use std::process::ExitCode;
use std::time::Duration;

use coven_api::SessionRecord;
use coven_api::routes::{Endpoint, WaitSession};
use coven_api::session::WaitQuery;
use coven_client::ClientError;
use coven_domain::activity::Activity;
use coven_domain::session::SessionState;
use coven_host::home::Home;
use tokio::time::Instant;

use super::{SessionsArg, print_json, print_record};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::{Failure, UNAVAILABLE};
use crate::{activity, format, output};

const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Waits until sessions have ended, or until their agents are idle or need you
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven wait 1a2b && git push
  coven wait 1a2b 3c4d
  coven wait 1a2b --for idle,permission,question    until the agent stops working
  coven wait 1a2b --for permission --timeout 600 && coven attach 1a2b
  coven wait 1a2b --json | jq .exit_code

With several sessions it waits for each of them.
Exit codes: 0 if every session completed, or did what --for lists; 1 if a session ended in another way, or ended before it
did what --for lists; 3 if a session does not exist, 4 if it has not started, 124 if --timeout has passed.")]
pub struct Args {
    #[command(flatten)]
    sessions: SessionsArg,
    /// What to wait for; returns at once if it is so already [default: ended]
    #[arg(long = "for", value_enum, value_delimiter = ',', value_name = "STATE")]
    states: Vec<Awaited>,
    /// Seconds to wait at most, for all sessions together
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Print JSON, one record per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Awaited {
    /// The agent's turn is over
    Idle,
    /// The agent waits for an approval
    Permission,
    /// The agent waits for an answer
    Question,
    /// The agent reached a quota or a rate limit
    Limited,
    /// The agent works
    Working,
    /// The session has ended
    Ended,
}

impl Awaited {
    const fn activity(self) -> Option<Activity> {
        match self {
            Self::Idle => Some(Activity::Idle),
            Self::Permission => Some(Activity::Permission),
            Self::Question => Some(Activity::Question),
            Self::Limited => Some(Activity::Limited),
            Self::Working => Some(Activity::Working),
            Self::Ended => None,
        }
    }
}

/// Parses a number of seconds; fractions are allowed.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "expected a number of seconds, 0 or more".to_owned())
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let mut all_succeeded = true;
    block_on(async {
        let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        for id in &args.sessions.ids {
            let waiting = wait_for(&home, id, &args.states);
            let body = match deadline {
                None => waiting.await?,
                Some(deadline) => match tokio::time::timeout_at(deadline, waiting).await {
                    Ok(body) => body?,
                    Err(_) => return Err(timed_out(id)),
                },
            };
            all_succeeded &= report(&body, &args.states, args.json)?;
        }
        Ok(())
    })?;
    Ok(if all_succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits for one session. The daemon answers when it is so: nothing here asks again and again.
async fn wait_for(home: &Home, id: &str, states: &[Awaited]) -> Result<bytes::Bytes, Failure> {
    let words: Vec<&str> = states.iter().filter_map(|state| Some(state.activity()?.as_str())).collect();
    let query = WaitQuery { activities: (!words.is_empty()).then(|| words.join(",")) };
    loop {
        let mut link = DaemonClient::open(home).await?;
        match link.bytes(WaitSession::of(id).query(&query)).await {
            // The daemon stopped or restarted, but the session keeps running: wait again.
            Err(error) if error.exit_code() == UNAVAILABLE => tokio::time::sleep(RETRY_DELAY).await,
            answer => return Ok(answer?),
        }
    }
}

/// Prints what happened. Returns whether it is what the user waited for.
fn report(body: &bytes::Bytes, states: &[Awaited], as_json: bool) -> Result<bool, Failure> {
    let record: SessionRecord = serde_json::from_slice(body).map_err(ClientError::from)?;
    if record.status == SessionState::Created {
        let short = record.id.short();
        let hint = format!("Start it with `coven start {short}`");
        return Err(Failure::refused(format!("session {short} has not started"), hint));
    }
    let is_running = record.status == SessionState::Running;
    match activity::sentence(&record, coven_holder::clock::now()).filter(|_| is_running && !as_json) {
        Some(doing) => output::line(format_args!("{}: {} {}", format::sanitize_line(&doing), record.title, record.id))?,
        None if as_json => print_json(body)?,
        None => print_record(body, false, "ended")?,
    }
    Ok(match (is_running, states.is_empty()) {
        (true, _) => true,
        (false, true) => record.status == SessionState::Completed,
        (false, false) => states.contains(&Awaited::Ended),
    })
}

fn timed_out(id: &str) -> Failure {
    Failure::TimedOut {
        what: format!("session {} did not get there in time", format::sanitize_line(id)),
        hint: format!("See what it is doing with `coven why {}`", format::sanitize_line(id)),
    }
}
