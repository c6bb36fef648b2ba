//! Pages of sessions, newest first. Every list is an ordered scan of one index, or a merge of a few.

use std::collections::BTreeSet;

use coven_domain::SessionId;
use coven_domain::activity::Activity;
use coven_domain::session::SessionState;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::{integer, sessions, unsigned};
use crate::StoreError;
use coven_domain::query::{SessionFilter, SessionPage, SessionQuery};

pub(super) fn page(connection: &Connection, query: &SessionQuery) -> Result<SessionPage, StoreError> {
    // Read the rows and the total in one transaction, so that they match.
    let read = connection.unchecked_transaction()?;
    let total = total(&read, &query.filter)?;
    let cursor = match &query.after {
        Some((at, id)) => Some((at.as_millis(), position_of(&read, *id)?)),
        None => None,
    };
    let mut keys = keys(&read, &query.filter, cursor, Window::of(query, total))?;
    // One extra row shows whether more follow.
    let has_more = keys.len() > query.limit;
    keys.truncate(query.limit);
    let sessions = sessions::by_keys(&read, &keys)?;
    read.commit()?;
    Ok(SessionPage { sessions, total, has_more })
}

/// The range of rows to return, and the end from which the scan is shorter.
#[derive(Clone, Copy)]
struct Window {
    skip: u64,
    take: u64,
    from_oldest: bool,
}

impl Window {
    fn of(query: &SessionQuery, total: u64) -> Self {
        let take = u64::try_from(query.limit).unwrap_or(u64::MAX).saturating_add(1);
        let from_newest = Self { skip: query.offset, take, from_oldest: false };
        match total.checked_sub(query.offset) {
            Some(left) if query.after.is_none() && query.offset > left => {
                let take = take.min(left);
                Self { skip: left - take, take, from_oldest: true }
            }
            _ => from_newest,
        }
    }
}

/// Returns the keys of a page, newest first, from the index alone; full rows are read only for the page itself.
fn keys(
    connection: &Connection,
    filter: &SessionFilter,
    cursor: Option<(i64, i64)>,
    window: Window,
) -> Result<Vec<i64>, StoreError> {
    let (sql, values) = statement(filter, cursor, window);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        keys.push(row.get(1)?);
    }
    if window.from_oldest {
        keys.reverse();
    }
    Ok(keys)
}

fn statement(filter: &SessionFilter, cursor: Option<(i64, i64)>, window: Window) -> (String, Vec<Value>) {
    let (mut branches, mut values) = (Vec::new(), Vec::new());
    for scan in scans(filter) {
        for beyond in beyond(cursor) {
            let (sql, bound) = all_of(scan.fixed.iter().chain(&scan.checked).chain(&beyond));
            branches.push(format!("SELECT created_at, key FROM sessions INDEXED BY {}{sql}", scan.index));
            values.extend(bound);
        }
    }
    values.extend([Value::from(integer(window.take)), Value::from(integer(window.skip))]);
    let order = if window.from_oldest { "created_at, key" } else { "created_at DESC, key DESC" };
    (format!("{} ORDER BY {order} LIMIT ? OFFSET ?", branches.join(" UNION ALL ")), values)
}

/// Returns the conditions for rows after a cursor: the rest of its millisecond, and all earlier rows. These are two
/// scans because SQLite cannot start one inside a millisecond, which may contain a whole import.
fn beyond(cursor: Option<(i64, i64)>) -> Vec<Vec<Condition>> {
    match cursor {
        None => vec![vec![]],
        Some((at, key)) => vec![
            vec![equal("created_at", at), Condition { sql: "key < ?".into(), values: vec![key.into()] }],
            vec![Condition { sql: "created_at < ?".into(), values: vec![at.into()] }],
        ],
    }
}

/// Returns the position of a cursor among the sessions of its millisecond. A deleted session sorts before all of them:
/// the page may then repeat a few sessions but misses none.
fn position_of(connection: &Connection, id: SessionId) -> Result<i64, StoreError> {
    Ok(sessions::key_of(connection, id)?.unwrap_or(i64::MAX))
}

/// Counts matching sessions using the counters in the database.
fn total(connection: &Connection, filter: &SessionFilter) -> Result<u64, StoreError> {
    if !filter.activities.is_empty() {
        return count_active(connection, filter);
    }
    let mut conditions = vec![];
    if !filter.include_archived {
        conditions.push(equal("archived", 0));
    }
    conditions.extend(among(&wanted_states(filter)));
    conditions.extend(filter.harness.clone().map(|harness| equal("harness", harness)));
    conditions.extend(filter.channel.map(|channel| equal("channel", channel.as_str().to_owned())));
    conditions.extend(filter.repo.map(|repo| equal("repo_id", repo.to_string())));
    let (sql, values) = all_of(&conditions);
    let sql = format!("SELECT coalesce(sum(count), 0) FROM session_counts{sql}");
    unsigned(connection.prepare_cached(&sql)?.query_row(params_from_iter(values), |row| row.get(0))?)
}

/// Counts live sessions with an activity by reading them: there are few, and the counters do not know activities.
fn count_active(connection: &Connection, filter: &SessionFilter) -> Result<u64, StoreError> {
    let mut total = 0;
    for scan in scans(filter) {
        let (sql, values) = all_of(scan.fixed.iter().chain(&scan.checked));
        let sql = format!("SELECT count(*) FROM sessions INDEXED BY {}{sql}", scan.index);
        total += unsigned(connection.prepare_cached(&sql)?.query_row(params_from_iter(values), |row| row.get(0))?)?;
    }
    Ok(total)
}

/// One ordered scan: an index, conditions on its leading columns, and conditions checked for each row.
struct Scan {
    index: &'static str,
    fixed: Vec<Condition>,
    checked: Vec<Condition>,
}

fn scans(filter: &SessionFilter) -> Vec<Scan> {
    let states = wanted_states(filter);
    let harness = || filter.harness.clone().map(|harness| equal("harness", harness));
    let channel = || filter.channel.map(|channel| equal("channel", channel.as_str().to_owned()));
    let activity = || doing(&filter.activities);
    let archived: &[i64] = if filter.include_archived { &[0, 1] } else { &[0] };

    if let Some(repo) = filter.repo {
        let scan = |archived: &i64| Scan {
            index: "sessions_by_repo",
            fixed: vec![equal("repo_id", repo.to_string()), equal("archived", *archived)],
            checked: among(&states).into_iter().chain(harness()).chain(channel()).chain(activity()).collect(),
        };
        return archived.iter().map(scan).collect();
    }
    if !states.is_empty() {
        let scan = |state: SessionState, archived: i64| Scan {
            index: "sessions_by_state",
            fixed: vec![equal("state", state.as_str().to_owned()), equal("archived", archived)],
            checked: harness().into_iter().chain(channel()).chain(activity()).collect(),
        };
        return states
            .iter()
            .flat_map(|state| archived.iter().map(move |it| (*state, *it)))
            .map(|(s, a)| scan(s, a))
            .collect();
    }
    if let Some(harness) = &filter.harness {
        let scan = |archived: &i64| Scan {
            index: "sessions_by_harness",
            fixed: vec![equal("harness", harness.clone()), equal("archived", *archived)],
            checked: channel().into_iter().collect(),
        };
        return archived.iter().map(scan).collect();
    }
    if let Some(channel) = filter.channel {
        let scan = |archived: &i64| Scan {
            index: "sessions_by_channel",
            fixed: vec![equal("channel", channel.as_str().to_owned()), equal("archived", *archived)],
            checked: vec![],
        };
        return archived.iter().map(scan).collect();
    }
    let (index, fixed) = match filter.include_archived {
        true => ("sessions_newest", vec![]),
        false => ("sessions_current", vec![equal("archived", 0)]),
    };
    vec![Scan { index, fixed, checked: vec![] }]
}

/// Returns the requested states without duplicates; empty if the filter admits every state.
fn wanted_states(filter: &SessionFilter) -> BTreeSet<SessionState> {
    if !filter.activities.is_empty() {
        // Only a running session has an activity.
        let is_wanted = filter.states.is_empty() || filter.states.contains(&SessionState::Running);
        return BTreeSet::from([if is_wanted { SessionState::Running } else { filter.states[0] }]);
    }
    let states: BTreeSet<_> = filter.states.iter().copied().collect();
    if states.len() == SessionState::ALL.len() { BTreeSet::new() } else { states }
}

struct Condition {
    sql: String,
    values: Vec<Value>,
}

fn equal(column: &str, value: impl Into<Value>) -> Condition {
    Condition { sql: format!("{column} = ?"), values: vec![value.into()] }
}

fn among(states: &BTreeSet<SessionState>) -> Option<Condition> {
    if states.is_empty() {
        return None;
    }
    let marks = vec!["?"; states.len()].join(", ");
    let values = states.iter().map(|state| Value::from(state.as_str().to_owned())).collect();
    Some(Condition { sql: format!("state IN ({marks})"), values })
}

fn doing(activities: &[Activity]) -> Option<Condition> {
    if activities.is_empty() {
        return None;
    }
    let marks = vec!["?"; activities.len()].join(", ");
    let mut values: Vec<Value> = activities.iter().map(|it| Value::from(it.as_str().to_owned())).collect();
    values.push(SessionState::Running.as_str().to_owned().into());
    Some(Condition { sql: format!("activity IN ({marks}) AND state = ?"), values })
}

fn all_of<'a>(conditions: impl IntoIterator<Item = &'a Condition>) -> (String, Vec<Value>) {
    let (mut sql, mut values) = (String::new(), Vec::new());
    for condition in conditions {
        sql.push_str(if sql.is_empty() { " WHERE " } else { " AND " });
        sql.push_str(&condition.sql);
        values.extend_from_slice(&condition.values);
    }
    (sql, values)
}

#[cfg(test)]
mod tests {
    use coven_domain::RepoId;
    use coven_domain::session::Channel;

    use super::*;
    use crate::sqlite::migrations;

    /// Checks every combination of filters, with and without a cursor: none may sort its rows.
    #[test]
    fn no_list_is_ever_sorted() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("coven.db");
        migrations::migrate(&path).expect("a new database");
        let connection = Connection::open(&path).expect("the same database");
        let repo: RepoId = "00000000-0000-4000-8000-000000000001".parse().expect("an id");
        let (running, failed) = (SessionState::Running, SessionState::Failed);
        for states in [vec![], vec![running], vec![failed, running, running]] {
            for shape in 0..64 {
                let has = |bit: u32| shape & (1 << bit) != 0;
                let filter = SessionFilter {
                    states: states.clone(),
                    harness: has(0).then(|| "claude".to_owned()),
                    channel: has(1).then_some(Channel::Acp),
                    repo: has(2).then_some(repo),
                    include_archived: has(3),
                    activities: Vec::new(),
                };
                let window = Window { skip: 0, take: 20, from_oldest: has(5) };
                let (sql, values) = statement(&filter, has(4).then_some((1, 1)), window);
                let plan = plan(&connection, &sql, values);
                assert!(!plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
                assert!(
                    plan.lines().all(|line| !line.contains("SCAN") || line.contains("sessions_newest")),
                    "{sql}\n{plan}"
                );
                assert!(
                    !has(4) || plan.contains("created_at=? AND rowid<?") || plan.contains("created_at=? AND key<?"),
                    "{sql}\n{plan}"
                );
                assert!(has(0) || has(1) || has(2) || plan.contains("COVERING"), "{sql}\n{plan}");
            }
        }
    }

    fn plan(connection: &Connection, sql: &str, values: Vec<Value>) -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a valid statement");
        let rows = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).expect("a plan");
        rows.collect::<Result<Vec<_>, _>>().expect("lines of text").join("\n")
    }
}
