//! Panes: splits, zoom, the mouse, pasted text, scrolling and replay.

use coven_testing::TestHome;

use super::{BACK, ECHO, launch, open, quit};

#[test]
fn a_split_keeps_its_session_and_survives_a_restart() {
    let home = TestHome::started();
    launch(&home, "left", "echo I am left; exec sleep 1000");
    launch(&home, "right", "echo I am right; exec sleep 1000");
    let mut app = open(&home, &[], (32, 110));
    app.wait_for_text("I am right");
    app.type_keys("|");
    app.wait_for_text("▸");
    app.type_keys("j");
    app.wait_for_text("I am left");
    app.wait_for_text("I am right");
    app.type_keys("z");
    app.wait_until_hidden("I am right");
    app.type_keys("z");
    app.wait_for_text("I am right");
    quit(app);
    let mut again = open(&home, &[], (32, 110));
    again.type_keys("j");
    again.wait_for_text("I am left");
    again.wait_for_text("I am right");
    again.type_keys("W");
    again.wait_until_hidden("I am right");
    quit(again);
}

#[test]
fn enter_goes_to_the_selected_session_also_beside_splits() {
    let home = TestHome::started();
    let (left, right) = (launch(&home, "left", ECHO), launch(&home, "right", ECHO));
    let mut app = open(&home, &[], (32, 110));
    app.wait_for_text("ready");
    app.type_keys("|");
    app.wait_for_text("▸");
    app.type_keys("w");
    app.wait_for_text("keys go to the agent");
    app.type_keys("to the right\r");
    home.wait_for_output(&right, "got:to the right");
    app.type_keys(BACK);
    app.wait_for_text("? help");
    app.type_keys("j\r");
    app.wait_for_text("keys go to the agent");
    app.type_keys("to the left\r");
    home.wait_for_output(&left, "got:to the left");
    app.type_keys(BACK);
    app.wait_for_text("? help");
    quit(app);
}

#[test]
fn pasted_text_goes_to_the_agent_and_is_never_read_as_keys() {
    let home = TestHome::started();
    launch(&home, "first", ECHO);
    let mut app = open(&home, &[], (24, 80));
    app.wait_for_text("ready");
    app.type_keys("\u{1b}[200~qxd\u{1b}[201~");
    app.type_keys("\r");
    app.wait_for_text("keys go to the agent");
    app.type_keys("\u{1b}[200~pasted words\u{1b}[201~\r");
    app.wait_for_text("got:pasted words");
    app.type_keys(BACK);
    app.wait_for_text("? help");
    quit(app);
}

#[test]
fn the_mouse_selects_focuses_and_scrolls() {
    let home = TestHome::started();
    launch(&home, "first", ECHO);
    launch(&home, "second", "seq 1 500; exec sleep 1000");
    let mut app = open(&home, &[], (24, 80));
    app.wait_for_text("▌● command second");
    app.wait_for_text("500");
    // The row of the first session, then its pane.
    app.type_keys("\u{1b}[<0;8;4M\u{1b}[<0;8;4m");
    app.wait_for_text("▌● command first");
    app.type_keys("\u{1b}[<0;50;10M\u{1b}[<0;50;10m");
    app.wait_for_text("keys go to the agent");
    app.type_keys("by mouse\r");
    app.wait_for_text("got:by mouse");
    app.type_keys(BACK);
    app.wait_for_text("? help");
    app.type_keys("k");
    app.wait_for_text("▌● command second");
    app.type_keys("\u{1b}[<64;50;10M");
    app.wait_for_text("of 500");
    app.type_keys(&"\u{1b}[<64;50;10M".repeat(10));
    app.wait_for_text("line 4");
    app.wait_until_hidden("line 500 of");
    app.type_keys("q");
    app.wait_for_text("? help");
    // The name of a view in the first row.
    app.type_keys("\u{1b}[<0;20;1M\u{1b}[<0;20;1m");
    app.wait_for_text("[Inbox]");
    quit(app);
}

#[test]
fn copy_mode_finds_text_in_the_whole_output_and_copies_it() {
    let home = TestHome::started();
    launch(&home, "long", "seq -f 'row %g end' 1 3000; exec sleep 1000");
    let mut app = open(&home, &[], (24, 80));
    app.wait_for_text("row 3000 end");
    app.type_keys("[");
    app.wait_for_text("of 3,000");
    app.type_keys("/row 17 end\r");
    app.wait_for_text("row 17 end");
    app.type_keys("y");
    app.wait_for_text("copied 1 line");
    let bytes = String::from_utf8_lossy(&app.bytes()).into_owned();
    // "row 17 end" in Base64.
    assert!(bytes.contains("\u{1b}]52;c;cm93IDE3IGVuZA=="), "nothing was copied");
    app.type_keys("/no such row\r");
    app.wait_for_text("not found");
    app.type_keys("q");
    app.wait_for_text("? help");
    quit(app);
}

#[test]
fn a_finished_session_is_replayed_in_its_pane() {
    let home = TestHome::started();
    let id = launch(&home, "done", "echo first words; echo last words");
    home.wait_for_end(&id);
    let mut app = open(&home, &[], (24, 80));
    app.type_keys("H");
    app.wait_for_text("[History]");
    app.wait_for_text("done");
    app.type_keys("p");
    app.wait_for_text("0:00");
    app.wait_for_text("last words");
    app.type_keys(" 0");
    app.type_keys("9");
    app.wait_for_text("last words");
    app.type_keys("q");
    app.wait_for_text("? help");
    app.type_keys("e");
    app.wait_for_text("export to a file");
    let file = home.folder().join("out.txt");
    // The line is replaced.
    app.type_keys(&format!("\u{15}{}\r", file.display()));
    app.wait_for_text("exported to");
    assert_eq!(std::fs::read_to_string(&file).expect("the file").trim(), "first words\nlast words");
    quit(app);
}

#[test]
fn the_conversation_of_an_acp_agent_takes_prompts() {
    let home = TestHome::started_with_agent(serde_json::json!({}));
    let repo = home.make_repo("app");
    let id = home.open(&repo).id;
    for size in [(10, 40), (24, 80), (60, 200)] {
        let mut app = open(&home, &["chat", &id], size);
        app.wait_for_text("ctrl-\\ list");
        let prompt = format!("hello from {}", size.1);
        app.type_keys(&format!("{prompt}\r"));
        home.wait_for_rest(&id);
        app.wait_for_text(&prompt);
        app.type_keys(BACK);
        app.wait_for_text("? help");
        quit(app);
        assert!(home.received_prompts(&id).contains(&prompt));
    }
}
