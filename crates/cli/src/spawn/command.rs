//! Slash commands of a conversation.

/// A typed slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Help,
    Exit,
    Save(Option<String>),
    History(Option<usize>),
    Show,
    Clear,
    Stats,
    Export(Option<String>),
    Import(Option<String>),
    Agent(Option<String>),
    Rename(Option<String>),
    Retry(RetryContext),
    Unknown(String),
    /// An invalid command, with the error message.
    Bad(String),
}

/// How much of the conversation a retry sends to a harness that keeps its own session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryContext {
    /// Only the message: the harness has the earlier turns.
    NewMessageOnly,
    /// All turns, in a new session: the harness may have lost the old one.
    FullHistory,
}

/// Name, description and example.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("/help", "shows this help", "/help"),
    ("/exit", "leaves; the conversation is saved", "/exit"),
    ("/save FILE", "writes the conversation as Markdown", "/save review.md"),
    ("/history [N]", "lists the last turns", "/history 5"),
    ("/show", "shows the last answer in a pager", "/show"),
    ("/clear", "removes earlier turns from the context", "/clear"),
    ("/stats", "counts turns and tokens", "/stats"),
    ("/export FILE", "writes the context as JSON", "/export context.json"),
    ("/import FILE", "adds the turns of an exported file", "/import context.json"),
    ("/agent NAME", "starts a new conversation with another agent", "/agent qa-test"),
    ("/rename TITLE", "sets the title of the conversation", "/rename Release notes"),
    ("/retry [all]", "resends the message; all: with all turns", "/retry"),
];

impl Command {
    /// Parses a command. Returns `None` for a message.
    pub fn parse(line: &str) -> Option<Self> {
        let rest = line.trim().strip_prefix('/')?;
        let (word, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        // A path or a comment starts with a slash too, but is a message.
        if !word.chars().all(|c| c.is_ascii_alphabetic()) {
            return None;
        }
        let argument = Some(argument.trim()).filter(|argument| !argument.is_empty()).map(str::to_owned);
        Some(match word {
            "help" => Self::Help,
            "exit" | "quit" => Self::Exit,
            "save" => Self::Save(argument),
            "history" => match argument.map(|count| count.parse::<usize>()) {
                None => Self::History(None),
                Some(Ok(count)) => Self::History(Some(count)),
                Some(Err(_)) => Self::Bad("Usage: /history [N]".to_owned()),
            },
            "show" => Self::Show,
            "clear" => Self::Clear,
            "stats" => Self::Stats,
            "export" => Self::Export(argument),
            "import" => Self::Import(argument),
            "agent" => Self::Agent(argument),
            "rename" => Self::Rename(argument),
            "retry" => match argument.as_deref() {
                None => Self::Retry(RetryContext::NewMessageOnly),
                Some("all") => Self::Retry(RetryContext::FullHistory),
                Some(_) => Self::Bad("Usage: /retry [all]".to_owned()),
            },
            _ => Self::Unknown(format!("/{word}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_slash_and_a_word_make_a_command() {
        for message in ["what is /etc for?", "/usr/bin/env fails, why?", "//comment", "/* comment */"] {
            assert_eq!(Command::parse(message), None);
        }
        assert_eq!(Command::parse("  /help "), Some(Command::Help));
        assert_eq!(Command::parse("/save a b.md"), Some(Command::Save(Some("a b.md".into()))));
        assert_eq!(Command::parse("/save"), Some(Command::Save(None)));
        assert_eq!(Command::parse("/history 5"), Some(Command::History(Some(5))));
        assert_eq!(Command::parse("/history x"), Some(Command::Bad("Usage: /history [N]".into())));
        assert_eq!(Command::parse("/retry all"), Some(Command::Retry(RetryContext::FullHistory)));
        assert_eq!(Command::parse("/x y"), Some(Command::Unknown("/x".into())));
        for (usage, _, example) in COMMANDS {
            assert!(!matches!(Command::parse(example), Some(Command::Unknown(_) | Command::Bad(_)) | None), "{usage}");
        }
    }
}
