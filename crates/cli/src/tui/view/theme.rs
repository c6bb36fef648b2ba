//! The browser's colours: the terminal's own sixteen, so that every theme suits, or none (`NO_COLOR`).

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    Colored,
    Plain,
}

impl Theme {
    /// Colours, unless `NO_COLOR` is set to something.
    pub fn of(no_color: Option<&std::ffi::OsStr>) -> Self {
        match no_color {
            Some(value) if !value.is_empty() => Self::Plain,
            _ => Self::Colored,
        }
    }

    fn color(self, color: Color) -> Style {
        match self {
            Self::Colored => Style::new().fg(color),
            Self::Plain => Style::new(),
        }
    }

    /// The sign of a status and its looks; the word stands beside it, so no meaning hangs on the colour.
    pub fn status(self, status: &str) -> (&'static str, Style) {
        match status {
            "created" => ("○", self.color(Color::Blue)),
            "running" => ("●", self.color(Color::Green).add_modifier(Modifier::BOLD)),
            "completed" => ("✓", self.color(Color::Green)),
            "failed" => ("✗", self.color(Color::Red)),
            "killed" => ("■", self.color(Color::Yellow)),
            "active" => ("✎", self.color(Color::Cyan)),
            "interrupted" => ("✎", self.color(Color::Yellow)),
            "orphaned" => ("?", self.color(Color::Magenta)),
            _ => ("·", Style::new()),
        }
    }

    pub fn quiet(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD).remove_modifier(Modifier::DIM)
    }

    pub fn key(self) -> Style {
        self.color(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Something that is decided.
    pub fn good(self) -> Style {
        self.color(Color::Green).add_modifier(Modifier::BOLD)
    }

    pub fn recommended(self) -> Style {
        self.color(Color::Yellow)
    }

    /// Code between words.
    pub fn code(self) -> Style {
        self.color(Color::Yellow)
    }

    /// What the user typed before.
    pub fn typed(self) -> Style {
        Style::new().add_modifier(Modifier::ITALIC)
    }

    pub fn problem(self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Something is wrong and everybody should see it.
    pub fn banner(self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    /// A line of a session's own screen, without its colours where none are wanted.
    pub fn foreign(self, line: &Line<'static>) -> Line<'static> {
        let mut line = line.clone();
        if self == Self::Plain {
            let styles = line.spans.iter_mut().map(|span| &mut span.style).chain([&mut line.style]);
            styles.for_each(|style| (style.fg, style.bg) = (None, None));
        }
        line
    }
}
