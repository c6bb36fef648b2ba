//! The conversations of `coven spawn`, read from their files on a thread of its own while the browser is open.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::item::Item;
use coven_domain::conversation::{Summary, Turn};
use coven_interop::conversations::{Conversations, Filter};
use ratatui::text::Line;
use serde_json::{Map, Value};

use super::preview::Picture;
use super::text;
use crate::verb::sessions_list::title;

/// How a conversation is told from a session among the browser's rows.
pub const KIND: &str = "conversation";
/// The list is read again after this long, or later if reading it takes its time.
const PAUSE: Duration = Duration::from_secs(2);
const SHARE: u32 = 50;
/// The last turns, for the preview.
const TURNS: usize = 12;
const LINES_OF_TURN: usize = 200;

/// Ends with this.
pub struct Shelf {
    conversations: Conversations,
    lists: Receiver<Vec<Item>>,
    _open: Sender<()>,
}

impl Shelf {
    pub fn open(conversations: Conversations) -> std::io::Result<Self> {
        let (tell, lists) = mpsc::channel();
        let (open, is_closed) = mpsc::channel();
        let read = conversations.clone();
        thread::Builder::new().name("conversations".into()).spawn(move || follow(&read, &tell, &is_closed))?;
        Ok(Self { conversations, lists, _open: open })
    }

    /// The list, if it has changed.
    pub fn news(&self) -> Option<Vec<Item>> {
        self.lists.try_iter().last()
    }

    /// How a conversation ended so far, in so many columns.
    pub fn picture(&self, id: &str, columns: usize) -> Result<Picture, String> {
        let id = id.parse().map_err(|_| "it is gone".to_owned())?;
        let last = self.conversations.load_last(&id, TURNS).map_err(|error| error.to_string())?;
        let lines = lines_of(&last.turns, columns);
        let size = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        Ok(Picture { rows: size(lines.len()), cols: size(columns), lines })
    }
}

fn lines_of(turns: &[Turn], columns: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for turn in turns {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        let cut = if turn.interrupted { " (interrupted)" } else { "" };
        lines.push(Line::raw(format!("{}{cut}:", turn.role.label())));
        // What is shown is the end; nobody sees the beginning of a long turn here.
        let said: Vec<&str> = turn.content.lines().collect();
        for line in &said[said.len().saturating_sub(LINES_OF_TURN)..] {
            let wrapped = text::wrap(&line.replace('\t', "    "), columns, LINES_OF_TURN);
            match wrapped.is_empty() {
                true => lines.push(Line::default()),
                false => lines.extend(wrapped.into_iter().map(Line::raw)),
            }
        }
    }
    lines
}

fn follow(conversations: &Conversations, tell: &Sender<Vec<Item>>, is_closed: &Receiver<()>) {
    let mut known = None;
    loop {
        let began = Instant::now();
        // A folder that cannot be read is looked at again; `coven spawn` says why.
        if let Ok(listing) = conversations.list(&Filter::default())
            && known.as_ref() != Some(&listing.conversations)
        {
            if tell.send(listing.conversations.iter().map(row).collect()).is_err() {
                return;
            }
            known = Some(listing.conversations);
        }
        let pause = PAUSE.max(began.elapsed() * SHARE);
        if is_closed.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// A conversation as a row among the sessions.
pub fn row(summary: &Summary) -> Item {
    let facts = [
        ("turns", Some(Value::from(summary.turn_count))),
        ("resume", Some(Value::from(summary.resume_command()))),
        ("agent", summary.agent.clone().map(Value::from)),
    ];
    let metadata: Map<String, Value> =
        facts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    Item {
        kind: KIND.to_owned(),
        id: summary.id.to_string(),
        harness: summary.harness.clone().unwrap_or_else(|| "-".to_owned()),
        channel: KIND.to_owned(),
        title: format!("{}: {}", summary.id, title(summary)),
        status: summary.status.to_string(),
        exit_code: None,
        pid: None,
        cwd: summary.cwd.clone().unwrap_or_default(),
        created_at: summary.created_at.to_string(),
        updated_at: summary.last_activity_at.to_string(),
        archived_at: None,
        metadata,
        actions: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_domain::Timestamp;
    use coven_domain::conversation::TurnRole;

    #[test]
    fn the_end_of_a_conversation_is_shown_line_by_line() {
        let now = Timestamp::from_millis(0);
        let mut answer = Turn::new(TurnRole::Assistant, "one two three\n\n\tend\u{1b}[2J", now);
        answer.interrupted = true;
        let turns = [Turn::new(TurnRole::User, "hello", now), answer];
        let shown: Vec<String> = lines_of(&turns, 8).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["User:", "hello", "", "Assistant (interrupted):", "one two", "three", "", "end␛[2J"]);
    }
}
