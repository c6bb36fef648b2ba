//! The picture of a session's screen: the daemon's spans as lines that can be drawn.

use coven_api::screen::{Color as Seen, ScreenResponse, Span as SeenSpan};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    pub rows: u16,
    pub cols: u16,
    /// From the top; empty lines at the end are left out.
    pub lines: Vec<Line<'static>>,
}

impl From<ScreenResponse> for Picture {
    fn from(screen: ScreenResponse) -> Self {
        let mut lines: Vec<Line<'static>> =
            screen.spans.into_iter().map(|row| row.into_iter().map(drawn).collect::<Vec<_>>().into()).collect();
        let used = lines.iter().rposition(|line| line.width() > 0).map_or(0, |last| last + 1);
        lines.truncate(used);
        Self { rows: screen.rows, cols: screen.cols, lines }
    }
}

impl Picture {
    /// What is drawn in a pane of this height: the end of it, where a terminal's news is.
    pub fn tail(&self, height: usize) -> &[Line<'static>] {
        &self.lines[self.lines.len().saturating_sub(height)..]
    }
}

fn drawn(seen: SeenSpan) -> Span<'static> {
    let mut style = Style::new();
    // Hidden text stays hidden: it may be a password.
    let text = match seen.hidden {
        true => " ".repeat(super::text::width(&seen.text)),
        // They take no column; in the browser they would turn the text beside the preview.
        false => seen.text.chars().filter(|c| !super::text::is_unseen(*c)).collect(),
    };
    style.fg = seen.fg.map(color);
    style.bg = seen.bg.map(color);
    for (is_set, modifier) in [
        (seen.bold, Modifier::BOLD),
        (seen.dim, Modifier::DIM),
        (seen.italic, Modifier::ITALIC),
        (seen.underline.is_some(), Modifier::UNDERLINED),
        (seen.inverse, Modifier::REVERSED),
        (seen.strike, Modifier::CROSSED_OUT),
    ] {
        if is_set {
            style = style.add_modifier(modifier);
        }
    }
    Span::styled(text, style)
}

const fn color(seen: Seen) -> Color {
    match seen {
        Seen::Indexed { index } => Color::Indexed(index),
        Seen::Rgb { red, green, blue } => Color::Rgb(red, green, blue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn picture(spans: serde_json::Value) -> Picture {
        let spans = serde_json::from_value(spans).expect("rows of spans");
        ScreenResponse { offset: 0, rows: 24, cols: 80, title: None, text: String::new(), spans }.into()
    }

    #[test]
    fn spans_keep_their_looks() {
        let red = json!({"text": "red", "fg": {"type": "indexed", "index": 1}, "bold": true});
        let rgb = json!({"text": "rgb", "fg": {"type": "rgb", "red": 1, "green": 2, "blue": 3}, "inverse": true});
        let picture = self::picture(json!([[red, {"text": " plain"}], [rgb], [], []]));
        // then text and styles are there, and the empty rows are not
        assert_eq!(picture.lines.len(), 2);
        let red = &picture.lines[0].spans[0];
        assert_eq!((red.content.as_ref(), picture.lines[0].spans[1].style), ("red", Style::new()));
        assert_eq!(red.style, Style::new().fg(Color::Indexed(1)).add_modifier(Modifier::BOLD));
        let rgb = &picture.lines[1].spans[0];
        assert_eq!(rgb.style, Style::new().fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::REVERSED));
    }

    #[test]
    fn hidden_text_is_not_shown() {
        let spans = json!([[{"text": "secret", "hidden": true}, {"text": "!"}]]);
        let picture = self::picture(spans);
        assert_eq!(picture.lines[0].to_string(), "      !");
    }

    #[test]
    fn a_preview_leaves_out_direction_marks_and_control_characters() {
        let spans = json!([[{"text": "a\u{202e}b\u{2066}c\u{1b}"}]]);
        let picture = self::picture(spans);
        assert_eq!(picture.lines[0].to_string(), "abc");
    }

    #[test]
    fn a_pane_that_is_too_low_shows_the_end() {
        let spans = json!([[{"text": "a"}], [{"text": "b"}], [{"text": "c"}], []]);
        let picture = self::picture(spans);
        assert_eq!(picture.tail(2).iter().map(ToString::to_string).collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(picture.tail(9).len(), 3);
    }
}
