//! Questions before something is done, and the form.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType};

use super::super::form::{Form, Name};
use super::super::state::{App, Purpose, Sure};
use crate::format::{sanitize_line, short_id};
use crate::tui::line::Line as Typed;
use crate::tui::text;
use crate::tui::view::Theme;
use crate::tui::view::dialog::{boxed, clear, middle};

const FORM_WIDTH: u16 = 76;
const LABEL: usize = 12;

fn title(app: &App, id: &str) -> String {
    let title = app.tasks.card(id).map(|card| sanitize_line(&card.task.title)).unwrap_or_default();
    format!("“{}” {}", text::fit(&title, 48), short_id(id))
}

pub fn confirm(frame: &mut Frame<'_>, app: &App, theme: Theme, id: &str, sure: Sure) {
    let (head, explanation, yes, more) = match sure {
        Sure::Delete => {
            ("Delete", "It is hidden, and retention takes it later.", "deletes it", " · A with all below it")
        }
        Sure::Cancel => {
            ("Cancel", "Its run and its process are ended; what was done stays in its worktree.", "cancels its run", "")
        }
    };
    let inner = boxed(frame, theme.strong(), head, &[&title(app, id), explanation], 2);
    let keys = vec![Span::styled("y", theme.key()), Span::raw(format!(" {yes}{more} · any other key leaves it"))];
    if let Some(row) = inner.rows().next_back() {
        frame.render_widget(Line::from(keys), row);
    }
}

pub fn say(frame: &mut Frame<'_>, app: &App, theme: Theme, id: &str, purpose: Purpose, line: &Typed) {
    let (head, explanation) = match purpose {
        Purpose::Block => ("Block", "Why? It is for whoever looks at it. Enter blocks it, Esc leaves it."),
        Purpose::Reject => ("Reject", "What is wrong? It is for whoever tries again. Enter rejects it, Esc leaves it."),
        Purpose::Close => {
            ("Close", "Whoever works on it is ended. Why, if there is a reason? Enter closes it, Esc leaves it.")
        }
        Purpose::Reply => ("Answer", "Enter types the line into its terminal, also an empty one. Esc leaves it."),
    };
    let about = match purpose {
        Purpose::Block | Purpose::Reject | Purpose::Close => vec![title(app, id)],
        Purpose::Reply => prompt(app, id),
    };
    let sentences: Vec<&str> = about.iter().map(String::as_str).chain([explanation]).collect();
    let inner = boxed(frame, theme.strong(), head, &sentences, 2);
    if let Some(row) = inner.rows().next_back() {
        typed(frame, theme, line, row, "> ", true);
    }
}

/// What stands where a terminal waits.
fn prompt(app: &App, id: &str) -> Vec<String> {
    let Some(item) = app.tasks.inbox().iter().find(|item| item.id == id) else {
        return vec!["It does not wait any more.".to_owned()];
    };
    let asked = item.question_set().and_then(|set| set.questions.first());
    asked.map_or(&item.title, |question| &question.prompt).lines().map(sanitize_line).collect()
}

/// A line that is typed, behind a word.
fn typed(frame: &mut Frame<'_>, theme: Theme, line: &Typed, row: Rect, before: &str, has_cursor: bool) {
    let (seen, cursor) = line.view(usize::from(row.width).saturating_sub(text::width(before)));
    let style = if has_cursor { theme.key() } else { theme.quiet() };
    frame.render_widget(Line::from(vec![Span::styled(before.to_owned(), style), Span::raw(seen)]), row);
    if has_cursor {
        let column = u16::try_from(cursor + text::width(before)).unwrap_or(u16::MAX);
        frame.set_cursor_position(Position::new(row.x.saturating_add(column), row.y));
    }
}

pub fn form(frame: &mut Frame<'_>, theme: Theme, form: &Form) {
    let count = u16::try_from(Name::ALL.len()).unwrap_or(u16::MAX);
    // The last line of the screen says which keys there are.
    let screen = Rect { height: frame.area().height.saturating_sub(1), ..frame.area() };
    let area = middle(screen, FORM_WIDTH, count + 3);
    let head = form.task.as_ref().map_or(" New task ".to_owned(), |task| format!(" Edit {} ", task.id.short()));
    let block = Block::bordered().border_type(BorderType::Rounded).border_style(theme.strong()).title(head);
    let inner = block.inner(area);
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    clear(frame, area);
    frame.render_widget(block, area);
    let Some(hint) = inner.rows().next_back() else { return };
    let height = usize::from(inner.height.saturating_sub(1));
    // Where rows are missing the field that is filled in is seen.
    let first = (form.cursor + 1).saturating_sub(height);
    for (nth, row) in (first..Name::ALL.len()).zip(inner.rows().take(height)) {
        let name = Name::ALL[nth];
        let label = format!("{:LABEL$}", name.label());
        typed(frame, theme, form.field(name), row, &label, nth == form.cursor);
    }
    frame.render_widget(Line::styled(Name::ALL[form.cursor].hint(), theme.quiet()), hint);
}
