//! Lists of sessions: every filter is compared with a simple model, and every row appears exactly once.

mod samples;

use std::collections::HashSet;

use coven_domain::query::{SessionFilter, SessionQuery};
use coven_domain::session::{Channel, Session, SessionState};
use coven_store::sqlite::checksums;
use coven_store::{Change, SqliteStore, Store};
use rusqlite::{Connection, OpenFlags};
use samples::*;

fn all(limit: usize) -> SessionQuery {
    SessionQuery { limit, filter: SessionFilter { include_archived: true, ..Default::default() }, ..Default::default() }
}

/// Returns the expected result: the same rules applied to a vector in insertion order.
fn expected(sessions: &[Session], filter: &SessionFilter) -> Vec<Session> {
    let mut found: Vec<(usize, &Session)> = sessions
        .iter()
        .enumerate()
        .filter(|(_, it)| {
            (filter.states.is_empty() || filter.states.contains(&it.state))
                && filter.harness.as_ref().is_none_or(|harness| *harness == it.harness)
                && filter.channel.is_none_or(|channel| channel == it.channel)
                && filter.repo.is_none_or(|repo| Some(repo) == it.repo_id)
                && (filter.include_archived || it.archived_at.is_none())
        })
        .collect();
    found.sort_by_key(|(nth, it)| std::cmp::Reverse((it.created_at, *nth)));
    found.into_iter().map(|(_, it)| it.clone()).collect()
}

/// Reads all pages by cursor; checks `total` and `has_more` of each page.
async fn walk(store: &dyn Store, filter: &SessionFilter, limit: usize, total: usize) -> Vec<Session> {
    let mut query = SessionQuery { filter: filter.clone(), limit, ..Default::default() };
    let mut seen = Vec::new();
    loop {
        let page = store.sessions(&query).await.expect("a page");
        seen.extend(page.sessions);
        assert_eq!((page.total, page.has_more), (total as u64, seen.len() < total), "{filter:?}");
        match (page.has_more, seen.last()) {
            (true, Some(last)) => query.after = Some((last.created_at, last.id)),
            _ => return seen,
        }
    }
}

#[tokio::test]
async fn every_filter_matches_a_simple_model_by_cursor_and_by_offset() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path().join("coven.db"), render).expect("a new store");
    let repos = [repo(1), repo(2)];
    for repo in &repos {
        record(&store, Change::RepoAdded(repo.clone())).await.expect("a new repo");
    }
    // Given sessions of every kind, many in the same millisecond, some changed or deleted afterwards.
    let mut sessions: Vec<Session> = (0..240_u32)
        .map(|nth| Session {
            state: SessionState::ALL[nth as usize % 6],
            harness: ["claude", "codex", "shell"][nth as usize / 2 % 3].into(),
            channel: Channel::ALL[nth as usize / 3 % 2],
            repo_id: [None, Some(repos[0].id), Some(repos[1].id)][nth as usize / 5 % 3],
            archived_at: (nth % 4 == 0).then_some(NOW),
            created_at: at(i64::from(nth * 7 % 13)),
            ..session(nth)
        })
        .collect();
    create(&store, sessions.clone()).await;
    for nth in (0..240).step_by(11) {
        let it = &mut sessions[nth];
        it.archived_at = if it.archived_at.is_some() { None } else { Some(NOW) };
        it.state = SessionState::Killed;
        it.repo_id = Some(repos[1].id);
        record(&store, Change::SessionChanged { session: it.clone(), event: "changed" }).await.expect("a change");
    }
    for nth in (0..240).rev().step_by(17) {
        record(&store, Change::SessionSacrificed(sessions.remove(nth).id)).await.expect("a sacrifice");
    }

    let state_filters = [
        vec![],
        vec![SessionState::Running],
        vec![SessionState::Failed, SessionState::Killed, SessionState::Failed],
        SessionState::ALL.to_vec(),
    ];
    for states in state_filters {
        for shape in 0..16 {
            let has = |bit: u32| shape & (1 << bit) != 0;
            let filter = SessionFilter {
                states: states.clone(),
                harness: has(0).then(|| "codex".to_owned()),
                channel: has(1).then_some(Channel::Acp),
                repo: has(2).then_some(repos[0].id),
                include_archived: has(3),
                activities: Vec::new(),
            };
            let expected = expected(&sessions, &filter);
            // When pages are read by cursor and by offset, then both match the model.
            assert_eq!(walk(&store, &filter, 7, expected.len()).await, expected, "{filter:?}");
            for offset in [0, 1, 5, 50, 1000] {
                let query = SessionQuery { filter: filter.clone(), offset, limit: 4, after: None };
                let page = store.sessions(&query).await.expect("a page");
                let shown: Vec<_> = expected.iter().skip(offset as usize).take(4).cloned().collect();
                assert_eq!(page.sessions, shown, "{filter:?} at {offset}");
                assert_eq!(page.has_more, expected.len() > offset as usize + 4);
            }
        }
    }
}

#[tokio::test]
async fn a_cursor_of_a_deleted_session_misses_no_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(folder.path().join("coven.db"), render).expect("a new store");
    create(&store, (0..6).map(|nth| Session { created_at: at(i64::from(nth / 3)), ..session(nth) })).await;
    let first = store.sessions(&all(2)).await.expect("a page").sessions;
    assert_eq!(first.iter().map(|it| it.id).collect::<Vec<_>>(), [id(5), id(4)]);

    record(&store, Change::SessionSacrificed(id(4))).await.expect("a sacrifice");
    let query = SessionQuery { after: Some((first[1].created_at, first[1].id)), ..all(10) };
    let rest: Vec<_> = store.sessions(&query).await.expect("a page").sessions.iter().map(|it| it.id).collect();

    assert!(rest.ends_with(&[id(3), id(2), id(1), id(0)]), "{rest:?}");
}

/// 100,000 sessions, a thousand of them in one millisecond.
#[tokio::test]
async fn a_hundred_thousand_sessions_are_listed_once_each_by_cursor_and_by_offset() {
    const COUNT: u64 = 100_000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("coven.db");
    let store = SqliteStore::open(&path, render).expect("a new store");
    create(&store, [session(0)]).await;
    Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), checksums::vfs())
        .and_then(|connection| {
            connection.execute_batch(&format!(
                "WITH RECURSIVE nth (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM nth WHERE n < {COUNT} - 1)
             INSERT INTO sessions (id, harness, channel, title, state, project_root, cwd, created_at, updated_at,
                 launch, metadata, archived)
             SELECT printf('%08x-0000-4000-8000-%012x', n, n), harness, channel, title, 'completed', project_root, cwd,
                 created_at + iif(n BETWEEN 40000 AND 41000, 40000, n), updated_at, launch, metadata, 0
             FROM nth CROSS JOIN sessions WHERE title = 'session 0'"
            ))
        })
        .expect("many sessions");

    let (mut seen, mut query) = (HashSet::new(), all(1000));
    loop {
        let page = store.sessions(&query).await.expect("a page");
        assert_eq!(page.total, COUNT);
        seen.extend(page.sessions.iter().map(|it| it.id));
        let last = page.sessions.last().expect("a page is not empty");
        query.after = Some((last.created_at, last.id));
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen.len() as u64, COUNT);

    let mut by_offset = HashSet::new();
    for offset in (0..COUNT).step_by(5000) {
        let page = store.sessions(&SessionQuery { offset, ..all(5000) }).await.expect("a page");
        assert_eq!(page.sessions.len(), 5000);
        by_offset.extend(page.sessions.iter().map(|it| it.id));
    }
    assert_eq!(by_offset, seen);
}
