//! Rules that locate text, usage and errors in an agent's JSON lines.

/// How to parse an agent's lines. Locations are JSON pointers.
#[derive(Debug, PartialEq, Eq)]
pub struct Rules {
    /// Name of the format in the config.
    pub format: &'static str,
    /// Location of the agent's session id, in any line; `None` if coven chooses the id.
    pub session: Option<&'static str>,
    pub text: &'static [TextRule],
    /// Lines after which the answer continues in a new paragraph.
    pub breaks: &'static [When],
    pub usage: &'static [UsageRule],
    /// Locations of error messages.
    pub trouble: &'static [TroubleRule],
}

/// Conditions that must all be true.
pub type When = &'static [Condition];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    Is(&'static str, &'static str),
    IsTrue(&'static str),
    /// Absent or null.
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
    /// The list, the type of its elements to read, and the text in each of them.
    Each(&'static str, &'static str, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Next piece of a message.
    Piece,
    /// A complete message, possibly printed in pieces before.
    Whole,
}

#[derive(Debug, PartialEq, Eq)]
pub struct UsageRule {
    pub when: When,
    /// Numbers to sum up.
    pub input: &'static [&'static str],
    pub output: &'static [&'static str],
    pub counting: Counting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Total of the turn.
    Turn,
    /// Usage of one step of the turn.
    Step,
    /// Total of the agent's session so far.
    Session,
}

#[derive(Debug, PartialEq, Eq)]
pub struct TroubleRule {
    pub when: When,
    pub at: &'static str,
}
