//! What stands where in the lines that agents print: one table for each form of JSON.

use super::PrintFormat;

/// How to read an agent's lines. Places are JSON pointers.
#[derive(Debug)]
pub struct Rules {
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

#[derive(Debug, Clone, Copy)]
pub enum Condition {
    Is(&'static str, &'static str),
    IsTrue(&'static str),
    /// Not there, or null.
    Lacks(&'static str),
}

#[derive(Debug)]
pub struct TextRule {
    pub when: When,
    pub at: Place,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy)]
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

#[derive(Debug)]
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

#[derive(Debug)]
pub struct TroubleRule {
    pub when: When,
    pub at: &'static str,
}

/// None for plain text.
pub fn rules(format: PrintFormat) -> Option<&'static Rules> {
    match format {
        PrintFormat::Text => None,
        PrintFormat::ClaudeJson => Some(&CLAUDE),
        PrintFormat::CodexJson => Some(&CODEX),
        PrintFormat::CopilotJson => Some(&COPILOT),
        PrintFormat::GeminiJson => Some(&GEMINI),
        PrintFormat::GooseJson => Some(&GOOSE),
        PrintFormat::KimiJson => Some(&KIMI),
        PrintFormat::OpencodeJson => Some(&OPENCODE),
        PrintFormat::PiJson => Some(&PI),
        PrintFormat::QwenJson => Some(&QWEN),
        PrintFormat::VibeJson => Some(&VIBE),
    }
}

use Condition::{Is, IsTrue, Lacks};

static CLAUDE: Rules = Rules {
    session: Some("/session_id"),
    text: CLAUDE_TEXT,
    breaks: &[],
    usage: &[UsageRule {
        when: &[Is("/type", "result")],
        input: &["/usage/input_tokens", "/usage/cache_creation_input_tokens", "/usage/cache_read_input_tokens"],
        output: &["/usage/output_tokens"],
        counting: Counting::Turn,
    }],
    trouble: &[TroubleRule { when: &[Is("/type", "result"), IsTrue("/is_error")], at: "/result" }],
};

const CLAUDE_TEXT: &[TextRule] = &[
    TextRule {
        // What its own helpers say is no part of the answer.
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

/// Claude's lines, but its result counts the whole session.
static QWEN: Rules = Rules {
    session: Some("/session_id"),
    text: CLAUDE_TEXT,
    breaks: &[],
    usage: &[UsageRule {
        when: &[Is("/type", "assistant")],
        input: &["/message/usage/input_tokens"],
        output: &["/message/usage/output_tokens"],
        counting: Counting::Step,
    }],
    trouble: &[TroubleRule { when: &[Is("/type", "result"), IsTrue("/is_error")], at: "/error/message" }],
};

static CODEX: Rules = Rules {
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

static COPILOT: Rules = Rules {
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

static GEMINI: Rules = Rules {
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

static GOOSE: Rules = Rules {
    session: None,
    text: &[TextRule {
        when: &[Is("/type", "message"), Is("/message/role", "assistant")],
        at: Place::Each("/message/content", "text", "/text"),
        kind: Kind::Piece,
    }],
    breaks: &[&[Is("/type", "message"), Is("/message/role", "user")]],
    usage: &[UsageRule {
        when: &[Is("/type", "complete")],
        input: &["/input_tokens"],
        output: &["/output_tokens"],
        counting: Counting::Session,
    }],
    trouble: &[TroubleRule { when: &[Is("/type", "error")], at: "/error" }],
};

static KIMI: Rules = Rules {
    session: Some("/session_id"),
    text: &[TextRule { when: &[Is("/role", "assistant")], at: Place::At("/content"), kind: Kind::Whole }],
    breaks: &[],
    usage: &[],
    trouble: &[],
};

static OPENCODE: Rules = Rules {
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

static PI: Rules = Rules {
    session: None,
    text: &[
        TextRule {
            when: &[Is("/type", "message_update"), Is("/assistantMessageEvent/type", "text_delta")],
            at: Place::At("/assistantMessageEvent/delta"),
            kind: Kind::Piece,
        },
        TextRule {
            when: &[Is("/type", "message_end"), Is("/message/role", "assistant")],
            at: Place::Each("/message/content", "text", "/text"),
            kind: Kind::Whole,
        },
    ],
    breaks: &[],
    usage: &[UsageRule {
        when: &[Is("/type", "message_end"), Is("/message/role", "assistant")],
        input: &["/message/usage/input", "/message/usage/cacheRead", "/message/usage/cacheWrite"],
        output: &["/message/usage/output"],
        counting: Counting::Step,
    }],
    trouble: &[TroubleRule { when: &[Is("/type", "message_end")], at: "/message/errorMessage" }],
};

static VIBE: Rules = Rules {
    session: Some("/sessionId"),
    text: &[TextRule {
        when: &[Is("/type", "message"), Is("/role", "assistant")],
        at: Place::Each("/content", "text", "/text"),
        kind: Kind::Whole,
    }],
    breaks: &[],
    usage: &[],
    trouble: &[],
};
