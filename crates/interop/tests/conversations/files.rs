//! Files on disk after creating, saving and loading conversations.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use coven_domain::conversation::{ConversationId, ConversationState, Line, Transcript, Turn, TurnRole, Usage};
use coven_interop::conversations::{ConversationError, LastTurns, NewConversation, Wait};

use crate::fixture::{Fixture, NOW, exchange, id, report_of};

#[test]
fn chat_01_a_new_conversation_has_a_file_with_its_metadata() {
    let fixture = Fixture::new();
    let new = NewConversation {
        id: None,
        agent: Some("qa-test".into()),
        harness: Some("claude".into()),
        cwd: Some("/work".into()),
    };
    let id = fixture.all.create(&new, NOW).expect("created");
    let number = id.as_str().strip_prefix("2026-01-14-qa-test-").expect("date and agent");
    assert!(number.len() == 6 && number.bytes().all(|byte| byte.is_ascii_digit()), "{id}");
    assert_eq!(fixture.names(), [format!("{id}.jsonl")]);
    assert_eq!(
        String::from_utf8(fixture.bytes(&id)).expect("valid UTF-8"),
        format!(
            "{{\"type\":\"metadata\",\"session_id\":\"{id}\",\"agent\":\"qa-test\",\"created_at\":\"2026-01-14T10:00:00.123Z\",\
             \"status\":\"active\",\"harness\":\"claude\",\"cwd\":\"/work\"}}\n"
        )
    );
    let ids: std::collections::HashSet<ConversationId> =
        (0..50).map(|_| fixture.all.create(&new, NOW).expect("created")).collect();
    assert_eq!(ids.len(), 50, "ids are unique");
}

#[test]
fn chat_01_an_id_can_be_used_only_once() {
    let fixture = Fixture::new();
    let id = fixture.with_exchanges("my-review", 1);
    let before = fixture.bytes(&id);
    let new = NewConversation { id: Some(id.clone()), ..NewConversation::default() };
    let error = fixture.all.create(&new, NOW).expect_err("taken");
    assert!(
        matches!(error, ConversationError::Exists { .. }) && error.to_string().contains("--resume my-review"),
        "{error}"
    );
    assert_eq!(fixture.bytes(&id), before);
    // Of several concurrent processes, one wins.
    let others: Vec<_> = (0..8)
        .map(|_| fixture.other("create", &crate::fixture::id("race")).spawn().expect("test binary starts"))
        .collect();
    let won = others.into_iter().map(report_of).filter(|report| report == "race").count();
    assert_eq!(won, 1);
    assert_eq!(fixture.names(), ["my-review.jsonl", "race.jsonl"]);
}

#[test]
fn chat_01_only_the_owner_can_access_files() {
    let fixture = Fixture::new();
    let child = fixture.other_after("umask 0", "create", &id("open")).spawn().expect("shell starts");
    assert_eq!(report_of(child), "open");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("exists").permissions().mode() & 0o777;
    assert_eq!(mode(&fixture.all.file(&id("open"))), 0o600);
    for folder in [fixture.all.path(), fixture.all.path().parent().expect("has a parent")] {
        assert_eq!(mode(folder), 0o700, "{folder:?}");
    }
    let child = fixture.other_after("umask 0", "open", &id("open")).spawn().expect("shell starts");
    assert_eq!(report_of(child), "open");
}

#[test]
fn chat_02_an_exchange_is_appended_and_earlier_lines_do_not_change() {
    let fixture = Fixture::new();
    let id = fixture.create("s");
    let before = fixture.bytes(&id);
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
    assert_eq!(fixture.append(&id, &mut [asked, answered]).expect("saved"), []);
    let bytes = fixture.bytes(&id);
    let (old, new) = bytes.split_at(before.len());
    assert_eq!(old, before);
    assert_eq!(
        String::from_utf8_lossy(new),
        "{\"type\":\"turn\",\"role\":\"user\",\"content\":\"What is \\\"it\\\"?\\nTell me.\",\
         \"timestamp\":\"2026-01-14T10:00:00.123Z\",\"tokens\":5,\"turns\":1}\n\
         {\"type\":\"turn\",\"role\":\"assistant\",\"content\":\"It is é.\",\"timestamp\":\"2026-01-14T10:00:00.123Z\",\
         \"tokens\":7,\"harness_session\":\"h-1\",\"usage\":{\"input\":5,\"output\":2},\"turns\":2}\n"
    );
    assert_eq!(fixture.names(), ["s.jsonl"]);
}

#[test]
fn chat_03_loading_returns_the_saved_conversation() {
    let fixture = Fixture::new();
    let id = fixture.create("session-123");
    let mut writer = fixture.all.writer(&id, Wait::NoWait).expect("exists");
    let mut transcript: Transcript = fixture.load(&id).transcript;
    let turn = |text: &str| Line::Turn(Turn::new(TurnRole::User, text, NOW));
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
    let loaded = fixture.load(&id);
    assert_eq!(loaded.transcript, transcript, "memory and disk agree");
    assert_eq!(loaded.notices, []);
    assert_eq!(
        transcript.turns.iter().map(|turn| turn.content.as_str()).collect::<Vec<_>>(),
        ["first", "second", "third"]
    );
    assert_eq!((transcript.title.as_deref(), transcript.status), (Some("Review"), ConversationState::Completed));
    assert_eq!(transcript.context().fit(&transcript.turns, "next", 1000).prompt, "User: third\n\nUser: next");
}

#[test]
fn chat_03_loading_the_last_turns_does_not_read_the_whole_file() {
    let fixture = Fixture::new();
    let id = fixture.create("long");
    let mut lines: Vec<Line> = (0..5000).flat_map(|at| exchange(&format!("q{at}"), &"a".repeat(500))).collect();
    fixture.append(&id, &mut lines).expect("saved");
    let (whole, read_whole) = bytes_read(|| fixture.load(&id));
    let (last, read_last) = bytes_read(|| fixture.all.load_last(&id, 20).expect("sound"));
    assert_eq!(last.turns, whole.transcript.turns[9980..]);
    assert_eq!(last.before, Some(9980));
    assert!(read_last <= 64 << 10 && read_whole > 3 << 20, "{read_last} of {read_whole}");
    let all = fixture.all.load_last(&id, usize::MAX).expect("sound");
    assert_eq!(all, LastTurns { turns: whole.transcript.turns, before: Some(0) });
}

/// Runs `act` and returns the number of bytes that this thread read from files and pipes.
pub fn bytes_read<T>(act: impl FnOnce() -> T) -> (T, u64) {
    let count = || -> u64 {
        let text = fs::read_to_string("/proc/thread-self/io").expect("Linux");
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("rchar counter");
        line.parse().expect("number")
    };
    let before = count();
    let done = act();
    // Subtract the read of the counter itself.
    (done, (count() - before).saturating_sub(200))
}

#[test]
fn chat_10_the_first_line_is_metadata_and_the_rest_are_turns() {
    let fixture = Fixture::new();
    let id = fixture.with_exchanges("s", 1);
    let text = String::from_utf8(fixture.bytes(&id)).expect("valid UTF-8");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("valid JSON")).collect();
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
fn chat_11_a_file_of_another_tool_can_be_read_and_appended_to() {
    let fixture = Fixture::new();
    let id = id("theirs");
    // Spaces after colons, no tokens, no status, unknown lines, and no line end after the last line.
    let theirs = concat!(
        "{\"type\": \"metadata\", \"session_id\": \"theirs\", \"agent\": null, \"created_at\": \"2026-01-14T10:00:00\"}\n",
        "{\"type\": \"turn\", \"role\": \"user\", \"content\": \"hi\", \"timestamp\": \"2026-01-14T10:00:00Z\"}\n",
        "{\"type\": \"summary\", \"content\": [\"x\"], \"tokens\": \"many\"}\n\n",
        "{\"type\": \"turn\", \"role\": \"assistant\", \"content\": \"ho\", \"timestamp\": \"2026-01-14T10:00:00Z\", \"tokens\": 3}",
    );
    fixture.put(&id, theirs);
    assert_eq!(fixture.texts(&id), ["hi", "ho"]);
    assert_eq!(fixture.all.summary(&id).expect("sound").turn_count, 2);
    assert_eq!(fixture.exchange(&id, "more", "yes"), []);
    let text = String::from_utf8(fixture.bytes(&id)).expect("valid UTF-8");
    assert!(text.starts_with(&format!("{theirs}\n{{")), "existing lines are unchanged: {text}");
    let numbers: Vec<_> = fixture.load(&id).transcript.turns.iter().map(|turn| turn.number).collect();
    assert_eq!(numbers, [None, None, Some(3), Some(4)]);
    assert_eq!(fixture.all.summary(&id).expect("sound").turn_count, 4);
}

#[test]
fn a_missing_conversation_is_not_found_and_no_file_is_created() {
    let fixture = Fixture::new();
    let missing = id("session-123");
    let all = &fixture.all;
    let errors = [
        all.load(&missing).map(drop),
        all.load_last(&missing, 1).map(drop),
        all.summary(&missing).map(drop),
        all.delete(&missing),
        all.recover(&missing, NOW).map(drop),
        all.writer(&missing, Wait::NoWait).map(drop),
    ];
    for error in errors {
        let error = error.expect_err("missing");
        assert_eq!(error.to_string(), "Session not found: session-123");
    }
    assert!(fixture.names().is_empty());
    assert!(!all.is_in_use(&missing));
}

#[test]
fn a_writer_reports_that_its_conversation_was_deleted() {
    let fixture = Fixture::new();
    let id = fixture.create("s");
    let mut writer = fixture.all.writer(&id, Wait::NoWait).expect("exists");
    fs::remove_file(fixture.all.file(&id)).expect("file exists");
    let error = writer.append(&mut exchange("a", "b")).expect_err("gone");
    assert!(matches!(error, ConversationError::NotFound { .. }), "{error}");
    drop(writer);
    assert!(fixture.names().is_empty(), "{:?}", fixture.names());
}

#[test]
fn a_fifo_or_folder_instead_of_a_file_does_not_block() {
    let fixture = Fixture::new();
    let (pipe, folder) = (id("pipe"), id("folder"));
    fs::create_dir_all(fixture.all.file(&folder)).expect("disk has space");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, fixture.all.file(&pipe), rustix::fs::FileType::Fifo, mode, 0)
        .expect("disk has space");
    for id in [&pipe, &folder] {
        assert!(matches!(fixture.all.load(id), Err(ConversationError::Refused(_))));
        assert!(fixture.all.writer(id, Wait::NoWait).is_err());
    }
    let listing = fixture.all.list(&Default::default()).expect("readable folder");
    assert_eq!((listing.conversations.len(), listing.broken.len()), (0, 2));
    assert!(fixture.root().exists());
}
