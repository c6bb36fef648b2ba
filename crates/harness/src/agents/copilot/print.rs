//! The JSON lines that Copilot CLI prints.

use crate::print_mode::Condition::{Is, Lacks};
use crate::print_mode::{Kind, Place, Rules, TextRule, TroubleRule};

pub const RULES: Rules = Rules {
    format: "copilot-json",
    session: Some("/sessionId"),
    text: &[
        TextRule {
            when: &[Is("/type", "assistant.message_delta"), Lacks("/data/parentToolCallId")],
            at: Place::At("/data/deltaContent"),
            kind: Kind::Piece,
        },
        TextRule {
            when: &[Is("/type", "assistant.message"), Lacks("/data/parentToolCallId")],
            at: Place::At("/data/content"),
            kind: Kind::Whole,
        },
    ],
    breaks: &[],
    usage: &[],
    trouble: &[TroubleRule { when: &[Is("/type", "session.error")], at: "/data/message" }],
};
