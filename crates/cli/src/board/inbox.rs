//! The inbox over the board: what waits for a human, and what its keys do.

use coven_api::inbox::{InboxItem, InboxKind, InboxOption};
use crossterm::event::{KeyCode, KeyEvent};

use super::Outcome;
use super::offer::{self, Action, Offer};
use super::report::{Subject, What};
use super::state::{App, Effect, Mode, Purpose};
use super::tasks::{Card, Tasks};

/// Nobody has read in this time what took the place of something else.
const UNREAD_MILLIS: i64 = 700;

/// Something that waits.
#[derive(Debug, Clone, Copy)]
pub enum Waiting<'a> {
    /// An agent or a program asks.
    Asked(&'a InboxItem),
    /// A task's work is there to be reviewed, or the task cannot go on by itself.
    Task(Card<'a>),
}

/// What a digit does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    Option { id: String, name: String },
    Action(Offer),
}

/// What Enter opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opens {
    /// The screen on which question sets are answered, in own words too.
    Questions,
    /// A line for the terminal.
    Line,
    /// The page of the task.
    Page,
}

/// Those that are asked first, for somebody waits there; of each the oldest first.
pub fn waiting(tasks: &Tasks) -> Vec<Waiting<'_>> {
    let asked = tasks.inbox().iter().map(Waiting::Asked);
    asked.chain(tasks.waiting().into_iter().map(Waiting::Task)).collect()
}

impl Waiting<'_> {
    pub fn id(&self) -> String {
        match self {
            Self::Asked(item) => item.id.clone(),
            Self::Task(card) => card.task.id.to_string(),
        }
    }

    /// From 1.
    pub fn choices(&self) -> Vec<Choice> {
        const ACTIONS: [Action; 5] = [Action::Approve, Action::Reject, Action::Retry, Action::Unblock, Action::Close];
        match self {
            Self::Asked(item) => {
                let choice = |InboxOption { id, name, kind: _ }| Choice::Option { id, name };
                item.options.iter().take(9).cloned().map(choice).collect()
            }
            Self::Task(card) => {
                // In the order that the inbox of the command line has them.
                let offers = offer::offers(card);
                let offer = |action| offers.iter().find(|offer| offer.action == action).copied();
                ACTIONS.into_iter().filter_map(offer).map(Choice::Action).collect()
            }
        }
    }

    pub fn opens(&self) -> Option<Opens> {
        match self {
            Self::Asked(item) => match item.kind {
                InboxKind::QuestionSet | InboxKind::Question => Some(Opens::Questions),
                InboxKind::Terminal => Some(Opens::Line),
                InboxKind::Permission | InboxKind::Merge | InboxKind::Blocked => None,
            },
            Self::Task(_) => Some(Opens::Page),
        }
    }

    pub fn has_session(&self) -> bool {
        match self {
            Self::Asked(item) => item.session_id.is_some(),
            Self::Task(card) => offer::allows(card, Action::Attach),
        }
    }
}

impl App {
    pub(super) fn inbox(&mut self, cursor: usize, key: KeyEvent) -> Vec<Effect> {
        let waiting = waiting(&self.tasks);
        let last = waiting.len().saturating_sub(1);
        let cursor = cursor.min(last);
        let Some(here) = waiting.get(cursor) else { return Vec::new() };
        let id = here.id();
        match key.code {
            KeyCode::Down | KeyCode::Char('j') => self.move_in_inbox((cursor + 1).min(last)),
            KeyCode::Up | KeyCode::Char('k') => self.move_in_inbox(cursor.saturating_sub(1)),
            KeyCode::Enter => {
                let opens = here.opens();
                self.mode = Mode::Inbox { cursor };
                match opens {
                    Some(Opens::Questions) => return vec![Effect::Leave(Outcome::Answer)],
                    Some(Opens::Line) => self.say(id, Purpose::Reply, String::new()),
                    Some(Opens::Page) => return self.look(id, Subject::Detail),
                    None => {}
                }
            }
            KeyCode::Char('1'..='9') if self.has_just_slipped() => {
                self.mode = Mode::Inbox { cursor };
                self.news("the one before is gone; this is the next: look at it first".to_owned());
            }
            KeyCode::Char(digit @ '1'..='9') => {
                let nth = usize::from(u8::try_from(digit).unwrap_or(b'1') - b'1');
                let choice = here.choices().into_iter().nth(nth);
                self.mode = Mode::Inbox { cursor };
                return match choice {
                    Some(Choice::Option { id: option, name: _ }) => self.ask(id, What::Answer { option }),
                    Some(Choice::Action(offer)) => self.perform(id, offer.action),
                    None => Vec::new(),
                };
            }
            // The session that asks, for whoever wants to see why.
            KeyCode::Char('o') if here.has_session() => {
                return match here {
                    Waiting::Asked(item) => {
                        let session = item.session_id.map(|id| id.to_string());
                        vec![Effect::Leave(Outcome::Attach(session.unwrap_or_default()))]
                    }
                    Waiting::Task(_) => self.perform(id, Action::Attach),
                };
            }
            _ => {}
        }
        Vec::new()
    }

    pub(super) fn move_in_inbox(&mut self, cursor: usize) {
        self.slipped_at = None;
        self.mode = Mode::Inbox { cursor };
    }

    /// What the inbox is at.
    pub(super) fn selected_in_inbox(&mut self) -> Option<String> {
        let cursor = *self.inbox_cursor()?;
        waiting(&self.tasks).get(cursor).map(Waiting::id)
    }

    /// Stays with what was selected, so that nothing else is answered; if it is gone, with its place.
    pub(super) fn select_in_inbox(&mut self, id: Option<String>) {
        let Some(id) = id else { return };
        let place = waiting(&self.tasks).iter().position(|it| it.id() == id);
        match (place, self.inbox_cursor()) {
            (Some(place), Some(cursor)) => *cursor = place,
            (None, _) => self.slipped_at = Some(self.now),
            (Some(_), None) => {}
        }
    }

    /// A key that was meant for what stood there before must not answer what nobody has read yet.
    fn has_just_slipped(&self) -> bool {
        self.slipped_at.is_some_and(|at| (0..UNREAD_MILLIS).contains(&(self.now.as_millis() - at.as_millis())))
    }

    fn inbox_cursor(&mut self) -> Option<&mut usize> {
        match &mut self.mode {
            Mode::Inbox { cursor } => Some(cursor),
            Mode::Saying { inbox, .. } => inbox.as_mut(),
            _ => None,
        }
    }
}
