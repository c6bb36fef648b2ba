//! A restart of the daemon: old signals are not judged again, new ones are, and the screen and title are evaluated once.

use coven_domain::activity::{Activity, ActivityFact};
use coven_testing::{TestHome, journal, wait_until};

use super::{all_rules, step};

#[test]
fn signals_are_not_judged_again_after_a_restart() {
    let home = TestHome::started_with_rules(&all_rules());
    let script =
        r"raw \e]2;* one\a ;; ask 0 ;; raw \e]9;Approval requested: ls\a ;; ask 1 ;; raw \e]2;* two\a ;; ask 2";
    let id = home.launch_fake(script).id;
    home.wait_for_evidence(&id, Activity::Working);
    let before = step(&home, &id, Activity::Permission);
    wait_until("the permission is stored", || home.session(&id).activity.as_deref() == Some("permission"));

    for round in 0..2 {
        match round {
            0 => home.restart(),
            _ => {
                home.kill_daemon();
                home.start();
            }
        }
        wait_until("the session is adopted", || home.health().sessions_live == 1);
        home.wait_for_screen(&id);
        let after = home.evidence(&id);
        assert_eq!((after.activity, after.observations), (before.activity, before.observations.clone()), "{round}");
    }
    step(&home, &id, Activity::Working);
}

#[test]
fn signals_that_arrive_without_a_daemon_are_judged_by_the_next_one() {
    let home = TestHome::started_with_rules(&all_rules());
    let script = r"raw \e]2;* one\a ;; until go ;; raw \e]9;Approval requested: ls\a ;; say asked ;; ask 1";
    let id = home.launch_fake(script).id;
    home.wait_for_evidence(&id, Activity::Working);
    wait_until("the work is stored", || home.session(&id).activity.as_deref() == Some("working"));

    home.kill_daemon();
    let end = journal::log_end(&home.session_dir(&id));
    std::fs::write(home.project().join("go"), "").expect("disk has space");
    wait_until("the agent asks", || journal::log_end(&home.session_dir(&id)) > end + 30);
    home.start();

    let asked = home.wait_for_evidence(&id, Activity::Permission);
    assert_eq!(asked.detail.as_deref(), Some("Approval requested: ls"));
}

#[test]
fn a_dialog_that_was_answered_without_a_daemon_is_closed_by_the_next_one() {
    let home = TestHome::started_with_rules(&all_rules());
    let id = home.launch_fake(r"raw Do you trust it?\n ;; until go ;; raw \e[2J\e[Hwelcome ;; say done ;; ask 1").id;
    home.wait_for_evidence(&id, Activity::Question);
    wait_until("the question is stored", || home.session(&id).activity.as_deref() == Some("question"));

    home.kill_daemon();
    let end = journal::log_end(&home.session_dir(&id));
    std::fs::write(home.project().join("go"), "").expect("disk has space");
    wait_until("the dialog is gone", || journal::log_end(&home.session_dir(&id)) > end + 10);
    home.start();

    home.wait_for_evidence(&id, Activity::Working);
    home.wait_for_observation(&id, "the dialog is closed", |it| it.fact == ActivityFact::Settled);
}

#[test]
fn the_title_and_the_screen_are_evaluated_with_rules_that_are_new() {
    let home = TestHome::started_with_rules(&serde_json::json!([]));
    let id = home.launch_fake(r"raw \e]2;* one\a ;; ask 1").id;
    let dialog = home.launch_fake("say Do you trust it? ;; ask 1").id;
    for id in [&id, &dialog] {
        home.wait_for_output(id, "1\r\n");
        assert_eq!(home.evidence(id).activity, Some(Activity::Unknown));
    }

    home.configure(coven_testing::evidence::with_rules(&all_rules()));
    home.restart();

    home.wait_for_evidence(&id, Activity::Working);
    home.wait_for_evidence(&dialog, Activity::Question);
}
