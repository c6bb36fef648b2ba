//! Text from users: validated once at the edge, then passed on as a type.

use serde::{Deserialize, Serialize};

/// The longest prompt that fits into one program argument on Linux: 128 KiB including the NUL (`MAX_ARG_STRLEN`).
pub const MAX_PROMPT_BYTES: usize = 131_071;
/// The longest prompt sent over ACP. No argument list limits it, but several copies of it are kept.
pub const MAX_ACP_PROMPT_BYTES: usize = 3 << 20;
const MAX_TITLE_CHARS: usize = 200;
const DERIVED_TITLE_CHARS: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadText {
    #[error("the title has a control character at position {at}; use one line of plain text")]
    TitleControl { at: usize },
    #[error("the title is {chars} characters long; the limit is {MAX_TITLE_CHARS}")]
    TitleTooLong { chars: usize },
    #[error("the title is empty; omit it to derive it from the prompt")]
    TitleEmpty,
    #[error(
        "the prompt is {bytes} bytes long, but a program argument is limited to {MAX_PROMPT_BYTES}; \
         put the text into a file and refer to the file in the prompt"
    )]
    PromptTooLong { bytes: usize },
    #[error("the prompt has a NUL byte at position {at}; remove it")]
    PromptNul { at: usize },
}

/// The one-line title of a session or task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Title(String);

impl Title {
    pub fn parse(text: &str) -> Result<Self, BadText> {
        if let Some(at) = text.chars().position(acts) {
            return Err(BadText::TitleControl { at });
        }
        let chars = text.chars().count();
        if chars > MAX_TITLE_CHARS {
            return Err(BadText::TitleTooLong { chars });
        }
        match text.trim() {
            trimmed if trimmed.chars().all(is_invisible) => Err(BadText::TitleEmpty),
            trimmed => Ok(Self(trimmed.to_owned())),
        }
    }

    /// Returns the first line of the prompt, or the harness's name if the prompt is empty.
    pub fn derived(prompt: &str, harness: &str) -> Self {
        let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or(harness);
        let clean: String = line.chars().filter(|c| !acts(*c)).collect();
        let mut title: String = clean.chars().take(DERIVED_TITLE_CHARS).collect();
        if clean.chars().count() > DERIVED_TITLE_CHARS {
            title.push('…');
        }
        Self(if title.is_empty() { harness.to_owned() } else { title })
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

/// The prompt for the harness: any text that fits into one program argument.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompt(String);

impl Prompt {
    pub fn parse(text: &str) -> Result<Self, BadText> {
        if text.len() > MAX_PROMPT_BYTES {
            return Err(BadText::PromptTooLong { bytes: text.len() });
        }
        match text.bytes().position(|byte| byte == 0) {
            Some(at) => Err(BadText::PromptNul { at }),
            None => Ok(Self(text.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reports whether a character affects the surrounding text instead of being shown: control characters, line
/// separators, and bidirectional overrides, which can disguise a text as another.
pub fn acts(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Reports whether a character is invisible by itself.
fn is_invisible(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Returns the text on one line of at most `max_chars` characters. Runs of whitespace and control characters become
/// one space.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    let words = text.split(|c: char| c.is_whitespace() || acts(c)).filter(|word| !word.is_empty());
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(max_chars) {
        None => line,
        Some(_) => line.chars().take(max_chars.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line_of_plain_text() {
        assert_eq!(Title::parse(" fix it ").map(Title::into_string), Ok("fix it".into()));
        assert_eq!(Title::parse("a\u{1b}[31m"), Err(BadText::TitleControl { at: 1 }));
        assert_eq!(Title::parse("  "), Err(BadText::TitleEmpty));
        assert_eq!(Title::parse(&"x".repeat(201)), Err(BadText::TitleTooLong { chars: 201 }));
    }

    #[test]
    fn a_derived_title_is_the_truncated_first_line() {
        assert_eq!(Title::derived("\n  fix\tthe parser\nnow", "claude").into_string(), "fixthe parser");
        assert_eq!(Title::derived("", "claude").into_string(), "claude");
        assert_eq!(Title::derived(&"é".repeat(90), "claude").into_string(), format!("{}…", "é".repeat(80)));
    }

    #[test]
    fn a_prompt_is_any_text_that_fits_one_argument() {
        let wild = "a; $(rm -rf /) `x` \"q\" 'p'\nsecond line";
        assert_eq!(Prompt::parse(wild).expect("a valid prompt").as_str(), wild);
        assert_eq!(Prompt::parse("a\0b"), Err(BadText::PromptNul { at: 1 }));
        assert_eq!(Prompt::parse(&"x".repeat(1 << 20)), Err(BadText::PromptTooLong { bytes: 1 << 20 }));
    }
}
