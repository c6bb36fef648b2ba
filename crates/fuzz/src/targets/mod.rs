//! The fuzz targets: one function per parser, which accepts any bytes and must return.

mod agents;
mod files;
mod records;
mod screen;
mod workflow;

use crate::planted;

/// A parser under test.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// Panics on a defect. Must return quickly and use limited memory for every input.
    pub run: fn(&[u8]),
    /// Words of the format, for the mutator.
    pub words: &'static [&'static str],
}

pub const TARGETS: &[Target] = &[
    Target { name: "journal", run: records::journal, words: records::JOURNAL_WORDS },
    Target { name: "log", run: records::log, words: records::LOG_WORDS },
    Target { name: "holder_frames", run: records::holder_frames, words: &[] },
    Target { name: "attach_frames", run: records::attach_frames, words: records::ATTACH_WORDS },
    Target { name: "acp_lines", run: agents::acp_lines, words: agents::ACP_WORDS },
    Target { name: "mcp_lines", run: agents::mcp_lines, words: agents::MCP_WORDS },
    Target { name: "workflow", run: workflow::workflow, words: workflow::WORKFLOW_WORDS },
    Target { name: "template", run: workflow::template, words: workflow::TEMPLATE_WORDS },
    Target { name: "config", run: files::config, words: files::CONFIG_WORDS },
    Target { name: "conversation", run: files::conversation, words: files::CONVERSATION_WORDS },
    Target { name: "questions", run: files::questions, words: files::QUESTION_WORDS },
    Target { name: "legacy", run: files::legacy, words: files::LEGACY_WORDS },
    Target { name: "keyframe", run: screen::keyframe, words: screen::SCREEN_WORDS },
    Target { name: "screen", run: screen::screen, words: screen::SCREEN_WORDS },
];

/// Returns the target `name`, including the planted ones.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().chain(planted::TARGETS).find(|target| target.name == name)
}
