//! LIFE-26 to LIFE-28: archive, summon, sacrifice.

use coven_testing::records::SessionRecord;
use coven_testing::sessions::path;
use coven_testing::{TestHome, check_invariants, process};

#[test]
fn life_26_archive_hides_an_ended_session_and_keeps_its_data() {
    let home = TestHome::started();
    let session = home.run_to_end("say kept ;; exit 0");
    let (log, entries) = (home.log(&session.id), home.entries(&session.id));

    home.coven(&["archive", &session.id]).expect_success();

    assert!(home.items::<SessionRecord>(&["sessions", "--json"]).is_empty());
    assert_eq!((home.log(&session.id), home.entries(&session.id)), (log, entries));
    assert_eq!(home.session(&session.id).status, "completed");
    home.coven(&["archive", &session.id]).expect_failure(4);

    let live = home.launch("hang");
    home.act(&live.id, "archive").expect_error(409, "session_running");
    home.coven(&["archive", &live.id]).expect_failure(4);
    assert_eq!(home.session(&live.id).archived_at, None);
    check_invariants(&home);
}

#[test]
fn life_27_summon_restores_the_status_and_replays_without_running_again() {
    let home = TestHome::started();
    let completed = home.run_to_end("say the work ;; exit 0").id;
    let failed = home.run_to_end("say the work ;; exit 4").id;
    let killed = home.launch("say the work ;; hang").id;
    home.wait_for_output(&killed, "the work\r\n");
    home.kill(&killed);
    let orphaned = home.launch("say the work ;; hang").id;
    home.wait_for_output(&orphaned, "the work\r\n");
    process::kill_hard(home.holder_of(&orphaned).expect("has a holder"));
    home.wait_for_status(&orphaned, "orphaned");

    for (id, status) in [(completed, "completed"), (failed, "failed"), (killed, "killed"), (orphaned, "orphaned")] {
        let before = home.session(&id);
        assert_eq!(before.status, status);
        let entries = home.entries(&id);
        home.coven(&["archive", &id]).expect_success();

        let shown = home.coven(&["summon", &id]).expect_success();

        assert_eq!(shown, "the work\r\n", "{status}");
        let after = home.session(&id);
        assert_eq!((after.status.as_str(), after.pid, after.archived_at), (status, before.pid, None));
        assert_eq!(home.entries(&id), entries, "the session was not run again");
        home.coven(&["summon", &id]).expect_failure(4);
    }
    check_invariants(&home);
}

#[test]
fn life_28_sacrifice_deletes_an_ended_session_with_all_its_entries() {
    let home = TestHome::started();
    let kept = home.run_to_end("say kept");
    let session = home.run_to_end("say gone ;; exit 0");

    let record: SessionRecord = home.json(&["sacrifice", &session.id, "--yes", "--json"]);

    assert_eq!(record.id, session.id);
    for rest in ["", "/entries", "/log", "/screen"] {
        home.get(&path(&session.id, rest)).expect_error(404, "session_not_found");
    }
    assert!(!home.session_dir(&session.id).exists());
    assert_eq!(home.log_text(&kept.id), "kept\r\n");

    let live = home.launch("hang");
    home.sacrifice(&live.id).expect_error(409, "session_running");
    home.coven(&["sacrifice", &live.id, "--yes"]).expect_failure(4);
    assert_eq!(home.session(&live.id).status, "running");
    check_invariants(&home);
}
