//! The Agents view: groups, selection, filter, and what is done to sessions.

use coven_testing::{TestHome, wait_until};

use super::{BACK, ECHO, ESC, SIZES, launch, open, quit};

#[test]
fn the_list_has_groups_and_the_pane_takes_what_is_typed() {
    let home = TestHome::started();
    launch(&home, "first", ECHO);
    for size in SIZES {
        let mut app = open(&home, &[], size);
        app.wait_for_text("working 1");
        app.wait_for_text("first");
        app.type_keys("\r");
        app.wait_for_text("ready");
        app.type_keys(&format!("at {}\r", size.1));
        app.wait_for_text(&format!("got:at {}", size.1));
        app.type_keys(BACK);
        app.wait_for_text("? help");
        quit(app);
    }
}

#[test]
fn a_group_that_changes_never_moves_the_selection() {
    let home = TestHome::started();
    let steady = launch(&home, "steady", ECHO);
    launch(&home, "short", "read line");
    let mut app = open(&home, &["sessions"], (24, 80));
    app.wait_for_text("working 2");
    app.type_keys("gj");
    app.wait_for_text("▌● command steady");
    home.coven(&["input", "short", "x", "--enter"]).expect_success();
    app.wait_for_text("finished 1");
    assert!(app.text().contains("▌● command steady"), "{}", app.text());
    launch(&home, "newer", ECHO);
    app.wait_for_text("command newer");
    assert!(app.text().contains("▌● command steady"), "{}", app.text());
    home.coven(&["kill", &steady]).expect_success();
    app.wait_for_text("▌· command steady");
    quit(app);
}

#[test]
fn the_filter_selects_its_first_match_and_escape_clears_it() {
    let home = TestHome::started();
    for title in ["alpha", "beta", "gamma"] {
        launch(&home, title, ECHO);
    }
    for size in SIZES {
        let mut app = open(&home, &[], size);
        app.wait_for_text("working 3");
        app.type_keys("/bet");
        app.wait_until_hidden("alpha");
        app.wait_for_text("▌● command beta");
        app.type_keys("\r");
        app.wait_for_text("? help");
        assert!(app.text().contains("/bet"), "Enter keeps the filter:\n{}", app.text());
        app.type_keys(ESC);
        app.wait_for_text("alpha");
        quit(app);
    }
}

#[test]
fn a_session_is_killed_archived_renamed_and_deleted_by_keys() {
    let home = TestHome::started();
    for size in SIZES {
        let title = format!("at {}", size.1);
        let id = launch(&home, &title, ECHO);
        let mut app = open(&home, &[], size);
        app.wait_for_text(&title);
        app.type_keys("r");
        app.wait_for_text("new title");
        app.type_keys(" too\r");
        app.wait_for_text(&format!("{title} too"));
        app.type_keys("d");
        app.wait_for_text("cannot sacrifice");
        app.type_keys("x");
        app.wait_for_text("Kill");
        app.type_keys("y");
        app.wait_for_text("finished 1");
        app.type_keys("d");
        app.wait_for_text("type sacrifice");
        app.type_keys("yes\r");
        app.wait_for_text("type sacrifice to go on");
        app.type_keys(ESC);
        app.wait_for_text("? help");
        assert_eq!(home.session(&id).status, "killed", "only the word deletes");
        app.type_keys("d");
        app.wait_for_text("type sacrifice");
        app.type_keys("sacrifice\r");
        app.wait_for_text("no sessions yet");
        home.coven(&["show", &id]).expect_failure(3);
        quit(app);
    }
}

#[test]
fn an_archived_session_is_in_the_history_and_comes_back() {
    let home = TestHome::started();
    let id = launch(&home, "old one", "echo it was me");
    home.wait_for_end(&id);
    for size in SIZES {
        let mut app = open(&home, &[], size);
        app.wait_for_text("finished 1");
        app.type_keys("a");
        app.wait_for_text("no sessions yet");
        app.type_keys("H");
        app.wait_for_text("old one");
        app.type_keys("u");
        wait_until("it is back", || home.session(&id).archived_at.is_none());
        app.type_keys("A");
        app.wait_for_text("finished 1");
        quit(app);
    }
}

#[test]
fn a_launch_from_the_app_runs_the_chosen_agent_and_shows_it() {
    let home = TestHome::started();
    for size in SIZES {
        let mut app = open(&home, &[], size);
        app.wait_for_text("? help");
        app.type_keys("c");
        app.wait_for_text("launch an agent");
        // The list of agents has come; a letter chooses.
        app.wait_until_hidden("reading the list");
        app.type_keys("s");
        app.wait_for_text("‹ shell ›");
        let title = format!("made at {}", size.1);
        app.type_keys("\t\t\t");
        app.type_keys(&format!("{title}\r"));
        wait_until("it was launched", || home.sessions().iter().any(|session| session.title == title));
        app.wait_for_text("keys go to the agent");
        app.type_keys("echo $((40 + 2))\r");
        app.wait_for_text("42");
        app.type_keys(BACK);
        app.wait_for_text("? help");
        quit(app);
    }
}

#[test]
fn hostile_titles_and_output_do_not_act_on_the_terminal() {
    let home = TestHome::started();
    launch(&home, "evil", "printf 'a\\033]52;c;aGk=\\007b\\033]0;owned\\007\\033[?1049lc'; exec sleep 1000");
    // The daemon refuses such titles; an older store may have one.
    let id = &home.sessions()[0].id;
    home.stop();
    home.edit_database(&format!("UPDATE sessions SET title = 'evil' || char(27) || '[2J' || char(27) || ']0;owned' || char(7) || char(8238) WHERE id = '{id}'"));
    home.start();
    let mut app = open(&home, &[], (24, 80));
    app.wait_for_text("abc");
    app.type_keys("\r");
    app.wait_for_text("keys go to the agent");
    let bytes = String::from_utf8_lossy(&app.bytes()).into_owned();
    for forbidden in ["]52;", "owned\u{7}", "\u{202e}", "\u{1b}[?1049l"] {
        assert!(!bytes.contains(forbidden), "{forbidden:?} reached the terminal");
    }
    app.type_keys(BACK);
    app.wait_for_text("? help");
    quit(app);
}
