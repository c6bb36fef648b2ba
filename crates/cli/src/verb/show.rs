//! `coven show`: everything known about one session.

use std::process::ExitCode;

use coven_host::clock;

use super::SessionArg;
use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::{output, route, wording};

/// Shows everything known about one session
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  coven show 1a2b\n  coven show 1a2b --json | jq .status")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = Link::open(&home).await?;
        if args.json {
            link.print_json(&route::session(&args.session.id, "")).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let record = link.session(&args.session.id).await?;
        let age = wording::age(&record.created_at, clock::now());
        let mut lines = vec![
            ("id", record.id.clone()),
            ("title", record.title.clone()),
            ("status", wording::status(&record)),
            ("harness", record.harness.clone()),
            ("channel", record.channel.clone()),
            ("folder", record.cwd.clone()),
            ("root", record.project_root.clone()),
            ("created", format!("{} ({age} ago)", record.created_at)),
            ("updated", record.updated_at.clone()),
        ];
        lines.extend(record.archived_at.as_ref().map(|at| ("archived", at.clone())));
        lines.extend(record.pid.map(|pid| ("pid", pid.to_string())));
        lines.extend(record.repo_id.as_ref().map(|repo| ("repo", repo.clone())));
        let metadata: Vec<(String, String)> = record
            .metadata
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
            .collect();
        lines.extend(metadata.iter().map(|(name, value)| (name.as_str(), value.clone())));
        lines.push(("actions", record.actions.join(", ")));
        let text: String = lines.iter().map(|(name, value)| format!("{name:<10}{}\n", wording::plain(value))).collect();
        output::text(&text)?;
        Ok(ExitCode::SUCCESS)
    })
}
