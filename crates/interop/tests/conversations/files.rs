//! What is on the disk after making, saving, loading.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use coven_domain::conversation::{ConversationId, ConversationState, Line, Role, Transcript, Turn, Usage};
use coven_interop::conversations::{ConversationError, LastTurns, NewConversation, Wait};

use crate::stand::{NOW, Stand, exchange, id, said_by};

#[test]
fn chat_01_a_new_conversation_has_a_file_with_its_metadata() {
    let stand = Stand::new();
    let new = NewConversation {
        id: None,
        agent: Some("qa-test".into()),
        harness: Some("claude".into()),
        cwd: Some("/work".into()),
    };
    let id = stand.all.create(&new, NOW).expect("made");
    let number = id.as_str().strip_prefix("2026-01-14-qa-test-").expect("date and agent");
    assert!(number.len() == 6 && number.bytes().all(|byte| byte.is_ascii_digit()), "{id}");
    assert_eq!(stand.names(), [format!("{id}.jsonl")]);
    assert_eq!(
        String::from_utf8(stand.bytes(&id)).expect("text"),
        format!(
            "{{\"type\":\"metadata\",\"session_id\":\"{id}\",\"agent\":\"qa-test\",\"created_at\":\"2026-01-14T10:00:00.123Z\",\
             \"status\":\"active\",\"harness\":\"claude\",\"cwd\":\"/work\"}}\n"
        )
    );
    let ids: std::collections::HashSet<ConversationId> =
        (0..50).map(|_| stand.all.create(&new, NOW).expect("made")).collect();
    assert_eq!(ids.len(), 50, "unique");
}

#[test]
fn chat_01_a_name_is_taken_once() {
    let stand = Stand::new();
    let id = stand.with_exchanges("my-review", 1);
    let before = stand.bytes(&id);
    let new = NewConversation { id: Some(id.clone()), ..NewConversation::default() };
    let error = stand.all.create(&new, NOW).expect_err("taken");
    assert!(
        matches!(error, ConversationError::Exists { .. }) && error.to_string().contains("--resume my-review"),
        "{error}"
    );
    assert_eq!(stand.bytes(&id), before);
    // Of many at once one wins.
    let others: Vec<_> =
        (0..8).map(|_| stand.other("create", &crate::stand::id("race")).spawn().expect("own binary")).collect();
    let won = others.into_iter().map(said_by).filter(|said| said == "race").count();
    assert_eq!(won, 1);
    assert_eq!(stand.names(), ["my-review.jsonl", "race.jsonl"]);
}

#[test]
fn chat_01_files_are_for_their_owner_only() {
    let stand = Stand::new();
    let child = stand.other_after("umask 0", "create", &id("open")).spawn().expect("a shell");
    assert_eq!(said_by(child), "open");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&stand.all.file(&id("open"))), 0o600);
    for folder in [stand.all.path(), stand.all.path().parent().expect("below another")] {
        assert_eq!(mode(folder), 0o700, "{folder:?}");
    }
    let child = stand.other_after("umask 0", "open", &id("open")).spawn().expect("a shell");
    assert_eq!(said_by(child), "open");
}

#[test]
fn chat_02_an_exchange_is_appended_as_lines_and_nothing_before_it_changes() {
    let stand = Stand::new();
    let id = stand.create("s");
    let before = stand.bytes(&id);
    let [asked, answered] = exchange("What is \"it\"?\nTell me.", "It is é.");
    let answered = match answered {
        Line::Turn(turn) => Line::Turn(Turn {
            tokens: Some(7),
            harness_session: Some("h-1".into()),
            usage: Some(Usage { input: 5, output: 2 }),
            ..turn
        }),
        other => other,
    };
    assert_eq!(stand.append(&id, &mut [asked, answered]).expect("saved"), []);
    let bytes = stand.bytes(&id);
    let (old, new) = bytes.split_at(before.len());
    assert_eq!(old, before);
    assert_eq!(
        String::from_utf8_lossy(new),
        "{\"type\":\"turn\",\"role\":\"user\",\"content\":\"What is \\\"it\\\"?\\nTell me.\",\
         \"timestamp\":\"2026-01-14T10:00:00.123Z\",\"tokens\":5,\"turns\":1}\n\
         {\"type\":\"turn\",\"role\":\"assistant\",\"content\":\"It is é.\",\"timestamp\":\"2026-01-14T10:00:00.123Z\",\
         \"tokens\":7,\"harness_session\":\"h-1\",\"usage\":{\"input\":5,\"output\":2},\"turns\":2}\n"
    );
    assert_eq!(stand.names(), ["s.jsonl"]);
}

#[test]
fn chat_03_a_saved_conversation_comes_back_as_it_was() {
    let stand = Stand::new();
    let id = stand.create("session-123");
    let mut writer = stand.all.writer(&id, Wait::NoWait).expect("there");
    let mut transcript: Transcript = stand.load(&id).transcript;
    let turn = |text: &str| Line::Turn(Turn::new(Role::User, text, NOW));
    let batches = [
        vec![turn("first"), turn("second")],
        vec![Line::Clear { timestamp: NOW }],
        vec![Line::Rename { title: "Review".into(), timestamp: NOW }, turn("third")],
        vec![Line::Status { status: ConversationState::Completed, timestamp: NOW }],
    ];
    for mut lines in batches {
        writer.append(&mut lines).expect("saved");
        lines.into_iter().for_each(|line| transcript.apply(line));
    }
    let loaded = stand.load(&id);
    assert_eq!(loaded.transcript, transcript, "in memory and on the disk alike");
    assert_eq!(loaded.notices, []);
    assert_eq!(
        transcript.turns.iter().map(|turn| turn.content.as_str()).collect::<Vec<_>>(),
        ["first", "second", "third"]
    );
    assert_eq!((transcript.title.as_deref(), transcript.status), (Some("Review"), ConversationState::Completed));
    assert_eq!(transcript.context().fit(&transcript.turns, "next", 1000).prompt, "User: third\n\nUser: next");
}

#[test]
fn chat_03_the_last_turns_come_without_reading_the_whole_file() {
    let stand = Stand::new();
    let id = stand.create("long");
    let mut lines: Vec<Line> = (0..5000).flat_map(|at| exchange(&format!("q{at}"), &"a".repeat(500))).collect();
    stand.append(&id, &mut lines).expect("saved");
    let (whole, read_whole) = bytes_read(|| stand.load(&id));
    let (last, read_last) = bytes_read(|| stand.all.load_last(&id, 20).expect("sound"));
    assert_eq!(last.turns, whole.transcript.turns[9980..]);
    assert_eq!(last.before, Some(9980));
    assert!(read_last <= 64 << 10 && read_whole > 3 << 20, "{read_last} of {read_whole}");
    let all = stand.all.load_last(&id, usize::MAX).expect("sound");
    assert_eq!(all, LastTurns { turns: whole.transcript.turns, before: Some(0) });
}

/// What this thread read meanwhile, from files and pipes.
pub fn bytes_read<T>(act: impl FnOnce() -> T) -> (T, u64) {
    let count = || -> u64 {
        let text = fs::read_to_string("/proc/thread-self/io").expect("Linux");
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a counter");
        line.parse().expect("a number")
    };
    let before = count();
    let done = act();
    // Reading the counter is reading, too.
    (done, (count() - before).saturating_sub(200))
}

#[test]
fn chat_10_the_first_line_is_metadata_and_the_rest_are_turns() {
    let stand = Stand::new();
    let id = stand.with_exchanges("s", 1);
    let text = String::from_utf8(stand.bytes(&id)).expect("text");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["type"], "metadata");
    for field in ["session_id", "agent", "created_at", "status"] {
        assert!(lines[0].get(field).is_some(), "{field}");
    }
    for (line, role) in lines[1..].iter().zip(["user", "assistant"]) {
        assert_eq!((&line["type"], &line["role"]), (&"turn".into(), &role.into()));
        for field in ["content", "timestamp", "tokens"] {
            assert!(line.get(field).is_some(), "{field}");
        }
    }
}

#[test]
fn chat_11_a_file_of_another_tool_is_read_and_written_on() {
    let stand = Stand::new();
    let id = id("theirs");
    // Blanks after colons, no tokens, no status, lines of their own, and no line end after the last.
    let theirs = concat!(
        "{\"type\": \"metadata\", \"session_id\": \"theirs\", \"agent\": null, \"created_at\": \"2026-01-14T10:00:00\"}\n",
        "{\"type\": \"turn\", \"role\": \"user\", \"content\": \"hi\", \"timestamp\": \"2026-01-14T10:00:00Z\"}\n",
        "{\"type\": \"summary\", \"content\": [\"x\"], \"tokens\": \"many\"}\n\n",
        "{\"type\": \"turn\", \"role\": \"assistant\", \"content\": \"ho\", \"timestamp\": \"2026-01-14T10:00:00Z\", \"tokens\": 3}",
    );
    stand.put(&id, theirs);
    assert_eq!(stand.texts(&id), ["hi", "ho"]);
    assert_eq!(stand.all.summary(&id).expect("sound").turn_count, 2);
    assert_eq!(stand.exchange(&id, "more", "yes"), []);
    let text = String::from_utf8(stand.bytes(&id)).expect("text");
    assert!(text.starts_with(&format!("{theirs}\n{{")), "theirs is as it was: {text}");
    let numbers: Vec<_> = stand.load(&id).transcript.turns.iter().map(|turn| turn.number).collect();
    assert_eq!(numbers, [None, None, Some(3), Some(4)]);
    assert_eq!(stand.all.summary(&id).expect("sound").turn_count, 4);
}

#[test]
fn what_is_not_there_is_not_found_and_leaves_nothing() {
    let stand = Stand::new();
    let missing = id("session-123");
    let all = &stand.all;
    let errors = [
        all.load(&missing).map(drop),
        all.load_last(&missing, 1).map(drop),
        all.summary(&missing).map(drop),
        all.delete(&missing),
        all.recover(&missing, NOW).map(drop),
        all.writer(&missing, Wait::NoWait).map(drop),
    ];
    for error in errors {
        let error = error.expect_err("there is none");
        assert_eq!(error.to_string(), "Session not found: session-123");
    }
    assert!(stand.names().is_empty());
    assert!(!all.is_in_use(&missing));
}

#[test]
fn a_conversation_that_is_deleted_under_its_writer_is_told() {
    let stand = Stand::new();
    let id = stand.create("s");
    let mut writer = stand.all.writer(&id, Wait::NoWait).expect("there");
    fs::remove_file(stand.all.file(&id)).expect("by hand");
    let error = writer.append(&mut exchange("a", "b")).expect_err("gone");
    assert!(matches!(error, ConversationError::NotFound { .. }), "{error}");
    drop(writer);
    assert!(stand.names().is_empty(), "{:?}", stand.names());
}

#[test]
fn a_pipe_or_a_folder_in_its_place_holds_nobody_up() {
    let stand = Stand::new();
    let (pipe, folder) = (id("pipe"), id("folder"));
    fs::create_dir_all(stand.all.file(&folder)).expect("room");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, stand.all.file(&pipe), rustix::fs::FileType::Fifo, mode, 0).expect("room");
    for id in [&pipe, &folder] {
        assert!(matches!(stand.all.load(id), Err(ConversationError::Refused(_))));
        assert!(stand.all.writer(id, Wait::NoWait).is_err());
    }
    let listing = stand.all.list(&Default::default()).expect("a folder");
    assert_eq!((listing.conversations.len(), listing.broken.len()), (0, 2));
    assert!(stand.root().exists());
}
