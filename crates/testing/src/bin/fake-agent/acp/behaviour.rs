//! Traits that the agent has from its start: the names in `FAKE_ACP`, separated by commas.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trait {
    /// Reads and never answers anything.
    Silent,
    /// Like `Silent`, with output on stderr.
    StderrOnly,
    /// Answers `initialize` and never `session/new`.
    SilentNew,
    /// Uses strings as the ids of its requests.
    StringIds,
    /// Opens no session before authentication.
    Auth,
    /// Refuses authentication and opens no session.
    AuthNever,
    /// Ends a cancelled turn with `end_turn`.
    EndTurnAfterCancel,
    /// Answers `session/load` before it replays the messages.
    LoadUpdatesLate,
    /// Sends a tool call only as part of the permission request.
    PermitWithoutToolCall,
    /// Sends a tool call first, and only its id in the permission request.
    PermitBare,
    IgnoreEof,
    IgnoreSigterm,
    /// Supports neither load nor resume.
    NoLoad,
    /// Supports resume but not load.
    ResumeOnly,
    ExitsAtOnce,
    WrongVersion,
    /// Prints a greeting in plain text before the first JSON message.
    GarbageFirst,
    /// Sends each prompt back as a user message.
    EchoPrompt,
    /// Refuses to open a session and keeps running.
    RefuseNew,
    /// Refuses to open a session and exits with code 0.
    RefuseAndExit,
    /// Sends its modes as a list instead of an object.
    ModesList,
}

const NAMES: &[(&str, Trait)] = &[
    ("silent", Trait::Silent),
    ("stderr_only", Trait::StderrOnly),
    ("silent_new", Trait::SilentNew),
    ("string_ids", Trait::StringIds),
    ("auth", Trait::Auth),
    ("auth_never", Trait::AuthNever),
    ("end_turn_after_cancel", Trait::EndTurnAfterCancel),
    ("load_updates_late", Trait::LoadUpdatesLate),
    ("permit_without_tool_call", Trait::PermitWithoutToolCall),
    ("permit_bare", Trait::PermitBare),
    ("ignore_eof", Trait::IgnoreEof),
    ("ignore_sigterm", Trait::IgnoreSigterm),
    ("no_load", Trait::NoLoad),
    ("resume_only", Trait::ResumeOnly),
    ("exits_at_once", Trait::ExitsAtOnce),
    ("wrong_version", Trait::WrongVersion),
    ("garbage_first", Trait::GarbageFirst),
    ("echo_prompt", Trait::EchoPrompt),
    ("refuse_new", Trait::RefuseNew),
    ("refuse_and_exit", Trait::RefuseAndExit),
    ("modes_list", Trait::ModesList),
];

#[derive(Debug)]
pub struct Behaviour(Vec<Trait>);

impl Behaviour {
    pub fn from_environment() -> Self {
        let text = std::env::var("FAKE_ACP").unwrap_or_default();
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        Self(words.map(parse).collect())
    }

    pub fn has(&self, wanted: Trait) -> bool {
        self.0.contains(&wanted)
    }

    pub fn is_mute(&self) -> bool {
        self.has(Trait::Silent) || self.has(Trait::StderrOnly)
    }

    pub fn asks_for_auth(&self) -> bool {
        self.has(Trait::Auth) || self.has(Trait::AuthNever)
    }

    pub fn refuses_sessions(&self) -> bool {
        self.has(Trait::RefuseNew) || self.has(Trait::RefuseAndExit)
    }

    pub fn can_load(&self) -> bool {
        !self.has(Trait::NoLoad) && !self.has(Trait::ResumeOnly)
    }

    pub fn can_resume(&self) -> bool {
        !self.has(Trait::NoLoad)
    }

    pub fn capabilities(&self) -> Value {
        let more = if self.can_resume() { json!({ "resume": {} }) } else { json!({}) };
        json!({
            "loadSession": self.can_load(),
            "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
            "sessionCapabilities": more,
        })
    }
}

fn parse(word: &str) -> Trait {
    // A test with a misspelled trait would test nothing.
    let found = NAMES.iter().find(|(name, _)| *name == word);
    found.map(|(_, it)| *it).unwrap_or_else(|| super::end(64, &format!("fake-agent: no such behaviour: {word}\n")))
}

pub fn takes_workspace() -> bool {
    std::env::var_os("FAKE_HELP_WORKSPACE").is_some_and(|value| value == "1")
}

/// Delays `initialize` by `FAKE_ACP_DELAY_MS`, and until the file `FAKE_ACP_GATE` exists.
pub fn wait_at_the_gate() {
    if let Some(delay) = std::env::var("FAKE_ACP_DELAY_MS").ok().and_then(|text| text.parse().ok()) {
        std::thread::sleep(Duration::from_millis(delay));
    }
    if let Some(gate) = std::env::var_os("FAKE_ACP_GATE") {
        crate::wait_for_file(Path::new(&gate));
    }
}
