//! Styled text as HTML: no scripts, no external resources, all text escaped.

use std::fmt::Write;

use alacritty_terminal::vte::ansi::Rgb;

use crate::palette;
use crate::spans::{Color, Span, Style, Underline};

/// Returns a complete page with the given lines.
pub fn html_page(title: &str, rows: &[Vec<Span>]) -> String {
    let mut page = page_start(title);
    let used = rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
    for row in &rows[..used] {
        push_line(&mut page, row);
    }
    page.push_str(PAGE_END);
    page
}

pub(crate) fn page_start(title: &str) -> String {
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>",
    );
    push_escaped(&mut page, title);
    let (fg, bg) = (palette::FOREGROUND, palette::BACKGROUND);
    let _ = write!(
        page,
        "</title>\n<style>\nbody{{margin:0;padding:1em;background:{bg};color:{fg}}}\n\
         pre{{font:14px/1.3 ui-monospace,Menlo,Consolas,monospace;margin:0}}\na{{color:inherit}}\n\
         </style>\n</head>\n<body>\n<pre>"
    );
    page
}

pub(crate) const PAGE_END: &str = "</pre>\n</body>\n</html>\n";

pub(crate) fn push_line(html: &mut String, spans: &[Span]) {
    for span in spans {
        push_span(html, span);
    }
    html.push('\n');
}

pub(crate) fn push_span(html: &mut String, span: &Span) {
    let link = span.link.as_deref().filter(|link| is_harmless(link));
    if let Some(link) = link {
        html.push_str("<a rel=\"noreferrer\" href=\"");
        push_escaped(html, link);
        html.push_str("\">");
    }
    let css = css(&span.style);
    if css.is_empty() {
        push_escaped(html, &span.text);
    } else {
        let _ = write!(html, "<span style=\"{css}\">");
        push_escaped(html, &span.text);
        html.push_str("</span>");
    }
    if link.is_some() {
        html.push_str("</a>");
    }
}

/// Allows only links that open a page or an email; `javascript:` would run in this page.
fn is_harmless(link: &str) -> bool {
    let link = link.to_ascii_lowercase();
    ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme))
}

pub(crate) fn push_escaped(html: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
}

fn css(style: &Style) -> String {
    let mut css = String::new();
    let (mut fg, mut bg) = (rgb(style.fg), rgb(style.bg));
    if style.inverse {
        (fg, bg) = (bg.or(Some(palette::BACKGROUND)), fg.or(Some(palette::FOREGROUND)));
    }
    if style.hidden {
        fg = bg.or(Some(palette::BACKGROUND));
    }
    if let Some(fg) = fg {
        let _ = write!(css, "color:{fg};");
    }
    if let Some(bg) = bg {
        let _ = write!(css, "background:{bg};");
    }
    if style.bold {
        css.push_str("font-weight:bold;");
    }
    if style.dim {
        css.push_str("opacity:.6;");
    }
    if style.italic {
        css.push_str("font-style:italic;");
    }
    let line = match style.underline {
        Underline::None => None,
        Underline::Single => Some("underline"),
        Underline::Double => Some("underline double"),
        Underline::Curly => Some("underline wavy"),
        Underline::Dotted => Some("underline dotted"),
        Underline::Dashed => Some("underline dashed"),
    };
    match (line, style.strike) {
        (None, false) => {}
        (None, true) => css.push_str("text-decoration:line-through;"),
        (Some(line), strike) => {
            let strike = if strike { " line-through" } else { "" };
            let _ = write!(css, "text-decoration:{line}{strike};");
            if let Some(color) = rgb(style.underline_color) {
                let _ = write!(css, "text-decoration-color:{color};");
            }
        }
    }
    css
}

fn rgb(color: Color) -> Option<Rgb> {
    match color {
        Color::Default => None,
        Color::Indexed(index) => Some(palette::indexed(index)),
        Color::Rgb(r, g, b) => Some(Rgb { r, g, b }),
    }
}
