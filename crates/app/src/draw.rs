//! Draws the frame: the views, the list, the panes, the hints and the dialog.

use coven_domain::activity::Activity;
use coven_domain::session::SessionState;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::app::{App, Content, Focus, Link, Pane};
use crate::frame::canvas::{self, CursorPlace, Piece};
use crate::frame::keymap::Action;
use crate::frame::markdown;
use crate::frame::text;
use crate::frame::theme::Theme;
use crate::layout::Areas;
use crate::pane::panes::Direction;
use crate::setup::View;
use crate::view::ListLine;
use crate::world::Subject;

const MAX_NOTICE_ROWS: usize = 4;
/// Narrower frames name the active view only, and one key.
const NARROW_COLS: u16 = 60;

/// Draws everything. Returns where the cursor is shown.
pub fn draw(app: &App, buffer: &mut Buffer) -> Option<CursorPlace> {
    let areas = app.areas();
    canvas::clear(buffer, app.size);
    if areas.is_too_small {
        canvas::put(buffer, app.size.x, app.size.y, app.size.width, "too small", app.theme.plain());
        return None;
    }
    draw_tabs(app, buffer, areas.tabs);
    let filter_cursor = draw_list(app, buffer, &areas);
    draw_lines(buffer, &areas, app.theme);
    let mut cursor = None;
    for (id, area) in &areas.panes {
        let drawn = draw_pane(app, buffer, *id, *area);
        if app.focus == Focus::Pane && app.active == *id {
            cursor = drawn;
        }
    }
    draw_marked(app, buffer, &areas);
    draw_hints(app, buffer, areas.hints);
    if let Some(dialog) = &app.dialog {
        let body = Rect { height: app.size.height - 1, ..app.size };
        return dialog.draw(buffer, body, app.theme);
    }
    filter_cursor.or(cursor)
}

/// The texts of the first row, with the view of each.
fn tabs(app: &App) -> Vec<(Option<View>, String)> {
    let named = |view: View| {
        let name = if view == app.view { format!("[{view}]") } else { view.to_string() };
        let count = app.world.inbox().len();
        if view == View::Inbox && count > 0 { format!("{name} {count}") } else { name }
    };
    let mut tabs = vec![(None, "coven".to_owned())];
    if app.size.width < NARROW_COLS {
        tabs.push((Some(app.view), named(app.view)));
    } else {
        tabs.extend(View::ALL.iter().map(|view| (Some(*view), named(*view))));
    }
    tabs
}

fn draw_tabs(app: &App, buffer: &mut Buffer, area: Rect) {
    let mut x = area.x;
    for (view, name) in tabs(app) {
        let style = match view {
            None => app.theme.bold(),
            Some(view) if view == app.view => app.theme.accent().patch(app.theme.bold()),
            Some(View::Inbox) if !app.world.inbox().is_empty() => app.theme.need(),
            Some(_) => app.theme.plain(),
        };
        x += canvas::put(buffer, x, area.y, area.right().saturating_sub(x), &name, style) + 2;
    }
    // What needs the user is said in narrow frames too.
    let needs = app.world.inbox().len();
    if app.size.width < NARROW_COLS && app.view != View::Inbox && needs > 0 {
        canvas::put_right(
            buffer,
            x,
            area.y,
            area.right().saturating_sub(x),
            &format!("inbox {needs}"),
            app.theme.need(),
        );
    }
}

/// Returns the view whose name is at this column of the first row.
pub fn tab_at(app: &App, area: Rect, column: u16) -> Option<View> {
    let mut x = area.x;
    for (view, name) in tabs(app) {
        let wide = u16::try_from(text::width(&name)).unwrap_or(0);
        if (x..x + wide).contains(&column) {
            return view;
        }
        x += wide + 2;
    }
    None
}

fn draw_list(app: &App, buffer: &mut Buffer, areas: &Areas) -> Option<CursorPlace> {
    let area = areas.list;
    if area.is_empty() {
        return None;
    }
    let mut cursor = None;
    if areas.has_filter {
        let used = canvas::put(buffer, area.x, area.y, area.width, "/", app.theme.key());
        let line = Rect { x: area.x + used, width: area.width - used, height: 1, ..area };
        cursor = app.filter.draw(buffer, line, app.theme.plain()).filter(|_| app.is_filtering);
    }
    let rows = areas.list_rows();
    if app.view == View::Board {
        app.board.draw(buffer, rows, &app.world, app.theme, app.now);
        return cursor;
    }
    if app.lines.is_empty() {
        for (y, line) in
            (rows.top()..rows.bottom()).zip(text::wrap(&empty_text(app), usize::from(rows.width.saturating_sub(2))))
        {
            canvas::put(buffer, rows.x + 1, y, rows.width - 1, &line, app.theme.dim());
        }
        return cursor;
    }
    let offset = app.list().map_or(0, |list| list.offset);
    let selected = app.selected();
    for (y, line) in (rows.top()..rows.bottom()).zip(app.lines.iter().skip(offset)) {
        draw_line(app, buffer, Rect { y, height: 1, ..rows }, line, selected.as_ref());
    }
    cursor
}

/// Says why the list is empty and what to do.
fn empty_text(app: &App) -> String {
    let key = |action| app.settings.keymap.key(action).map_or_else(|| ":".to_owned(), |key| key.to_string());
    if !app.world.is_complete && app.view != View::History {
        return "reading the list…".to_owned();
    }
    if !app.filter.is_empty() {
        return format!("nothing matches {:?}; Esc clears the filter", app.filter.text());
    }
    match app.view {
        View::Inbox => "nothing needs you".to_owned(),
        View::History => "no session has ended yet".to_owned(),
        View::Agents | View::Board => format!("no sessions yet; {} launches an agent", key(Action::Launch)),
    }
}

fn draw_line(app: &App, buffer: &mut Buffer, area: Rect, line: &ListLine, selected: Option<&Subject>) {
    match line {
        ListLine::Heading(heading) => {
            canvas::put(buffer, area.x + 1, area.y, area.width.saturating_sub(1), heading, app.theme.bold());
        }
        ListLine::Row { subject, pieces, right, detail } => {
            let is_selected = selected == Some(subject);
            if is_selected {
                canvas::put(buffer, area.x, area.y, 1, "▌", app.theme.accent());
            }
            let inside = Rect { x: area.x + 1, width: area.width.saturating_sub(1), ..area };
            let age = u16::try_from(text::width(right)).unwrap_or(0).min(inside.width);
            let room = inside.width.saturating_sub(age + 1);
            let mut used = canvas::put_row(buffer, inside.x, inside.y, room, pieces);
            if !detail.is_empty() && room > used + 4 {
                used += 2;
                used += canvas::put(buffer, inside.x + used, inside.y, room - used, detail, app.theme.dim());
            }
            debug_assert!(used <= inside.width);
            canvas::put_right(buffer, inside.x, inside.y, inside.width, right, app.theme.dim());
            if is_selected && app.focus == Focus::List {
                canvas::tint(buffer, inside, app.theme.bold());
            }
        }
    }
}

fn draw_lines(buffer: &mut Buffer, areas: &Areas, theme: Theme) {
    let divider = areas.divider.map(|area| (Direction::Right, area));
    for (direction, line) in divider.into_iter().chain(areas.lines.iter().copied()) {
        let symbol = if direction == Direction::Right { "│" } else { "─" };
        for y in line.top()..line.bottom() {
            for x in line.left()..line.right() {
                canvas::put(buffer, x, y, 1, symbol, theme.dim());
            }
        }
    }
}

fn draw_pane(app: &App, buffer: &mut Buffer, id: usize, area: Rect) -> Option<CursorPlace> {
    let pane = app.panes.get(&id)?;
    let is_focused = app.focus == Focus::Pane && app.active == id;
    let content = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    draw_header(app, buffer, Rect { height: 1.min(area.height), ..area }, id, pane, content);
    if content.is_empty() {
        return None;
    }
    if let Some(scrollback) = &pane.scrollback {
        return scrollback.draw(buffer, content, app.theme);
    }
    match &pane.content {
        Content::Text(message) => {
            let shown = if message.is_empty() && pane.subject.is_none() { welcome(app) } else { message.clone() };
            let rows = text::wrap(&shown, usize::from(content.width.saturating_sub(2)));
            for (y, row) in (content.top()..content.bottom()).zip(rows) {
                canvas::put(buffer, content.x + 1, y, content.width.saturating_sub(1), &row, app.theme.dim());
            }
            None
        }
        Content::Terminal(terminal) => match (&terminal.error, terminal.is_ready) {
            (Some(why), _) => {
                canvas::put(buffer, content.x, content.y, content.width, why, app.theme.bad());
                None
            }
            (None, false) => {
                canvas::put(buffer, content.x, content.y, content.width, "reading the screen…", app.theme.dim());
                None
            }
            (None, true) => terminal.draw(buffer, content, app.theme),
        },
        Content::Conversation(conversation) => conversation.draw(buffer, content, app.theme, &app.world, is_focused),
        Content::Form(item) => match app.forms.get(item) {
            Some(form) => form.draw(buffer, content, app.theme, is_focused),
            None => None,
        },
        Content::Task(task) => task.draw(buffer, content, app.theme, &app.world, is_focused),
    }
}

fn welcome(app: &App) -> String {
    if !app.world.is_complete {
        return String::new();
    }
    let key = |action| app.settings.keymap.key(action).map_or_else(|| ":".to_owned(), |key| key.to_string());
    format!(
        "Nothing is selected.\n\n{} launches an agent, {} makes a task on the board, {} shows all keys.",
        key(Action::Launch),
        key(Action::NewTask),
        key(Action::Help),
    )
}

/// The first row of a pane: what it shows, what that does, and why it does not fit.
fn draw_header(app: &App, buffer: &mut Buffer, area: Rect, id: usize, pane: &Pane, content: Rect) {
    let is_focused = app.focus == Focus::Pane && app.active == id;
    let is_active = app.active == id && app.panes.len() > 1;
    let theme = app.theme;
    let mut pieces: Vec<Piece> = Vec::new();
    let mark = if is_focused {
        "▌"
    } else if is_active {
        "▸"
    } else {
        " "
    };
    pieces.push(Piece::new(mark, theme.accent()));
    match &pane.subject {
        None => {}
        Some(Subject::Session(session)) => {
            match app.world.session(*session).or_else(|| app.history.session(*session)) {
                Some(record) => {
                    pieces.push(Piece::new(format!("{} ", record.harness), theme.accent()));
                    pieces.push(Piece::new(record.title.clone(), theme.bold()));
                    let (what, style) = state(app, record);
                    pieces.push(Piece::new(format!("  {what}"), style));
                }
                None => pieces.push(Piece::new("session", theme.dim())),
            }
        }
        Some(Subject::Item(item)) => {
            let title = app.world.item(item).map_or_else(|| "question".to_owned(), |item| markdown::plain(&item.title));
            pieces.push(Piece::new(title, theme.bold()));
        }
        Some(Subject::Task(task)) => {
            pieces.push(Piece::new("task ", theme.accent()));
            let title = app.world.task(*task).map_or_else(String::new, |task| task.title.clone());
            pieces.push(Piece::new(title, theme.bold()));
        }
    }
    let note = match &pane.content {
        Content::Terminal(terminal) if pane.scrollback.is_none() => {
            let behind = terminal.is_behind.then(|| "output skipped".to_owned());
            behind.or_else(|| terminal.size_note(content)).unwrap_or_default()
        }
        _ => String::new(),
    };
    if is_focused {
        let focused = theme.reverse().patch(theme.bold());
        pieces.iter_mut().skip(1).for_each(|piece| piece.style = focused);
        canvas::tint(buffer, area, theme.reverse());
    }
    // What the pane shows matters more than its size.
    let wide: usize = pieces.iter().take(3).map(|piece| text::width(&piece.text)).sum();
    let room = usize::from(area.width).saturating_sub(wide + 1);
    let right = if text::width(&note) <= room { u16::try_from(text::width(&note)).unwrap_or(0) } else { 0 };
    canvas::put_row(buffer, area.x, area.y, area.width.saturating_sub(right + 1), &pieces);
    canvas::put_right(buffer, area.x, area.y, area.width, &text::fit(&note, usize::from(right)), theme.dim());
}

/// What a session does, or how it ended.
fn state(app: &App, record: &coven_api::session::SessionRecord) -> (String, Style) {
    if let Some(item) = app.world.item_of(record.id) {
        let how = match item.kind {
            coven_api::inbox::InboxKind::Permission => " (y allow, n reject)",
            _ => "",
        };
        let what = record.activity_detail.clone().unwrap_or_else(|| item.title.clone());
        return (format!("{what}{how}"), app.theme.need());
    }
    if record.status != SessionState::Running {
        let style = if record.status == SessionState::Completed { app.theme.dim() } else { app.theme.bad() };
        return match record.exit_code {
            Some(code) => (format!("{}, exit code {code}", record.status), style),
            None => (record.status.to_string(), style),
        };
    }
    let detail = record.activity_detail.clone();
    match record.activity {
        Some(Activity::Unknown) | None => ("running".to_owned(), app.theme.dim()),
        Some(activity) => {
            let style = if activity.needs_a_human() { app.theme.need() } else { app.theme.dim() };
            (detail.unwrap_or_else(|| activity.to_string()), style)
        }
    }
}

/// Shows what the mouse selects.
fn draw_marked(app: &App, buffer: &mut Buffer, areas: &Areas) {
    let Some((pane, from, to)) = app.marked else { return };
    let Some(area) = areas.content(pane) else { return };
    let (from, to) = if (from.1, from.0) <= (to.1, to.0) { (from, to) } else { (to, from) };
    if from == to {
        return;
    }
    for y in from.1..=to.1 {
        let left = if y == from.1 { from.0 } else { area.left() };
        let right = if y == to.1 { to.0 + 1 } else { area.right() };
        let row = Rect { x: left, y, width: right.saturating_sub(left), height: 1 };
        canvas::tint(buffer, row.intersection(area), app.theme.reverse());
    }
}

fn draw_hints(app: &App, buffer: &mut Buffer, area: Rect) {
    let theme = app.theme;
    let (state, style) = match &app.link {
        Link::Live => ("live", theme.good()),
        Link::Connecting => ("connecting", theme.dim()),
        Link::Lost(_) => ("reconnecting", theme.need()),
        Link::Down(_) => ("daemon not running", theme.bad()),
    };
    let right = u16::try_from(state.len()).unwrap_or(0);
    canvas::put_right(buffer, area.x, area.y, area.width, state, style);
    let room = area.width.saturating_sub(right + 1);
    let why = match &app.link {
        Link::Down(why) => Some(why.as_str()),
        _ => None,
    };
    if let Some(notice) = &app.notice {
        let style = if notice.is_problem { theme.bad() } else { theme.need() };
        // A long problem takes more rows: its end often says what to do.
        let rows = text::wrap(&text::line(&notice.text), usize::from(room));
        let rows = &rows[..rows.len().min(MAX_NOTICE_ROWS)];
        let last = rows.len().saturating_sub(1);
        for (nth, row) in rows.iter().enumerate() {
            let y = area.y.saturating_sub(u16::try_from(last - nth).unwrap_or(0));
            if nth < last {
                canvas::clear(buffer, Rect { y, ..area });
            }
            canvas::put(buffer, area.x, y, room, row, style);
        }
    } else if let Some(why) = why {
        canvas::put(buffer, area.x, area.y, room, why, theme.bad());
    } else {
        canvas::put(buffer, area.x, area.y, room, &hints(app, usize::from(room)), theme.dim());
    }
}

/// Hints for the current context. The last of them, help and quit, are never cut.
fn hints(app: &App, room: usize) -> String {
    let keymap = &app.settings.keymap;
    let key = |action: Action, what: &str| keymap.key(action).map(|key| format!("{key} {what}"));
    if app.dialog.is_some() {
        return "Esc closes".to_owned();
    }
    if app.is_filtering {
        return "Enter keeps the filter  Esc clears it".to_owned();
    }
    if app.focus == Focus::Pane {
        let back: Vec<String> = app.settings.detach_keys.iter().map(ToString::to_string).collect();
        let back = format!("{} list", back.join(" "));
        let pane = app.active_pane();
        let own = match (&pane.scrollback, &pane.content) {
            (Some(scrollback), _) => scrollback.hints(),
            (None, Content::Conversation(conversation)) => conversation.hints(),
            (None, Content::Task(task)) => task.hints(),
            (None, Content::Form(item)) => app.forms.get(item).map_or("", |form| form.hints()).to_owned(),
            (None, Content::Terminal(terminal)) if terminal.exit.is_some() => {
                "this session has ended  [ scroll  p replay  q list".to_owned()
            }
            (None, Content::Terminal(_) | Content::Text(_)) => "keys go to the agent".to_owned(),
        };
        let all = format!("{back}  {own}");
        return if text::width(&all) <= room { all } else { text::fit(&all, room).into_owned() };
    }
    let end: Vec<String> = [key(Action::Help, "help"), key(Action::Quit, "quit")].into_iter().flatten().collect();
    let end = end.join("  ");
    let is_permission = app.selected_item().is_some_and(|item| item.kind == coven_api::inbox::InboxKind::Permission);
    let mut wanted: Vec<Option<String>> = Vec::new();
    if is_permission {
        wanted.extend([key(Action::Allow, "allow"), key(Action::Reject, "reject")]);
    }
    wanted.push(key(Action::Focus, "open"));
    if !app.world.inbox().is_empty() {
        wanted.push(key(Action::NextNeed, "next that needs you"));
    }
    match app.view {
        View::Board => wanted.extend([key(Action::NewTask, "new task"), key(Action::Start, "start")]),
        View::History => wanted.extend([key(Action::Replay, "replay"), key(Action::Export, "export")]),
        View::Agents | View::Inbox => wanted.push(key(Action::Launch, "launch")),
    }
    wanted.extend([key(Action::Filter, "filter"), key(Action::Palette, "commands")]);
    let mut all = String::new();
    for hint in wanted.into_iter().flatten() {
        if text::width(&all) + text::width(&hint) + 2 + text::width(&end) > room {
            break;
        }
        all.push_str(&hint);
        all.push_str("  ");
    }
    all.push_str(&end);
    if text::width(&all) > room { "?".to_owned() } else { all }
}
