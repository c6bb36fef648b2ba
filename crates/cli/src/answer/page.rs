//! The page on the screen, row by row: a question with what can be chosen, or all answers before they are sent.

use std::ops::Range;

use coven_domain::question::Question;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::markdown;
use super::reply::{Choosable, Reply};
use super::state::{App, Mode, Waiting};
use crate::chat::editor::Editor;
use crate::chat::row::{Row, Style as RowStyle};
use crate::chat::wrap::{self, Breaking};
use crate::tui::text;
use crate::tui::view::Theme;

/// So many rows of a text that is being typed are seen at once.
const EDITOR_ROWS: usize = 8;
/// So many of one that is not.
const PREVIEW_ROWS: usize = 3;
/// Columns before the label of a row: `▸ (•) 1 `.
const LEAD: usize = 8;

/// What a click on a row means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A row of the question.
    Row(usize),
    /// A question of the review.
    Question(usize),
    Send,
}

#[derive(Debug, Default)]
pub struct Page {
    pub lines: Vec<(Line<'static>, Option<Target>)>,
    /// The rows that must be seen.
    pub focus: Option<Range<usize>>,
    /// Row and column of the terminal's cursor, while something is typed.
    pub caret: Option<(usize, usize)>,
}

impl Page {
    pub fn of(app: &App, columns: usize, theme: Theme) -> Self {
        let mut page = Self::default();
        let Some(waiting) = app.current() else { return page };
        match waiting.question() {
            Some((place, question)) => {
                let typing = match &app.mode {
                    Mode::Typing { what, editor } => Some((*what, editor)),
                    _ => None,
                };
                let reply = &waiting.draft.replies[place];
                page.question(question, reply, waiting.cursors[place], typing, columns, theme);
            }
            None => page.review(waiting, columns, theme),
        }
        page
    }

    fn push(&mut self, line: Line<'static>, target: Option<Target>) {
        self.lines.push((line, target));
    }

    fn question(
        &mut self,
        question: &Question,
        reply: &Reply,
        cursor: usize,
        typing: Option<(Choosable, &Editor)>,
        columns: usize,
        theme: Theme,
    ) {
        for row in markdown::rows(&question.prompt, columns, theme) {
            self.push(row, None);
        }
        self.push(Line::default(), None);
        let kind =
            if question.multi_select { "multiple choice: Space marks each that applies" } else { "single choice" };
        self.push(Line::styled(text::fit(kind, columns), theme.quiet()), None);
        for (row, what) in Choosable::of(question).into_iter().enumerate() {
            let start = self.lines.len();
            let target = Some(Target::Row(row));
            self.label(question, reply, what, row == cursor, target, columns, theme);
            match typing {
                Some((typed, editor)) if typed == what => self.editor(editor, columns, theme),
                _ => self.preview(reply.text(what), target, columns, theme),
            }
            if row == cursor {
                self.focus = Some(start..self.lines.len());
            }
        }
        if let Some((row, _)) = self.caret {
            self.focus = Some(row..row + 1);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a row is what all of these say")]
    fn label(
        &mut self,
        question: &Question,
        reply: &Reply,
        what: Choosable,
        is_current: bool,
        target: Option<Target>,
        columns: usize,
        theme: Theme,
    ) {
        let is_alone = !question.multi_select || matches!(what, Choosable::Nothing | Choosable::Elaboration);
        let mark = match (is_alone, reply.is_chosen(what)) {
            (true, true) => "(•)",
            (true, false) => "( )",
            (false, true) => "[x]",
            (false, false) => "[ ]",
        };
        let (key, label, description) = match what {
            Choosable::Option(place) => {
                let option = &question.options[place];
                // More than nine come from elsewhere only; they have no key.
                let key = char::from_digit(u32::try_from(place + 1).unwrap_or(u32::MAX), 10).unwrap_or(' ');
                (key, option.label.as_str(), option.description.as_deref().unwrap_or_default())
            }
            Choosable::Other => ('o', "Other: in your own words", ""),
            Choosable::Nothing => ('0', "None of these", ""),
            Choosable::Elaboration => ('e', "Ask for more explanation first", ""),
        };
        let style = match (is_current, reply.is_chosen(what)) {
            (true, _) => theme.selected(),
            (false, true) => theme.strong(),
            (false, false) => Style::new(),
        };
        let star = match what {
            Choosable::Option(place) if question.options[place].is_recommended() => " ★",
            _ => "",
        };
        let room = columns.saturating_sub(LEAD + text::width(star)).max(1);
        let lead = vec![
            Span::styled(if is_current { "▸ " } else { "  " }, theme.key()),
            Span::styled(mark, if reply.is_chosen(what) { theme.good() } else { Style::new() }),
            Span::styled(format!(" {key} "), theme.quiet()),
        ];
        for (place, piece) in wrapped(label, room).into_iter().enumerate() {
            let mut spans = if place == 0 { lead.clone() } else { vec![Span::raw(" ".repeat(LEAD))] };
            spans.push(Span::styled(piece, style));
            if place == 0 && !star.is_empty() {
                spans.push(Span::styled(star, theme.recommended()));
            }
            self.push(Line::from(spans), target);
        }
        if !description.trim().is_empty() {
            for line in description.trim().split('\n') {
                for piece in wrapped(line, columns.saturating_sub(LEAD).max(1)) {
                    let spans = vec![Span::raw(" ".repeat(LEAD)), Span::styled(piece, theme.quiet())];
                    self.push(Line::from(spans), target);
                }
            }
        }
    }

    /// The beginning of a text that was typed before.
    fn preview(&mut self, typed: &str, target: Option<Target>, columns: usize, theme: Theme) {
        let room = columns.saturating_sub(LEAD).max(1);
        let rows: Vec<String> = typed.trim().split('\n').flat_map(|line| wrapped(line, room)).collect();
        if typed.trim().is_empty() {
            return;
        }
        for (place, row) in rows.iter().take(PREVIEW_ROWS).enumerate() {
            let is_cut = place + 1 == PREVIEW_ROWS && rows.len() > PREVIEW_ROWS;
            let row = if is_cut { text::fit(&format!("{row} …"), room) } else { row.clone() };
            self.push(Line::from(vec![Span::raw(" ".repeat(LEAD)), Span::styled(row, theme.typed())]), target);
        }
    }

    fn editor(&mut self, editor: &Editor, columns: usize, theme: Theme) {
        let indent = LEAD - 2;
        let (rows, (row, column)) = editor.view(columns.saturating_sub(indent), EDITOR_ROWS);
        self.caret = Some((self.lines.len() + row, indent + column));
        for row in rows {
            self.push(typed_line(&row, indent, theme), None);
        }
    }

    fn review(&mut self, waiting: &Waiting, columns: usize, theme: Theme) {
        for (place, (question, reply)) in waiting.asked.questions.iter().zip(&waiting.draft.replies).enumerate() {
            let target = Some(Target::Question(place));
            let number = format!("{}. ", place + 1);
            let indent = text::width(&number);
            let prompt = text::fit(&markdown::first_line(&question.prompt), columns.saturating_sub(indent));
            self.push(
                Line::from(vec![Span::styled(number, theme.quiet()), Span::styled(prompt, theme.strong())]),
                target,
            );
            for (what, style) in decided(question, reply, theme) {
                for (row, piece) in wrapped(&what, columns.saturating_sub(indent + 2).max(1)).into_iter().enumerate() {
                    let lead = if row == 0 { "→ " } else { "  " };
                    let lead = Span::styled(format!("{}{lead}", " ".repeat(indent)), theme.quiet());
                    self.push(Line::from(vec![lead, Span::styled(piece, style)]), target);
                }
            }
            self.push(Line::default(), None);
        }
        let left = waiting.asked.questions.len() - waiting.answered();
        let (sentence, style) = match (waiting.is_sending, left) {
            (true, _) => ("sending …".to_owned(), theme.quiet()),
            (false, 0) => (" Enter sends the answers ".to_owned(), theme.selected()),
            (false, 1) => ("one question has no answer; Enter goes to it".to_owned(), theme.problem()),
            (false, left) => (format!("{left} questions have no answer; Enter goes to the first"), theme.problem()),
        };
        self.push(Line::styled(text::fit(&sentence, columns), style), Some(Target::Send));
        let last = self.lines.len() - 1;
        self.focus = Some(last..last + 1);
    }
}

/// What was decided about a question, a line for each part of it.
fn decided(question: &Question, reply: &Reply, theme: Theme) -> Vec<(String, Style)> {
    let mut lines = Vec::new();
    for what in Choosable::of(question).into_iter().filter(|what| reply.is_chosen(*what)) {
        let line = match what {
            Choosable::Option(place) => {
                let option = &question.options[place];
                match option.description.as_deref().map(str::trim).filter(|it| !it.is_empty()) {
                    Some(description) => format!("{} — {description}", option.label),
                    None => option.label.clone(),
                }
            }
            Choosable::Other => format!("Other: {}", reply.text(what).trim()),
            Choosable::Nothing => "none of these".to_owned(),
            Choosable::Elaboration => match reply.text(what).trim() {
                "" => "asks for more explanation".to_owned(),
                note => format!("asks for more explanation: {note}"),
            },
        };
        lines.push((line, Style::new()));
    }
    if lines.is_empty() {
        lines.push(("not answered yet".to_owned(), theme.problem()));
    }
    lines
}

/// The rows of a text with line ends, broken between words.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let lines = text.split('\n').map(|line| wrap::expanded(line, 0));
    lines
        .flat_map(|line| {
            let rows = wrap::rows(&line, columns, Breaking::Words);
            rows.into_iter().map(|range| line[range].trim_end().to_owned()).collect::<Vec<_>>()
        })
        .collect()
}

/// A row of the editor as the screen shows it.
pub fn typed_line(row: &Row, indent: usize, theme: Theme) -> Line<'static> {
    let spans = row.spans().iter().map(|(style, text)| match style {
        RowStyle::User => Span::styled(text.clone(), theme.key()),
        _ => Span::raw(text.clone()),
    });
    Line::from_iter([Span::raw(" ".repeat(indent))].into_iter().chain(spans))
}
