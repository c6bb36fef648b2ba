//! Rules that say what is where in the JSON lines of an agent.

/// How to read an agent's lines. Places are JSON pointers.
#[derive(Debug, PartialEq, Eq)]
pub struct Rules {
    /// The name of this form in the config.
    pub format: &'static str,
    /// Where the id of the agent's session may stand, in any line; none where coven chooses it.
    pub session: Option<&'static str>,
    pub text: &'static [TextRule],
    /// Lines behind which an answer goes on as a new paragraph.
    pub breaks: &'static [When],
    pub usage: &'static [UsageRule],
    /// Where an agent says what went wrong.
    pub trouble: &'static [TroubleRule],
}

/// All of these must hold.
pub type When = &'static [Condition];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    Is(&'static str, &'static str),
    IsTrue(&'static str),
    /// Not there, or null.
    Lacks(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub struct TextRule {
    pub when: When,
    pub at: Place,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    At(&'static str),
    /// In every element of a list that has this type: the list, the type, the text in the element.
    Each(&'static str, &'static str, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The next piece of a message.
    Piece,
    /// A message, of which pieces may have come before.
    Whole,
}

#[derive(Debug, PartialEq, Eq)]
pub struct UsageRule {
    pub when: When,
    /// Numbers to add up.
    pub input: &'static [&'static str],
    pub output: &'static [&'static str],
    pub counting: Counting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Of the whole turn.
    Turn,
    /// Of one step of it.
    Step,
    /// Of all turns of the agent's session so far.
    Session,
}

#[derive(Debug, PartialEq, Eq)]
pub struct TroubleRule {
    pub when: When,
    pub at: &'static str,
}
