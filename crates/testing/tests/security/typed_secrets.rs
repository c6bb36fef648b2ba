//! What is typed at a prompt that does not echo stays between the person and the program.

use std::path::PathBuf;

use coven_testing::{TestHome, TestTerminal};
use serde_json::{Value, json};

use crate::files::files;

const SECRETS: [&str; 2] = ["correct-horse", "battery-staple"];

/// The files of a home that hold `text`.
fn keepers(home: &TestHome, text: &str) -> Vec<PathBuf> {
    let mut files = files(&home.path());
    assert!(!files.is_empty(), "a home has files");
    files.retain(|path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    });
    files
}

/// A session that asked for two passwords and a name: one password over REST, the rest on an attached terminal.
fn asked(home: &TestHome) -> String {
    let id = home.launch("password first? ;; password second? ;; ask name?").id;
    home.wait_for_output(&id, "first?");
    home.type_in(&id, &format!("{}\r", SECRETS[0]));
    let mut terminal = TestTerminal::open(home, &["attach", &id]);
    terminal.shows("second?");
    terminal.types(&format!("{}\r", SECRETS[1]));
    terminal.shows("14 characters");
    terminal.shows("name?");
    terminal.types("a-plain-name\r");
    assert_eq!(terminal.wait(), 0);
    home.wait_for_end(&id);
    id
}

#[test]
fn a_password_is_in_no_file_entry_or_export_and_the_rest_is() {
    let home = TestHome::started();

    let id = asked(&home);

    let entries = home.entries(&id);
    let hidden = |it: &&coven_api::session::EntryRecord| it.detail.get("hidden") == Some(&json!(true));
    let counts = entries.iter().filter(hidden).map(|it| it.detail["characters"].as_u64().expect("a number"));
    assert_eq!(counts.sum::<u64>(), 13 + 14 + 2, "both passwords, each with Enter");
    assert!(entries.iter().filter(hidden).all(|it| it.kind == "input" && it.bytes().is_empty()));
    let typed: Vec<u8> = entries.iter().filter(|it| it.kind == "input").flat_map(|it| it.bytes()).collect();
    assert_eq!(String::from_utf8_lossy(&typed), "a-plain-name\r");
    for format in ["jsonl", "asciicast", "text", "html"] {
        let exported = home.coven(&["export", &id, "--format", format, "--with-input"]).done();
        assert!(!SECRETS.iter().any(|secret| exported.contains(secret)), "{format}: {exported}");
    }
    home.stop();
    for secret in SECRETS {
        assert_eq!(keepers(&home, secret), Vec::<PathBuf>::new());
    }
    assert!(!keepers(&home, "a-plain-name").is_empty(), "what is echoed is recorded");
}

#[test]
fn the_settings_keep_every_key_or_none() {
    let config = |word: &str| -> Value { json!({ "sessions": { "recordInput": word, "compressFinished": false } }) };
    let typed = |home: &TestHome, id: &str| -> Vec<u8> {
        home.entries(id).iter().filter(|it| it.kind == "input").flat_map(|it| it.bytes()).collect()
    };

    let all = TestHome::started_with(config("all"));
    let id = asked(&all);
    let expected = format!("{}\r{}\ra-plain-name\r", SECRETS[0], SECRETS[1]);
    assert_eq!(String::from_utf8_lossy(&typed(&all, &id)), expected);

    let none = TestHome::started_with(config("none"));
    let id = asked(&none);
    assert_eq!(typed(&none, &id), b"");
    assert!(none.entries(&id).iter().any(|it| it.kind == "input" && it.detail["hidden"] == true));
}
