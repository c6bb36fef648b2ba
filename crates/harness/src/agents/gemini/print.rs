//! The JSON lines that Gemini CLI prints.

use crate::print_mode::Condition::Is;
use crate::print_mode::{Counting, Kind, Place, Rules, TextRule, TroubleRule, UsageRule};

pub const RULES: Rules = Rules {
    format: "gemini-json",
    session: Some("/session_id"),
    text: &[TextRule {
        when: &[Is("/type", "message"), Is("/role", "assistant")],
        at: Place::At("/content"),
        kind: Kind::Piece,
    }],
    breaks: &[&[Is("/type", "tool_use")]],
    usage: &[UsageRule {
        when: &[Is("/type", "result")],
        input: &["/stats/input_tokens"],
        output: &["/stats/output_tokens"],
        counting: Counting::Turn,
    }],
    trouble: &[
        TroubleRule { when: &[Is("/type", "result"), Is("/status", "error")], at: "/error/message" },
        TroubleRule { when: &[Is("/type", "error")], at: "/message" },
    ],
};
