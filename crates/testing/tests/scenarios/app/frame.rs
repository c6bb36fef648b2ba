//! The frame: views, help, palette, sizes, leaving.

use coven_testing::{TestHome, TestTerminal, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{BACK, ECHO, ESC, SIZES, launch, open, quit};

#[test]
fn every_view_opens_by_key_and_by_its_verb_at_every_size() {
    let home = TestHome::started();
    launch(&home, "first", ECHO);
    for size in SIZES {
        let mut app = open(&home, &[], size);
        app.wait_for_text("[Agents]");
        for (key, view) in [("I", "[Inbox]"), ("B", "[Board]"), ("H", "[History]"), ("A", "[Agents]")] {
            app.type_keys(key);
            app.wait_for_text(view);
        }
        quit(app);
        for (verb, view) in
            [("sessions", "[Agents]"), ("board", "[Board]"), ("inbox", "[Inbox]"), ("answer", "[Inbox]")]
        {
            let app = open(&home, &[verb], size);
            app.wait_for_text(view);
            quit(app);
        }
    }
}

#[test]
fn the_help_lists_the_keys_of_the_view_and_the_palette_runs_any_action() {
    let home = TestHome::started();
    launch(&home, "find me", ECHO);
    for size in SIZES {
        let mut app = open(&home, &[], size);
        app.type_keys("?");
        app.wait_for_text(" keys ");
        app.type_keys("?");
        app.wait_until_hidden(" keys ");
        app.type_keys(":");
        app.wait_for_text(" commands ");
        app.type_keys("hist\r");
        app.wait_for_text("[History]");
        app.type_keys("\u{b}fndme\r");
        app.wait_for_text("[Agents]");
        app.wait_for_text("▌● command find me");
        app.type_keys(":nothing-like-this");
        app.wait_for_text("nothing matches");
        app.type_keys(ESC);
        app.wait_until_hidden("nothing matches");
        quit(app);
    }
}

#[test]
fn a_storm_of_sizes_leaves_a_whole_screen() {
    let home = TestHome::started();
    launch(&home, "first", ECHO);
    let mut app = open(&home, &[], (24, 80));
    app.type_keys("\r");
    app.wait_for_text("keys go to the agent");
    for (rows, cols) in (1..60).map(|nth| (1 + nth * 7 % 50, 1 + nth * 13 % 180)) {
        app.resize(rows, cols);
    }
    app.resize(4, 19);
    app.wait_for_text("too small");
    app.resize(24, 80);
    app.wait_for_text("[Agents]");
    app.wait_for_text("ready");
    app.type_keys("hello\r");
    app.wait_for_text("got:hello");
    app.type_keys(BACK);
    app.wait_for_text("? help");
    quit(app);
}

#[test]
fn signals_and_a_lost_terminal_leave_it_as_it_was() {
    let home = TestHome::started();
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut app = open(&home, &[], (24, 80));
        let pid = Pid::from_raw(i32::try_from(app.pid()).expect("a pid")).expect("a pid");
        kill_process(pid, signal).expect("it runs");
        assert_eq!(app.wait(), code);
        app.assert_settings_restored();
        assert!(!app.is_alternate() && app.is_cursor_visible());
        let bytes = String::from_utf8_lossy(&app.bytes()).into_owned();
        for mode in ["1000", "1002", "1004", "1006", "2004"] {
            let (on, off) = (bytes.rfind(&format!("[?{mode}h")), bytes.rfind(&format!("[?{mode}l")));
            assert!(on.is_none_or(|on| off.is_some_and(|off| off > on)), "mode {mode} stays on");
        }
    }
    open(&home, &[], (24, 80)).hang_up();
}

#[test]
fn ctrl_c_quits_from_the_list_and_goes_to_the_agent_from_a_pane() {
    let home = TestHome::started();
    launch(&home, "trap", "trap 'echo caught' INT; echo ready; while :; do read line; done");
    let mut app = open(&home, &[], (24, 80));
    app.wait_for_text("ready");
    app.type_keys("\r");
    app.wait_for_text("keys go to the agent");
    app.type_keys("\u{3}");
    app.wait_for_text("caught");
    app.type_keys(BACK);
    app.wait_for_text("? help");
    app.type_keys("\u{3}");
    assert_eq!(app.wait(), 0);
    app.assert_settings_restored();
    assert_eq!(home.sessions()[0].status, "running", "sessions go on");
}

#[test]
fn without_a_screen_nothing_full_screen_happens() {
    let home = TestHome::started();
    launch(&home, "first", ECHO);
    assert!(home.coven(&[]).expect_success().contains("first"), "bare coven prints the table in a pipe");
    for args in [&["sessions", "--plain"][..], &["sessions", "--json"], &["inbox", "--plain"], &["board", "--once"]] {
        let mut terminal = TestTerminal::open(&home, args);
        assert_eq!(terminal.wait(), 0);
        assert!(!String::from_utf8_lossy(&terminal.bytes()).contains("[?1049h"), "{args:?}");
    }
    for args in [&[][..], &["sessions"], &["inbox"], &["board"], &["answer"]] {
        let mut command = home.command(args);
        command.env("TERM", "dumb");
        let mut terminal = TestTerminal::run(command, 24, 80);
        assert_eq!(terminal.wait(), 0, "{args:?}");
        assert!(!String::from_utf8_lossy(&terminal.bytes()).contains('\u{1b}'), "{args:?}");
    }
}

#[test]
fn no_color_means_no_colors() {
    let home = TestHome::started();
    launch(&home, "first", "printf '\\033[31mred\\033[0m\\n'; exec sleep 1000");
    let mut command = home.command(&[]);
    command.env("NO_COLOR", "1");
    let app = TestTerminal::run(command, 24, 80);
    app.wait_for_text("red");
    app.wait_for_text(" live");
    let bytes = String::from_utf8_lossy(&app.bytes()).into_owned();
    let colors = bytes.split("\u{1b}[").skip(1).filter_map(|rest| rest.split_once('m')).map(|(codes, _)| codes);
    let is_color = |codes: &str| {
        codes.chars().all(|c| c.is_ascii_digit() || c == ';')
            && codes.split(';').any(|code| matches!(code.parse(), Ok(30..=38 | 40..=48 | 90..=97 | 100..=107)))
    };
    let used: Vec<&str> = colors.filter(|codes| is_color(codes)).collect();
    assert!(used.is_empty(), "{used:?}");
    quit(app);
}

#[test]
fn configured_keys_replace_the_usual_ones_and_wrong_ones_are_named() {
    let home = TestHome::started_with(
        json!({"app": {"keys": {"quit": ["ctrl-q"], "inbox": ["f2"]}}, "sessions": {"detachKeys": "ctrl-a d"}}),
    );
    launch(&home, "first", ECHO);
    let mut app = open(&home, &[], (24, 80));
    app.type_keys("\u{1b}OQ");
    app.wait_for_text("[Inbox]");
    app.type_keys("A\r");
    app.wait_for_text("ctrl-a d list");
    app.type_keys("\u{1}d");
    app.wait_for_text("? help");
    app.type_keys("q\u{11}");
    assert_eq!(app.wait(), 0);
    home.configure(json!({"app": {"keys": {"fly": ["x"]}}}));
    let mut refused = TestTerminal::open(&home, &[]);
    assert_eq!(refused.wait(), 2);
    assert!(refused.text().contains("app.keys.fly: there is no such action"), "{}", refused.text());
    assert!(!refused.is_alternate());
}

#[test]
fn an_idle_app_writes_nothing() {
    let home = TestHome::started();
    launch(&home, "first", ECHO);
    let mut app = open(&home, &[], (24, 80));
    app.wait_for_text("ready");
    let before = app.bytes().len();
    // The daemon has answered requests since; the app has had news that change nothing.
    for _ in 0..20 {
        home.coven(&["sessions", "--json"]).expect_success();
    }
    assert_eq!(String::from_utf8_lossy(&app.bytes()[before..]), "");
    app.type_keys("?");
    wait_until("a key writes", || app.bytes().len() > before);
    app.type_keys(ESC);
    app.wait_for_text("? help");
    quit(app);
}

#[test]
fn inside_a_session_the_app_never_shows_that_session() {
    let home = TestHome::started();
    let own = launch(&home, "own", ECHO);
    let mut command = home.command(&[]);
    command.env("COVEN_SESSION_ID", &own);
    let app = TestTerminal::run(command, 24, 80);
    app.wait_for_text("this is the session you are in");
    assert!(!app.text().contains("ready"), "{}", app.text());
    quit(app);
}
