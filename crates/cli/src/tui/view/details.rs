//! Two lines about the selected session that the list has no room for.

use super::super::item::Item;
use coven_domain::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::super::shelf;
use super::super::state::App;
use super::super::text;
use super::Theme;
use crate::format::age;

pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let Some(record) = app.selected() else { return };
    let columns = usize::from(area.width);
    let mut rows = area.rows();
    if let Some(row) = rows.next() {
        let room = columns.saturating_sub(text::width(&record.id) + 5);
        let cwd = text::fit_end(&record.cwd, room);
        let line = vec![Span::raw(format!(" {}", record.id)), Span::styled(" · ", theme.quiet()), Span::raw(cwd)];
        frame.render_widget(Line::from(line), row);
    }
    if let Some(row) = rows.next() {
        let (sign, look) = theme.status(&record.status);
        let facts: String = facts(record, app.now).iter().map(|fact| format!(" · {fact}")).collect();
        let facts = text::fit(&facts, columns.saturating_sub(4 + record.status.len()));
        let status = Span::styled(format!(" {sign} {}", record.status), look);
        frame.render_widget(Line::from(vec![status, Span::raw(facts)]), row);
    }
}

fn facts(record: &Item, now: Timestamp) -> Vec<String> {
    let meta = |key: &str| record.metadata.get(key).and_then(|value| value.as_str());
    let mut facts = Vec::new();
    let created = age(&record.created_at, now);
    let changed = age(&record.updated_at, now);
    if record.kind == shelf::KIND {
        facts.push(format!("begun {created} ago"));
        facts.push(format!("last written {changed} ago"));
        facts.extend(meta("resume").map(str::to_owned));
        return facts;
    }
    match record.status.as_str() {
        "created" => facts.push(format!("recorded {created} ago, never launched")),
        "running" => {
            facts.extend(record.pid.map(|pid| format!("pid {pid}")));
            facts.push(format!("started {created} ago"));
        }
        _ => {
            facts.extend(record.exit_code.map(|code| format!("exit code {code}")));
            facts.push(format!("started {created} ago"));
            // Mostly its end, but also its return from the archive; the record does not say which.
            facts.push(format!("last changed {changed} ago"));
        }
    }
    facts.extend(record.archived_at.as_ref().map(|at| format!("archived {} ago", age(at, now))));
    if record.channel != "terminal" {
        facts.push(format!("over {}", record.channel));
    }
    facts.extend(meta("reason").map(|reason| reason.replace('_', " ")));
    facts.extend(meta("error").map(str::to_owned));
    facts
}
