//! How the pane of a conversation is drawn.

use coven_api::inbox::InboxKind;
use coven_domain::activity::Activity as SessionActivity;
use coven_domain::message::Activity;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::ConversationPane;
use super::settings::Choice;
use crate::frame::canvas::{self, CursorPlace, Piece, Row};
use crate::frame::editor::Editor;
use crate::frame::text;
use crate::frame::theme::Theme;
use crate::world::World;

const MAX_EDITOR_ROWS: u16 = 6;
const MAX_PROBLEM_ROWS: u16 = 3;
/// Below this width the editor has no sign in front of it.
const MIN_SIGN_COLUMNS: u16 = 8;

impl ConversationPane {
    pub fn draw(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        theme: Theme,
        world: &World,
        is_focused: bool,
    ) -> Option<CursorPlace> {
        let area = area.intersection(buffer.area);
        if area.is_empty() {
            return None;
        }
        let end_note = self.end_note(world);
        // From the bottom: the editor, the status, the permission and the problem; the messages get the rest.
        let mut rest = area;
        let shown = match self.sending.front() {
            Some(sending) if self.editor.is_empty() => Some(Editor::multiline(sending)),
            _ => None,
        };
        let editor = shown.as_ref().unwrap_or(&self.editor);
        let wanted = if end_note.is_some() { 1 } else { editor.height(area.width.saturating_sub(2)) };
        let input = take(&mut rest, wanted.clamp(1, MAX_EDITOR_ROWS).min((area.height / 3).max(1)));
        let has_status = rest.height >= 3;
        let status = take(&mut rest, u16::from(has_status));
        if let Some((what, keys)) = self.need(world).filter(|_| rest.height >= 2) {
            let line = take(&mut rest, 1);
            let room = usize::from(line.width).saturating_sub(text::width(keys)).max(usize::from(line.width / 2));
            let row = [Piece::new(text::fit(&what, room), theme.need()), Piece::new(keys, theme.dim())];
            canvas::put_row(buffer, line.x, line.y, line.width, &row);
        }
        if let Some(problem) = self.problem.as_ref().or(self.read_problem.as_ref()) {
            let rows = text::wrap(problem, usize::from(area.width));
            let wanted = u16::try_from(rows.len()).unwrap_or(u16::MAX).min(MAX_PROBLEM_ROWS);
            let most = rest.height / 2;
            let lines = take(&mut rest, wanted.min(most));
            for (y, row) in (lines.top()..lines.bottom()).zip(&rows) {
                canvas::put(buffer, lines.x, y, lines.width, row, theme.bad());
            }
        }
        self.transcript.prepare(rest, theme);
        if self.transcript.is_empty() {
            let text = if self.is_loaded { "no messages yet" } else { "loading the messages…" };
            canvas::put(buffer, rest.x, rest.y, if rest.height > 0 { rest.width } else { 0 }, text, theme.dim());
        } else {
            self.transcript.draw(buffer, rest);
        }
        if status.height > 0 {
            canvas::put_row(buffer, status.x, status.y, status.width, &self.status(world, theme));
        }
        let cursor = match end_note {
            Some(note) => {
                canvas::put(buffer, input.x, input.y, input.width, &note, theme.dim());
                None
            }
            None => self.draw_editor(buffer, input, theme, shown.as_ref()),
        };
        if let Some(at) = self.chooser {
            draw_chooser(buffer, area, theme, &self.choices(), at);
            return None;
        }
        cursor.filter(|_| is_focused)
    }

    /// Draws the editor, or the prompt that is on its way while nothing else is typed.
    fn draw_editor(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        theme: Theme,
        sending: Option<&Editor>,
    ) -> Option<CursorPlace> {
        let mut text_area = area;
        if area.width >= MIN_SIGN_COLUMNS {
            canvas::put(buffer, area.x, area.y, 2, "›", theme.key());
            text_area.x += 2;
            text_area.width -= 2;
        }
        match sending {
            Some(sending) => {
                sending.draw(buffer, text_area, theme.dim());
            }
            None if self.editor.is_empty() => {
                let hint = "type a prompt; Enter sends it";
                canvas::put(buffer, text_area.x, text_area.y, text_area.width, hint, theme.dim());
            }
            None => {}
        }
        self.editor.draw(buffer, text_area, theme.plain())
    }

    /// Says what the session asks the user for, and the keys for the answer.
    fn need(&self, world: &World) -> Option<(String, &'static str)> {
        let item = world.item_of(self.session)?;
        Some(match item.kind {
            InboxKind::Permission => {
                (format!("wants permission: {}", item.title), " — y allows, n rejects in the list, I opens it")
            }
            _ => (format!("asks: {}", item.title), " — I in the list opens it"),
        })
    }

    /// What the agent is doing, its queue, its settings and its use of tokens.
    fn status(&self, world: &World, theme: Theme) -> Row {
        let mut row = Vec::new();
        match self.transcript.below() {
            Some((count, true)) => row.push(Piece::new(format!("↓ {count} new lines below"), theme.need())),
            Some((count, false)) => row.push(Piece::new(format!("↓ {count} lines below"), theme.dim())),
            None => {}
        }
        if self.reading_older.is_some() {
            row.push(Piece::new("loading older messages…", theme.dim()));
        } else if self.transcript.is_cut() && !self.transcript.takes_older() {
            row.push(Piece::new("older not shown", theme.dim()));
        }
        if !self.sending.is_empty() {
            row.push(Piece::new("sending…", theme.need()));
        }
        let activity = self.activity(world);
        row.push(match activity {
            "working" | "cancelling…" => Piece::new(activity, theme.accent()),
            "limited" | "waits for you" => Piece::new(activity, theme.need()),
            _ => Piece::new(activity, theme.dim()),
        });
        if self.queued() > 0 {
            row.push(Piece::new(format!("{} queued", self.queued()), theme.need()));
        }
        for choice in self.choices().into_iter().filter(|choice| choice.is_current) {
            row.push(Piece::new(format!("{}: {}", choice.setting, choice.value), theme.dim()));
        }
        for nth in (1..row.len()).rev() {
            row.insert(nth, Piece::new(" · ", theme.dim()));
        }
        row
    }

    fn activity(&self, world: &World) -> &'static str {
        if self.is_cancelling {
            return "cancelling…";
        }
        if world.session(self.session).is_some_and(|it| it.activity == Some(SessionActivity::Limited)) {
            return "limited";
        }
        match self.state.as_ref().map(|state| state.activity) {
            None => "…",
            Some(Activity::Opening) => "starting",
            Some(Activity::Ended) => "ended",
            Some(Activity::Waiting) => "waits for you",
            Some(Activity::Working | Activity::Idle) if self.is_turn_running => "working",
            Some(Activity::Working | Activity::Idle) => "idle",
        }
    }
}

/// Draws the list of modes and options over the pane; the selected row is visible.
fn draw_chooser(buffer: &mut Buffer, area: Rect, theme: Theme, choices: &[Choice], at: usize) {
    let label = |choice: &Choice| format!("{}: {}", choice.setting, choice.value);
    let widest = choices.iter().map(|choice| text::width(&label(choice))).max().unwrap_or(0).max(16);
    let width = u16::try_from(widest.saturating_add(10)).unwrap_or(u16::MAX);
    let height = u16::try_from(choices.len().saturating_add(2)).unwrap_or(u16::MAX);
    let inside = canvas::boxed(buffer, canvas::middle(area, width, height), "mode and model", theme.accent());
    let at = at.min(choices.len().saturating_sub(1));
    let first = (at + 1).saturating_sub(usize::from(inside.height));
    for (y, (nth, choice)) in (inside.top()..inside.bottom()).zip(choices.iter().enumerate().skip(first)) {
        let digit = if nth < 9 { format!("{} ", nth + 1) } else { "  ".to_owned() };
        let row = [
            Piece::new(if nth == at { "▌" } else { " " }, theme.accent()),
            Piece::new(digit, theme.key()),
            Piece::new(if choice.is_current { "● " } else { "  " }, theme.good()),
            Piece::new(label(choice), if nth == at { theme.reverse() } else { theme.plain() }),
        ];
        canvas::put_row(buffer, inside.x, y, inside.width, &row);
    }
}

/// Takes rows from the bottom of an area.
fn take(rest: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(rest.height);
    rest.height -= rows;
    Rect { y: rest.y.saturating_add(rest.height), height: rows, ..*rest }
}
