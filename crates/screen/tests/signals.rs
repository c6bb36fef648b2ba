//! Signals in the output: titles, notifications, progress, bells and shell marks.

use coven_screen::TerminalSignal::{Bell, CommandEnded, CommandStarted, Progress as Shown, PromptShown, Title};
use coven_screen::{Progress, Screen, TerminalSignal};

fn title(text: &str) -> TerminalSignal {
    Title(text.into())
}

fn notification(title: Option<&str>, body: &str) -> TerminalSignal {
    TerminalSignal::Notification { title: title.map(str::to_owned), body: body.into() }
}

fn signals(output: &[u8]) -> Vec<TerminalSignal> {
    let mut screen = Screen::new(24, 80);
    screen.feed(output);
    screen.take_signals()
}

/// Checks the signals of an output, also if it arrives in two parts or byte by byte.
#[track_caller]
fn assert_signals(output: &str, expected: &[TerminalSignal]) {
    let output = output.as_bytes();
    assert_eq!(signals(output), expected, "whole");
    for cut in 0..=output.len() {
        let mut screen = Screen::new(24, 80);
        screen.feed(&output[..cut]);
        screen.feed(&output[cut..]);
        assert_eq!(screen.take_signals(), expected, "cut at byte {cut}");
    }
    let mut screen = Screen::new(24, 80);
    output.chunks(1).for_each(|byte| screen.feed(byte));
    assert_eq!(screen.take_signals(), expected, "byte by byte");
    assert_eq!(screen.take_signals(), [], "signals are returned once");
}

#[test]
fn reads_titles_and_skips_repeated_ones() {
    assert_signals(
        "\x1b]0;✳ fix it\x07\x1b]2;✳ fix it\x1b\\\x1b]2; a;b \x1b\\\x1b]1;icon\x07\x1b]2;\x07",
        &[title("✳ fix it"), title("a;b"), title("")],
    );
    let mut screen = Screen::new(24, 80);
    screen.feed(b"\x1b]2;same\x07");
    assert_eq!(screen.take_signals(), [title("same")]);
    screen.feed(b"\x1b]2;same\x07");
    assert_eq!(screen.take_signals(), [], "the title is the one already reported");
}

#[test]
fn a_restored_or_reset_title_is_a_signal() {
    assert_signals(
        "\x1b]2;shell\x07\x1b[22;2t\x1b]2;agent\x07\x1b[23;2t\x1bc",
        &[title("shell"), title("agent"), title("shell"), title("")],
    );
}

#[test]
fn reads_notifications_of_osc_9_and_777() {
    assert_signals(
        "\x1b]9;Approval requested: rm -r a; b\x07",
        &[notification(None, "Approval requested: rm -r a; b")],
    );
    assert_signals("\x1b]9;4 files changed\x1b\\", &[notification(None, "4 files changed")]);
    assert_signals("\x1b]777;notify;Agent;done; really\x1b\\", &[notification(Some("Agent"), "done; really")]);
    assert_signals("\x1b]777;notify;;done\x07", &[notification(None, "done")]);
    assert_signals("\x1b]777;notify;done\x07", &[notification(None, "done")]);
    assert_signals("\x1b]777;precmd\x07\x1b]9;\x07\x1b]9\x07\x1b]777;notify;;\x07", &[]);
    assert_signals("\x1b]9;again\x07\x1b]9;again\x07", &[notification(None, "again"), notification(None, "again")]);
}

#[test]
fn reads_progress_before_notifications() {
    assert_signals(
        "\x1b]9;4;3\x07\x1b]9;4;1;42\x1b\\\x1b]9;4;1;900\x07\x1b]9;4;2;5\x07\x1b]9;4;4\x07\x1b]9;4;0;\x07",
        &[
            Progress::Busy,
            Progress::Percent(42),
            Progress::Percent(100),
            Progress::Failed,
            Progress::Paused,
            Progress::Hidden,
        ]
        .map(Shown),
    );
    assert_signals("\x1b]9;4\x07\x1b]9;4;\x07\x1b]9;4;9\x07", &[]);
    assert_signals("\x1b]9;9;/home/ann\x07\x1b]9;12\x07", &[]);
}

#[test]
fn joins_the_chunks_of_osc_99() {
    assert_signals("\x1b]99;;Hello; world\x1b\\", &[notification(None, "Hello; world")]);
    assert_signals(
        "\x1b]99;i=1:d=0;Al\x1b\\\x1b]99;i=2:d=0;other\x1b\\\x1b]99;i=1:d=0;pha\x1b\\\x1b]99;i=1:p=body;ready\x07",
        &[notification(Some("Alpha"), "ready")],
    );
    assert_signals("\x1b]99;i=1:e=1:d=0;SMOk\x07\x1b]99;i=1:p=body:e=1;YQpi\x07", &[notification(Some("Hä"), "a b")]);
    assert_signals("\x1b]99;i=1:p=?;\x07\x1b]99;i=1:p=close;\x07\x1b]99\x07\x1b]99;\x07", &[]);
    assert_signals("\x1b]99;i=1:d=0;text\x07\x1b]99;i=1:p=buttons;Yes\x07", &[notification(None, "text")]);
}

#[test]
fn reads_bells_but_not_the_end_of_a_string() {
    assert_signals("a\x07b\x1b]2;t\x07\x07\x1b[1\x07m", &[Bell, title("t"), Bell]);
    assert_signals("\x1b]8;;http://x\x07\x1b]52;c;AAAA\x07\x1b_G\x07\x1b\\\x1bPq\x07\x1b\\", &[]);
}

#[test]
fn reads_the_marks_of_a_shell() {
    assert_signals(
        "\x1b]133;A;cl=m\x07$ \x1b]133;B\x07ls\r\n\x1b]133;C\x07out\r\n\x1b]133;D;2\x07\x1b]133;D\x07\x1b]133;D;;aid=1\x07",
        &[PromptShown, CommandStarted, CommandEnded { exit: Some(2) }, CommandEnded { exit: None }],
    );
}

#[test]
fn finds_signals_that_are_wrapped_for_tmux() {
    assert_signals("\x1bPtmux;\x1b\x1b]9;done\x07\x1b\\", &[notification(None, "done")]);
    assert_signals("\x1bPtmux;\x1b\x1b]9;done\x1b\x1b\\\x1b\\", &[notification(None, "done")]);
}

#[test]
fn texts_are_one_clean_line_of_limited_length() {
    assert_signals("\x1b]9; a\tb\u{85}c\x7f \x07", &[notification(None, "abc")]);
    let long = format!("\x1b]9;{}\x07", "日".repeat(1000));
    assert_eq!(signals(long.as_bytes()), [notification(None, &"日".repeat(170))]);
    let long = format!("\x1b]2;{}\x07", "é".repeat(1000));
    assert_eq!(signals(long.as_bytes()), [title(&"é".repeat(256))]);
    let chunk = format!("\x1b]99;i=1:d=0;{}\x07", "x".repeat(400));
    assert_eq!(
        signals(format!("{chunk}{chunk}{chunk}\x1b]99;i=1;\x07").as_bytes()),
        [notification(None, &"x".repeat(512))]
    );
}

#[test]
fn keeps_the_newest_signals() {
    let output: String = (0..100).map(|at| format!("\x1b]2;{at}\x07")).collect();
    let expected: Vec<_> = (36..100).map(|at: i32| title(&at.to_string())).collect();
    assert_eq!(signals(output.as_bytes()), expected);
    assert_eq!(signals(&[7; 1000]), [Bell]);
    let unfinished: String = (0..100_000).map(|at| format!("\x1b]99;i={at}:d=0;text\x07")).collect();
    assert_eq!(signals(unfinished.as_bytes()), []);
}

#[test]
fn a_restored_screen_reports_only_what_follows() {
    let mut screen = Screen::new(24, 80);
    screen.feed(b"\x1b]2;known\x07\x07\x1b]9;half");
    let mut copy = Screen::restore(24, 80, &screen.snapshot());
    assert_eq!(copy.take_signals(), []);
    copy.feed(b" done\x07\x1b]2;known\x07");
    assert_eq!(copy.take_signals(), [notification(None, "half done")]);
}
