//! LIFE-14: records without a launch.

use coven_testing::records::SessionRecord;
use coven_testing::{TestHome, check_invariants};

#[test]
fn life_14_a_detached_run_creates_the_record_and_launches_no_process() {
    let home = TestHome::started();

    let record: SessionRecord = home.json(&["run", "claude", "say hello", "--detach", "--json"]);

    assert_eq!((record.status.as_str(), record.pid, record.exit_code), ("created", None, None));
    assert_eq!(record.metadata["detached"], true);
    assert!(!home.session_dir(&record.id).exists());
    assert!(home.harness_processes(&record.id).is_empty());
    let listed = home.coven(&["sessions", "--plain"]).expect_success();
    assert!(listed.contains("created") && !listed.contains("completed"), "{listed}");
    assert!(home.items::<SessionRecord>(&["sessions", "--json", "--status", "completed"]).is_empty());
    check_invariants(&home);
}

#[test]
fn life_14_a_detached_record_survives_a_restart_and_can_be_started_later() {
    let home = TestHome::started();
    let record: SessionRecord = home.json(&["run", "claude", "say hello", "--detach", "--json"]);

    home.restart();
    assert_eq!(home.session(&record.id).status, "created");
    let started: SessionRecord = home.json(&["start", &record.id, "--json"]);

    assert_eq!((started.id.as_str(), started.status.as_str()), (record.id.as_str(), "running"));
    assert_eq!(home.wait_for_end(&record.id).status, "completed");
    assert_eq!(home.log_text(&record.id), "hello\r\n");
    home.coven(&["start", &record.id]).expect_failure(4);
    check_invariants(&home);
}
