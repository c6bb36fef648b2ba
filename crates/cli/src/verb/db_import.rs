//! `coven db import`: imports the files of the older coven.

use std::process::ExitCode;

use coven_api::migrate::{MigrateCounts, MigrateRequest, MigrateResponse};
use coven_api::routes::{Endpoint, Migrate};

use coven_host::daemon_start::MIGRATE_NOTICE;

use super::print_json;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::format::sanitize_line;
use crate::operation::{self, WaitArgs};
use crate::output;

/// Imports tasks, agents, workflows and questions of the older coven; can be run again
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven db import --dry-run           what would be taken, and what not and why
  coven db import
  coven db import --json | jq -r '.left[] | \"\\(.file): \\(.what): \\(.why)\"'

It reads state.json, workflows/*.json, familiars/*.json and questions/*.json in the home, and
.beads/issues.jsonl of the project that the home lies in. All is taken or nothing. A file of the
home is renamed to *.migrated once all of it is in, and is never deleted. The issues are only read:
their file belongs to the tracker, and a later run takes what is new there. What was being worked
on is blocked, with the reason: look at it and `coven task unblock` it. Tasks keep their old id as
a tag, e.g. `coven task list --tag legacy:app-12`.

Interrupted writes (*.json.tmp) and session.json hold nothing to import: they are listed as
leftovers and stay in place.

Exit codes: 0 all was taken, or there was nothing; 1 something was left.")]
pub struct Args {
    /// Write nothing and rename nothing, only say what would be taken
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    wait: WaitArgs,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = DaemonClient::open_without(&home, MIGRATE_NOTICE).await?;
        let request = MigrateRequest { dry_run: args.dry_run };
        let started = link.call(Migrate::request().body(&request)).await?;
        if args.wait.no_wait {
            return operation::print_started(&started, args.json).map(|()| ExitCode::SUCCESS);
        }
        let done: MigrateResponse = operation::result(&home, &mut link, started).await?;
        match args.json {
            true => print_json(&serde_json::to_vec(&done).map_err(coven_client::ClientError::from)?)?,
            false => output::text(&text(&done))?,
        }
        Ok(if done.left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn text(done: &MigrateResponse) -> String {
    let (taken, known) = (done.taken, done.known);
    let nothing = MigrateCounts::default();
    if (taken, known) == (nothing, nothing)
        && done.left.is_empty()
        && done.renamed.is_empty()
        && done.leftovers.is_empty()
    {
        return "there is nothing to migrate\n".to_owned();
    }
    let (take, rename) = if done.dry_run { ("to be taken", "to rename") } else { ("taken", "renamed") };
    let mut text = String::new();
    for (what, taken, known) in [
        ("tasks", taken.tasks, known.tasks),
        ("agents", taken.agents, known.agents),
        ("workflows", taken.workflows, known.workflows),
        ("questions", taken.questions, known.questions),
    ] {
        let known = if known == 0 { String::new() } else { format!(", {known} known from before") };
        text.push_str(&format!("{what:<10} {taken} {take}{known}\n"));
    }
    for file in &done.renamed {
        text.push_str(&format!("{rename:<10} {} to {}\n", sanitize_line(&file.file), sanitize_line(&file.to)));
    }
    for left in &done.left {
        text.push_str(&format!(
            "left       {}: {}: {}\n",
            sanitize_line(&left.file),
            sanitize_line(&left.what),
            sanitize_line(&left.why)
        ));
    }
    for leftover in &done.leftovers {
        let (file, what, why) =
            (sanitize_line(&leftover.file), sanitize_line(&leftover.what), sanitize_line(&leftover.why));
        text.push_str(&format!("leftover   {file}: {what}: {why}\n"));
    }
    if !done.left.is_empty() {
        text.push_str(
            "what was left stays in its file: fix it and run `coven db import` again, or move the file away\n",
        );
    }
    if !done.leftovers.is_empty() {
        text.push_str("leftovers hold nothing to import; delete them if you do not need them\n");
    }
    if done.dry_run {
        text.push_str("nothing was written or renamed: --dry-run\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use coven_api::migrate::{MigrateLeft, MigrateRenamed};

    use super::*;

    #[test]
    fn what_was_taken_known_renamed_and_left_is_told() {
        let done = MigrateResponse {
            dry_run: true,
            taken: MigrateCounts { tasks: 2, agents: 1, ..MigrateCounts::default() },
            known: MigrateCounts { workflows: 3, ..MigrateCounts::default() },
            left: vec![MigrateLeft {
                file: "questions/a.json".into(),
                what: "the file".into(),
                why: "x\x1b[2J".into(),
            }],
            leftovers: vec![MigrateLeft { file: "state.json.tmp".into(), what: "the file".into(), why: "torn".into() }],
            renamed: vec![MigrateRenamed { file: "state.json".into(), to: "state.json.migrated".into() }],
        };
        let expected = "tasks      2 to be taken
agents     1 to be taken
workflows  0 to be taken, 3 known from before
questions  0 to be taken
to rename  state.json to state.json.migrated
left       questions/a.json: the file: x [2J
leftover   state.json.tmp: the file: torn
what was left stays in its file: fix it and run `coven db import` again, or move the file away
leftovers hold nothing to import; delete them if you do not need them
nothing was written or renamed: --dry-run
";
        assert_eq!(text(&done), expected);
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let done = MigrateResponse {
            dry_run: false,
            taken: MigrateCounts::default(),
            known: MigrateCounts::default(),
            left: vec![],
            leftovers: vec![],
            renamed: vec![],
        };
        assert_eq!(text(&done), "there is nothing to migrate\n");
    }
}
