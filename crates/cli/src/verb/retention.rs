//! `coven retention`: what has been kept long enough.

use std::process::ExitCode;

use coven_api::retention::{RetentionRequest, RetentionResponse};

use super::print_json;
use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::output;

/// Deletes now what has been kept long enough; the daemon does it by itself every hour
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven retention --dry-run           what would go
  coven retention --dry-run --json | jq .events_deleted

The periods are store.taskRetentionDays and its neighbours in the config; see `coven config schema`.")]
pub struct Args {
    /// Delete nothing, only say what would go
    #[arg(long)]
    dry_run: bool,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = Link::open(&home).await?;
        let request = RetentionRequest { dry_run: args.dry_run };
        let went: RetentionResponse = link.post("/api/v1/retention", &request).await?;
        match args.json {
            true => print_json(&serde_json::to_vec(&went).map_err(coven_api::ClientError::from)?)?,
            false => output::bytes(text(&went).as_bytes())?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn text(went: &RetentionResponse) -> String {
    let lists = [
        ("tasks hidden", &went.tasks_soft_deleted),
        ("tasks deleted", &went.tasks_deleted),
        ("agents deleted", &went.agents_deleted),
        ("sessions deleted", &went.sessions_deleted),
        ("workflows deleted", &went.workflows_deleted),
        ("questions deleted", &went.questions_deleted),
    ];
    let mut text = String::new();
    for (what, ids) in lists {
        text.push_str(&format!("{what:<18} {}\n", ids.len()));
        ids.iter().for_each(|id| text.push_str(&format!("  {id}\n")));
    }
    text.push_str(&format!("{:<18} {}\n", "events deleted", went.events_deleted));
    if went.dry_run {
        text.push_str("nothing was deleted: --dry-run\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_is_counted_and_named() {
        let went = RetentionResponse {
            dry_run: true,
            tasks_soft_deleted: vec!["a".into(), "b".into()],
            tasks_deleted: vec![],
            agents_deleted: vec![],
            sessions_deleted: vec![],
            workflows_deleted: vec![],
            questions_deleted: vec![],
            events_deleted: 7,
        };
        let text = text(&went);
        assert!(text.starts_with("tasks hidden       2\n  a\n  b\n"), "{text}");
        assert!(text.ends_with("events deleted     7\nnothing was deleted: --dry-run\n"), "{text}");
    }
}
