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
  coven db import --dry-run           lists what would be imported or skipped, and why
  coven db import
  coven db import --json | jq -r '.skipped[] | \"\\(.file): \\(.what): \\(.why)\"'

Reads state.json, workflows/*.json, familiars/*.json and questions/*.json in the home, and
.beads/issues.jsonl of the project that contains the home. The import is one transaction. An imported
file of the home is renamed to *.migrated and never deleted. The issues file belongs to its tracker
and stays unchanged; a later run imports new issues. Tasks that were in progress become blocked:
check them and run `coven task unblock`. Tasks keep their old id as a tag, e.g.
`coven task list --tag legacy:app-12`.

Interrupted writes (*.json.tmp) and session.json contain nothing to import. They are listed as
leftovers and stay in place.

Exit codes: 0 everything was imported, or there was nothing to import; 1 something was skipped.")]
pub struct Args {
    /// List what would be imported, without writing or renaming anything
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    wait: WaitArgs,
    /// Print JSON
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
        Ok(if done.skipped.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn text(done: &MigrateResponse) -> String {
    let (imported, present) = (done.imported, done.already_present);
    let nothing = MigrateCounts::default();
    if (imported, present) == (nothing, nothing)
        && done.skipped.is_empty()
        && done.renamed.is_empty()
        && done.leftovers.is_empty()
    {
        return "there is nothing to import\n".to_owned();
    }
    let (take, rename) = if done.dry_run { ("to import", "to rename") } else { ("imported", "renamed") };
    let mut text = String::new();
    for (what, imported, present) in [
        ("tasks", imported.tasks, present.tasks),
        ("agents", imported.agents, present.agents),
        ("workflows", imported.workflows, present.workflows),
        ("questions", imported.questions, present.questions),
    ] {
        let present = if present == 0 { String::new() } else { format!(", {present} already present") };
        text.push_str(&format!("{what:<10} {imported} {take}{present}\n"));
    }
    // An older daemon sends no counts, and all items.
    let more = |word: &str, count: usize, listed: usize| match count.saturating_sub(listed) {
        0 => String::new(),
        more => format!("{word:<10} {more} more\n"),
    };
    for file in &done.renamed {
        text.push_str(&format!("{rename:<10} {} to {}\n", sanitize_line(&file.file), sanitize_line(&file.to)));
    }
    text.push_str(&more(rename, done.counts.renamed, done.renamed.len()));
    for item in &done.skipped {
        text.push_str(&format!(
            "skipped    {}: {}: {}\n",
            sanitize_line(&item.file),
            sanitize_line(&item.what),
            sanitize_line(&item.why)
        ));
    }
    text.push_str(&more("skipped", done.counts.skipped, done.skipped.len()));
    for leftover in &done.leftovers {
        let (file, what, why) =
            (sanitize_line(&leftover.file), sanitize_line(&leftover.what), sanitize_line(&leftover.why));
        text.push_str(&format!("leftover   {file}: {what}: {why}\n"));
    }
    text.push_str(&more("leftover", done.counts.leftovers, done.leftovers.len()));
    if !done.skipped.is_empty() {
        text.push_str(
            "skipped items stay in their files: fix them and run `coven db import` again, or move the files\n",
        );
    }
    if !done.leftovers.is_empty() {
        text.push_str("leftovers contain nothing to import; delete them if you do not need them\n");
    }
    if done.dry_run {
        text.push_str("nothing was written or renamed: --dry-run\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use coven_api::migrate::{MigrateItemCounts, MigrateRenamed, MigrateSkipped};

    use super::*;

    #[test]
    fn the_text_lists_imported_present_renamed_and_skipped_items() {
        let done = MigrateResponse {
            dry_run: true,
            imported: MigrateCounts { tasks: 2, agents: 1, ..MigrateCounts::default() },
            already_present: MigrateCounts { workflows: 3, ..MigrateCounts::default() },
            counts: MigrateItemCounts { skipped: 151, leftovers: 1, renamed: 1 },
            is_truncated: true,
            skipped: vec![MigrateSkipped {
                file: "questions/a.json".into(),
                what: "the file".into(),
                why: "x\x1b[2J".into(),
            }],
            leftovers: vec![MigrateSkipped {
                file: "state.json.tmp".into(),
                what: "the file".into(),
                why: "torn".into(),
            }],
            renamed: vec![MigrateRenamed { file: "state.json".into(), to: "state.json.migrated".into() }],
        };
        let expected = "tasks      2 to import
agents     1 to import
workflows  0 to import, 3 already present
questions  0 to import
to rename  state.json to state.json.migrated
skipped    questions/a.json: the file: x [2J
skipped    150 more
leftover   state.json.tmp: the file: torn
skipped items stay in their files: fix them and run `coven db import` again, or move the files
leftovers contain nothing to import; delete them if you do not need them
nothing was written or renamed: --dry-run
";
        assert_eq!(text(&done), expected);
    }

    #[test]
    fn an_empty_import_is_reported() {
        let done = MigrateResponse {
            dry_run: false,
            imported: MigrateCounts::default(),
            already_present: MigrateCounts::default(),
            counts: MigrateItemCounts::default(),
            is_truncated: false,
            skipped: vec![],
            leftovers: vec![],
            renamed: vec![],
        };
        assert_eq!(text(&done), "there is nothing to import\n");
    }
}
