//! The app while its daemon dies, and with many sessions.

use coven_testing::{TestHome, wait_until};

use super::{BACK, ECHO, launch, open, quit};

const KILLS: usize = 10;

#[test]
fn the_app_stays_and_is_right_again_after_each_death_of_the_daemon() {
    let home = TestHome::started();
    launch(&home, "first", ECHO);
    let mut app = open(&home, &[], (24, 80));
    app.wait_for_text("ready");
    app.type_keys("\r");
    app.wait_for_text("keys go to the agent");
    for nth in 0..KILLS {
        home.coven(&["sessions"]).expect_success();
        home.kill_daemon();
        // Typed while the daemon is dead or comes back: it arrives, or the app says that it may not have arrived.
        app.type_keys(&format!("line {nth}\r"));
        let has_arrived = || app.text().contains(&format!("got:line {nth}"));
        let is_in_doubt = || app.text().contains("may not have reached the agent");
        wait_until("the line has arrived or is in doubt", || has_arrived() || is_in_doubt());
        if !has_arrived() {
            app.type_keys(&format!("\u{15}line {nth}\r"));
            app.wait_for_text(&format!("line {nth}"));
        }
    }
    app.type_keys(BACK);
    launch(&home, "second", ECHO);
    app.wait_for_text("command second");
    quit(app);
}

#[test]
fn a_prompt_that_is_being_written_outlives_the_daemon() {
    let home = TestHome::started_with_agent(serde_json::json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    let mut app = open(&home, &["chat", &id], (24, 80));
    app.wait_for_text("ctrl-\\ list");
    app.type_keys("half a pro");
    app.wait_for_text("half a pro");
    home.kill_daemon();
    app.type_keys("mpt");
    app.wait_for_text("half a prompt");
    // Any command starts the daemon again, if the app has not done it yet.
    home.coven(&["sessions"]).expect_success();
    app.type_keys("\r");
    app.wait_for_text("prompt:half a prompt");
    app.type_keys(BACK);
    app.wait_for_text("? help");
    quit(app);
}
