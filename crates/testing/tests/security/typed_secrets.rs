//! Input at a prompt without echo, such as a password, is not recorded.

use std::path::PathBuf;

use coven_domain::entry::EntryKind;
use coven_testing::{TestHome, TestTerminal};
use serde_json::{Value, json};

use crate::files::files;

const SECRETS: [&str; 2] = ["correct-horse", "battery-staple"];

/// Returns the files of a home that contain `text`.
fn files_with(home: &TestHome, text: &str) -> Vec<PathBuf> {
    let mut files = files(&home.path());
    assert!(!files.is_empty(), "a home has files");
    files.retain(|path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    });
    files
}

/// Runs a session that asks for two passwords and a name. The first password is sent over REST, the rest is typed in an
/// attached terminal.
fn run_with_passwords(home: &TestHome) -> String {
    let id = home.launch("password first? ;; password second? ;; ask name?").id;
    home.wait_for_output(&id, "first?");
    home.type_in(&id, &format!("{}\r", SECRETS[0]));
    let mut terminal = TestTerminal::open(home, &["attach", &id]);
    terminal.wait_for_text("second?");
    terminal.type_keys(&format!("{}\r", SECRETS[1]));
    terminal.wait_for_text("14 characters");
    terminal.wait_for_text("name?");
    terminal.type_keys("a-plain-name\r");
    assert_eq!(terminal.wait(), 0);
    home.wait_for_end(&id);
    id
}

#[test]
fn passwords_are_in_no_file_entry_or_export_but_echoed_input_is() {
    let home = TestHome::started();

    let id = run_with_passwords(&home);

    let entries = home.entries(&id);
    let hidden = |it: &&coven_api::entry::EntryRecord| it.detail.hidden == Some(true);
    let counts = entries.iter().filter(hidden).map(|it| it.detail.characters.expect("number"));
    assert_eq!(counts.sum::<u64>(), 13 + 14 + 2, "both passwords, each with Enter");
    assert!(entries.iter().filter(hidden).all(|it| it.kind == EntryKind::Input && it.bytes().is_empty()));
    let typed: Vec<u8> = entries.iter().filter(|it| it.kind == EntryKind::Input).flat_map(|it| it.bytes()).collect();
    assert_eq!(String::from_utf8_lossy(&typed), "a-plain-name\r");
    for format in ["jsonl", "asciicast", "text", "html"] {
        let exported = home.coven(&["export", &id, "--format", format, "--with-input"]).expect_success();
        assert!(!SECRETS.iter().any(|secret| exported.contains(secret)), "{format}: {exported}");
    }
    home.stop();
    for secret in SECRETS {
        assert_eq!(files_with(&home, secret), Vec::<PathBuf>::new());
    }
    assert!(!files_with(&home, "a-plain-name").is_empty(), "echoed input is recorded");
}

#[test]
fn record_input_can_be_set_to_all_or_none() {
    let config = |word: &str| -> Value { json!({ "sessions": { "recordInput": word, "compressFinished": false } }) };
    let typed = |home: &TestHome, id: &str| -> Vec<u8> {
        home.entries(id).iter().filter(|it| it.kind == EntryKind::Input).flat_map(|it| it.bytes()).collect()
    };

    let all = TestHome::started_with(config("all"));
    let id = run_with_passwords(&all);
    let expected = format!("{}\r{}\ra-plain-name\r", SECRETS[0], SECRETS[1]);
    assert_eq!(String::from_utf8_lossy(&typed(&all, &id)), expected);

    let none = TestHome::started_with(config("none"));
    let id = run_with_passwords(&none);
    assert_eq!(typed(&none, &id), b"");
    assert!(none.entries(&id).iter().any(|it| it.kind == EntryKind::Input && it.detail.hidden == Some(true)));
}
