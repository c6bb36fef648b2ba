//! The messages of a conversation: how they change, which of them are kept, and which rows are visible.

use std::cell::{Cell, Ref};
use std::collections::VecDeque;

use coven_api::message::MessageRecord;
use coven_domain::MessageId;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::entry::{Block, Entry, Look};
use crate::frame::canvas::{self, Row};
use crate::frame::theme::Theme;

/// Messages in memory; the oldest are dropped.
const MAX_MESSAGES: usize = 2_000;
/// Bytes of text in memory.
const MAX_BYTES: usize = 8 << 20;
/// Messages of one request.
pub const PAGE: usize = 300;

/// A row: the index of its message, and the row within it.
type Place = (usize, usize);

#[derive(Default)]
pub struct Transcript {
    entries: VecDeque<Entry>,
    /// The greatest number of a message that has arrived. Numbers of a session have no gaps.
    pub seen: u64,
    /// Messages with a smaller number have not been read, or were dropped.
    pub oldest: u64,
    has_older: bool,
    /// The first visible row; `None` keeps the end visible.
    top: Option<(MessageId, usize)>,
    /// The last message, and its number of rows, when the user scrolled away from the end.
    read: Option<(MessageId, usize)>,
    /// Tool calls and thoughts are shown in full.
    pub is_unfolded: bool,
    /// Columns and rows, and the theme, of the last drawing.
    size: Cell<(u16, u16)>,
    theme: Cell<Option<Theme>>,
}

impl Transcript {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Applies a message or a chunk that is newer than all others. A prompt that arrives during a turn is queued.
    pub fn apply(&mut self, message: MessageRecord, is_turn_running: bool) {
        self.seen = self.seen.max(message.number);
        let mut new = Entry::of(message);
        let known = self.index_of(new.id);
        match known {
            Some(at) if new.is_partial => return self.entries[at].append(&new),
            // The daemon repeats a queued prompt when its turn starts.
            Some(at) if new.is_prompt() => {
                self.entries.remove(at);
                self.insert(new);
            }
            Some(at) => self.entries[at] = new,
            None if new.is_prompt() && is_turn_running => {
                new.set_queued(true);
                self.entries.push_back(new);
            }
            None => self.insert(new),
        }
        self.trim();
    }

    /// Inserts a message before the queued prompts.
    fn insert(&mut self, entry: Entry) {
        let queued = self.entries.iter().rev().take_while(|entry| entry.is_queued()).count();
        self.entries.insert(self.entries.len() - queued, entry);
    }

    /// Takes the newest page of all.
    pub fn start(&mut self, page: Vec<MessageRecord>) {
        self.oldest = page.first().map_or(0, |message| message.number);
        self.has_older = page.len() >= PAGE;
        page.into_iter().for_each(|message| self.apply(message, false));
    }

    /// Takes a page of older messages. A message that is there already is newer than its older version.
    pub fn prepend(&mut self, page: Vec<MessageRecord>) {
        self.has_older = page.len() >= PAGE;
        self.oldest = page.first().map_or(self.oldest, |message| message.number);
        let mut older: VecDeque<Entry> = VecDeque::new();
        for message in page {
            let entry = Entry::of(message);
            match older.iter_mut().rfind(|it| it.id == entry.id) {
                Some(known) => known.append(&entry),
                None => older.push_back(entry),
            }
        }
        for entry in older.into_iter().rev() {
            match self.index_of(entry.id) {
                Some(at) => self.entries[at].prepend(&entry),
                None => self.entries.push_front(entry),
            }
        }
        self.trim();
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(Entry::size).sum()
    }

    fn trim(&mut self) {
        let mut bytes = self.bytes();
        while self.entries.len() > MAX_MESSAGES || (bytes > MAX_BYTES && self.entries.len() > 1) {
            let Some(dropped) = self.entries.pop_front() else { return };
            bytes -= dropped.size();
            self.has_older = true;
            self.oldest = self.oldest.max(dropped.number + 1);
        }
    }

    /// Reports whether a page of older messages exists and has room in memory.
    pub fn takes_older(&self) -> bool {
        self.has_older && self.entries.len() + PAGE <= MAX_MESSAGES && self.bytes() < MAX_BYTES / 2
    }

    /// Reports whether the first kept message is visible, and older ones exist.
    pub fn is_cut(&self) -> bool {
        self.has_older && self.top.is_some() && self.first_visible() == (0, 0)
    }

    /// The last prompts wait for the turn to end: they come behind everything else.
    pub fn set_queued(&mut self, count: usize) {
        let mut queued = Vec::new();
        for at in (0..self.entries.len()).rev().filter(|at| self.entries[*at].is_prompt()).collect::<Vec<_>>() {
            let is_queued = queued.len() < count;
            self.entries[at].set_queued(is_queued);
            if is_queued {
                queued.extend(self.entries.remove(at));
            }
        }
        self.entries.extend(queued.into_iter().rev());
    }

    pub fn turn_ended(&mut self) {
        self.entries.iter_mut().for_each(Entry::turn_ended);
    }

    fn index_of(&self, id: MessageId) -> Option<usize> {
        self.entries.iter().rposition(|entry| entry.id == id)
    }

    fn rows(&self, at: usize) -> Ref<'_, [Row]> {
        let is_tool = |at: usize| matches!(self.entries[at].block(), Block::Tool(_));
        let look = Look {
            columns: usize::from(self.size.get().0),
            theme: self.theme.get().unwrap_or(Theme { has_colors: false }),
            is_unfolded: self.is_unfolded,
            // Folded tool calls are a list.
            has_gap: at > 0 && (self.is_unfolded || !is_tool(at) || !is_tool(at - 1)),
        };
        self.entries[at].rows(look)
    }

    /// Number of rows from a message to the end.
    fn rows_from(&self, at: usize) -> usize {
        (at..self.entries.len()).map(|at| self.rows(at).len()).sum()
    }

    /// The first visible row if the end is visible. Only the messages of the last screen are wrapped for it.
    fn end_place(&self) -> Place {
        let mut left = usize::from(self.size.get().1);
        for at in (0..self.entries.len()).rev() {
            let count = self.rows(at).len();
            if count >= left {
                return (at, count - left);
            }
            left -= count;
        }
        (0, 0)
    }

    fn first_visible(&self) -> Place {
        let Some((id, row)) = self.top else { return self.end_place() };
        let place = match self.index_of(id) {
            Some(at) => (at, row.min(self.rows(at).len().saturating_sub(1))),
            None => (0, 0),
        };
        place.min(self.end_place())
    }

    pub fn height(&self) -> isize {
        isize::try_from(self.size.get().1.max(1)).unwrap_or(isize::MAX)
    }

    pub fn go_to_end(&mut self) {
        (self.top, self.read) = (None, None);
    }

    /// Scrolls by rows: negative is up. Reports whether the first row is reached.
    pub fn scroll(&mut self, by: isize) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let (mut at, mut row) = self.first_visible();
        let mut left = by.unsigned_abs();
        if by < 0 {
            while left > row && at > 0 {
                left -= row;
                at -= 1;
                row = self.rows(at).len();
            }
            row = row.saturating_sub(left);
        } else {
            while at + 1 < self.entries.len() && row + left >= self.rows(at).len() {
                left = (row + left) - self.rows(at).len();
                (at, row) = (at + 1, 0);
            }
            row += left;
        }
        let is_at_start = (at, row) == (0, 0);
        if (at, row) >= self.end_place() {
            self.go_to_end();
            return by < 0 && is_at_start;
        }
        if self.top.is_none() {
            let last = self.entries.len() - 1;
            let count = self.rows(last).len();
            self.read = Some((self.entries[last].id, count));
        }
        self.top = Some((self.entries[at].id, row));
        is_at_start
    }

    /// Number of rows below the visible ones, and whether they are new since the user scrolled up.
    pub fn below(&self) -> Option<(usize, bool)> {
        self.top?;
        let (at, row) = self.first_visible();
        let hidden = self.rows_from(at).saturating_sub(row + usize::from(self.size.get().1));
        let (last, rows) = self.read?;
        let new = self.index_of(last).map_or(0, |at| self.rows_from(at).saturating_sub(rows)).min(hidden);
        match (hidden, new) {
            (0, _) => None,
            (_, 0) => Some((hidden, false)),
            _ => Some((new, true)),
        }
    }

    /// Takes the size and the theme that everything else goes by.
    pub fn prepare(&self, area: Rect, theme: Theme) {
        self.size.set((area.width, area.height));
        self.theme.set(Some(theme));
    }

    pub fn draw(&self, buffer: &mut Buffer, area: Rect) {
        let (first, skipped) = self.first_visible();
        let mut y = area.top();
        for at in first..self.entries.len() {
            let rows = self.rows(at);
            for row in rows.iter().skip(if at == first { skipped } else { 0 }) {
                if y >= area.bottom() {
                    return;
                }
                canvas::put_row(buffer, area.x, y, area.width, row);
                y += 1;
            }
        }
    }

    #[cfg(test)]
    pub fn blocks(&self) -> Vec<&Block> {
        self.entries.iter().map(Entry::block).collect()
    }
}
