//! `coven show`: shows sessions in full.

use std::process::ExitCode;

use coven_api::SessionRecord;
use coven_api::routes::{Endpoint, GetSession};
use coven_domain::launch_queue::QUEUED;
use coven_holder::clock;

use super::{SessionsArg, each};
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::{activity, format, output};

/// Shows all details of sessions
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  coven show 1a2b\n  coven show 1a2b --json | jq .status")]
pub struct Args {
    #[command(flatten)]
    sessions: SessionsArg,
    /// Print JSON, one record per line
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        let mut is_first = true;
        each(&args.sessions.ids, async |id| {
            if args.json {
                return link.print_json(GetSession::of(id)).await;
            }
            let text = page(&link.session(id).await?);
            let gap = if std::mem::take(&mut is_first) { "" } else { "\n" };
            output::text(&format!("{gap}{text}"))
        })
        .await
    })
}

/// Formats a session, one field per line.
fn page(record: &SessionRecord) -> String {
    let age = format::format_duration(clock::now().since(record.created_at));
    let mut lines =
        vec![("id", record.id.to_string()), ("title", record.title.clone()), ("status", format::status(record))];
    lines.extend(activity::sentence(record, clock::now()).map(|text| ("activity", text)));
    lines.extend(record.activity_source.map(|source| ("source", source.to_string())));
    lines.extend(record.unseen.then(|| ("unseen", "yes".to_owned())));
    lines.extend([
        ("harness", record.harness.clone()),
        ("channel", record.channel.to_string()),
        ("folder", record.cwd.clone()),
        ("root", record.project_root.clone()),
        ("created", format!("{} ({age} ago)", record.created_at)),
        ("updated", record.updated_at.to_string()),
    ]);
    let queued = record.queued_launch();
    lines.extend(queued.as_ref().map(|queued| ("waits", queued.describe())));
    lines.extend(record.archived_at.map(|at| ("archived", at.to_string())));
    lines.extend(record.pid.map(|pid| ("pid", pid.to_string())));
    lines.extend(record.repo_id.map(|repo| ("repo", repo.to_string())));
    let metadata: Vec<(String, String)> = record
        .metadata
        .iter()
        .filter(|(name, _)| queued.is_none() || *name != QUEUED)
        .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    lines.extend(metadata.iter().map(|(name, value)| (name.as_str(), value.clone())));
    lines.push(("actions", record.actions.iter().map(|action| action.as_str()).collect::<Vec<_>>().join(", ")));
    lines.iter().map(|(name, value)| format!("{name:<10}{}\n", format::sanitize_line(value))).collect()
}
