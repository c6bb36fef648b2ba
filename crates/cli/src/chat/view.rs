//! The rows below the history: what is under way, what is asked, the prompt.

use coven_domain::message::Activity;

use super::content;
use super::row::{Row, Style};
use super::state::App;
use super::wrap;

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Milliseconds that a picture of the spinner stays.
pub const SPIN: u128 = 120;

/// From so many rows on there is one to spare between the conversation and what stands below it.
const ROOMY: usize = 12;

/// The rows and the cursor's place in them. They never fill the terminal: what stands above must stay reachable.
pub fn draw(app: &App) -> (Vec<Row>, (usize, usize)) {
    let most = app.rows.saturating_sub(1).max(1);
    let (prompt, (row, column)) = prompt(app, (app.rows / 3).max(1));
    let mut above: Vec<Row> = app.transcript.tail().into_iter().collect();
    if app.rows >= ROOMY {
        above.push(Row::default());
    }
    above.extend(app.transcript.running());
    above.extend(waiting(app));
    above.extend(app.questions.rows(app.columns, app.transcript.detail.has_tool_content));
    above.extend(status(app));
    let above: Vec<Row> = above.into_iter().map(|row| row.cut(app.columns)).collect();
    // What is nearest to the prompt matters most.
    let dropped = (above.len() + prompt.len()).saturating_sub(most).min(above.len());
    let mut rows = above[dropped..].to_vec();
    let cursor = (rows.len() + row, column);
    rows.extend(prompt);
    (rows, cursor)
}

fn prompt(app: &App, most: usize) -> (Vec<Row>, (usize, usize)) {
    if app.is_read_only {
        let row = Row::new(Style::Dim, "watching; Ctrl-C leaves").cut(app.columns);
        let column = row.width().min(app.columns.saturating_sub(1));
        return (vec![row], (0, column));
    }
    if !app.editor.is_empty() {
        return app.editor.view(app.columns, most);
    }
    let hint = match app.questions.current() {
        Some(_) => "",
        None if app.leaves_until.is_some() => "Ctrl-C again leaves; the session goes on",
        None if app.is_turn_running() => "type ahead; it is sent when the turn ends",
        None => "ask for something; /help shows the keys",
    };
    let row = Row::new(Style::User, "› ").with(Style::Dim, hint).cut(app.columns.saturating_sub(1));
    (vec![row], (0, 2.min(app.columns.saturating_sub(1))))
}

/// Prompts that were sent and are not part of the conversation yet.
fn waiting(app: &App) -> Vec<Row> {
    let held = app.held.iter().map(|message| (content::prompt(message).unwrap_or_default(), "queued"));
    let echoes = app.echoes.iter().map(|echo| (echo.text.as_str(), "sending"));
    let row = |(text, state): (&str, &str)| {
        let first = text.lines().next().unwrap_or_default();
        Row::new(Style::Dim, &format!("› {} ({state})", wrap::expanded(first, 0)))
    };
    held.chain(echoes).map(row).collect()
}

/// What is going on, in one row; nothing if nothing is.
fn status(app: &App) -> Option<Row> {
    if let Some(why) = &app.lost {
        return Some(Row::new(Style::Bad, "the daemon is away, reconnecting … ").with(Style::Dim, why));
    }
    if app.questions.current().is_some() {
        return None;
    }
    let text = match app.agent.activity {
        Activity::Opening => "opening the agent".to_owned(),
        Activity::Working | Activity::Waiting if app.is_cancelling => "cancelling".to_owned(),
        Activity::Working => format!("working{}", elapsed(app)),
        Activity::Waiting => "waiting for an answer: coven inbox".to_owned(),
        Activity::Idle | Activity::Ended => return None,
    };
    let queued = match app.agent.queued.saturating_sub(app.held.len()) {
        0 => String::new(),
        queued => format!(" · {queued} queued"),
    };
    let hint = if app.is_turn_running() && !app.is_cancelling && !app.is_read_only { " · Ctrl-C cancels" } else { "" };
    Some(Row::new(Style::Alert, spinner(app)).with(Style::Dim, &format!(" {text}{queued}{hint}")))
}

fn spinner(app: &App) -> &'static str {
    let began = app.turn_began.map_or(0, |began| app.now.duration_since(began).as_millis());
    SPINNER[usize::try_from(began / SPIN).unwrap_or(0) % SPINNER.len()]
}

fn elapsed(app: &App) -> String {
    let seconds = app.turn_began.map_or(0, |began| app.now.duration_since(began).as_secs());
    match seconds {
        0..2 => String::new(),
        2..60 => format!(" {seconds}s"),
        _ => format!(" {}m {:02}s", seconds / 60, seconds % 60),
    }
}
