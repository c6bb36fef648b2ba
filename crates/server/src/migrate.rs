//! `/migrate`: imports the files of an older coven.

use axum::extract::State;
use coven_api::migrate::{
    MAX_MIGRATE_ITEMS, MigrateCounts, MigrateItemCounts, MigrateRenamed, MigrateRequest, MigrateResponse,
    MigrateSkipped,
};
use coven_domain::text::one_line;
use coven_engine::migrate::{Counts, Migrated, SkippedItem};

use super::App;
use super::operation::Started;
use super::reply::Body;
use super::rest::Answer;

/// Maximum number of characters of a text that quotes a file.
const MAX_TEXT_CHARS: usize = 500;

pub async fn migrate(State(app): State<App>, Body(request): Body<MigrateRequest>) -> Answer<Started> {
    Ok(Started(app.engine.start_migrate(request.dry_run).await?))
}

pub(super) fn response(done: Migrated, dry_run: bool) -> MigrateResponse {
    let listed =
        MigrateItemCounts { skipped: done.left.len(), leftovers: done.leftovers.len(), renamed: done.renamed.len() };
    let renamed = done.renamed.into_iter().take(MAX_MIGRATE_ITEMS).map(|(file, to)| MigrateRenamed { file, to });
    MigrateResponse {
        dry_run,
        imported: counts(done.taken),
        already_present: counts(done.known),
        counts: listed,
        is_truncated: [listed.skipped, listed.leftovers, listed.renamed].iter().any(|count| *count > MAX_MIGRATE_ITEMS),
        skipped: skipped(done.left),
        leftovers: skipped(done.leftovers),
        renamed: renamed.collect(),
    }
}

/// Returns the first items. Their texts are shortened, because they quote the files.
fn skipped(items: Vec<SkippedItem>) -> Vec<MigrateSkipped> {
    let short = |text: String| one_line(&text, MAX_TEXT_CHARS);
    let record = |SkippedItem { file, what, why }| MigrateSkipped { file, what: short(what), why: short(why) };
    items.into_iter().take(MAX_MIGRATE_ITEMS).map(record).collect()
}

fn counts(counts: Counts) -> MigrateCounts {
    let Counts { tasks, agents, workflows, questions } = counts;
    MigrateCounts { tasks, agents, workflows, questions }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_import_is_counted_and_its_lists_are_truncated() {
        let item = |nth: usize| SkippedItem {
            file: "state.json".to_owned(),
            what: format!("task {nth}{}", "x".repeat(2000)),
            why: "missing id".to_owned(),
        };
        let done = Migrated {
            taken: Counts::default(),
            known: Counts::default(),
            left: (0..101).map(item).collect(),
            leftovers: (0..1).map(item).collect(),
            renamed: (0..300).map(|nth| (format!("questions/{nth}.json"), format!("{nth}.migrated"))).collect(),
        };
        let response = response(done, false);
        assert_eq!(response.counts, MigrateItemCounts { skipped: 101, leftovers: 1, renamed: 300 });
        assert!(response.is_truncated);
        assert_eq!([response.skipped.len(), response.leftovers.len(), response.renamed.len()], [100, 1, 100]);
        assert!(serde_json::to_vec(&response).expect("plain data").len() < 100_000);
    }
}
