//! The conversation as rows: takes messages as they come and gives out every row once.

use std::collections::HashMap;

use coven_api::message::MessageRecord;
use coven_api::message_content::{MessageContent, PlanStatus, PlanStep};
use coven_domain::MessageId;

use super::content::{self, Voice};
use super::row::{Row, Style};
use super::stream::Stream;
use super::tool::ToolCall;
use super::wrap::{self, Breaking};

/// How much is shown of what can be folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Detail {
    /// What tools were given and gave.
    pub has_tool_content: bool,
    /// Thoughts that are over take one row.
    pub folds_thoughts: bool,
}

/// What stands last: like things follow each other without an empty row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Text(Voice),
    Tool,
    Plan,
    Note,
}

/// How much of a text was shown.
#[derive(Debug)]
enum Shown {
    Part(String),
    Whole { length: usize },
}

#[derive(Debug)]
pub struct Transcript {
    columns: usize,
    pub detail: Detail,
    open: Option<(MessageId, Stream)>,
    texts: HashMap<MessageId, Shown>,
    running: Vec<(MessageId, ToolCall)>,
    /// How the tool calls that were shown had ended.
    ended: HashMap<MessageId, String>,
    plan: Vec<PlanStep>,
    last: Option<Block>,
    /// Rows that would fall into the middle of a line that is being written.
    deferred: Vec<Row>,
}

impl Transcript {
    pub fn new(columns: Option<usize>, detail: Detail) -> Self {
        Self {
            columns: columns.unwrap_or(usize::MAX),
            detail,
            open: None,
            texts: HashMap::new(),
            running: Vec::new(),
            ended: HashMap::new(),
            plan: Vec::new(),
            last: None,
            deferred: Vec::new(),
        }
    }

    /// The rows that this message adds for good.
    pub fn take(&mut self, message: &MessageRecord) -> Vec<Row> {
        let id = message.message_id;
        if let Some((voice, text)) = content::spoken(message) {
            return self.text(id, voice, &text.text, text.partial);
        }
        match &message.content {
            MessageContent::Text(_) | MessageContent::Thought(_) => Vec::new(),
            MessageContent::Tool(call) => self.tool(id, ToolCall::of_message(call)),
            MessageContent::Plan { steps, .. } => self.plan(steps.clone()),
            MessageContent::Error { message, .. } => self.block(Block::Note, self.wrapped(Style::Bad, "✖ ", message)),
            MessageContent::Cancelled { reason } => {
                let why = if reason.is_empty() { "cancelled".to_owned() } else { format!("cancelled: {reason}") };
                self.block(Block::Note, self.wrapped(Style::Alert, "■ ", &why))
            }
            MessageContent::Turn { stop_reason } => {
                let what = format!("the turn ended: {}", stop_reason.replace('_', " "));
                self.block(Block::Note, self.wrapped(Style::Alert, "■ ", &what))
            }
            MessageContent::Ended { reason } => self.detail_note(&format!("the session ended: {reason}")),
            MessageContent::Content { .. } => self.detail_note("the agent sent content"),
            MessageContent::Update { update } => {
                self.detail_note(&format!("the agent sent {}", content::update_name(update)))
            }
        }
    }

    fn detail_note(&mut self, text: &str) -> Vec<Row> {
        if self.detail.has_tool_content { self.note(text) } else { Vec::new() }
    }

    /// A dim row about the conversation, not of it.
    pub fn note(&mut self, text: &str) -> Vec<Row> {
        self.block(Block::Note, self.wrapped(Style::Dim, "· ", text))
    }

    /// The turn is over: what is still open will not go on.
    pub fn end_turn(&mut self) -> Vec<Row> {
        let mut rows = self.close();
        for (id, call) in std::mem::take(&mut self.running) {
            let row = call.abandoned_row().cut(self.columns);
            self.ended.insert(id, "abandoned".to_owned());
            rows.extend(self.block(Block::Tool, vec![row]));
        }
        rows
    }

    fn text(&mut self, id: MessageId, voice: Voice, text: &str, is_partial: bool) -> Vec<Row> {
        let mut rows = Vec::new();
        let rest = match (self.texts.get(&id), is_partial) {
            (None, _) => text,
            (Some(Shown::Part(_)), true) => text,
            (Some(Shown::Whole { .. }), true) => return rows,
            (Some(Shown::Whole { length }), false) if *length == text.len() => return rows,
            (Some(Shown::Whole { .. }), false) => text,
            (Some(Shown::Part(shown)), false) => match text.strip_prefix(shown.as_str()) {
                Some(rest) => rest,
                // It was written anew: better twice than wrong.
                None => {
                    rows.extend(self.close());
                    text
                }
            },
        };
        let is_new = !self.texts.contains_key(&id);
        if is_new && !is_partial && voice == Voice::Thought && self.detail.folds_thoughts {
            rows.extend(self.folded_thought(text));
        } else {
            rows.extend(self.write(id, voice, rest));
        }
        match (self.texts.get_mut(&id), is_partial) {
            (Some(Shown::Part(shown)), true) => shown.push_str(text),
            (_, true) => {
                self.texts.insert(id, Shown::Part(text.to_owned()));
            }
            (_, false) => {
                self.texts.insert(id, Shown::Whole { length: text.len() });
                if self.open.as_ref().is_some_and(|(open, _)| *open == id) {
                    rows.extend(self.close());
                }
            }
        }
        rows
    }

    fn write(&mut self, id: MessageId, voice: Voice, text: &str) -> Vec<Row> {
        let is_open = self.open.as_ref().is_some_and(|(open, _)| *open == id);
        if !is_open && text.trim().is_empty() {
            return Vec::new();
        }
        let mut rows = Vec::new();
        if !is_open {
            rows.extend(self.close());
            rows.extend(self.gap(Block::Text(voice)));
            self.open = Some((id, Stream::new(voice)));
        }
        let (_, stream) = self.open.as_mut().expect("it was opened above");
        rows.extend(stream.push(text, self.columns));
        if !stream.has_tail() {
            rows.append(&mut self.deferred);
        }
        rows
    }

    /// Ends the text that is being written, for now: more of it would go on in a row of its own.
    fn close(&mut self) -> Vec<Row> {
        let mut rows = self.open.take().map_or_else(Vec::new, |(_, mut stream)| stream.finish());
        rows.append(&mut self.deferred);
        rows
    }

    fn folded_thought(&mut self, text: &str) -> Vec<Row> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let Some(first) = lines.next() else { return Vec::new() };
        let more = if lines.next().is_some() { " …" } else { "" };
        let row = Row::new(Style::Dim, &format!("┊ {}{more}", wrap::expanded(first, 0).trim())).cut(self.columns);
        let mut rows = self.close();
        rows.extend(self.block(Block::Text(Voice::Thought), vec![row]));
        rows
    }

    fn tool(&mut self, id: MessageId, call: ToolCall) -> Vec<Row> {
        if !call.is_over() {
            match self.running.iter_mut().find(|(running, _)| *running == id) {
                Some((_, running)) => *running = call,
                // What was told as ended and goes on will be told again at its end.
                None => self.running.push((id, call)),
            }
            return Vec::new();
        }
        self.running.retain(|(running, _)| *running != id);
        let row = call.row().cut(self.columns);
        if self.ended.insert(id, row.text()) == Some(row.text()) {
            return Vec::new();
        }
        let mut rows = vec![row];
        if self.detail.has_tool_content {
            let content = call.content_rows();
            rows.extend(content.iter().flat_map(|row| self.broken(row)));
        }
        self.block(Block::Tool, rows)
    }

    fn plan(&mut self, steps: Vec<PlanStep>) -> Vec<Row> {
        let before = std::mem::replace(&mut self.plan, steps);
        let changed: Vec<&PlanStep> = self.plan.iter().filter(|step| !before.contains(step)).collect();
        let rows = changed.into_iter().flat_map(|step| match step.status {
            PlanStatus::Completed => self.wrapped(Style::Dim, "✔ ", &step.content),
            PlanStatus::InProgress => self.wrapped(Style::Bold, "▸ ", &step.content),
            PlanStatus::Pending => self.wrapped(Style::Plain, "☐ ", &step.content),
        });
        let rows: Vec<Row> = rows.collect();
        if rows.is_empty() { Vec::new() } else { self.block(Block::Plan, rows) }
    }

    /// Rows of their own; if a line is being written they wait for its end.
    fn block(&mut self, kind: Block, rows: Vec<Row>) -> Vec<Row> {
        let is_mid_line = self.open.as_ref().is_some_and(|(_, stream)| stream.has_tail());
        let mut block: Vec<Row> = self.gap(kind).into_iter().collect();
        block.extend(rows);
        if is_mid_line {
            self.deferred.extend(block);
            return Vec::new();
        }
        block
    }

    /// An empty row where one helps to tell things apart.
    fn gap(&mut self, kind: Block) -> Option<Row> {
        let needs_gap = match (self.last.replace(kind), kind) {
            (None, _) => false,
            (Some(Block::Text(_)), Block::Text(_)) => true,
            (Some(before), kind) => before != kind,
        };
        needs_gap.then(Row::default)
    }

    /// Lines under a sign, broken between words.
    fn wrapped(&self, style: Style, sign: &str, text: &str) -> Vec<Row> {
        let columns = self.columns.saturating_sub(2);
        let mut rows = Vec::new();
        for line in text.trim().lines() {
            let line = wrap::expanded(line, 0);
            for range in wrap::rows(&line, columns, Breaking::Words) {
                let sign = if rows.is_empty() { sign } else { "  " };
                rows.push(Row::new(style, sign).with(style, line[range].trim_end()));
            }
        }
        rows
    }

    fn broken(&self, row: &Row) -> Vec<Row> {
        let text = row.text();
        let style = row.spans().first().map_or(Style::Plain, |(style, _)| *style);
        match row.width() <= self.columns {
            true => vec![row.clone()],
            false => wrap::rows(&text, self.columns, Breaking::Anywhere)
                .into_iter()
                .map(|range| Row::new(style, &text[range]))
                .collect(),
        }
    }
}
