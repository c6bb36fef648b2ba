//! The JSON lines that Codex prints.

use crate::print_mode::Condition::Is;
use crate::print_mode::{Counting, Kind, Place, Rules, TextRule, TroubleRule, UsageRule};

pub const RULES: Rules = Rules {
    format: "codex-json",
    session: Some("/thread_id"),
    text: &[TextRule {
        when: &[Is("/type", "item.completed"), Is("/item/type", "agent_message")],
        at: Place::At("/item/text"),
        kind: Kind::Whole,
    }],
    breaks: &[],
    usage: &[UsageRule {
        when: &[Is("/type", "turn.completed")],
        input: &["/usage/input_tokens"],
        output: &["/usage/output_tokens"],
        counting: Counting::Session,
    }],
    trouble: &[
        TroubleRule { when: &[Is("/type", "turn.failed")], at: "/error/message" },
        TroubleRule { when: &[Is("/type", "error")], at: "/message" },
    ],
};
