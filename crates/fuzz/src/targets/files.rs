//! Files that users, other tools and older versions of coven write: config, conversations, question sets, legacy state.

use std::path::PathBuf;

use coven_domain::QuestionSetId;
use coven_domain::Timestamp;
use coven_domain::conversation::ConversationId;
use coven_domain::question::{check_questions, check_stored_answers, format_answers};
use coven_host::Home;
use coven_interop::conversations::{Conversations, Filter};
use coven_interop::legacy::{Known, import};
use coven_interop::questions::QuestionFolder;

use crate::outcome::{saw, saw_message};
use crate::scratch;

pub const CONFIG_WORDS: &[&str] = &[
    "\"store\":{",
    "\"sessions\":{",
    "\"harnesses\":{",
    "\"http\":{",
    "\"scheduler\":{",
    "\"questions\":{",
    "\"agents\":{",
    "\"mcp\":{",
    "\"permissions\":{",
    "\"eventRetentionHours\":",
    "\"killGraceSeconds\":",
    "\"maxOutputBytes\":",
    "\"listen\":\"",
    "127.0.0.1:0",
    "\"detachKeys\":\"ctrl-",
    "\"program\":\"",
    "\"args\":[",
    "\"env\":{",
    "null",
    "true",
    "-0.0",
    "1e308",
];
pub const CONVERSATION_WORDS: &[&str] = &[
    "{\"type\":\"turn\",",
    "{\"type\":\"metadata\",",
    "{\"type\":\"status\",",
    "{\"type\":\"clear\",",
    "{\"type\":\"trim\",",
    "{\"type\":\"rename\",",
    "\"role\":\"user\"",
    "\"role\":\"assistant\"",
    "\"content\":\"",
    "\"timestamp\":\"2026-01-01T00:00:00Z\"",
    "\"kept_first\":",
    "\"kept_last\":",
    "\"dropped\":",
    "\"number\":",
    "\"usage\":{",
    "\"session_id\":\"",
    "\n",
    "\\ud800",
    "null",
];
pub const QUESTION_WORDS: &[&str] = &[
    "\u{0}",
    "\"sessionId\":\"",
    "\"questions\":[",
    "\"totalQuestions\":",
    "\"status\":\"pending\"",
    "\"status\":\"completed\"",
    "\"status\":\"rejected\"",
    "\"answers\":[",
    "\"questionIndex\":",
    "\"selectedOption\":",
    "\"selectedOptions\":[",
    "\"customText\":",
    "\"callId\":",
    "\"createdAt\":",
    "\"lastModified\":",
    "\"multiSelect\":true",
    "null",
];
pub const LEGACY_WORDS: &[&str] = &[
    "\u{0}",
    "\"tasks\":[",
    "\"agents\":{",
    "\"workflow\":{",
    "\"id\":\"",
    "\"status\":\"in_progress\"",
    "\"depends_on\":[",
    "\"parent\":\"",
    "\"labels\":[",
    "\"priority\":",
    "\"pid\":",
    "\"started_at\":\"",
    "2026-01-09T10:00:00.123456789Z",
    "\"exit_code\":",
    "\"current_step\":",
    "\"question\":\"",
    "null",
    "-1",
];

/// Reads the config. A rejected file must have at least one reported mistake.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mistakes = coven_host::config::check::mistakes(&text);
    mistakes.iter().for_each(|mistake| saw_message(&mistake.text));
    match coven_host::config::parse(&text, PathBuf::from("config.json")) {
        Ok(config) => saw(("valid", config.harnesses.len().min(3))),
        Err(error) => {
            saw_message(&error.to_string());
            assert!(!mistakes.is_empty(), "no mistake is reported: {error}");
        }
    }
}

/// Lists a conversation file, reads its end, loads it and recovers it if it is damaged.
pub fn conversation(data: &[u8]) {
    let all = Conversations::at(scratch::fresh("conversations"));
    let id: ConversationId = "fuzz".parse().expect("an id");
    scratch::write(&all.file(&id), data);
    match all.list(&Filter::default()) {
        Ok(listing) => saw((listing.conversations.len(), listing.broken.len())),
        Err(error) => saw_message(&error.to_string()),
    }
    if let Ok(last) = all.load_last(&id, 4) {
        saw(("last", last.turns.len(), last.before.is_some()));
    }
    match all.load(&id) {
        Ok(loaded) => {
            let mut context = loaded.transcript.context();
            context.fit(&loaded.transcript.turns, "next", 1000);
            context.trim(1, 1);
            saw(("loaded", loaded.transcript.turns.len().min(4), loaded.notices.len()));
        }
        Err(error) => {
            saw_message(&error.to_string());
            if all.recover(&id, Timestamp::from_millis(1_794_765_073_705)).is_ok() {
                all.load(&id).expect("a recovered conversation can be loaded");
            }
        }
    }
}

/// Reads a question set. The input contains request.json, status.json and answers.json, separated by NUL.
pub fn questions(data: &[u8]) {
    let folder = QuestionFolder::at(scratch::fresh("questions"));
    let id: QuestionSetId = "0190b3c4-0000-4000-8000-000000000001".parse().expect("an id");
    let dir = folder.path().join(id.to_string());
    let names = ["request.json", "status.json", "answers.json"];
    for (name, content) in names.iter().zip(data.splitn(3, |byte| *byte == 0)) {
        scratch::write(&dir.join(name), content);
    }
    match folder.read_once(&id) {
        Ok(set) => {
            saw((set.state, set.questions.len().min(6), set.answers.is_some()));
            let _ = set.summary();
            if let Err(error) = check_questions(&set.questions) {
                saw_message(&error.to_string());
            }
            if let Some(given) = &set.answers {
                match check_stored_answers(&set.questions, &given.answers) {
                    Ok(()) => drop(format_answers(&set.questions, &given.answers)),
                    Err(error) => saw_message(&error.to_string()),
                }
            }
        }
        Err(error) => saw_message(&error.to_string()),
    }
}

/// Imports files of older versions of coven. The input contains several files, separated by NUL.
pub fn legacy(data: &[u8]) {
    let project = scratch::fresh("legacy");
    let names = [
        ".coven/state.json",
        ".coven/session.json",
        ".coven/familiars/a.json",
        ".coven/workflows/w.json",
        ".coven/questions/q.json",
        ".beads/issues.jsonl",
    ];
    for (name, content) in names.iter().zip(data.splitn(names.len(), |byte| *byte == 0)) {
        scratch::write(&project.join(name), content);
    }
    let home = Home::at(&project.join(".coven")).expect("a path");
    let found = coven_interop::legacy::read(home.path(), home.project_root().as_deref());
    found.left.iter().for_each(|left| saw_message(&left.why));
    let imported = import(&found.legacy, &Known::default());
    let counts = imported.counts();
    saw((counts.tasks.min(4), counts.agents.min(4), counts.workflows.min(4), counts.questions.min(4)));
    imported.left.iter().for_each(|left| saw_message(&left.why));
}
