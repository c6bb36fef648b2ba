//! The answer form of an inbox item: options of a permission, questions with choices and own words, a line for a terminal.

use coven_api::inbox::{AnswerRequest, GivenAnswer, InboxDetail, InboxItem, InboxKind, Rejection};
use crossterm::event::{KeyCode, KeyEvent};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::Value;

use crate::frame::canvas::{self, CursorPlace, Piece, Row};
use crate::frame::editor::{Edited, Editor};
use crate::frame::theme::Theme;
use crate::frame::{markdown, text};

/// Lines of a permission's details.
const MAX_DETAIL_ROWS: usize = 200;

/// One question with the answer so far.
#[derive(Debug, Clone)]
struct Question {
    title: String,
    prompt: String,
    is_multiple: bool,
    /// Label, and a description.
    options: Vec<(String, String)>,
    chosen: Vec<bool>,
    other: Editor,
    takes_text: bool,
    /// The row of the keyboard: an option, or the line of own words behind them. Nothing is selected at first.
    cursor: Option<usize>,
}

impl Question {
    fn rows(&self) -> usize {
        self.options.len() + usize::from(self.takes_text)
    }

    fn is_typing(&self) -> bool {
        self.takes_text && self.cursor == Some(self.options.len())
    }

    fn is_answered(&self) -> bool {
        self.chosen.contains(&true) || !self.other.text().trim().is_empty()
    }

    fn choose(&mut self, option: usize) {
        if option >= self.options.len() {
            return;
        }
        let was_chosen = self.chosen[option];
        if !self.is_multiple {
            self.chosen.fill(false);
        }
        self.chosen[option] = if self.is_multiple { !was_chosen } else { true };
    }

    fn labels(&self) -> Vec<String> {
        let chosen = self.options.iter().zip(&self.chosen).filter(|(_, is_chosen)| **is_chosen);
        chosen.map(|((label, _), _)| label.clone()).collect()
    }
}

/// What the form wants.
#[derive(Debug, Clone, PartialEq)]
pub enum FormResult {
    /// The key means nothing to the form.
    Ignored,
    Changed,
    /// Back to the list.
    Left,
    Send(AnswerRequest),
    /// Something is missing, in words for the user.
    Refused(&'static str),
}

pub struct Form {
    kind: InboxKind,
    questions: Vec<Question>,
    /// Ids of a permission's options, in their order.
    option_ids: Vec<String>,
    /// The question that is shown; one behind the last is the review.
    at: usize,
    /// The reason for a rejection, while it is typed.
    rejecting: Option<Editor>,
    intro: Vec<String>,
    scroll: usize,
    pub is_sent: bool,
}

impl Form {
    /// Builds the form of an item; `None` for tasks, which have a pane of their own.
    pub fn new(item: &InboxItem) -> Option<Self> {
        let mut intro = Vec::new();
        let questions = match &item.detail {
            InboxDetail::Task { .. } => return None,
            InboxDetail::Permission { permission } => {
                intro.extend(details(&permission.tool_call));
                let options = item.options.iter().map(|option| (option.name.clone(), String::new())).collect();
                vec![question(item.title.clone(), String::new(), false, options, false)]
            }
            InboxDetail::QuestionSet { question_set }
            | InboxDetail::Question { question_set }
            | InboxDetail::Terminal { question_set } => {
                intro.extend(question_set.working_directory.iter().map(|folder| format!("in {folder}")));
                let build = |it: &coven_api::question::QuestionRecord| {
                    let options = it.options.iter();
                    let options =
                        options.map(|it| (it.label.clone(), it.description.clone().unwrap_or_default())).collect();
                    question(it.title.clone(), it.prompt.clone(), it.multi_select, options, true)
                };
                question_set.questions.iter().map(build).collect()
            }
        };
        let option_ids = item.options.iter().map(|option| option.id.clone()).collect();
        Some(Self { kind: item.kind, questions, option_ids, at: 0, rejecting: None, intro, scroll: 0, is_sent: false })
    }

    /// Reports whether typed characters are text rather than commands.
    pub fn is_typing(&self) -> bool {
        self.rejecting.is_some() || self.questions.get(self.at).is_some_and(Question::is_typing)
    }

    fn is_review(&self) -> bool {
        self.at >= self.questions.len()
    }

    pub fn key(&mut self, key: KeyEvent) -> FormResult {
        if self.is_sent {
            return if key.code == KeyCode::Esc { FormResult::Left } else { FormResult::Ignored };
        }
        if self.rejecting.is_some() {
            return self.rejection_key(key);
        }
        match key.code {
            KeyCode::Esc => return FormResult::Left,
            KeyCode::Enter => return self.enter(),
            KeyCode::Tab | KeyCode::Right if !self.is_typing() || key.code == KeyCode::Tab => {
                let last = if self.questions.len() > 1 { self.questions.len() } else { 0 };
                self.at = (self.at + 1).min(last);
                return FormResult::Changed;
            }
            KeyCode::BackTab | KeyCode::Left if !self.is_typing() || key.code == KeyCode::BackTab => {
                self.at = self.at.saturating_sub(1);
                return FormResult::Changed;
            }
            KeyCode::PageDown => {
                self.scroll += 5;
                return FormResult::Changed;
            }
            KeyCode::PageUp => {
                self.scroll = self.scroll.saturating_sub(5);
                return FormResult::Changed;
            }
            KeyCode::Char('X') if !self.is_typing() && self.takes_rejection() => {
                self.rejecting = Some(Editor::one_line(""));
                return FormResult::Changed;
            }
            _ => {}
        }
        let Some(question) = self.questions.get_mut(self.at) else { return FormResult::Ignored };
        let last = question.rows().saturating_sub(1);
        match key.code {
            KeyCode::Up => question.cursor = Some(question.cursor.map_or(0, |at| at.saturating_sub(1))),
            KeyCode::Down => question.cursor = Some(question.cursor.map_or(0, |at| (at + 1).min(last))),
            KeyCode::Char('k') if !question.is_typing() => {
                question.cursor = Some(question.cursor.map_or(0, |at| at.saturating_sub(1)));
            }
            KeyCode::Char('j') if !question.is_typing() => {
                question.cursor = Some(question.cursor.map_or(0, |at| (at + 1).min(last)));
            }
            _ if question.is_typing() => {
                return match question.other.key(key) {
                    Edited::Ignored => FormResult::Ignored,
                    _ => FormResult::Changed,
                };
            }
            KeyCode::Char(digit @ '1'..='9') => {
                let option = digit as usize - '1' as usize;
                if option >= question.rows() {
                    return FormResult::Ignored;
                }
                question.cursor = Some(option);
                question.choose(option);
            }
            KeyCode::Char(' ') => match question.cursor {
                Some(option) => question.choose(option),
                None => return FormResult::Ignored,
            },
            _ => return FormResult::Ignored,
        }
        FormResult::Changed
    }

    pub fn paste(&mut self, pasted: &str) {
        if let Some(reason) = &mut self.rejecting {
            reason.insert(pasted);
        } else if let Some(question) = self.questions.get_mut(self.at).filter(|it| it.is_typing()) {
            question.other.insert(pasted);
        }
    }

    fn takes_rejection(&self) -> bool {
        matches!(self.kind, InboxKind::QuestionSet | InboxKind::Question)
    }

    fn rejection_key(&mut self, key: KeyEvent) -> FormResult {
        let Some(reason) = &mut self.rejecting else { return FormResult::Ignored };
        match key.code {
            KeyCode::Esc => self.rejecting = None,
            KeyCode::Enter => {
                let reason = Some(reason.take()).filter(|reason| !reason.trim().is_empty());
                self.rejecting = None;
                let reject = Some(Rejection { reason });
                return FormResult::Send(AnswerRequest { reject, ..AnswerRequest::default() });
            }
            _ => {
                reason.key(key);
            }
        }
        FormResult::Changed
    }

    /// Goes to the next question, to the review, or sends the answer.
    fn enter(&mut self) -> FormResult {
        if self.is_review() {
            return match self.questions.iter().position(|question| !question.is_answered()) {
                Some(missing) => {
                    self.at = missing;
                    FormResult::Refused("this question has no answer yet")
                }
                None => self.send(),
            };
        }
        let question = &mut self.questions[self.at];
        // Enter on an option chooses it, unless several were chosen.
        if let Some(option) = question.cursor.filter(|_| !question.is_answered()) {
            question.choose(option);
        }
        if !question.is_answered() {
            return FormResult::Refused(match (self.kind, question.options.is_empty()) {
                (InboxKind::Terminal, _) | (_, true) => "type the answer first",
                _ => "choose with 1–9, or ↑↓ and Space",
            });
        }
        if self.questions.len() > 1 {
            self.at += 1;
            return FormResult::Changed;
        }
        self.send()
    }

    fn send(&mut self) -> FormResult {
        let first = &self.questions[0];
        let answer = match self.kind {
            InboxKind::Permission => {
                let option = first.chosen.iter().position(|is_chosen| *is_chosen);
                let option = option.and_then(|at| self.option_ids.get(at).cloned());
                AnswerRequest { option, ..AnswerRequest::default() }
            }
            InboxKind::Terminal => {
                let line = first.labels().pop().unwrap_or_else(|| first.other.text().to_owned());
                AnswerRequest { option: Some(line), ..AnswerRequest::default() }
            }
            _ => AnswerRequest { answers: Some(self.answers()), ..AnswerRequest::default() },
        };
        FormResult::Send(answer)
    }

    fn answers(&self) -> Vec<GivenAnswer> {
        let answer = |(question_index, question): (usize, &Question)| {
            let labels = question.labels();
            let custom_text = Some(question.other.text().trim().to_owned()).filter(|text| !text.is_empty());
            let (selected_option, selected_options) = match (question.is_multiple, labels.is_empty()) {
                (_, true) => (None, None),
                (true, false) => (None, Some(labels)),
                (false, false) => (labels.into_iter().next(), None),
            };
            GivenAnswer { question_index, selected_option, selected_options, custom_text, timestamp: None }
        };
        self.questions.iter().enumerate().map(answer).collect()
    }

    /// The rows of the form, the row of the keyboard, and the row of the text editor.
    fn content(&self, columns: u16, theme: Theme) -> (Vec<Row>, usize, Option<usize>) {
        let width = usize::from(columns);
        let mut rows: Vec<Row> = Vec::new();
        let mut at = 0;
        let mut editor = None;
        if self.is_review() {
            rows.push(vec![Piece::new("review", theme.bold())]);
            for question in &self.questions {
                let mut answer = question.labels();
                answer.extend(Some(question.other.text().trim().to_owned()).filter(|text| !text.is_empty()));
                let answer = if answer.is_empty() { "no answer".to_owned() } else { answer.join(", ") };
                let style = if question.is_answered() { theme.good() } else { theme.bad() };
                rows.push(vec![Piece::new(format!("{}: ", question.title), theme.dim()), Piece::new(answer, style)]);
            }
            rows.push(Vec::new());
            rows.push(vec![Piece::new("Enter sends the answers, ← goes back", theme.dim())]);
            return (rows, 0, None);
        }
        let question = &self.questions[self.at];
        if self.questions.len() > 1 {
            let count = format!("question {} of {}", self.at + 1, self.questions.len());
            rows.push(vec![Piece::new(count, theme.dim())]);
        }
        rows.push(vec![Piece::new(question.title.clone(), theme.bold())]);
        rows.extend(markdown::rows(&question.prompt, width, theme));
        for line in self.intro.iter().take(MAX_DETAIL_ROWS) {
            rows.extend(text::wrap(line, width).into_iter().map(|row| vec![Piece::new(row, theme.dim())]));
        }
        rows.push(Vec::new());
        for (nth, (label, description)) in question.options.iter().enumerate() {
            let is_at = question.cursor == Some(nth);
            if is_at {
                at = rows.len();
            }
            let mark = match (question.chosen[nth], question.is_multiple) {
                (true, true) => "[x]",
                (false, true) => "[ ]",
                (true, false) => "(•)",
                (false, false) => "( )",
            };
            let style = if is_at { theme.reverse() } else { theme.plain() };
            let lead = if is_at { "▌" } else { " " };
            rows.push(vec![
                Piece::new(lead, theme.accent()),
                Piece::new(format!("{} {mark} ", nth + 1), theme.key()),
                Piece::new(label.clone(), style),
            ]);
            if !description.is_empty() {
                let indent = 7.min(width / 4);
                for row in text::wrap(description, width.saturating_sub(indent)) {
                    rows.push(vec![Piece::new(format!("{}{row}", " ".repeat(indent)), theme.dim())]);
                }
            }
        }
        if question.takes_text {
            if question.is_typing() {
                at = rows.len();
            }
            editor = Some(rows.len());
            let lead = if question.is_typing() { "▌" } else { " " };
            let label = if question.options.is_empty() { "answer: " } else { "other: " };
            rows.push(vec![Piece::new(lead, theme.accent()), Piece::new(label, theme.key())]);
        }
        (rows, at, editor)
    }

    /// Draws the form; the row of the keyboard is visible.
    pub fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme, is_focused: bool) -> Option<CursorPlace> {
        if area.height == 0 || area.width < 4 {
            return None;
        }
        if self.is_sent {
            canvas::put(buffer, area.x, area.y, area.width, "answer sent", theme.good());
            return None;
        }
        let (rows, at, editor) = self.content(area.width, theme);
        let height = usize::from(area.height);
        let most = rows.len().saturating_sub(height);
        let first = (at + 1).saturating_sub(height).max(self.scroll).min(most).min(at.max(self.scroll));
        for (y, row) in (area.top()..area.bottom()).zip(&rows[first..]) {
            canvas::put_row(buffer, area.x, y, area.width, row);
        }
        if let Some(reason) = &self.rejecting {
            let y = area.bottom() - 1;
            let line = Rect { x: area.x, y, width: area.width, height: 1 };
            canvas::clear(buffer, line);
            let used = canvas::put(buffer, area.x, y, area.width, "reject, because (optional): ", theme.need());
            let rest = Rect { x: area.x + used, width: area.width - used, ..line };
            return reason.draw(buffer, rest, theme.plain());
        }
        let row = editor.filter(|row| (first..first + height).contains(row))?;
        let question = &self.questions[self.at];
        let y = area.y + u16::try_from(row - first).unwrap_or(0);
        let used = canvas::put_row(buffer, area.x, y, area.width, &rows[row]);
        let line = Rect { x: area.x + used, y, width: area.width - used, height: 1 };
        let cursor = question.other.draw(buffer, line, theme.plain());
        cursor.filter(|_| is_focused && question.is_typing())
    }

    /// Hints for the last row of the app.
    pub fn hints(&self) -> &'static str {
        match self.kind {
            _ if self.rejecting.is_some() => "Enter rejects  Esc back",
            InboxKind::Permission => "1–9 choose  Enter sends",
            InboxKind::Terminal => "Enter sends",
            _ if self.questions.len() > 1 => "1–9 choose  Enter next  ←→ question  X reject",
            _ => "1–9 choose  Enter sends  X reject",
        }
    }
}

fn question(
    title: String,
    prompt: String,
    is_multiple: bool,
    options: Vec<(String, String)>,
    takes_text: bool,
) -> Question {
    let chosen = vec![false; options.len()];
    // Without options, text is the only answer.
    let cursor = (options.is_empty() && takes_text).then_some(0);
    Question { title, prompt, is_multiple, options, chosen, other: Editor::one_line(""), takes_text, cursor }
}

/// Returns what a tool call wants to do, one line each: its command, paths and texts.
pub fn details(tool_call: &Value) -> Vec<String> {
    let input = ["rawInput", "raw_input", "input", "tool_input"].iter().find_map(|key| tool_call.get(key));
    let mut lines = Vec::new();
    match input {
        Some(Value::Object(fields)) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if text.contains('\n') => {
                        lines.push(format!("{name}:"));
                        lines.extend(text.lines().map(|line| format!("  {line}")));
                    }
                    Value::String(text) => lines.push(format!("{name}: {text}")),
                    Value::Null => {}
                    other => lines.push(format!("{name}: {other}")),
                }
            }
        }
        Some(Value::String(text)) => lines.extend(text.lines().map(str::to_owned)),
        _ => {}
    }
    lines
}
