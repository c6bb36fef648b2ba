//! The picture of a session's screen: the daemon's spans as lines that can be drawn.

use coven_api::session::ScreenResponse;
use coven_screen::{Color as Seen, Span as SeenSpan, Underline};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    pub rows: u16,
    pub cols: u16,
    /// From the top; empty lines at the end are left out.
    pub lines: Vec<Line<'static>>,
}

impl TryFrom<ScreenResponse> for Picture {
    type Error = serde_json::Error;

    fn try_from(screen: ScreenResponse) -> Result<Self, Self::Error> {
        let spans: Vec<Vec<SeenSpan>> = serde_json::from_value(screen.spans)?;
        let mut lines: Vec<Line<'static>> =
            spans.into_iter().map(|row| row.into_iter().map(drawn).collect::<Vec<_>>().into()).collect();
        let used = lines.iter().rposition(|line| line.width() > 0).map_or(0, |last| last + 1);
        lines.truncate(used);
        Ok(Self { rows: screen.rows, cols: screen.cols, lines })
    }
}

impl Picture {
    /// What is drawn in a pane of this height: the end of it, where a terminal's news is.
    pub fn tail(&self, height: usize) -> &[Line<'static>] {
        &self.lines[self.lines.len().saturating_sub(height)..]
    }
}

fn drawn(span: SeenSpan) -> Span<'static> {
    let seen = span.style;
    let mut style = Style::new();
    // Hidden text stays hidden: it may be a password.
    let text = match seen.hidden {
        true => " ".repeat(super::text::width(&span.text)),
        // They take no column; in the browser they would turn the text beside the preview.
        false => span.text.chars().filter(|c| !super::text::is_unseen(*c)).collect(),
    };
    style.fg = color(seen.fg);
    style.bg = color(seen.bg);
    for (is_set, modifier) in [
        (seen.bold, Modifier::BOLD),
        (seen.dim, Modifier::DIM),
        (seen.italic, Modifier::ITALIC),
        (seen.underline != Underline::None, Modifier::UNDERLINED),
        (seen.inverse, Modifier::REVERSED),
        (seen.strike, Modifier::CROSSED_OUT),
    ] {
        if is_set {
            style = style.add_modifier(modifier);
        }
    }
    Span::styled(text, style)
}

fn color(seen: Seen) -> Option<Color> {
    match seen {
        Seen::Default => None,
        Seen::Indexed(index) => Some(Color::Indexed(index)),
        Seen::Rgb(red, green, blue) => Some(Color::Rgb(red, green, blue)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn screen(spans: serde_json::Value) -> ScreenResponse {
        ScreenResponse { offset: 0, rows: 24, cols: 80, title: None, text: String::new(), spans }
    }

    #[test]
    fn the_spans_of_the_screen_model_keep_their_looks() {
        // given what the screen model itself serializes
        let mut model = coven_screen::Screen::new(4, 20);
        model.feed(b"\x1b[1;31mred\x1b[0m plain\r\n\x1b[38;2;1;2;3;7mrgb");
        let spans = serde_json::to_value(model.rows()).expect("spans are JSON");
        // when it is made a picture
        let picture = Picture::try_from(screen(spans)).expect("own spans");
        // then text and styles are there, and the empty rows are not
        assert_eq!(picture.lines.len(), 2);
        let red = &picture.lines[0].spans[0];
        assert_eq!(red.content.trim_end(), "red");
        assert_eq!(red.style, Style::new().fg(Color::Indexed(1)).add_modifier(Modifier::BOLD));
        let rgb = &picture.lines[1].spans[0];
        assert_eq!(rgb.style, Style::new().fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::REVERSED));
    }

    #[test]
    fn hidden_text_is_not_shown() {
        let spans = json!([[{"text": "secret", "style": {"hidden": true}}, {"text": "!"}]]);
        let picture = Picture::try_from(screen(spans)).expect("sound spans");
        assert_eq!(picture.lines[0].to_string(), "      !");
    }

    #[test]
    fn a_preview_leaves_out_direction_marks_and_control_characters() {
        let spans = json!([[{"text": "a\u{202e}b\u{2066}c\u{1b}"}]]);
        let picture = Picture::try_from(screen(spans)).expect("sound spans");
        assert_eq!(picture.lines[0].to_string(), "abc");
    }

    #[test]
    fn a_pane_that_is_too_low_shows_the_end() {
        let spans = json!([[{"text": "a"}], [{"text": "b"}], [{"text": "c"}], []]);
        let picture = Picture::try_from(screen(spans)).expect("sound spans");
        assert_eq!(picture.tail(2).iter().map(ToString::to_string).collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(picture.tail(9).len(), 3);
    }

    #[test]
    fn spans_of_another_shape_are_refused() {
        assert!(Picture::try_from(screen(json!({"rows": 1}))).is_err());
    }
}
