//! Replay: the recording at its own pace on a screen model, with a scrubber.

use std::collections::VecDeque;

use coven_api::entry::EntryRecord;
use coven_domain::entry::EntryKind;
use coven_domain::{SessionId, Timestamp};
use coven_screen::Screen;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::ledger::{self, DEFAULT_SIZE, Reader};
use crate::app::{Effect, PaneResult};
use crate::feed::{Answer, Call};
use crate::frame::canvas::{self, Piece};
use crate::frame::text;
use crate::frame::theme::Theme;
use crate::pane::terminal::draw_spans;

/// A longer gap without output is cut to this if idle time is cut.
const MAX_IDLE_MILLIS: u64 = 2_000;
const JUMP_MILLIS: u64 = 5_000;
/// Speeds in quarters: from 0.25× to 16×.
const SPEEDS: std::ops::RangeInclusive<u64> = 1..=64;
const NORMAL_SPEED: u64 = 4;
/// A clock that jumps, for example while the app was suspended, counts as this much.
const MAX_STEP_MILLIS: u64 = 1_000;
/// The scrubber moves at least this often while it plays.
const SCRUBBER_MILLIS: u64 = 250;
/// More frames in a second are not seen.
const FRAME_MILLIS: u64 = 15;

/// Output that is processed in one go, so that the app stays responsive.
const BYTES_PER_TICK: usize = 512 << 10;
/// With less output than this ahead of the player the next page is asked for.
const MIN_AHEAD_BYTES: usize = 2 << 20;
/// Output between two checkpoints. It doubles whenever there are too many of them.
const CHECKPOINT_BYTES: usize = 1 << 20;
const MAX_CHECKPOINTS: usize = 128;

/// The time of the recording, with and without long gaps.
#[derive(Debug, Clone, Copy, Default)]
struct Clock {
    last: Option<Timestamp>,
    full: u64,
    short: u64,
}

impl Clock {
    /// Returns the clock at an entry. Output that is lost takes no time.
    fn at(self, entry: &EntryRecord) -> Self {
        let lived = self.last.filter(|_| !ledger::is_lost(entry)).map(|last| entry.at.since(last).as_millis());
        // Seven weeks are enough for a gap, and no sum overflows.
        let gap = u64::from(u32::try_from(lived.unwrap_or(0)).unwrap_or(u32::MAX));
        // The order stays even if the clock of the machine went back.
        let last = self.last.max(Some(entry.at));
        Self { last, full: self.full + gap, short: self.short + gap.min(MAX_IDLE_MILLIS) }
    }

    const fn millis(self, is_idle_cut: bool) -> u64 {
        if is_idle_cut { self.short } else { self.full }
    }
}

/// A screen of the recording, from which playing can resume.
struct Head {
    screen: Screen,
    clock: Clock,
    /// The last entry that the screen has processed.
    seq: u64,
}

impl Head {
    fn new() -> Self {
        Self { screen: Screen::new(DEFAULT_SIZE.0, DEFAULT_SIZE.1), clock: Clock::default(), seq: 0 }
    }

    fn restore(checkpoint: &Checkpoint) -> Self {
        let (rows, cols) = checkpoint.size;
        let mut screen = Screen::restore(rows, cols, &checkpoint.screen);
        screen.take_replies();
        Self { screen, clock: checkpoint.clock, seq: checkpoint.seq }
    }

    fn process(&mut self, entry: &EntryRecord) {
        self.clock = self.clock.at(entry);
        self.seq = entry.seq;
        if entry.kind == EntryKind::Output {
            self.screen.feed(&entry.bytes());
            // The program that asked is not running here.
            self.screen.take_replies();
        } else if let Some((rows, cols)) = ledger::size_of_terminal(entry) {
            self.screen.resize(rows, cols);
        }
    }
}

struct Checkpoint {
    seq: u64,
    clock: Clock,
    size: (u16, u16),
    screen: Vec<u8>,
}

/// Reads the whole recording once, ahead of the player: for its length, and for checkpoints to seek to.
struct Scan {
    reader: Reader,
    queue: VecDeque<EntryRecord>,
    head: Head,
    checkpoints: Vec<Checkpoint>,
    since_checkpoint: usize,
    spacing: usize,
}

impl Scan {
    fn new(session: SessionId) -> Self {
        let start = Checkpoint { seq: 0, clock: Clock::default(), size: DEFAULT_SIZE, screen: Vec::new() };
        Self {
            reader: Reader::new(session, 0),
            queue: VecDeque::new(),
            head: Head::new(),
            checkpoints: vec![start],
            since_checkpoint: 0,
            spacing: CHECKPOINT_BYTES,
        }
    }

    fn work(&mut self) {
        let mut budget = BYTES_PER_TICK;
        while budget > 0
            && let Some(entry) = self.queue.pop_front()
        {
            budget = budget.saturating_sub(ledger::memory(&entry));
            self.since_checkpoint += ledger::memory(&entry);
            self.head.process(&entry);
            if self.since_checkpoint >= self.spacing {
                self.keep_checkpoint();
            }
        }
    }

    fn keep_checkpoint(&mut self) {
        let Head { screen, clock, seq } = &mut self.head;
        let (size, clock, seq) = (screen.size(), *clock, *seq);
        self.checkpoints.push(Checkpoint { seq, clock, size, screen: screen.snapshot() });
        self.since_checkpoint = 0;
        if self.checkpoints.len() > MAX_CHECKPOINTS {
            // Every second one, the first included.
            let mut is_kept = false;
            self.checkpoints.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.spacing *= 2;
        }
    }
}

pub struct Replay {
    session: SessionId,
    scan: Scan,
    reader: Reader,
    head: Head,
    /// Entries that were read and not played yet.
    ahead: VecDeque<EntryRecord>,
    /// In microseconds.
    position: u64,
    is_playing: bool,
    /// The screen does not show the position yet: entries are missing, or are being processed.
    is_behind: bool,
    is_idle_cut: bool,
    speed: u64,
    now: Timestamp,
}

impl Replay {
    pub fn new(session: SessionId, now: Timestamp) -> Self {
        Self {
            session,
            scan: Scan::new(session),
            reader: Reader::new(session, 0),
            head: Head::new(),
            ahead: VecDeque::new(),
            position: 0,
            is_playing: true,
            is_behind: true,
            is_idle_cut: true,
            speed: NORMAL_SPEED,
            now,
        }
    }

    pub fn requests(&mut self) -> Vec<Effect> {
        let scan = if self.scan.queue.is_empty() { self.scan.reader.request() } else { None };
        let ahead: usize = self.ahead.iter().map(ledger::memory).sum();
        let own = if ahead < MIN_AHEAD_BYTES { self.reader.request() } else { None };
        // The scan often waits for the same page.
        let own = own.filter(|_| !self.scan.reader.is_waiting_for(self.reader.after));
        scan.into_iter().chain(own).collect()
    }

    pub fn answered(&mut self, call: &Call, result: &Result<Answer, String>) -> Vec<Effect> {
        self.scan.queue.extend(self.scan.reader.answered(call, result));
        self.ahead.extend(self.reader.answered(call, result));
        self.work();
        self.requests()
    }

    pub fn tick(&mut self, now: Timestamp) -> Vec<Effect> {
        self.advance(now);
        self.scan.reader.tick(now);
        self.reader.tick(now);
        self.work();
        self.requests()
    }

    /// Moves the position by the time that has passed.
    fn advance(&mut self, now: Timestamp) {
        let passed = u64::try_from(now.since(self.now).as_millis()).unwrap_or(MAX_STEP_MILLIS).min(MAX_STEP_MILLIS);
        self.now = now;
        if self.is_playing && !self.is_behind {
            self.position += passed * 1_000 * self.speed / NORMAL_SPEED;
        }
    }

    fn work(&mut self) {
        self.scan.work();
        if self.is_playing || self.is_behind {
            self.play();
        }
    }

    /// Processes the entries up to the position.
    fn play(&mut self) {
        let mut budget = BYTES_PER_TICK;
        while let Some(entry) = self.ahead.front() {
            let is_later = self.millis_of(self.head.clock.at(entry)) > self.position / 1_000;
            if is_later || budget == 0 {
                self.is_behind = !is_later;
                return;
            }
            budget = budget.saturating_sub(ledger::memory(entry));
            self.head.process(entry);
            self.ahead.pop_front();
        }
        self.is_behind = !self.reader.is_complete();
        let end = self.millis_of(self.head.clock) * 1_000;
        if !self.is_behind && self.position >= end {
            (self.position, self.is_playing) = (end, false);
        }
    }

    const fn millis_of(&self, clock: Clock) -> u64 {
        clock.millis(self.is_idle_cut)
    }

    #[cfg(test)]
    pub fn checkpoints(&self) -> usize {
        self.scan.checkpoints.len()
    }

    /// Returns the length of what was read so far.
    fn total(&self) -> u64 {
        self.millis_of(self.scan.head.clock).max(self.millis_of(self.head.clock))
    }

    fn millis(&self) -> u64 {
        self.position / 1_000
    }

    pub fn next_tick_millis(&self) -> Option<u64> {
        if !self.scan.queue.is_empty() || (self.is_behind && !self.ahead.is_empty()) {
            return Some(1);
        }
        if self.is_playing && !self.is_behind {
            let next = self.ahead.front().map_or(u64::MAX, |entry| self.millis_of(self.head.clock.at(entry)));
            let wait = next.saturating_sub(self.millis()).saturating_mul(NORMAL_SPEED) / self.speed;
            return Some(wait.clamp(FRAME_MILLIS, SCRUBBER_MILLIS));
        }
        self.reader.next_tick_millis().or_else(|| self.scan.reader.next_tick_millis())
    }

    pub fn key(&mut self, key: KeyEvent, now: Timestamp) -> PaneResult {
        self.advance(now);
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return PaneResult::Left,
            KeyCode::Char('c') if is_control => return PaneResult::Left,
            KeyCode::Char(' ') if self.is_playing => self.is_playing = false,
            KeyCode::Char(' ') => {
                if self.is_at_end() {
                    self.seek(0);
                }
                self.is_playing = true;
            }
            KeyCode::Left | KeyCode::Char('h') => self.seek(self.millis().saturating_sub(JUMP_MILLIS)),
            KeyCode::Right | KeyCode::Char('l') => self.seek(self.millis().saturating_add(JUMP_MILLIS)),
            KeyCode::Char(digit @ '0'..='9') => self.seek(self.total() / 10 * (u64::from(digit) - u64::from('0'))),
            KeyCode::Char('+' | '=') => self.speed = (self.speed * 2).min(*SPEEDS.end()),
            KeyCode::Char('-') => self.speed = (self.speed / 2).max(*SPEEDS.start()),
            KeyCode::Char('.') if !self.is_playing => self.play_next_output(),
            KeyCode::Char('i') => self.switch_idle(),
            _ => return PaneResult::Ignored,
        }
        self.work();
        PaneResult::Done(self.requests())
    }

    fn is_at_end(&self) -> bool {
        self.ahead.is_empty() && self.reader.is_complete()
    }

    /// Shows the screen at a time, from the nearest checkpoint before it.
    fn seek(&mut self, millis: u64) {
        let millis = millis.min(self.total());
        let behind = self.scan.checkpoints.partition_point(|it| it.clock.millis(self.is_idle_cut) <= millis);
        let checkpoint = &self.scan.checkpoints[behind.saturating_sub(1)];
        let can_play_on = millis >= self.millis_of(self.head.clock) && checkpoint.seq <= self.head.seq;
        self.position = millis * 1_000;
        self.is_behind = true;
        if !can_play_on {
            self.reader = Reader::new(self.session, checkpoint.seq);
            self.head = Head::restore(checkpoint);
            self.ahead.clear();
        }
    }

    /// Shows the next output, however long it took to come.
    fn play_next_output(&mut self) {
        while let Some(entry) = self.ahead.pop_front() {
            self.head.process(&entry);
            if entry.kind == EntryKind::Output {
                break;
            }
        }
        self.position = self.millis_of(self.head.clock) * 1_000;
    }

    /// Cuts long gaps, or shows them. The screen stays the same.
    fn switch_idle(&mut self) {
        let since_entry = self.millis().saturating_sub(self.millis_of(self.head.clock));
        self.is_idle_cut = !self.is_idle_cut;
        let kept = if self.is_idle_cut { since_entry.min(MAX_IDLE_MILLIS) } else { since_entry };
        self.position = (self.millis_of(self.head.clock) + kept) * 1_000;
    }

    pub fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        let height = area.height - 1;
        let cursor = self.head.screen.cursor();
        let hidden = self.head.screen.size().0.saturating_sub(height);
        let is_from_top = self.head.screen.is_alternate() && !cursor.visible;
        let top = if is_from_top { 0 } else { (cursor.row + 1).saturating_sub(height).min(hidden) };
        let rows = self.head.screen.rows();
        for (y, row) in (area.top()..area.top() + height).zip(rows.iter().skip(usize::from(top))) {
            draw_spans(buffer, area.x, y, area.width, row, theme);
        }
        self.draw_scrubber(buffer, Rect { y: area.bottom() - 1, height: 1, ..area }, theme);
    }

    fn draw_scrubber(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        if let Some(why) = self.reader.failure.as_ref().or(self.scan.reader.failure.as_ref()) {
            canvas::put(buffer, area.x, area.y, area.width, &format!("cannot read the recording: {why}"), theme.bad());
            return;
        }
        let mark = if self.is_playing { "▶" } else { "⏸" };
        let is_complete = self.scan.reader.is_complete() && self.scan.queue.is_empty();
        let more = if is_complete { "" } else { "…" };
        let left = format!("{mark} {} / {}{more} ", clock_text(self.millis()), clock_text(self.total()));
        let mut right = format!(" {}×", speed_text(self.speed));
        if !self.is_idle_cut {
            right.push_str(" with idle time");
        }
        let used = text::width(&left) + text::width(&right);
        let columns = usize::from(area.width).saturating_sub(used);
        let played = u128::from(self.millis()) * columns as u128 / u128::from(self.total().max(1));
        let played = usize::try_from(played).unwrap_or(columns).min(columns);
        let row = [
            Piece::new(left, theme.bold()),
            Piece::new("━".repeat(played), theme.accent()),
            Piece::new("─".repeat(columns - played), theme.dim()),
            Piece::new(right, theme.bold()),
        ];
        canvas::put_row(buffer, area.x, area.y, area.width, &row);
    }
}

/// Formats a time of the recording: `0:12`, `1:02:03`.
fn clock_text(millis: u64) -> String {
    let (hours, minutes, seconds) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1_000 % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

fn speed_text(quarters: u64) -> String {
    match quarters {
        1 => "0.25".to_owned(),
        2 => "0.5".to_owned(),
        quarters => (quarters / NORMAL_SPEED).to_string(),
    }
}
