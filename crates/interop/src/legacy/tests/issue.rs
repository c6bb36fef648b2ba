//! The tracker's issues, valid and damaged.

use crate::legacy::records::LegacyTask;

use super::super::issue;
use super::*;

const ISSUES: &str = "../.beads/issues.jsonl";

/// Returns issues as the tracker writes them, with an unknown field.
fn issues() -> [Value; 3] {
    let link = |from: &str, to: &str, kind: &str| {
        json!({ "issue_id": from, "depends_on_id": to, "type": kind, "created_at": "2026-01-08T10:00:00Z",
                "created_by": "ada" })
    };
    [
        json!({ "id": "app-1", "title": "All of it", "description": "Every part.", "status": "open", "priority": 1,
                "issue_type": "epic", "created_at": "2026-01-08T10:00:00.5+01:00", "created_by": "ada",
                "updated_at": "2026-01-09T10:00:00Z", "compaction_level": 0 }),
        json!({ "id": "app-1.1", "title": "A part", "status": "in_progress", "priority": 0, "issue_type": "feature",
                "labels": ["ui"], "notes": "Start here.", "created_at": "2026-01-08T10:00:00Z",
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
fn reads_the_issues_of_the_tracker_and_does_not_rename_its_file() {
    let fixture = Fixture::new();
    fixture.write(ISSUES, lines(&issues()).as_bytes());

    let found = fixture.read();

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
        notes: Some("Start here.".into()),
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
    assert_eq!(import_all(&found).tasks.len(), 3);
    assert!(!is_in(&fixture.home), "the file stays, so every start would report it");
}

#[test]
fn issues_are_read_only_from_the_project_of_the_home() {
    let project = tempfile::tempdir().expect("temporary folder");
    for folder in [".beads", "elsewhere"] {
        fs::create_dir(project.path().join(folder)).expect("disk has space");
    }
    fs::write(project.path().join(".beads/issues.jsonl"), lines(&issues())).expect("disk has space");
    assert_eq!(read(&project.path().join("elsewhere"), None), LegacyFindings::default());
    // A tracker without issues is not reported either.
    let fixture = Fixture::new();
    fixture.write("../.beads/config.yaml", b"x");
    assert_eq!(fixture.read(), LegacyFindings::default());
}

#[test]
fn a_truncated_issue_is_reported_by_line_and_the_others_imported() {
    let text = lines(&issues());
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    for end in 0..text.len() {
        let mut found = LegacyFindings::default();
        let source = Source { file: ISSUES.to_owned(), ..Source::default() };
        issue::take(&text.as_bytes()[..end], &source, &mut found).expect("memory is readable");

        let complete = ends.iter().filter(|at| **at <= end).count();
        assert_eq!(found.legacy.issues.len(), complete, "truncated at {end}");
        let line_start = ends.iter().rfind(|at| **at < end).map_or(0, |at| at + 1);
        let is_torn = end > line_start && !ends.contains(&end);
        assert_eq!(found.legacy.is_task_list_partial, is_torn, "truncated at {end}");
        let left: Vec<(String, String)> = found.left.into_iter().map(|it| (it.what, it.why)).collect();
        let expected =
            (format!("line {}: a task", complete + 1), format!("truncated JSON at column {}", end - line_start));
        assert_eq!(left, is_torn.then_some(expected).into_iter().collect::<Vec<_>>(), "truncated at {end}");
    }
}

#[test]
fn issues_with_any_changed_byte_are_imported_or_reported() {
    let text = lines(&issues()).into_bytes();
    for at in 0..text.len() {
        for byte in [b'"', b'9', b'\n', 0xff] {
            let mut broken = text.clone();
            broken[at] = byte;
            let mut found = LegacyFindings::default();
            issue::take(&broken[..], &Source::default(), &mut found).expect("memory is readable");
            import(&found.legacy, &Known::default());
            let read = found.legacy.issues.len();
            assert!(read == 3 || (read > 0 && !found.left.is_empty()), "{found:?}");
        }
    }
}

#[test]
fn a_huge_file_is_skipped_and_a_huge_line_does_not_affect_the_others() {
    let fixture = Fixture::new();
    let [epic, ..] = issues();
    let long = format!("{{\"id\":\"{}\"}}\n", "x".repeat(1 << 20));
    fixture.write("../.beads/issues.jsonl", format!("{long}{}\n", epic).as_bytes());
    let found = fixture.read();
    assert_eq!(found.legacy.issues.len(), 1);
    let left: Vec<(&str, &str)> = found.left.iter().map(|it| (it.what.as_str(), it.why.as_str())).collect();
    assert_eq!(left, [("line 1: a task", "longer than 1 MiB")]);

    let path = fixture.home.join("../.beads/issues.jsonl");
    std::fs::File::create(path).and_then(|file| file.set_len(1 << 30)).expect("sparse file");
    assert_eq!(fixture.left(), [("the file".to_owned(), "larger than 64 MiB".to_owned())]);
}

#[test]
fn invalid_lines_are_reported_and_the_others_imported() {
    let fixture = Fixture::new();
    let [epic, ..] = issues();
    let broken = [
        "<<<<<<< HEAD".to_owned(),
        epic.to_string(),
        String::new(),
        "[1]".to_owned(),
        json!({ "title": "no id" }).to_string(),
        json!({ "id": "app-7", "status": "tombstone" }).to_string(),
        json!({ "id": "app-8", "dependencies": [7, {}, { "issue_id": "app-9", "depends_on_id": "app-1" },
            { "depends_on_id": "app-1" }], "labels": "ui" })
        .to_string(),
        json!({ "id": "app-9", "dependencies": "app-1" }).to_string(),
    ];
    fixture.write(ISSUES, broken.join("\r\n").as_bytes());

    let found = fixture.read();

    let left: Vec<(&str, &str)> = found.left.iter().map(|it| (it.what.as_str(), it.why.as_str())).collect();
    let expected = [
        ("line 1: a task", "invalid JSON at column 1"),
        ("line 4: a task", "expected an object, not a list"),
        ("line 5: a task", "missing id"),
        (
            "line 6: task app-7",
            "status: unknown value \"tombstone\"; known: open, in_progress, pending_merge, blocked, closed",
        ),
        ("line 7: task app-8: labels", "expected a list, not text"),
        ("line 7: task app-8: dependencies", "expected an object, not a number"),
        ("line 7: task app-8: dependencies", "missing depends_on_id"),
        ("line 7: task app-8: dependencies", "link of another task: app-9"),
        ("line 8: task app-9: dependencies", "expected a list, not text"),
    ];
    assert_eq!(left, expected);
    let ids: Vec<&str> = found.legacy.issues.iter().map(|issue| issue.id.as_str()).collect();
    assert_eq!(ids, ["app-1", "app-8", "app-9"]);
    assert_eq!(found.legacy.issues[1].depends_on, ["app-1"], "a link without a type is a dependency");
    assert_eq!(found.legacy.unparsed_tasks, ["app-7".to_owned()].into());
    assert!(found.legacy.is_task_list_partial, "any task may be in the first line");
}

#[test]
fn an_unreadable_tracker_is_reported_and_its_tasks_get_no_placeholders() {
    let fixture = Fixture::with("workflows/app-1.json", &run_file());
    fs::create_dir_all(fixture.home.join(ISSUES)).expect("disk has space");

    let found = fixture.read();

    let left: Vec<(&str, &str)> = found.left.iter().map(|it| (it.file.as_str(), it.why.as_str())).collect();
    assert_eq!(left, [(ISSUES, "a folder, not a regular file")]);
    assert_eq!(import(&found.legacy, &Known::default()).tasks, []);
}
