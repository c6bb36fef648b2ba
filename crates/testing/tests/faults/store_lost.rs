//! A database that was lost or restored from an old copy.

use std::fs;

use coven_testing::{TestHome, process};

fn remove_database(home: &TestHome) {
    for name in ["coven.db", "coven.db-wal", "coven.db-shm"] {
        // SQLite may have removed the last two.
        let _ = fs::remove_file(home.path().join(name));
    }
}

#[test]
fn a_lost_database_does_not_end_running_sessions_or_delete_their_logs() {
    let home = TestHome::started();
    let session = home.launch("say precious ;; hang");
    home.wait_for_output(&session.id, "precious\r\n");

    home.kill_daemon();
    remove_database(&home);
    home.start();
    // The second start cleans up again.
    home.restart();

    assert!(process::is_alive(session.pid.expect("was running")));
    let (_, bytes) = coven_testing::journal::log_until(&home.session_dir(&session.id), u64::MAX);
    assert_eq!(bytes, b"precious\r\n");
}
