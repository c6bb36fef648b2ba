//! What a terminal shows, on the wire.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ScreenQuery {
    /// `json` (default), `ansi`, `text` or `html`.
    pub format: Option<String>,
    /// The screen when the log had this many bytes.
    pub at: Option<u64>,
    /// `false`: no person sees this screen, so the session stays unseen.
    pub look: Option<bool>,
}

/// What a session's terminal shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScreenResponse {
    /// The log's byte offset that this screen belongs to.
    pub offset: u64,
    pub rows: u16,
    pub cols: u16,
    pub title: Option<String>,
    pub text: String,
    /// The rows from the top, each without trailing blanks.
    pub spans: Vec<Vec<Span>>,
}

/// A run of equally styled characters. Only what differs from the default style is present.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Span {
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fg: Option<Color>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bg: Option<Color>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub underline: Option<Underline>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub underline_color: Option<Color>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bold: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dim: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub italic: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inverse: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strike: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub blink: bool,
    /// The address that a link leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// A colour as the program named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Color {
    /// One of 256; the first 16 follow the viewer's theme.
    Indexed {
        index: u8,
    },
    Rgb {
        red: u8,
        green: u8,
        blue: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Underline {
    Single,
    Double,
    Curly,
    Dotted,
    Dashed,
}
