//! Ids as newtypes, so that ids of different records cannot be confused.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps a UUID. The caller generates it: this crate has no randomness.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }

            /// Returns the first eight hex digits, enough for a person to distinguish records.
            pub fn short(&self) -> String {
                self.0.simple().to_string()[..8].to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

id!(SessionId);
id!(RepoId);
id!(MessageId);
id!(RequestId);
id!(TaskId);
id!(AgentId);
id!(WorkflowId);
id!(QuestionId);
id!(OperationId);

/// The id of a question set: the name of its folder. UUID version 4 only, so that no other name ever reaches a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QuestionSetId(Uuid);

/// A text that is not a UUID version 4.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid session ID format: {0:?} is not a UUID version 4")]
pub struct BadQuestionSetId(pub String);

impl QuestionSetId {
    /// Builds an id. The caller supplies the bytes: this crate has no randomness.
    pub fn from_random_bytes(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// Returns the first eight characters, as shown in texts for agents.
    pub fn short(&self) -> String {
        self.0.simple().to_string()[..8].to_owned()
    }
}

impl fmt::Display for QuestionSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for QuestionSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for QuestionSetId {
    type Err = BadQuestionSetId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uuid = Uuid::parse_str(text).map_err(|_| BadQuestionSetId(text.to_owned()))?;
        // The parser also accepts braces, URNs and ids without hyphens, which are not folder names.
        let is_plain = text.len() == uuid::fmt::Hyphenated::LENGTH;
        let is_random =
            uuid.get_version() == Some(uuid::Version::Random) && uuid.get_variant() == uuid::Variant::RFC4122;
        match is_plain && is_random {
            true => Ok(Self(uuid)),
            false => Err(BadQuestionSetId(text.to_owned())),
        }
    }
}

impl From<QuestionSetId> for QuestionId {
    fn from(id: QuestionSetId) -> Self {
        Self(id.0)
    }
}

impl From<RequestId> for QuestionId {
    fn from(id: RequestId) -> Self {
        Self(id.0)
    }
}

impl TryFrom<String> for QuestionSetId {
    type Error = BadQuestionSetId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<QuestionSetId> for String {
    fn from(id: QuestionSetId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ask_31_only_a_uuid_version_4_is_the_id_of_a_question_set() {
        let good = "173b747a-549b-4b6b-ae62-f1b0c3f21b86";
        assert_eq!(good.parse::<QuestionSetId>().expect("version 4").to_string(), good);
        assert_eq!(good.to_uppercase().parse::<QuestionSetId>().expect("any case").to_string(), good);
        for bad in [
            "",
            "..",
            "../../etc",
            "173b747a",
            "173b747a549b4b6bae62f1b0c3f21b86",
            "{173b747a-549b-4b6b-ae62-f1b0c3f21b86}",
            "173b747a-549b-1b6b-ae62-f1b0c3f21b86",
            "173b747a-549b-4b6b-7e62-f1b0c3f21b86",
            "00000000-0000-0000-0000-000000000000",
            "173b747a-549b-4b6b-ae62-f1b0c3f21b8g",
            "173b747a-549b-4b6b-ae62-f1b0c3f21b86 ",
        ] {
            let error = bad.parse::<QuestionSetId>().expect_err(bad);
            assert!(error.to_string().starts_with("invalid session ID format"), "{error}");
            assert!(serde_json::from_value::<QuestionSetId>(serde_json::json!(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_from_any_bytes_round_trips() {
        for byte in [0, 0x5a, 0xff] {
            let id = QuestionSetId::from_random_bytes([byte; 16]);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
}
