//! One form for every lifecycle: a table of (state, fact, next state) used for transitions, errors and documentation.

use std::fmt::{self, Debug, Display};

/// A state machine as data. States carry no data; values such as an exit code are stored in the record.
pub trait Lifecycle: Copy + Eq + Debug + Display + 'static {
    type Fact: Copy + Eq + Debug + Display + 'static;

    /// The noun used in messages: "session", "task", …
    const NOUN: &'static str;
    const STATES: &'static [Self];
    const FACTS: &'static [Self::Fact];
    const TRANSITIONS: &'static [(Self, Self::Fact, Self)];

    /// Returns the state that follows `fact`.
    fn after(self, fact: Self::Fact) -> Result<Self, Refused<Self>> {
        Self::TRANSITIONS
            .iter()
            .find(|(from, on, _)| *from == self && *on == fact)
            .map(|(_, _, to)| *to)
            .ok_or(Refused { state: self, fact })
    }

    /// Returns the facts that this state allows.
    fn accepts(self) -> impl Iterator<Item = Self::Fact> {
        Self::TRANSITIONS.iter().filter(move |(from, _, _)| *from == self).map(|(_, fact, _)| *fact)
    }

    /// Reports whether no fact leads to another state.
    fn is_final(self) -> bool {
        Self::TRANSITIONS.iter().all(|(from, _, to)| *from != self || *to == self)
    }
}

/// A transition that the table does not allow. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused<S: Lifecycle> {
    pub state: S,
    pub fact: S::Fact,
}

impl<S: Lifecycle> Display for Refused<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} is {} and cannot be {}", S::NOUN, self.state, self.fact)?;
        let allowed: Vec<String> = self.state.accepts().map(|fact| fact.to_string()).collect();
        match allowed.is_empty() {
            true => write!(f, "; this state is final"),
            false => write!(f, "; allowed: {}", allowed.join(", ")),
        }
    }
}

impl<S: Lifecycle> std::error::Error for Refused<S> {}

/// Renders the lifecycle as a Markdown table for the generated documentation.
pub fn markdown<S: Lifecycle>() -> String {
    let mut out = format!("## {}\n\n| state | fact | next state |\n|---|---|---|\n", S::NOUN);
    for (from, fact, to) in S::TRANSITIONS {
        out.push_str(&format!("| {from} | {fact} | {to} |\n"));
    }
    out
}

/// An enum declared with [`string_enum!`](crate::string_enum), as needed for API schemas.
pub trait StringEnum {
    const NAME: &'static str;
    const VALUES: &'static [&'static str];
}

/// Declares an enum with one fixed string per variant, used in the store, the API and messages.
#[macro_export]
macro_rules! string_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $value)] $variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $value),+ }
            }
        }

        impl $crate::lifecycle::StringEnum for $name {
            const NAME: &'static str = stringify!($name);
            const VALUES: &'static [&'static str] = &[$($value),+];
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::lifecycle::UnknownValue;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| {
                    $crate::lifecycle::UnknownValue {
                        value: text.to_owned(),
                        known: Self::ALL.iter().map(|value| value.as_str()).collect(),
                    }
                })
            }
        }
    };
}

/// A string that matches no variant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown value {value:?}; known: {}", known.join(", "))]
pub struct UnknownValue {
    pub value: String,
    pub known: Vec<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::AgentState;
    use crate::conversation::ConversationState;
    use crate::operation::OperationState;
    use crate::question_set::QuestionSetState;
    use crate::session::{SessionFact, SessionState};
    use crate::task::TaskState;
    use crate::workflow::WorkflowState;

    /// Checks every state with every fact: only rows of the table are accepted, and each pair has at most one row.
    fn exhaust<S: Lifecycle>() {
        for state in S::STATES {
            for fact in S::FACTS {
                let rows: Vec<_> = S::TRANSITIONS.iter().filter(|(from, on, _)| from == state && on == fact).collect();
                assert!(rows.len() <= 1, "{}: two rows for {state} + {fact}", S::NOUN);
                match (state.after(*fact), rows.first()) {
                    (Ok(next), Some((_, _, to))) => assert_eq!(next, *to),
                    (Err(refused), None) => {
                        let text = refused.to_string();
                        assert!(text.contains(&state.to_string()) && text.contains(&fact.to_string()), "{text}");
                    }
                    (got, row) => panic!("{}: {state} + {fact}: {got:?} but the table has {row:?}", S::NOUN),
                }
                assert_eq!(state.accepts().any(|accepted| accepted == *fact), !rows.is_empty());
            }
        }
        for (from, fact, to) in S::TRANSITIONS {
            assert!(S::STATES.contains(from) && S::STATES.contains(to) && S::FACTS.contains(fact));
        }
        for fact in S::FACTS {
            assert!(S::TRANSITIONS.iter().any(|(_, on, _)| on == fact), "{}: {fact} is in no row", S::NOUN);
        }
    }

    #[test]
    fn every_lifecycle_accepts_exactly_the_rows_of_its_table() {
        exhaust::<SessionState>();
        exhaust::<ConversationState>();
        exhaust::<QuestionSetState>();
        exhaust::<TaskState>();
        exhaust::<AgentState>();
        exhaust::<WorkflowState>();
        exhaust::<OperationState>();
    }

    #[test]
    fn a_refusal_names_the_state_and_the_facts_it_allows() {
        let refused = SessionState::Created.after(SessionFact::Killed).expect_err("created cannot be killed");
        assert_eq!(refused.to_string(), "the session is created and cannot be killed; allowed: spawned, launch_failed");
    }
}
