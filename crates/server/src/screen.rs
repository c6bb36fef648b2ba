//! `/screen`: the screen of a session's terminal.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use coven_api::header;
use coven_api::screen::{self as wire, ScreenQuery, ScreenResponse};
use coven_engine::session::ensure_terminal;
use coven_engine::view::{Color, Span, Underline};

use super::App;
use super::reply::{Id, Params};
use super::rest::{Answer, find, invalid};

pub async fn read(State(app): State<App>, Id(id): Id, Params(query): Params<ScreenQuery>) -> Answer<Response> {
    let id = find(&app, &id).await?;
    let session = app.engine.session(id).await?;
    ensure_terminal(&session)?;
    if query.at.is_none() && query.look.unwrap_or(true) {
        app.engine.look_at(id, None).await?;
    }
    let raw = |kind: &'static str, offset: u64, (rows, cols): (u16, u16), body: Vec<u8>| {
        let headers = [
            ("content-type", kind.to_owned()),
            (header::OFFSET, offset.to_string()),
            (header::SESSION, id.to_string()),
            (header::STATUS, session.state.to_string()),
            (header::ROWS, rows.to_string()),
            (header::COLS, cols.to_string()),
        ];
        (headers, body).into_response()
    };
    let format = query.format.as_deref().unwrap_or("json");
    if let ("ansi", None, Some(snapshot)) = (format, query.at, app.engine.live_snapshot(id).await) {
        return Ok(raw("application/octet-stream", snapshot.offset, (snapshot.rows, snapshot.cols), snapshot.ansi));
    }
    if !matches!(format, "json" | "ansi" | "text" | "html") {
        return Err(invalid("format: must be json, ansi, text or html"));
    }
    let mut shown = app.engine.screen(id, query.at).await?;
    let (offset, size) = (shown.offset, shown.screen.size());
    Ok(match format {
        "ansi" => raw("application/octet-stream", offset, size, shown.screen.snapshot()),
        "text" => raw("text/plain; charset=utf-8", offset, size, shown.screen.text().into_bytes()),
        "html" => raw("text/html; charset=utf-8", offset, size, shown.screen.html(&session.title).into_bytes()),
        _ => Json(ScreenResponse {
            offset,
            rows: size.0,
            cols: size.1,
            title: shown.screen.title().map(str::to_owned),
            text: shown.screen.text(),
            spans: shown.screen.rows().into_iter().map(line).collect(),
        })
        .into_response(),
    })
}

pub fn line(spans: Vec<Span>) -> Vec<wire::Span> {
    spans.into_iter().map(span).collect()
}

fn span(span: Span) -> wire::Span {
    let Span { text, style, link } = span;
    wire::Span {
        text,
        fg: color(style.fg),
        bg: color(style.bg),
        underline: match style.underline {
            Underline::None => None,
            Underline::Single => Some(wire::Underline::Single),
            Underline::Double => Some(wire::Underline::Double),
            Underline::Curly => Some(wire::Underline::Curly),
            Underline::Dotted => Some(wire::Underline::Dotted),
            Underline::Dashed => Some(wire::Underline::Dashed),
        },
        underline_color: color(style.underline_color),
        bold: style.bold,
        dim: style.dim,
        italic: style.italic,
        inverse: style.inverse,
        hidden: style.hidden,
        strike: style.strike,
        blink: style.blink,
        link,
    }
}

fn color(color: Color) -> Option<wire::Color> {
    match color {
        Color::Default => None,
        Color::Indexed(index) => Some(wire::Color::Indexed { index }),
        Color::Rgb(red, green, blue) => Some(wire::Color::Rgb { red, green, blue }),
    }
}
