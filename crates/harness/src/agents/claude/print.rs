//! The JSON lines that Claude Code prints.

use crate::print_mode::Condition::{Is, IsTrue, Lacks};
use crate::print_mode::{Counting, Kind, Place, Rules, TextRule, TroubleRule, UsageRule};

pub const RULES: Rules = Rules {
    format: "claude-json",
    session: Some("/session_id"),
    text: TEXT,
    breaks: &[],
    usage: &[UsageRule {
        when: &[Is("/type", "result")],
        input: &["/usage/input_tokens", "/usage/cache_creation_input_tokens", "/usage/cache_read_input_tokens"],
        output: &["/usage/output_tokens"],
        counting: Counting::Turn,
    }],
    trouble: &[TroubleRule { when: &[Is("/type", "result"), IsTrue("/is_error")], at: "/result" }],
};

pub const TEXT: &[TextRule] = &[
    TextRule {
        // Lines with a parent tool call come from subagents and are not part of the answer.
        when: &[Is("/type", "stream_event"), Is("/event/delta/type", "text_delta"), Lacks("/parent_tool_use_id")],
        at: Place::At("/event/delta/text"),
        kind: Kind::Piece,
    },
    TextRule {
        when: &[Is("/type", "assistant"), Lacks("/parent_tool_use_id")],
        at: Place::Each("/message/content", "text", "/text"),
        kind: Kind::Whole,
    },
];
