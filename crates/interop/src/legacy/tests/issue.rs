//! The tracker's issues, whole and broken.

use crate::legacy::records::LegacyTask;

use super::super::issue;
use super::*;

const ISSUES: &str = "../.beads/issues.jsonl";

/// As the tracker writes them, with a field that nobody knows.
fn issues() -> [Value; 3] {
    let link = |from: &str, to: &str, sort: &str| {
        json!({ "issue_id": from, "depends_on_id": to, "type": sort, "created_at": "2026-01-08T10:00:00Z",
                "created_by": "ada" })
    };
    [
        json!({ "id": "app-1", "title": "All of it", "description": "Every part.", "status": "open", "priority": 1,
                "issue_type": "epic", "created_at": "2026-01-08T10:00:00.5+01:00", "created_by": "ada",
                "updated_at": "2026-01-09T10:00:00Z", "compaction_level": 0 }),
        json!({ "id": "app-1.1", "title": "A part", "status": "in_progress", "priority": 0, "issue_type": "feature",
                "labels": ["ui"], "notes": "Begin here.", "created_at": "2026-01-08T10:00:00Z",
                "updated_at": "2026-01-09T10:00:00Z",
                "dependencies": [link("app-1.1", "app-1", "parent-child"), link("app-1.1", "app-2", "blocks"),
                                 link("app-1.1", "app-2", "discovered-from")] }),
        json!({ "id": "app-2", "title": "First this", "status": "closed", "priority": 2, "issue_type": "bug",
                "created_at": "2026-01-08T10:00:00Z", "updated_at": "2026-01-09T10:00:00Z",
                "closed_at": "2026-01-09T09:00:00Z", "close_reason": "done", "dependencies": null }),
    ]
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

#[test]
fn the_trackers_issues_are_read_and_its_file_is_not_to_be_renamed() {
    let place = Place::new();
    place.write(ISSUES, lines(&issues()).as_bytes());

    let found = place.read();

    assert_eq!((found.left.clone(), found.files.len(), found.legacy.tasks.len()), (vec![], 0, 0));
    let [epic, part, first] = &found.legacy.issues[..] else { panic!("{found:?}") };
    let source = |line| Source { file: ISSUES.to_owned(), line: Some(line), modified_at: epic.source.modified_at };
    let expected = LegacyTask {
        title: Some("All of it".into()),
        body: Some("Every part.".into()),
        author: Some("ada".into()),
        kind: Some("epic".into()),
        priority: Some(1),
        created_at: at("2026-01-08T09:00:00.500Z"),
        updated_at: at("2026-01-09T10:00:00Z"),
        ..LegacyTask::new(source(1), "app-1", TaskState::Open)
    };
    assert_eq!(*epic, expected);
    let expected = LegacyTask {
        title: Some("A part".into()),
        notes: Some("Begin here.".into()),
        kind: Some("feature".into()),
        priority: Some(0),
        labels: vec!["ui".into()],
        depends_on: vec!["app-2".into()],
        parents: vec!["app-1".into()],
        mentions: vec!["discovered-from app-2".into()],
        created_at: at("2026-01-08T10:00:00Z"),
        updated_at: at("2026-01-09T10:00:00Z"),
        ..LegacyTask::new(source(2), "app-1.1", TaskState::InProgress)
    };
    assert_eq!(*part, expected);
    assert_eq!((first.state, first.reason.as_deref()), (TaskState::Closed, Some("done")));
    assert_eq!((first.closed_at, first.source.clone()), (at("2026-01-09T09:00:00Z"), source(3)));
    assert_eq!(taken(&found).tasks.len(), 3);
    assert!(!is_in(&place.home), "it stays there and would be told of at every start");
}

#[test]
fn only_the_project_that_holds_the_home_has_issues() {
    let project = tempfile::tempdir().expect("a folder");
    for folder in [".beads", "elsewhere"] {
        fs::create_dir(project.path().join(folder)).expect("room on disk");
    }
    fs::write(project.path().join(".beads/issues.jsonl"), lines(&issues())).expect("room on disk");
    assert_eq!(read(&project.path().join("elsewhere"), None), Found::default());
    // Nor is a tracker without issues worth a word.
    let place = Place::new();
    place.write("../.beads/config.yaml", b"x");
    assert_eq!(place.read(), Found::default());
}

#[test]
fn issues_that_were_cut_anywhere_are_told_by_line_and_the_others_taken() {
    let text = lines(&issues());
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    for end in 0..text.len() {
        let mut found = Found::default();
        let source = Source { file: ISSUES.to_owned(), ..Source::default() };
        issue::take(&text.as_bytes()[..end], &source, &mut found).expect("memory is readable");

        let whole = ends.iter().filter(|at| **at <= end).count();
        assert_eq!(found.legacy.issues.len(), whole, "cut at {end}");
        let began = ends.iter().rfind(|at| **at < end).map_or(0, |at| at + 1);
        let is_torn = end > began && !ends.contains(&end);
        assert_eq!(found.legacy.may_lack_tasks, is_torn, "cut at {end}");
        let left: Vec<(String, String)> = found.left.into_iter().map(|it| (it.what, it.why)).collect();
        let expected =
            (format!("line {}: a task", whole + 1), format!("it ends in the middle, at column {}", end - began));
        assert_eq!(left, is_torn.then_some(expected).into_iter().collect::<Vec<_>>(), "cut at {end}");
    }
}

#[test]
fn issues_with_any_byte_changed_are_read_or_told() {
    let text = lines(&issues()).into_bytes();
    for at in 0..text.len() {
        for byte in [b'"', b'9', b'\n', 0xff] {
            let mut broken = text.clone();
            broken[at] = byte;
            let mut found = Found::default();
            issue::take(&broken[..], &Source::default(), &mut found).expect("memory is readable");
            import(&found.legacy, &Known::default());
            let read = found.legacy.issues.len();
            assert!(read == 3 || (read > 0 && !found.left.is_empty()), "{found:?}");
        }
    }
}

#[test]
fn a_huge_file_is_left_and_a_huge_line_does_not_stop_the_others() {
    let place = Place::new();
    let [epic, ..] = issues();
    let long = format!("{{\"id\":\"{}\"}}\n", "x".repeat(1 << 20));
    place.write("../.beads/issues.jsonl", format!("{long}{}\n", epic).as_bytes());
    let found = place.read();
    assert_eq!(found.legacy.issues.len(), 1);
    let left: Vec<(&str, &str)> = found.left.iter().map(|it| (it.what.as_str(), it.why.as_str())).collect();
    assert_eq!(left, [("line 1: a task", "it is longer than 1 MiB")]);

    let path = place.home.join("../.beads/issues.jsonl");
    std::fs::File::create(path).and_then(|file| file.set_len(1 << 30)).expect("a sparse file");
    assert_eq!(place.left(), [("the file".to_owned(), "it is larger than 64 MiB".to_owned())]);
}

#[test]
fn lines_that_cannot_be_understood_are_told_and_the_rest_is_taken() {
    let place = Place::new();
    let [epic, ..] = issues();
    let broken = [
        "<<<<<<< HEAD".to_owned(),
        epic.to_string(),
        String::new(),
        "[1]".to_owned(),
        json!({ "title": "nobody" }).to_string(),
        json!({ "id": "app-7", "status": "tombstone" }).to_string(),
        json!({ "id": "app-8", "dependencies": [7, {}, { "issue_id": "app-9", "depends_on_id": "app-1" },
            { "depends_on_id": "app-1" }], "labels": "ui" })
        .to_string(),
        json!({ "id": "app-9", "dependencies": "app-1" }).to_string(),
    ];
    place.write(ISSUES, broken.join("\r\n").as_bytes());

    let found = place.read();

    let left: Vec<(&str, &str)> = found.left.iter().map(|it| (it.what.as_str(), it.why.as_str())).collect();
    let expected = [
        ("line 1: a task", "it is not valid JSON, at column 1"),
        ("line 4: a task", "expected an object, not a list"),
        ("line 5: a task", "it has no id"),
        (
            "line 6: task app-7",
            "status: unknown value \"tombstone\"; known: open, in_progress, pending_merge, blocked, closed",
        ),
        ("line 7: task app-8: labels", "expected a list, not text"),
        ("line 7: task app-8: dependencies", "expected an object, not a number"),
        ("line 7: task app-8: dependencies", "it leads nowhere"),
        ("line 7: task app-8: dependencies", "it is a link of app-9"),
        ("line 8: task app-9: dependencies", "expected a list, not text"),
    ];
    assert_eq!(left, expected);
    let ids: Vec<&str> = found.legacy.issues.iter().map(|issue| issue.id.as_str()).collect();
    assert_eq!(ids, ["app-1", "app-8", "app-9"]);
    assert_eq!(found.legacy.issues[1].depends_on, ["app-1"], "a link without a sort is waited for");
    assert_eq!(found.legacy.unclear_tasks, ["app-7".to_owned()].into());
    assert!(found.legacy.may_lack_tasks, "any task may be in the first line");
}

#[test]
fn a_tracker_that_cannot_be_read_is_told_and_nothing_stands_for_its_tasks() {
    let place = Place::with("workflows/app-1.json", &began());
    fs::create_dir_all(place.home.join(ISSUES)).expect("room on disk");

    let found = place.read();

    let left: Vec<(&str, &str)> = found.left.iter().map(|it| (it.file.as_str(), it.why.as_str())).collect();
    assert_eq!(left, [(ISSUES, "it is a folder")]);
    assert_eq!(import(&found.legacy, &Known::default()).tasks, []);
}
