//! Markdown of messages, prompts and questions as styled rows.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::canvas::{Piece, Row};
use super::text;
use super::theme::Theme;

/// Longer lines are wrapped.
const MAX_LINE: usize = 1000;
/// Deeper quotes and lists are not indented further.
const MAX_INDENT: usize = 8;

/// Returns the rows of a text in at most `columns`. Nothing in it can act on the terminal.
pub fn rows(source: &str, columns: usize, theme: Theme) -> Vec<Row> {
    if source.trim().is_empty() {
        return Vec::new();
    }
    // Before it is parsed: the parser would take an escape sequence apart.
    let clean: Vec<String> =
        source.split('\n').map(|line| text::line(&line.replace('\t', "    ")).into_owned()).collect();
    let mut writer = Writer::new(columns.max(1), theme);
    for event in Parser::new_ext(
        &clean.join("\n"),
        Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS,
    ) {
        writer.event(event);
    }
    writer.end_row();
    while writer.rows.last().is_some_and(Vec::is_empty) {
        writer.rows.pop();
    }
    writer.rows
}

/// Returns a text of one line without its markup.
pub fn plain(source: &str) -> String {
    let rows = rows(source, MAX_LINE, Theme { has_colors: false });
    rows.iter().flatten().map(|piece| piece.text.as_str()).collect()
}

struct Writer {
    columns: usize,
    theme: Theme,
    rows: Vec<Row>,
    row: Row,
    used: usize,
    styles: Vec<Style>,
    /// Text at the start of each row: quote bars and list indents.
    leads: Vec<String>,
    /// The next row starts with this marker instead of its last lead.
    marker: Option<String>,
    /// The next number of each list; `None` for a bullet list.
    lists: Vec<Option<u64>>,
    is_code: bool,
    needs_gap: bool,
}

impl Writer {
    fn new(columns: usize, theme: Theme) -> Self {
        Self {
            columns,
            theme,
            rows: Vec::new(),
            row: Vec::new(),
            used: 0,
            styles: vec![Style::new()],
            leads: Vec::new(),
            marker: None,
            lists: Vec::new(),
            is_code: false,
            needs_gap: false,
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push_style(&mut self, change: impl FnOnce(Style) -> Style) {
        self.styles.push(change(self.style()));
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(words) if self.is_code => {
                for line in words.split_inclusive('\n') {
                    self.code_line(line.trim_end_matches(['\n', '\r']));
                }
            }
            Event::Text(words) => self.words(&words, self.style()),
            Event::Code(code) => self.words(&code, self.theme.accent()),
            Event::Html(html) | Event::InlineHtml(html) => self.words(&html, self.theme.dim()),
            Event::SoftBreak => self.words(" ", self.style()),
            Event::HardBreak => self.end_row(),
            Event::Rule => {
                self.gap();
                let rule = "─".repeat(self.columns.min(40));
                self.words(&rule, self.theme.dim());
                self.end_block();
            }
            Event::TaskListMarker(is_done) => self.words(if is_done { "[x] " } else { "[ ] " }, self.style()),
            Event::InlineMath(words) | Event::DisplayMath(words) | Event::FootnoteReference(words) => {
                self.words(&words, self.style());
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.gap(),
            Tag::Heading { level, .. } => {
                self.gap();
                let theme = self.theme;
                self.push_style(|style| style.patch(theme.bold()));
                if level == HeadingLevel::H1 {
                    self.push_style(|style| style.add_modifier(Modifier::UNDERLINED));
                } else {
                    self.push_style(|style| style);
                }
            }
            Tag::BlockQuote(_) => {
                self.gap();
                self.leads.push("│ ".to_owned());
            }
            Tag::CodeBlock(kind) => {
                self.gap();
                self.is_code = true;
                if let CodeBlockKind::Fenced(language) = kind
                    && !language.is_empty()
                {
                    self.words(&language, self.theme.dim());
                    self.end_row();
                }
            }
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.gap();
                } else {
                    self.end_row();
                }
                self.lists.push(first);
            }
            Tag::Item => {
                self.end_row();
                self.needs_gap = false;
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                self.leads.push(" ".repeat(marker.width()));
                self.marker = Some(marker);
            }
            Tag::TableRow | Tag::TableHead => self.end_row(),
            Tag::TableCell if !self.row.is_empty() => self.words("  │  ", self.theme.dim()),
            Tag::Emphasis => self.push_style(|style| style.add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.push_style(|style| style.add_modifier(Modifier::BOLD)),
            Tag::Strikethrough => self.push_style(|style| style.add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { .. } => self.push_style(|style| style.add_modifier(Modifier::UNDERLINED)),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::Table => self.end_block(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.styles.pop();
                self.end_block();
            }
            TagEnd::BlockQuote(_) => {
                self.end_block();
                self.leads.pop();
            }
            TagEnd::CodeBlock => {
                self.is_code = false;
                self.end_block();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.end_row();
                self.needs_gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.end_row();
                self.leads.pop();
                self.marker = None;
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link => {
                self.styles.pop();
            }
            _ => {}
        }
    }

    /// Leaves an empty row between two blocks.
    fn gap(&mut self) {
        self.end_row();
        if std::mem::take(&mut self.needs_gap) {
            self.rows.push(Vec::new());
        }
    }

    fn end_block(&mut self) {
        self.end_row();
        self.needs_gap = true;
    }

    fn end_row(&mut self) {
        if !self.row.is_empty() {
            self.rows.push(std::mem::take(&mut self.row));
        }
        self.used = 0;
    }

    fn start_row(&mut self) {
        if !self.row.is_empty() {
            return;
        }
        let last = self.leads.len().saturating_sub(1);
        let marker = self.marker.take();
        let lead: String = self
            .leads
            .iter()
            .take(MAX_INDENT)
            .enumerate()
            .map(|(nth, lead)| marker.as_deref().filter(|_| nth == last).unwrap_or(lead))
            .collect();
        if !lead.is_empty() {
            self.used = lead.width();
            self.row.push(Piece::new(lead, self.theme.dim()));
        }
    }

    fn words(&mut self, words: &str, style: Style) {
        let clean = text::line(words);
        for word in clean.split_word_bounds() {
            let wide = word.width();
            if self.used + wide > self.columns && self.used > 0 {
                self.end_row();
                if word.trim().is_empty() {
                    continue;
                }
            }
            self.start_row();
            if self.used + wide <= self.columns {
                self.put(word, style);
                continue;
            }
            for piece in word.graphemes(true) {
                if self.used + piece.width() > self.columns {
                    self.end_row();
                    self.start_row();
                }
                self.put(piece, style);
            }
        }
    }

    fn put(&mut self, piece: &str, style: Style) {
        self.used += piece.width();
        match self.row.last_mut() {
            Some(last) if last.style == style => last.text.push_str(piece),
            _ => self.row.push(Piece::new(piece, style)),
        }
    }

    /// Adds a line of code with all its blanks.
    fn code_line(&mut self, line: &str) {
        self.end_row();
        self.start_row();
        self.put("  ", self.theme.dim());
        let clean = line.replace('\t', "    ");
        for piece in text::line(&clean).graphemes(true) {
            if self.used + piece.width() > self.columns {
                self.end_row();
                self.start_row();
                self.put("  ", self.theme.dim());
            }
            self.put(piece, self.theme.accent());
        }
        self.end_row();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str, columns: usize) -> Vec<String> {
        let text = |row: &Row| row.iter().map(|piece| piece.text.as_str()).collect::<String>().trim_end().to_owned();
        rows(source, columns, Theme { has_colors: true }).iter().map(text).collect()
    }

    #[test]
    fn blocks_are_separated_and_wrapped() {
        assert_eq!(shown("# Title\n\none two three\n\nfour", 8), ["Title", "", "one two", "three", "", "four"]);
        assert_eq!(shown("- a\n- b c d\n  - e\n\n1. x\n2. y", 6), ["• a", "• b c", "  d", "  • e", "", "1. x", "2. y"]);
        assert_eq!(shown("> quoted words", 9), ["│ quoted", "│ words"]);
    }

    #[test]
    fn code_keeps_its_blanks() {
        assert_eq!(shown("```rust\nfn a() {\n    b();\n}\n```", 20), ["rust", "  fn a() {", "      b();", "  }"]);
    }

    #[test]
    fn hostile_text_is_harmless() {
        assert_eq!(shown("a\u{1b}[2Jb `c\u{1b}]0;x\u{7}d`", 40), ["ab cd"]);
        assert!(!shown(&"> ".repeat(1000), 10).iter().any(|row| row.width() > 10));
    }
}
