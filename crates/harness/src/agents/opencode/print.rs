//! The JSON lines that OpenCode prints.

use crate::print_mode::Condition::Is;
use crate::print_mode::{Counting, Kind, Place, Rules, TextRule, TroubleRule, UsageRule};

pub const RULES: Rules = Rules {
    format: "opencode-json",
    session: Some("/sessionID"),
    text: &[TextRule { when: &[Is("/type", "text")], at: Place::At("/part/text"), kind: Kind::Whole }],
    breaks: &[],
    usage: &[UsageRule {
        when: &[Is("/type", "step_finish")],
        input: &["/part/tokens/input", "/part/tokens/cache/read", "/part/tokens/cache/write"],
        output: &["/part/tokens/output"],
        counting: Counting::Step,
    }],
    trouble: &[TroubleRule { when: &[Is("/type", "error")], at: "/error/data/message" }],
};
