//! A session's terminal in a pane: a screen model that is fed with the session's bytes.

use std::collections::VecDeque;

use coven_api::live::{LiveMessage, LiveMode, LiveOnLag, LiveRequest, LiveTopic};
use coven_domain::SessionId;
use coven_screen::{Color, InputModes, Screen, Span, Underline};
use crossterm::event::{KeyEvent, MouseEvent};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color as CellColor, Modifier, Style};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::clipboard::ClipboardScanner;
use super::keys;
use crate::frame::canvas::CursorPlace;
use crate::frame::text::is_unsafe;
use crate::frame::theme::Theme;

/// Bytes that may be sent and not painted yet. Output of other panes in this window delays the echo of a key.
const WINDOW: u64 = 64 << 10;
/// Messages with input that wait for their confirmation.
const MAX_UNCONFIRMED: usize = 4096;
/// Bytes typed while the daemon is away.
const MAX_KEPT_INPUT: usize = 64 << 10;

pub struct TerminalPane {
    /// The subscription on the live connection.
    id: u32,
    session: SessionId,
    screen: Screen,
    /// The screen has arrived.
    pub is_ready: bool,
    offset: u64,
    acknowledged: u64,
    /// The session has ended, with this exit code if it is known.
    pub exit: Option<Option<i32>>,
    pub error: Option<String>,
    /// This app typed into the session or sized it, and so counts as its terminal: it answers the program's questions.
    is_attached: bool,
    /// Bytes skipped since the last screen, for the header.
    pub is_behind: bool,
    /// Input whose arrival at the session the daemon has not confirmed yet: its number, and its bytes.
    unconfirmed: VecDeque<(u64, Vec<u8>)>,
    next_request: u64,
    /// Sent when the connection was lost already.
    unsent_input: Vec<u8>,
    /// Typed while the connection was lost.
    kept_input: Vec<u8>,
    clipboard: ClipboardScanner,
    /// The size that was asked for since the pane has the focus.
    asked_size: Option<(u16, u16)>,
}

impl TerminalPane {
    pub fn new(id: u32, session: SessionId) -> Self {
        Self {
            id,
            session,
            screen: Screen::new(24, 80),
            is_ready: false,
            offset: 0,
            acknowledged: 0,
            exit: None,
            error: None,
            is_attached: false,
            is_behind: false,
            unconfirmed: VecDeque::new(),
            next_request: 0,
            unsent_input: Vec::new(),
            kept_input: Vec::new(),
            clipboard: ClipboardScanner::default(),
            asked_size: None,
        }
    }

    pub const fn id(&self) -> u32 {
        self.id
    }

    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// Returns rows and columns of the session's terminal.
    pub fn size(&self) -> (u16, u16) {
        self.screen.size()
    }

    pub fn modes(&self) -> InputModes {
        self.screen.input_modes()
    }

    /// The subscription, for a new connection too.
    pub const fn subscribe(&self) -> LiveRequest {
        LiveRequest::Subscribe {
            id: self.id,
            request: None,
            topic: LiveTopic::Session,
            since: None,
            session_id: Some(self.session),
            mode: Some(LiveMode::Bytes),
            from: None,
            window: Some(WINDOW),
            on_lag: Some(LiveOnLag::Jump),
        }
    }

    pub const fn unsubscribe(&self) -> LiveRequest {
        LiveRequest::Unsubscribe { id: self.id, request: None }
    }

    /// Handles a message of the subscription.
    pub fn message(&mut self, message: LiveMessage) {
        match message {
            LiveMessage::Screen { offset, rows, cols, data: Some(data), .. } => {
                self.screen = Screen::restore(rows, cols, data.as_bytes());
                self.screen.take_replies();
                (self.offset, self.is_ready, self.is_behind) = (offset, true, false);
                self.acknowledged = offset;
                self.error = None;
            }
            LiveMessage::Resize { rows, cols, .. } => self.screen.resize(rows, cols),
            LiveMessage::Jump { .. } | LiveMessage::Lagging { .. } => self.is_behind = true,
            LiveMessage::Exit { exit_code, offset, .. } => {
                self.offset = offset;
                self.exit = Some(exit_code);
                self.is_ready = true;
            }
            LiveMessage::Error { error, .. } => self.error = Some(error.message),
            _ => {}
        }
    }

    /// Processes output. Returns what the terminal answers to the program.
    pub fn output(&mut self, offset: u64, data: &[u8]) -> Option<LiveRequest> {
        self.screen.feed(data);
        self.is_ready = true;
        self.offset = offset + data.len() as u64;
        let replies = self.screen.take_replies();
        let is_wanted = self.is_attached && !replies.is_empty() && self.exit.is_none();
        is_wanted.then(|| LiveRequest::input(self.session, &replies, None))
    }

    /// Returns what the program put on the clipboard with this output.
    pub fn copied_text(&mut self, data: &[u8]) -> Option<String> {
        self.clipboard.feed(data)
    }

    /// Returns the acknowledgement of what was painted since the last one.
    pub fn acknowledge(&mut self) -> Option<LiveRequest> {
        let is_new = self.offset > self.acknowledged && self.exit.is_none();
        self.acknowledged = self.acknowledged.max(self.offset);
        is_new.then_some(LiveRequest::Ack { id: self.id, request: None, offset: self.offset })
    }

    /// A new connection was opened. Returns the messages for it: the subscription, and what was typed meanwhile.
    pub fn connected(&mut self) -> Vec<LiveRequest> {
        self.asked_size = None;
        let mut requests = vec![self.subscribe()];
        let mut input = std::mem::take(&mut self.unsent_input);
        input.append(&mut self.kept_input);
        if !input.is_empty() {
            requests.push(self.input(input));
        }
        requests
    }

    /// Sends bytes to the program, or keeps them until the daemon answers again.
    fn send(&mut self, bytes: Vec<u8>, is_connected: bool) -> Option<LiveRequest> {
        if bytes.is_empty() || self.exit.is_some() {
            return None;
        }
        self.is_attached = true;
        if !is_connected {
            let room = MAX_KEPT_INPUT - self.kept_input.len();
            self.kept_input.extend(bytes.into_iter().take(room));
            return None;
        }
        Some(self.input(bytes))
    }

    fn input(&mut self, bytes: Vec<u8>) -> LiveRequest {
        self.next_request += 1;
        let request = u64::from(self.id) << 32 | self.next_request;
        let message = LiveRequest::input(self.session, &bytes, Some(request));
        self.unconfirmed.push_back((request, bytes));
        if self.unconfirmed.len() > MAX_UNCONFIRMED {
            self.unconfirmed.pop_front();
        }
        message
    }

    /// Input has reached the session, or was refused.
    pub fn confirmed(&mut self, request: u64) {
        self.unconfirmed.retain(|(number, _)| *number != request);
    }

    /// The connection was lost. Returns what was typed last, if nobody knows whether it has reached the session. It is not
    /// sent again: a key that arrives twice could answer the next question.
    pub fn take_unconfirmed(&mut self) -> Option<String> {
        let bytes: Vec<u8> = self.unconfirmed.drain(..).flat_map(|(_, bytes)| bytes).collect();
        let text = String::from_utf8_lossy(&bytes).replace('\r', "⏎");
        (!text.is_empty()).then_some(text)
    }

    /// Keeps input that the connection did not take. It goes before what was typed later.
    pub fn keep_unsent(&mut self, request: Option<u64>, bytes: &[u8]) {
        self.unconfirmed.retain(|(number, _)| Some(*number) != request);
        let room = MAX_KEPT_INPUT - self.unsent_input.len();
        self.unsent_input.extend(bytes.iter().take(room));
    }

    pub fn key(&mut self, key: KeyEvent, is_connected: bool) -> Option<LiveRequest> {
        self.send(keys::key(key, self.modes()), is_connected)
    }

    pub fn paste(&mut self, text: &str, is_connected: bool) -> Option<LiveRequest> {
        self.send(keys::paste(text, self.modes()), is_connected)
    }

    /// Passes a mouse event on if the program wants it. `None`: it does not.
    pub fn mouse(&mut self, event: MouseEvent, area: Rect, is_connected: bool) -> Option<LiveRequest> {
        let (top, _) = self.origin(area);
        let bytes = keys::mouse(event, event.column - area.x, event.row - area.y + top, self.modes());
        self.send(bytes, is_connected)
    }

    /// Tells a program that wants to know whether its pane has the focus.
    pub fn focus_changed(&mut self, is_focused: bool, is_connected: bool) -> Option<LiveRequest> {
        self.asked_size = None;
        if !self.modes().focus_events || !is_connected {
            return None;
        }
        self.send(if is_focused { b"\x1b[I".to_vec() } else { b"\x1b[O".to_vec() }, is_connected)
    }

    /// Gives the session's terminal the size of the pane, once for each size: another viewer may be active after that.
    pub fn resize(&mut self, area: Rect) -> Option<LiveRequest> {
        let (rows, cols) = (area.height.max(1), area.width.max(2));
        if self.exit.is_some() || !self.is_ready || self.asked_size == Some((rows, cols)) {
            return None;
        }
        self.is_attached = true;
        self.asked_size = Some((rows, cols));
        Some(LiveRequest::Resize { session_id: self.session, request: None, rows, cols })
    }

    /// Says why the pane does not show the whole screen, or has empty space.
    pub fn size_note(&self, area: Rect) -> Option<String> {
        let (rows, cols) = self.size();
        if !self.is_ready || (rows, cols) == (area.height, area.width) {
            return None;
        }
        let is_cropped = rows > area.height || cols > area.width;
        let what = if is_cropped { "cropped" } else { "framed" };
        Some(format!("{cols}×{rows}, {what}"))
    }

    /// The first visible row and column: the row of the cursor is always visible.
    fn origin(&self, area: Rect) -> (u16, u16) {
        let cursor = self.screen.cursor();
        let (rows, _) = self.size();
        let hidden = rows.saturating_sub(area.height);
        // A program without a cursor of its own is shown from its top.
        let top = if cursor.visible || !self.screen.is_alternate() {
            (cursor.row + 1).saturating_sub(area.height).min(hidden)
        } else {
            0
        };
        (top, 0)
    }

    pub fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme) -> Option<CursorPlace> {
        let (top, _) = self.origin(area);
        let rows = self.screen.rows();
        let (height, width) = self.size();
        for (y, row) in (area.top()..area.bottom()).zip(rows.iter().skip(usize::from(top))) {
            draw_spans(buffer, area.x, y, area.width, row, theme);
        }
        self.draw_border(buffer, area, (height.saturating_sub(top), width), theme);
        let cursor = self.screen.cursor();
        let is_inside = cursor.row >= top && cursor.row - top < area.height && cursor.col < area.width;
        (cursor.visible && is_inside && self.exit.is_none()).then(|| CursorPlace {
            x: area.x + cursor.col,
            y: area.y + cursor.row - top,
            shape: cursor.shape,
        })
    }

    /// Marks where a screen ends that is smaller than its pane.
    fn draw_border(&self, buffer: &mut Buffer, area: Rect, (rows, cols): (u16, u16), theme: Theme) {
        if cols < area.width {
            for y in area.top()..area.top() + rows.min(area.height) {
                buffer[(area.x + cols, y)].set_symbol("┊").set_style(theme.dim());
            }
        }
        if rows < area.height {
            for x in area.left()..area.left() + cols.min(area.width) {
                buffer[(x, area.y + rows)].set_symbol("┈").set_style(theme.dim());
            }
        }
    }

    /// Returns the visible text between two cells of the pane, for copying.
    pub fn text_between(&self, area: Rect, from: (u16, u16), to: (u16, u16)) -> String {
        let (top, _) = self.origin(area);
        let rows = self.screen.rows();
        let (from, to) = if (from.1, from.0) <= (to.1, to.0) { (from, to) } else { (to, from) };
        let mut lines = Vec::new();
        for y in from.1..=to.1 {
            let Some(row) = rows.get(usize::from(y - area.y + top)) else { continue };
            let text: String = row.iter().map(|span| span.text.as_str()).collect();
            let start = if y == from.1 { from.0 - area.x } else { 0 };
            let end = if y == to.1 { to.0 - area.x } else { u16::MAX };
            lines.push(columns(&text, start, end));
        }
        lines.join("\n")
    }
}

/// Returns the characters of a row between two columns, without blanks at the end.
fn columns(text: &str, start: u16, end: u16) -> String {
    let mut at = 0;
    let mut kept = String::new();
    for piece in text.graphemes(true) {
        if (start..=end).contains(&at) {
            kept.push_str(piece);
        }
        at = at.saturating_add(u16::try_from(piece.width()).unwrap_or(1));
    }
    kept.trim_end().to_owned()
}

/// Draws a row of styled text, cut at the edge of the pane.
pub fn draw_spans(buffer: &mut Buffer, x: u16, y: u16, columns: u16, row: &[Span], theme: Theme) {
    let mut used = 0;
    for span in row {
        let style = cell_style(span, theme);
        for piece in span.text.graphemes(true) {
            let wide = u16::try_from(piece.width()).unwrap_or(u16::MAX);
            if wide == 0 || piece.chars().any(is_unsafe) {
                continue;
            }
            if used + wide > columns {
                return;
            }
            buffer[(x + used, y)].set_symbol(piece).set_style(style);
            for rest in 1..wide {
                buffer[(x + used + rest, y)].set_symbol("").set_style(style);
            }
            used += wide;
        }
    }
}

fn cell_style(span: &Span, theme: Theme) -> Style {
    let look = &span.style;
    let mut style = Style::new();
    if theme.has_colors {
        style.fg = color(look.fg);
        style.bg = color(look.bg);
    }
    let flags = [
        (look.bold, Modifier::BOLD),
        (look.dim, Modifier::DIM),
        (look.italic, Modifier::ITALIC),
        (look.inverse, Modifier::REVERSED),
        (look.hidden, Modifier::HIDDEN),
        (look.strike, Modifier::CROSSED_OUT),
        (look.blink, Modifier::SLOW_BLINK),
        (look.underline != Underline::None, Modifier::UNDERLINED),
    ];
    for (is_on, modifier) in flags {
        if is_on {
            style = style.add_modifier(modifier);
        }
    }
    style
}

const fn color(color: Color) -> Option<CellColor> {
    match color {
        Color::Default => None,
        Color::Indexed(index) => Some(CellColor::Indexed(index)),
        Color::Rgb(red, green, blue) => Some(CellColor::Rgb(red, green, blue)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Rect = Rect { x: 0, y: 0, width: 10, height: 3 };

    fn pane(rows: u16, cols: u16, bytes: &[u8]) -> TerminalPane {
        let mut pane = TerminalPane::new(7, SessionId::from_uuid(Default::default()));
        pane.screen = Screen::new(rows, cols);
        pane.output(0, bytes);
        pane
    }

    fn drawn(pane: &TerminalPane) -> Vec<String> {
        let mut buffer = Buffer::empty(AREA);
        pane.draw(&mut buffer, AREA, Theme { has_colors: true });
        let row = |y| (0..AREA.width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
        (0..AREA.height).map(|y| row(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_larger_screen_is_cropped_around_its_cursor_and_a_smaller_one_is_framed() {
        let tall = pane(6, 20, b"1\r\n2\r\n3\r\n4\r\n5 and more than fits");
        assert_eq!(drawn(&tall), ["3", "4", "5 and more"]);
        assert_eq!(tall.size_note(AREA).as_deref(), Some("20×6, cropped"));
        let small = pane(2, 4, b"ab");
        assert_eq!(drawn(&small), ["ab  ┊", "    ┊", "┈┈┈┈"]);
        assert_eq!(small.size_note(AREA).as_deref(), Some("4×2, framed"));
    }

    #[test]
    fn a_wide_character_is_never_cut_in_half() {
        assert_eq!(drawn(&pane(3, 10, "漢字漢字漢".as_bytes()))[0], "漢字漢字漢");
        assert_eq!(drawn(&pane(3, 12, "x漢字漢字漢".as_bytes()))[0], "x漢字漢字");
    }

    #[test]
    fn the_programs_questions_are_answered_only_by_the_attached_app() {
        let mut watching = pane(3, 10, b"");
        assert_eq!(watching.output(0, b"\x1b[6n"), None);
        watching.key(KeyEvent::from(crossterm::event::KeyCode::Char('x')), true);
        assert!(watching.output(4, b"\x1b[6n").is_some());
    }

    #[test]
    fn input_is_kept_while_the_daemon_is_away() {
        let mut pane = pane(3, 10, b"");
        let key = |c| KeyEvent::from(crossterm::event::KeyCode::Char(c));
        assert_eq!((pane.key(key('l'), false), pane.key(key('s'), false)), (None, None));
        let requests = pane.connected();
        assert_eq!(requests[1], LiveRequest::input(pane.session(), b"ls", Some(7 << 32 | 1)));
        assert_eq!(pane.connected().len(), 1, "it is sent once");
    }

    #[test]
    fn what_may_be_lost_is_said_and_never_sent_twice() {
        let mut pane = pane(3, 10, b"");
        for c in ['l', 's'] {
            pane.key(KeyEvent::from(crossterm::event::KeyCode::Char(c)), true);
        }
        pane.confirmed(7 << 32 | 1);
        assert_eq!(pane.take_unconfirmed().as_deref(), Some("s"));
        assert_eq!(pane.connected().len(), 1, "only the subscription");
    }

    #[test]
    fn only_painted_output_is_acknowledged_once() {
        let mut pane = pane(3, 10, b"abc");
        assert!(matches!(pane.acknowledge(), Some(LiveRequest::Ack { id: 7, offset: 3, .. })));
        assert_eq!(pane.acknowledge(), None);
    }
}
