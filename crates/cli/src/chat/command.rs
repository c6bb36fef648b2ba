//! The lines that are for the chat itself: they begin with a slash.

use coven_api::acp_state::AcpStateRecord;

use super::settings;

#[derive(Debug, PartialEq, Eq)]
pub enum Command<'a> {
    Help,
    Cancel,
    /// With the one to set, if any.
    Mode(Option<&'a str>),
    Model(Option<&'a str>),
    /// With the option and the value to set, if any.
    Config(Option<(&'a str, &'a str)>),
    Tools,
    Exit,
    Unknown(&'a str),
}

pub const HELP: &[(&str, &str)] = &[
    ("Enter", "send; while a turn runs it waits for its end"),
    ("Alt-Enter, \\ Enter", "a new line"),
    ("↑ ↓", "earlier prompts"),
    ("1 … 9, a, d", "answer a question: an option, allow, deny"),
    ("Ctrl-C", "cancel the turn; without one, twice: leave"),
    ("Ctrl-D", "leave; the session goes on"),
    ("/cancel", "cancel the turn"),
    ("/mode [ID]", "list the agent's modes, or set one"),
    ("/model [ID]", "list its models, or set one"),
    ("/config [ID VALUE]", "list everything that can be set, or set it"),
    ("/tools", "show what tools are given and give, or fold it"),
    ("/exit", "leave; the session goes on"),
];

/// The command in a line; nothing if the line is for the agent.
pub fn parse<'a>(line: &'a str, state: &AcpStateRecord) -> Option<Command<'a>> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = word.strip_prefix('/')?;
    let rest = Some(rest.trim()).filter(|rest| !rest.is_empty());
    let command = match name {
        "help" | "?" => Command::Help,
        "cancel" => Command::Cancel,
        "mode" => Command::Mode(rest),
        "model" => Command::Model(rest),
        "config" => Command::Config(rest.map(|rest| rest.split_once(char::is_whitespace).unwrap_or((rest, "")))),
        "tools" => Command::Tools,
        "exit" | "quit" => Command::Exit,
        // Agents have commands of their own, and a path is no command.
        _ if settings::commands(state).iter().any(|(known, _)| known == name) => return None,
        _ if name.is_empty() || name.contains('/') => return None,
        _ => Command::Unknown(word),
    };
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_api::acp_state::AcpCommand;
    use coven_domain::message::Activity;
    use serde_json::json;

    #[test]
    fn a_slash_makes_a_command_unless_the_agent_knows_it() {
        let commands = AcpCommand::read_all(&json!([{"name": "review"}]));
        let state = AcpStateRecord { commands, ..AcpStateRecord::new(Activity::Idle) };
        let parse = |line| parse(line, &state);
        assert_eq!(parse("/mode"), Some(Command::Mode(None)));
        assert_eq!(parse("/mode  plan "), Some(Command::Mode(Some("plan"))));
        assert_eq!(parse("/config model  b2"), Some(Command::Config(Some(("model", " b2")))));
        assert_eq!(parse("/revert"), Some(Command::Unknown("/revert")));
        for text in ["/review main", "hello", "/etc/passwd is broken", "/ is full", " /help"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
