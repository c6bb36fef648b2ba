//! A row of the conversation: pieces of text, each with a style. Nothing in a row can act on a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::format::clean;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    Dim,
    Bold,
    /// What a person said.
    User,
    /// Something went well, or was added.
    Good,
    /// Something failed, or was taken away.
    Bad,
    /// Something is under way or waits for an answer.
    Alert,
}

impl Style {
    const fn ansi(self, has_colour: bool) -> &'static str {
        match (self, has_colour) {
            (Self::Plain, _) | (Self::Good | Self::Bad | Self::Alert, false) => "",
            (Self::Dim, _) => "\x1b[2m",
            (Self::Bold, _) | (Self::User, false) => "\x1b[1m",
            (Self::User, true) => "\x1b[1;36m",
            (Self::Good, true) => "\x1b[32m",
            (Self::Bad, true) => "\x1b[31m",
            (Self::Alert, true) => "\x1b[33m",
        }
    }

    /// The class of a piece in a page; plain text has none.
    pub const fn class(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Dim => Some("dim"),
            Self::Bold => Some("bold"),
            Self::User => Some("user"),
            Self::Good => Some("good"),
            Self::Bad => Some("bad"),
            Self::Alert => Some("alert"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    spans: Vec<(Style, String)>,
}

impl Row {
    pub fn new(style: Style, text: &str) -> Self {
        Self::default().with(style, text)
    }

    /// The row with more text at its end; what a terminal would act on becomes visible here.
    pub fn with(mut self, style: Style, text: &str) -> Self {
        if !text.is_empty() {
            self.spans.push((style, clean(text).into_owned()));
        }
        self
    }

    pub fn spans(&self) -> &[(Style, String)] {
        &self.spans
    }

    pub fn width(&self) -> usize {
        self.spans.iter().map(|(_, text)| text.width()).sum()
    }

    pub fn text(&self) -> String {
        self.spans.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// What is shown of it in so many columns; an ellipsis tells that something is missing.
    pub fn cut(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut left = columns.saturating_sub(1);
        let mut kept = Self::default();
        for (style, text) in self.spans {
            let end = text.char_indices().find(|(_, c)| {
                let wide = c.width().unwrap_or(0);
                let is_beyond = wide > left;
                left = left.saturating_sub(wide);
                is_beyond
            });
            let Some((end, _)) = end else {
                kept.spans.push((style, text));
                continue;
            };
            let ellipsis = if columns > 0 { "…" } else { "" };
            kept.spans.push((style, format!("{}{ellipsis}", &text[..end])));
            return kept;
        }
        kept
    }

    /// For a terminal.
    pub fn ansi(&self, has_colour: bool) -> String {
        let mut out = String::new();
        for (style, text) in &self.spans {
            match style.ansi(has_colour) {
                "" => out.push_str(text),
                code => {
                    out.push_str(code);
                    out.push_str(text);
                    out.push_str("\x1b[m");
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_an_agent_says_acts_on_the_terminal() {
        let row = Row::new(Style::Bad, "a\x1b]0;title\x07b\x1b[2J\u{9b}31m\n");
        assert_eq!(row.text(), "a␛]0;title␇b␛[2J\u{fffd}31m␊");
        assert_eq!(Row::new(Style::Plain, "\x1b").ansi(true), "␛");
    }

    #[test]
    fn a_row_is_cut_by_columns_across_its_pieces() {
        let row = || Row::new(Style::Plain, "● ").with(Style::Bold, "漢字漢字").with(Style::Dim, " done");
        assert_eq!(row().cut(20), row());
        assert_eq!(row().cut(8).text(), "● 漢字…");
        assert_eq!(row().cut(2).text(), "●…");
        assert_eq!((row().cut(1).text(), row().cut(0).text()), ("…".into(), String::new()));
        assert!((0..16).all(|columns| row().cut(columns).width() <= columns));
    }

    #[test]
    fn without_colours_only_weight_is_left() {
        let row = Row::new(Style::Bad, "x").with(Style::Dim, "y");
        assert_eq!(
            (row.ansi(true), row.ansi(false)),
            ("\x1b[31mx\x1b[m\x1b[2my\x1b[m".into(), "x\x1b[2my\x1b[m".into())
        );
    }
}
