//! Where things stand on a terminal of any size. Drawing, the mouse and the feed ask the same functions.

use ratatui::layout::Rect;

use super::card::{self, Shape};
use super::state::App;
use super::tasks::COLUMNS;
use crate::tui::view::Theme;

/// Below these there is only a word.
pub const LEAST: (u16, u16) = (40, 10);
/// Below this all columns stand in one list.
const COLUMNS_MIN_COLS: u16 = 60;
const COLUMN_MIN_COLS: u16 = 24;
/// A message never takes more lines than this.
pub const MAX_NOTICE_LINES: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Panes {
    pub header: Rect,
    pub body: Rect,
    pub notice: Rect,
    pub footer: Rect,
}

impl Panes {
    pub fn of(area: Rect, notice_lines: usize) -> Self {
        let mut rest = area;
        let mut cut = |rows: u16, is_top: bool| {
            let rows = rows.min(rest.height);
            rest.height -= rows;
            if is_top {
                rest.y += rows;
                return Rect { y: rest.y - rows, height: rows, ..rest };
            }
            Rect { y: rest.bottom(), height: rows, ..rest }
        };
        let header = cut(1, true);
        let footer = cut(1, false);
        let notice = cut(u16::try_from(notice_lines.min(MAX_NOTICE_LINES)).unwrap_or(0), false);
        Self { header, body: rest, notice, footer }
    }
}

pub fn is_too_small(app: &App) -> bool {
    app.size.width < LEAST.0 || app.size.height < LEAST.1
}

pub fn is_stacked(app: &App) -> bool {
    app.size.width < COLUMNS_MIN_COLS
}

/// One column on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Which one.
    pub at: usize,
    pub head: Rect,
    pub body: Rect,
}

/// The columns that are on the screen, side by side.
pub fn columns(app: &App) -> Vec<Column> {
    let body = app.panes().body;
    let count = shown_columns(app);
    let counted = u16::try_from(count).unwrap_or(1).max(1);
    let first = app.first_column.min(app.tasks.column_count() - count);
    let place = |nth: usize| {
        let nth_column = u16::try_from(nth).unwrap_or(0);
        // What is left over goes to the first ones, a cell each.
        let (width, over) = (body.width / counted, body.width % counted);
        let x = body.x + nth_column * width + nth_column.min(over);
        let width = width + u16::from(nth_column < over);
        let head = Rect { x, width, height: body.height.min(1), ..body };
        let rows = Rect { x, width, y: body.y + head.height, height: body.height - head.height };
        Column { at: first + nth, head, body: rows }
    };
    (0..count).map(place).collect()
}

/// How many columns fit beside each other.
pub fn shown_columns(app: &App) -> usize {
    usize::from(app.size.width / COLUMN_MIN_COLS).clamp(1, app.tasks.column_count())
}

/// A card on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub id: String,
    pub area: Rect,
}

/// What stands in the stacked list: the name of a state, or a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    Head(usize),
    Card(String),
}

pub fn stacked_rows(app: &App) -> Vec<Row> {
    let column = |at: usize| {
        let ids = app.tasks.column(at);
        let head = (!ids.is_empty()).then_some(Row::Head(at));
        head.into_iter().chain(ids.iter().cloned().map(Row::Card))
    };
    (0..app.tasks.column_count()).flat_map(column).collect()
}

/// All cards that are on the screen, if only in part.
pub fn places(app: &App) -> Vec<Place> {
    if is_too_small(app) {
        return Vec::new();
    }
    if is_stacked(app) {
        return stacked_places(app).into_iter().filter_map(|(row, area)| card_place(row, area)).collect();
    }
    columns(app).into_iter().flat_map(|column| column_places(app, column)).collect()
}

fn card_place(row: Row, area: Rect) -> Option<Place> {
    match row {
        Row::Card(id) => Some(Place { id, area }),
        Row::Head(_) => None,
    }
}

/// The rows of the stacked list that are on the screen.
pub fn stacked_places(app: &App) -> Vec<(Row, Rect)> {
    let body = app.panes().body;
    let rows = stacked_rows(app).into_iter().skip(app.stacked_offset);
    let height = |row: &Row| row_height(app, row);
    fill(body, rows, height, 0)
}

fn column_places(app: &App, column: Column) -> Vec<Place> {
    let ids = app.tasks.column(column.at).iter().skip(app.offsets[column.at]).cloned();
    let height = |id: &String| card_height(app, id, Shape::Tall, column.body.width);
    fill(column.body, ids, height, 1).into_iter().map(|(id, area)| Place { id, area }).collect()
}

fn fill<T>(body: Rect, things: impl Iterator<Item = T>, height: impl Fn(&T) -> u16, gap: u16) -> Vec<(T, Rect)> {
    let mut places = Vec::new();
    let mut y = body.y;
    for thing in things {
        if y >= body.bottom() {
            break;
        }
        let rows = height(&thing).min(body.bottom() - y);
        places.push((thing, Rect { y, height: rows, ..body }));
        y += rows + gap;
    }
    places
}

fn row_height(app: &App, row: &Row) -> u16 {
    match row {
        Row::Head(_) => 1,
        Row::Card(id) => card_height(app, id, Shape::Flat, app.size.width),
    }
}

/// How many columns the text of a card has: a bar stands before it and a blank behind.
pub fn inside(width: u16) -> usize {
    usize::from(width.saturating_sub(3))
}

fn card_height(app: &App, id: &str, shape: Shape, width: u16) -> u16 {
    let lines =
        app.tasks.card(id).map_or(0, |card| card::lines(&card, shape, inside(width), app.now, Theme::Plain).len());
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// The first card of each column, and the first column, such that the selection is on the screen.
pub fn keep_selection_in_view(app: &mut App) {
    if is_too_small(app) {
        return;
    }
    let (selected, row) = app.tasks.cursor();
    if is_stacked(app) {
        let rows = stacked_rows(app);
        let is_selected = |row: &Row| matches!(row, Row::Card(id) if app.tasks.is_selected(id));
        let cursor = rows.iter().position(is_selected).unwrap_or(0);
        let height = usize::from(app.panes().body.height);
        let from = first_in_view(cursor, height, |at| rows.get(at).map_or(0, |row| usize::from(row_height(app, row))));
        // The name of the state above the first card is worth its row.
        let top = if cursor == 1 { 0 } else { cursor };
        app.stacked_offset = app.stacked_offset.clamp(from, top.max(from));
        return;
    }
    let shown = shown_columns(app);
    let last_first = app.tasks.column_count() - shown;
    app.first_column = app.first_column.clamp((selected + 1).saturating_sub(shown), selected).min(last_first);
    let width = columns(app).iter().find(|column| column.at == selected).map_or(0, |column| column.body.width);
    // The name of the column takes a row; the blank row behind the last card may be off the screen.
    let height = usize::from(app.panes().body.height);
    let ids = app.tasks.column(selected);
    let size_of = |at: usize| ids.get(at).map_or(0, |id| 1 + usize::from(card_height(app, id, Shape::Tall, width)));
    let from = first_in_view(row, height, size_of);
    app.offsets[selected] = app.offsets[selected].clamp(from.min(row), row);
    for at in 0..COLUMNS.len() {
        app.offsets[at] = app.offsets[at].min(app.tasks.column(at).len().saturating_sub(1));
    }
}

/// The earliest beginning with which the whole of `cursor` is seen.
fn first_in_view(cursor: usize, height: usize, size_of: impl Fn(usize) -> usize) -> usize {
    let mut used = 0;
    let fits = |at: &usize| {
        used += size_of(*at);
        used <= height || *at == cursor
    };
    (0..=cursor).rev().take_while(fits).last().unwrap_or(cursor)
}
