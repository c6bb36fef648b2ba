//! One message of a conversation: what is kept of it, and its rows.

use std::cell::{Ref, RefCell};

use coven_api::message::MessageRecord;
use coven_api::message_content::{MessageContent, MessageText, PlanStatus, PlanStep};
use coven_domain::MessageId;
use coven_domain::message::Role;
use ratatui::style::Style;

use super::tool::Tool;
use crate::frame::canvas::{Piece, Row};
use crate::frame::theme::Theme;
use crate::frame::{markdown, text};

/// Bytes kept of one text.
const MAX_TEXT: usize = 1 << 20;
/// Rows are not wrapped to fewer columns; they are cut then, so that a narrow pane does not need a row for each character.
const MIN_COLUMNS: usize = 10;
/// Lines of an agent's standard error.
const MAX_STDERR_LINES: usize = 10;

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Prompt {
        text: String,
        is_queued: bool,
    },
    Text(String),
    Thought(String),
    Tool(Box<Tool>),
    Plan(Vec<PlanStep>),
    Failure(String),
    Note(String),
    /// An update that this version does not know.
    Hidden,
}

/// What the rows of a message depend on beside the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub columns: usize,
    pub theme: Theme,
    pub is_unfolded: bool,
    /// An empty row comes first.
    pub has_gap: bool,
}

#[derive(Debug)]
pub struct Entry {
    pub id: MessageId,
    /// The newest number of the message or its chunks.
    pub number: u64,
    pub is_partial: bool,
    block: Block,
    /// The rows that were built last.
    rows: RefCell<Option<(Look, Vec<Row>)>>,
}

impl Entry {
    pub fn of(message: MessageRecord) -> Self {
        let is_partial = message.content.text().is_some_and(|text| text.partial);
        let block = block(message.role, message.content);
        Self { id: message.message_id, number: message.number, is_partial, block, rows: RefCell::new(None) }
    }

    pub const fn block(&self) -> &Block {
        &self.block
    }

    pub const fn is_prompt(&self) -> bool {
        matches!(self.block, Block::Prompt { .. })
    }

    pub const fn is_queued(&self) -> bool {
        matches!(self.block, Block::Prompt { is_queued: true, .. })
    }

    /// Number of bytes that the message keeps.
    pub fn size(&self) -> usize {
        match &self.block {
            Block::Prompt { text, .. } | Block::Text(text) | Block::Thought(text) => text.len(),
            Block::Failure(text) | Block::Note(text) => text.len(),
            Block::Hidden => 0,
            Block::Tool(tool) => tool.size(),
            Block::Plan(steps) => steps.iter().map(|step| step.content.len()).sum(),
        }
    }

    pub fn set_queued(&mut self, is_now_queued: bool) {
        if let Block::Prompt { is_queued, .. } = &mut self.block
            && *is_queued != is_now_queued
        {
            *is_queued = is_now_queued;
            self.rows.take();
        }
    }

    /// The turn of a tool call is over; a call without an end will not get one.
    pub fn turn_ended(&mut self) {
        if let Block::Tool(tool) = &mut self.block
            && tool.abandon()
        {
            self.rows.take();
        }
    }

    /// Adds a chunk behind the text, unless the text is complete.
    pub fn append(&mut self, chunk: &Self) {
        self.number = self.number.max(chunk.number);
        if let (true, Some(text), Some(more)) = (self.is_partial, self.block.text_mut(), chunk.block.text()) {
            let room = more.floor_char_boundary(MAX_TEXT.saturating_sub(text.len()));
            text.push_str(&more[..room]);
            self.rows.take();
        }
    }

    /// Adds chunks before the text, unless the text is complete.
    pub fn prepend(&mut self, earlier: &Self) {
        if let (true, true, Some(text), Some(more)) =
            (self.is_partial, earlier.is_partial, self.block.text_mut(), earlier.block.text())
        {
            text.insert_str(0, more);
            self.rows.take();
        }
    }

    /// Returns the rows, and builds them if the message or its look changed.
    pub fn rows(&self, look: Look) -> Ref<'_, [Row]> {
        let is_known = matches!(&*self.rows.borrow(), Some((known, _)) if *known == look);
        if !is_known {
            let rows = self.build(look);
            *self.rows.borrow_mut() = Some((look, rows));
        }
        Ref::map(self.rows.borrow(), |built| built.as_ref().map_or(&[][..], |(_, rows)| rows))
    }

    fn build(&self, look: Look) -> Vec<Row> {
        let (theme, columns) = (look.theme, look.columns.max(MIN_COLUMNS));
        let mut rows = match &self.block {
            Block::Prompt { text, is_queued: false } => signed("› ", text, theme.accent(), theme.bold(), columns),
            Block::Prompt { text, .. } => signed("queued › ", text, theme.need(), theme.dim(), columns),
            Block::Text(text) => markdown::rows(text, columns, theme),
            Block::Thought(text) if look.is_unfolded => {
                let lines = text::wrap(text.trim(), columns - 2);
                lines.into_iter().map(|line| vec![Piece::new(format!("┊ {line}"), theme.dim())]).collect()
            }
            Block::Thought(text) => folded_thought(text, self.is_partial, theme),
            Block::Tool(tool) => tool.rows(look.is_unfolded, columns, theme),
            Block::Plan(steps) => plan(steps, columns, theme),
            Block::Failure(text) => signed("✖ ", text, theme.bad(), theme.bad(), columns),
            Block::Note(text) => signed("■ ", text, theme.need(), theme.plain(), columns),
            Block::Hidden => Vec::new(),
        };
        if look.has_gap && !rows.is_empty() {
            rows.insert(0, Vec::new());
        }
        rows
    }
}

impl Block {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Prompt { text, .. } | Self::Text(text) | Self::Thought(text) => Some(text),
            _ => None,
        }
    }

    const fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Prompt { text, .. } | Self::Text(text) | Self::Thought(text) => Some(text),
            _ => None,
        }
    }
}

fn block(role: Role, content: MessageContent) -> Block {
    match content {
        MessageContent::Text(text) if role == Role::User => Block::Prompt { text: kept(text), is_queued: false },
        MessageContent::Text(text) => Block::Text(kept(text)),
        MessageContent::Thought(text) => Block::Thought(kept(text)),
        MessageContent::Tool(call) => Block::Tool(Box::new(Tool::of(&call))),
        MessageContent::Plan { steps, .. } => Block::Plan(steps),
        MessageContent::Error { message, exit_code, stderr, .. } => {
            let exit = exit_code.map(|code| format!("exit code {code}")).unwrap_or_default();
            let stderr = stderr.unwrap_or_default();
            let lines: Vec<&str> = stderr.trim().lines().collect();
            let tail = &lines[lines.len().saturating_sub(MAX_STDERR_LINES)..];
            let parts: Vec<&str> = [message.trim(), &exit].into_iter().filter(|part| !part.is_empty()).collect();
            Block::Failure([&parts, tail].concat().join("\n"))
        }
        MessageContent::Cancelled { reason } if reason.is_empty() => Block::Note("cancelled".to_owned()),
        MessageContent::Cancelled { reason } => Block::Note(format!("cancelled: {reason}")),
        MessageContent::Turn { stop_reason } => {
            Block::Note(format!("the turn ended: {}", stop_reason.replace('_', " ")))
        }
        MessageContent::Ended { reason } => Block::Note(format!("the session ended: {}", reason.replace('_', " "))),
        MessageContent::Content { content } => {
            let field = |name: &str| content[name].as_str();
            let kind = field("type").unwrap_or("content").replace('_', " ");
            let uri = field("uri").or_else(|| content["resource"]["uri"].as_str()).unwrap_or_default();
            Block::Text(format!("[{kind}] {uri}").trim_end().to_owned())
        }
        MessageContent::Update { .. } => Block::Hidden,
    }
}

fn kept(content: MessageText) -> String {
    let mut text = content.text;
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push_str("\n\n… the rest is not shown");
    }
    if content.interrupted {
        text.push_str("\n\n(interrupted)");
    }
    text
}

/// Wraps a text behind a sign; further rows are indented.
fn signed(sign: &str, content: &str, sign_style: Style, style: Style, columns: usize) -> Vec<Row> {
    let indent = text::width(sign);
    let lines = text::wrap(content.trim(), columns.saturating_sub(indent).max(MIN_COLUMNS / 2));
    let row = |(nth, line)| {
        let lead = if nth == 0 { sign.to_owned() } else { " ".repeat(indent) };
        vec![Piece::new(lead, sign_style), Piece::new(line, style)]
    };
    lines.into_iter().enumerate().map(row).collect()
}

/// One row: the newest line of a thought that is being written, or the first one.
fn folded_thought(thought: &str, is_partial: bool, theme: Theme) -> Vec<Row> {
    let mut lines = thought.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = if is_partial { lines.next_back() } else { lines.next() };
    let label = if is_partial { "thinking" } else { "thought" };
    line.map(|line| vec![Piece::new(format!("┊ {label}: {line}"), theme.dim())]).into_iter().collect()
}

fn plan(steps: &[PlanStep], columns: usize, theme: Theme) -> Vec<Row> {
    let done = steps.iter().filter(|step| step.status == PlanStatus::Completed).count();
    let mut rows = vec![vec![Piece::new(format!("plan {done}/{}", steps.len()), theme.bold())]];
    for step in steps {
        let (sign, sign_style, style) = match step.status {
            PlanStatus::Completed => ("  ✔ ", theme.good(), theme.dim()),
            PlanStatus::InProgress => ("  ▸ ", theme.accent(), theme.bold()),
            PlanStatus::Pending => ("  ☐ ", theme.dim(), theme.plain()),
        };
        rows.extend(signed(sign, &step.content, sign_style, style, columns));
    }
    rows
}
