//! Question sets and keys for the tests of the answering screen.

use coven_domain::Timestamp;
use coven_domain::question::{Choice, Question};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Size;

use super::state::{App, Asked, Effect, Message, Report};

pub const NOW: Timestamp = Timestamp::from_millis(3_600_000);

pub fn choice(label: &str, description: &str) -> Choice {
    let description = Some(description.to_owned()).filter(|it| !it.is_empty());
    Choice { label: label.into(), description }
}

/// A single choice with a recommended option.
pub fn database() -> Question {
    let options = vec![choice("PostgreSQL (recommended)", "Relational, mature"), choice("SQLite", "One file")];
    Question { options, prompt: "Which **database**?".into(), title: "Database".into(), multi_select: false }
}

/// A multiple choice without one.
pub fn features() -> Question {
    let options = vec![choice("Auth", "Login"), choice("Logs", ""), choice("漢字 search", "")];
    Question { options, prompt: "Which features?".into(), title: "Features".into(), multi_select: true }
}

/// A set that was asked so many seconds before now.
pub fn asked(id: &str, seconds_ago: i64, questions: Vec<Question>) -> Asked {
    let asked_at = Timestamp::from_millis(NOW.as_millis() - seconds_ago * 1000);
    Asked { id: id.into(), questions, asked_at, folder: Some("/work/project".into()), session: None }
}

pub fn arrives(app: &mut App, asked: Asked) -> Vec<Effect> {
    report(app, Report::Asked { asked, draft: None })
}

pub fn report(app: &mut App, report: Report) -> Vec<Effect> {
    let now = app.now;
    app.update(Message::Report(report), now)
}

/// A screen of 80×24 on which these sets wait.
pub fn app_with(sets: Vec<Asked>) -> App {
    let mut app = App::new(Size { width: 80, height: 24 }, NOW);
    for asked in sets {
        arrives(&mut app, asked);
    }
    report(&mut app, Report::Listed { broken: 0 });
    app
}

/// One set with a single and a multiple choice.
pub fn usual_app() -> App {
    app_with(vec![asked("0c7e49a2-0000", 133, vec![database(), features()])])
}

pub fn press(app: &mut App, key: KeyCode) -> Vec<Effect> {
    press_with(app, key, KeyModifiers::NONE)
}

pub fn press_with(app: &mut App, key: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
    let now = app.now;
    app.update(Message::Key(KeyEvent::new(key, modifiers)), now)
}

pub fn type_text(app: &mut App, text: &str) -> Vec<Effect> {
    text.chars().flat_map(|c| press(app, KeyCode::Char(c))).collect()
}

pub fn click(app: &mut App, column: u16, row: u16) -> Vec<Effect> {
    let kind = MouseEventKind::Down(MouseButton::Left);
    let now = app.now;
    app.update(Message::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }), now)
}
