//! Colours and marks: the terminal's own sixteen colours, or none with `NO_COLOR`.

use ratatui::style::{Color, Modifier, Style};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    pub has_colors: bool,
}

impl Theme {
    /// Returns the theme for the value of `NO_COLOR`: set and not empty means no colours.
    pub fn of(no_color: Option<&std::ffi::OsStr>) -> Self {
        Self { has_colors: no_color.is_none_or(std::ffi::OsStr::is_empty) }
    }

    fn color(self, color: Color) -> Style {
        if self.has_colors { Style::new().fg(color) } else { Style::new() }
    }

    pub const fn plain(self) -> Style {
        Style::new()
    }

    pub const fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub const fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub const fn reverse(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Something waits for the user.
    pub fn need(self) -> Style {
        self.color(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub fn good(self) -> Style {
        self.color(Color::Green)
    }

    pub fn bad(self) -> Style {
        self.color(Color::Red)
    }

    pub fn accent(self) -> Style {
        self.color(Color::Cyan)
    }

    pub fn quiet(self) -> Style {
        self.color(Color::Blue)
    }

    pub fn key(self) -> Style {
        self.color(Color::Cyan).add_modifier(Modifier::BOLD)
    }
}
