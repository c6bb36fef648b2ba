//! A conversation in memory, built from its lines in order.

use super::{Context, ConversationState, Line, Metadata, Trim, Turn};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    pub metadata: Metadata,
    pub title: Option<String>,
    pub status: ConversationState,
    /// All turns, including those that the next prompt omits.
    pub turns: Vec<Turn>,
    cuts: Vec<Cut>,
}

/// A reduction of the context; `turns` is the number of turns at that point.
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

    /// Applies the next line of the file.
    pub fn apply(&mut self, line: Line) {
        self.status = line.status_after().unwrap_or(self.status);
        match line {
            // Only the first line of a file is its metadata.
            Line::Metadata(_) => {}
            Line::Turn(turn) => self.turns.push(turn),
            Line::Status { .. } => {}
            Line::Clear { .. } => self.cuts.push(Cut::Clear { turns: self.turns.len() }),
            Line::Trim { trim, .. } => self.cuts.push(Cut::Trim { turns: self.turns.len(), trim }),
            Line::Rename { title, .. } => self.title = Some(title),
        }
    }

    /// Returns the context of the next prompt.
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

    /// Returns the harness session to resume if the harness knows the current context, that is, if it wrote the last
    /// turn. `None` after a turn that another tool wrote or that was imported.
    pub fn harness_session(&self) -> Option<&str> {
        self.turns_since_clear().last()?.harness_session.as_deref()
    }

    pub fn turns_since_clear(&self) -> &[Turn] {
        &self.turns[self.cleared_at()..]
    }

    /// Returns the number of turns that the last clear removed from the context.
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
    use crate::conversation::TurnRole;

    const NOW: Timestamp = Timestamp::from_millis(1_768_384_800_000);

    fn transcript() -> Transcript {
        Transcript::new(Metadata::rebuilt("s".into(), NOW))
    }

    fn add_turns(transcript: &mut Transcript, texts: &[&str]) {
        for text in texts {
            let role = if transcript.turns.len().is_multiple_of(2) { TurnRole::User } else { TurnRole::Assistant };
            let number = Some(transcript.turns.len() as u64 + 1);
            transcript.apply(Line::Turn(Turn { number, ..Turn::new(role, *text, NOW) }));
        }
    }

    fn prompt(transcript: &Transcript) -> String {
        transcript.context().fit(&transcript.turns, "next", 100_000).prompt
    }

    #[test]
    fn chat_03_the_context_contains_the_turns_in_order() {
        let mut transcript = transcript();
        assert_eq!(prompt(&transcript), "next", "without earlier turns");
        add_turns(&mut transcript, &["one", "two"]);
        assert_eq!(prompt(&transcript), "User: one\n\nAssistant: two\n\nUser: next");
    }

    #[test]
    fn a_clear_empties_the_context_and_keeps_the_turns() {
        let mut transcript = transcript();
        add_turns(&mut transcript, &["one", "two"]);
        transcript.turns[1].harness_session = Some("h".into());
        assert_eq!(transcript.harness_session(), Some("h"));
        transcript.apply(Line::Turn(Turn::new(TurnRole::User, "from elsewhere", NOW)));
        assert_eq!(transcript.harness_session(), None, "the harness does not know this turn");
        transcript.turns.pop();
        transcript.apply(Line::Clear { timestamp: NOW });
        assert_eq!((prompt(&transcript).as_str(), transcript.turns.len()), ("next", 2));
        assert_eq!(transcript.harness_session(), None, "the harness still remembers the cleared turns");
        add_turns(&mut transcript, &["three"]);
        assert_eq!(prompt(&transcript), "User: three\n\nUser: next");
    }

    #[test]
    fn a_trim_applies_to_earlier_turns_and_keeps_later_ones() {
        let mut transcript = transcript();
        add_turns(&mut transcript, &["1", "2", "3", "4", "5"]);
        let trim = Trim { kept_first: 1, kept_last: 2, dropped: 2 };
        transcript.apply(Line::Trim { trim, timestamp: NOW });
        add_turns(&mut transcript, &["6"]);
        assert_eq!(
            prompt(&transcript),
            "User: 1\n\n[2 earlier turns are left out here]\n\nAssistant: 4\n\nUser: 5\n\nAssistant: 6\n\nUser: next"
        );
        transcript.apply(Line::Clear { timestamp: NOW });
        assert_eq!(prompt(&transcript), "next", "a trim before a clear has no effect");
    }

    #[test]
    fn the_last_status_and_title_win() {
        let mut transcript = transcript();
        let status_line = |status| Line::Status { status, timestamp: NOW };
        transcript.apply(status_line(ConversationState::Completed));
        transcript.apply(Line::Rename { title: "a".into(), timestamp: NOW });
        transcript.apply(Line::Rename { title: "b".into(), timestamp: NOW });
        assert_eq!((transcript.status, transcript.title.as_deref()), (ConversationState::Completed, Some("b")));
        add_turns(&mut transcript, &["more"]);
        assert_eq!(transcript.status, ConversationState::Active);
        transcript.apply(status_line(ConversationState::Interrupted));
        transcript.apply(Line::Turn(Turn::new(TurnRole::User, "from a tool that numbers nothing", NOW)));
        assert_eq!(transcript.status, ConversationState::Interrupted);
    }
}
