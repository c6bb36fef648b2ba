//! A conversation in memory: its lines, one after the other.

use super::{Context, ConversationState, Line, Metadata, Trim, Turn};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    pub metadata: Metadata,
    pub title: Option<String>,
    pub status: ConversationState,
    /// All of them, whatever the next prompt holds.
    pub turns: Vec<Turn>,
    cuts: Vec<Cut>,
}

/// Where the context was made smaller, and how many turns there were then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Clear { turns: usize },
    Trim { turns: usize, trim: Trim },
}

impl From<Metadata> for Transcript {
    fn from(metadata: Metadata) -> Self {
        Self::new(metadata)
    }
}

impl Transcript {
    pub fn new(metadata: Metadata) -> Self {
        let status = metadata.status;
        Self { metadata, title: None, status, turns: Vec::new(), cuts: Vec::new() }
    }

    /// What is so once this line is in the file.
    pub fn apply(&mut self, line: Line) {
        self.status = line.status_after().unwrap_or(self.status);
        match line {
            // Only the first line tells what a conversation is.
            Line::Metadata(_) => {}
            Line::Turn(turn) => self.turns.push(turn),
            Line::Status { .. } => {}
            Line::Clear { .. } => self.cuts.push(Cut::Clear { turns: self.turns.len() }),
            Line::Trim { trim, .. } => self.cuts.push(Cut::Trim { turns: self.turns.len(), trim }),
            Line::Rename { title, .. } => self.title = Some(title),
        }
    }

    /// What the next prompt holds.
    pub fn context(&self) -> Context {
        let mut context = Context::starting_at(self.cleared_at());
        for cut in &self.cuts {
            if let Cut::Trim { turns, trim } = cut
                && *turns > self.cleared_at()
            {
                context.grow_to(*turns);
                context.trim(trim.kept_first, trim.kept_last);
            }
        }
        context.grow_to(self.turns.len());
        context
    }

    /// The id by which the harness can go on, if it knows what the context holds: the last turn must be one of its own. After
    /// another tool's turn, or one that was imported, it does not.
    pub fn harness_session(&self) -> Option<&str> {
        self.turns_since_clear().last()?.harness_session.as_deref()
    }

    pub fn turns_since_clear(&self) -> &[Turn] {
        &self.turns[self.cleared_at()..]
    }

    /// How many turns the last clear took out of the context.
    fn cleared_at(&self) -> usize {
        let cleared = self.cuts.iter().rev().find_map(|cut| match cut {
            Cut::Clear { turns } => Some(*turns),
            Cut::Trim { .. } => None,
        });
        cleared.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::conversation::Role;

    const NOW: Timestamp = Timestamp::from_millis(1_768_384_800_000);

    fn transcript() -> Transcript {
        Transcript::new(Metadata::rebuilt("s".into(), NOW))
    }

    fn say(transcript: &mut Transcript, texts: &[&str]) {
        for text in texts {
            let role = if transcript.turns.len().is_multiple_of(2) { Role::User } else { Role::Assistant };
            let number = Some(transcript.turns.len() as u64 + 1);
            transcript.apply(Line::Turn(Turn { number, ..Turn::new(role, *text, NOW) }));
        }
    }

    fn prompt(transcript: &Transcript) -> String {
        transcript.context().fit(&transcript.turns, "next", 100_000).prompt
    }

    #[test]
    fn chat_03_the_context_holds_the_turns_in_order() {
        let mut transcript = transcript();
        assert_eq!(prompt(&transcript), "next", "nothing to go by");
        say(&mut transcript, &["one", "two"]);
        assert_eq!(prompt(&transcript), "User: one\n\nAssistant: two\n\nUser: next");
    }

    #[test]
    fn a_clear_empties_the_context_and_keeps_the_turns() {
        let mut transcript = transcript();
        say(&mut transcript, &["one", "two"]);
        transcript.turns[1].harness_session = Some("h".into());
        assert_eq!(transcript.harness_session(), Some("h"));
        transcript.apply(Line::Turn(Turn::new(Role::User, "from elsewhere", NOW)));
        assert_eq!(transcript.harness_session(), None, "the harness has not heard that");
        transcript.turns.pop();
        transcript.apply(Line::Clear { timestamp: NOW });
        assert_eq!((prompt(&transcript).as_str(), transcript.turns.len()), ("next", 2));
        assert_eq!(transcript.harness_session(), None, "the harness remembers what was cleared");
        say(&mut transcript, &["three"]);
        assert_eq!(prompt(&transcript), "User: three\n\nUser: next");
    }

    #[test]
    fn a_trim_holds_for_the_turns_before_it_and_later_ones_follow() {
        let mut transcript = transcript();
        say(&mut transcript, &["1", "2", "3", "4", "5"]);
        let trim = Trim { kept_first: 1, kept_last: 2, dropped: 2 };
        transcript.apply(Line::Trim { trim, timestamp: NOW });
        say(&mut transcript, &["6"]);
        assert_eq!(
            prompt(&transcript),
            "User: 1\n\n[2 earlier turns are left out here]\n\nAssistant: 4\n\nUser: 5\n\nAssistant: 6\n\nUser: next"
        );
        transcript.apply(Line::Clear { timestamp: NOW });
        assert_eq!(prompt(&transcript), "next", "a trim before a clear is forgotten");
    }

    #[test]
    fn the_last_word_on_status_and_title_counts() {
        let mut transcript = transcript();
        let says = |status| Line::Status { status, timestamp: NOW };
        transcript.apply(says(ConversationState::Completed));
        transcript.apply(Line::Rename { title: "a".into(), timestamp: NOW });
        transcript.apply(Line::Rename { title: "b".into(), timestamp: NOW });
        assert_eq!((transcript.status, transcript.title.as_deref()), (ConversationState::Completed, Some("b")));
        say(&mut transcript, &["more"]);
        assert_eq!(transcript.status, ConversationState::Active);
        transcript.apply(says(ConversationState::Interrupted));
        transcript.apply(Line::Turn(Turn::new(Role::User, "from a tool that numbers nothing", NOW)));
        assert_eq!(transcript.status, ConversationState::Interrupted);
    }
}
