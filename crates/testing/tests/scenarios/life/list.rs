//! LIFE-22 to LIFE-24: the list for pipes and programs.

use coven_testing::records::SessionRecord;
use coven_testing::{EventFeed, TestHome, TestTerminal};
use serde_json::json;

#[test]
fn life_22_the_list_is_a_table_in_a_pipe_or_with_plain() {
    let home = TestHome::started();
    let session = home.launch_with(json!({ "harness": "claude", "prompt": "exit 0", "title": "Tidy up" }));
    home.wait_for_end(&session.id);

    for args in [&["sessions"][..], &["sessions", "--plain"]] {
        let table = home.coven(args).expect_success();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 2, "{table}");
        let head = ["ID", "STATUS", "ACTIVITY", "DETAIL", "HARNESS", "TITLE", "AGE", "CWD"];
        assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), head);
        let cells: Vec<&str> = lines[1].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells[..5], [&session.id[..8], "completed", "-", "claude", "Tidy up"]);
        assert!(!table.contains('\x1b'), "a table has no escapes: {table:?}");
    }
    let mut terminal = TestTerminal::open(&home, &["sessions", "--plain"]);
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.is_alternate());
    terminal.wait_for_text("Tidy up");
}

#[test]
fn life_23_json_prints_the_records() {
    let home = TestHome::started();
    let first = home.run_to_end("exit 0");
    let second = home.run_to_end("exit 2");

    let records: Vec<SessionRecord> = home.items(&["sessions", "--json"]);

    assert_eq!(records, [second, first]);
    let raw: Vec<serde_json::Value> = home.items(&["sessions", "--json", "--limit", "1"]);
    let fields = [
        "id",
        "harness",
        "channel",
        "title",
        "status",
        "exit_code",
        "pid",
        "project_root",
        "cwd",
        "repo_id",
        "created_at",
        "updated_at",
        "archived_at",
        "metadata",
    ];
    assert!(fields.iter().all(|field| raw[0].get(field).is_some()), "{raw:?}");
}

#[test]
fn life_24_archived_sessions_are_hidden_without_all() {
    let home = TestHome::started();
    let shown = home.run_to_end("exit 0").id;
    let hidden = home.run_to_end("exit 0").id;
    home.coven(&["archive", &hidden]).expect_success();

    let ids = |args: &[&str]| -> Vec<String> {
        home.items::<SessionRecord>(args).into_iter().map(|record| record.id).collect()
    };
    assert_eq!(ids(&["sessions", "--json"]), [shown.as_str()]);
    assert_eq!(ids(&["sessions", "--json", "--all"]), [hidden.as_str(), shown.as_str()]);
    assert!(!home.coven(&["sessions"]).expect_success().contains(&hidden[..8]));
    let all = home.coven(&["sessions", "--all"]).expect_success();
    assert!(all.contains(&hidden[..8]) && all.contains("archived"), "{all}");
}

#[test]
fn a_list_is_never_older_than_a_received_event() {
    let home = TestHome::started();
    let session = home.run_to_end("exit 0");
    let mut feed = EventFeed::open(&home);
    for number in 0..100 {
        let title = format!("title {number}");
        std::thread::scope(|scope| {
            scope.spawn(|| home.post(&format!("/api/v1/sessions/{}/rename", session.id), &json!({ "title": title })));
            feed.next_of("session.renamed");
            let list: serde_json::Value = home.read("/api/v1/sessions");
            assert_eq!(list["items"][0]["title"], title);
        });
    }
}
