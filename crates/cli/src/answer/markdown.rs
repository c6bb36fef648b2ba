//! The markdown of a prompt as styled rows: emphasis, code, fences, lists, headings. What is not understood is shown
//! as it was written; nothing in it can act on the terminal.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::chat::wrap::{self, Breaking};
use crate::tui::text;
use crate::tui::view::Theme;

/// The rows of `source` in so many columns.
pub fn rows(source: &str, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    let mut fence: Option<&str> = None;
    for line in source.trim_end().split('\n') {
        let line = line.trim_end_matches('\r');
        let bare = line.trim_start();
        match fence {
            Some(open) if bare.starts_with(open) && bare[open.len()..].trim().is_empty() => fence = None,
            Some(_) => code_rows(&mut rows, line, columns, theme),
            None => match ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark)) {
                Some(mark) => fence = Some(mark),
                None => block_rows(&mut rows, line, columns, theme),
            },
        }
    }
    rows
}

/// The first line that says something, without its marks.
pub fn first_line(source: &str) -> String {
    let lines = source.lines().map(|line| rows(line, usize::MAX, Theme::Plain).iter().map(Line::to_string).collect());
    lines.map(|line: String| line.trim().to_owned()).find(|line| !line.is_empty()).unwrap_or_default()
}

/// A line of a fenced block, with every blank it has.
fn code_rows(rows: &mut Vec<Line<'static>>, line: &str, columns: usize, theme: Theme) {
    let shown = wrap::expanded(line, 0);
    for range in wrap::rows(&shown, columns.saturating_sub(2), Breaking::Anywhere) {
        let bar = Span::styled("│ ", theme.quiet());
        rows.push(Line::from(vec![bar, Span::styled(shown[range].to_owned(), theme.code())]));
    }
}

fn block_rows(rows: &mut Vec<Line<'static>>, line: &str, columns: usize, theme: Theme) {
    let line = wrap::expanded(line, 0);
    let bare = line.trim_start();
    let indent = (line.len() - bare.len()).min(columns / 4);
    let (lead, lead_style, rest, style) = match bare.chars().next() {
        Some('#') if heading(bare).is_some() => {
            (String::new(), Style::new(), heading(bare).unwrap_or_default(), theme.strong())
        }
        Some('>') => ("│ ".to_owned(), theme.quiet(), bare[1..].trim_start(), theme.quiet()),
        _ => match item(bare) {
            Some((mark, rest)) => (format!("{mark} "), theme.key(), rest, Style::new()),
            None => (String::new(), Style::new(), bare, Style::new()),
        },
    };
    let lead_width = indent + text::width(&lead);
    let pieces = inline(rest, style, theme);
    let plain: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
    for (place, range) in
        wrap::rows(&plain, columns.saturating_sub(lead_width), Breaking::Words).into_iter().enumerate()
    {
        let mut spans = match place {
            0 => vec![Span::raw(" ".repeat(indent)), Span::styled(lead.clone(), lead_style)],
            _ => vec![Span::raw(" ".repeat(lead_width))],
        };
        spans.retain(|span| !span.content.is_empty());
        let mut at = 0;
        for (text, style) in &pieces {
            let (start, end) = (range.start.max(at), range.end.min(at + text.len()));
            if start < end {
                spans.push(Span::styled(text[start - at..end - at].to_owned(), *style));
            }
            at += text.len();
        }
        rows.push(Line::from(spans));
    }
}

/// What stands behind `#` to `######` and a blank.
fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let depth = line.len() - rest.len();
    ((1..=6).contains(&depth) && rest.starts_with(' ')).then(|| rest.trim())
}

/// The mark of a list's item, and what stands behind it.
fn item(line: &str) -> Option<(String, &str)> {
    if let Some(rest) = ["- ", "* ", "+ "].into_iter().find_map(|mark| line.strip_prefix(mark)) {
        return Some(("•".to_owned(), rest.trim_start()));
    }
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = line[digits..].strip_prefix(". ").or_else(|| line[digits..].strip_prefix(") "))?;
    (1..=4).contains(&digits).then(|| (format!("{}.", &line[..digits]), rest.trim_start()))
}

/// The pieces of a line with their styles.
fn inline(line: &str, base: Style, theme: Theme) -> Vec<(String, Style)> {
    let mut pieces = Vec::new();
    scan(line, base, theme, &mut pieces);
    pieces
}

const EMPHASIS: [(&str, Modifier); 5] = [
    ("**", Modifier::BOLD),
    ("__", Modifier::BOLD),
    ("~~", Modifier::CROSSED_OUT),
    ("*", Modifier::ITALIC),
    ("_", Modifier::ITALIC),
];

fn scan(line: &str, style: Style, theme: Theme, pieces: &mut Vec<(String, Style)>) {
    let mut plain = String::new();
    let mut at = 0;
    while let Some(c) = line[at..].chars().next() {
        let rest = &line[at..];
        let before = line[..at].chars().next_back();
        if c == '\\' && rest[1..].starts_with(|c: char| c.is_ascii_punctuation()) {
            plain.push_str(&rest[1..2]);
            at += 2;
            continue;
        }
        if let Some((code, length)) = code_span(rest) {
            flush(&mut plain, style, pieces);
            pieces.push((code.to_owned(), style.patch(theme.code())));
            at += length;
            continue;
        }
        if let Some((inside, length, modifier)) = emphasis(rest, before) {
            flush(&mut plain, style, pieces);
            scan(inside, style.add_modifier(modifier), theme, pieces);
            at += length;
            continue;
        }
        if let Some((name, address, length)) = link(rest) {
            flush(&mut plain, style, pieces);
            scan(name, style.add_modifier(Modifier::UNDERLINED), theme, pieces);
            if name != address {
                pieces.push((format!(" ({address})"), style.patch(theme.quiet())));
            }
            at += length;
            continue;
        }
        plain.push(c);
        at += c.len_utf8();
    }
    flush(&mut plain, style, pieces);
}

fn flush(plain: &mut String, style: Style, pieces: &mut Vec<(String, Style)>) {
    if !plain.is_empty() {
        pieces.push((std::mem::take(plain), style));
    }
}

/// The inside of `` `…` `` at the beginning, and how long all of it is. Several backticks close with as many.
fn code_span(text: &str) -> Option<(&str, usize)> {
    let ticks = text.len() - text.trim_start_matches('`').len();
    if ticks == 0 {
        return None;
    }
    let (mark, rest) = text.split_at(ticks);
    let end = rest.find(mark)?;
    let inside = &rest[..end];
    // A blank at both ends only keeps the inside apart from the marks.
    let trimmed = inside.strip_prefix(' ').and_then(|it| it.strip_suffix(' ')).filter(|it| !it.is_empty());
    (!inside.is_empty()).then(|| (trimmed.unwrap_or(inside), ticks * 2 + end))
}

fn emphasis(text: &str, before: Option<char>) -> Option<(&str, usize, Modifier)> {
    let (mark, modifier) = EMPHASIS.into_iter().find(|(mark, _)| text.starts_with(mark))?;
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    // Inside a word an underscore is an underscore: snake_case.
    if mark.starts_with('_') && is_word(before) {
        return None;
    }
    let rest = &text[mark.len()..];
    if rest.starts_with(char::is_whitespace) {
        return None;
    }
    let end = rest.match_indices(mark).map(|(end, _)| end).find(|end| {
        let (inside, after) = (&rest[..*end], rest[end + mark.len()..].chars().next());
        let is_longer_mark = mark.len() == 1 && (after == mark.chars().next() || inside.ends_with(mark));
        let is_in_word = mark.starts_with('_') && is_word(after);
        let is_open = inside.is_empty() || inside.ends_with(|c: char| c == '\\' || c.is_whitespace());
        !(is_open || is_longer_mark || is_in_word)
    })?;
    Some((&rest[..end], end + mark.len() * 2, modifier))
}

/// `[name](address)`.
fn link(text: &str) -> Option<(&str, &str, usize)> {
    let inside = text.strip_prefix('[')?;
    let close = inside.find("](")?;
    let address = &inside[close + 2..];
    let end = address.find(')')?;
    let is_sound = close > 0 && end > 0 && !inside[..close].contains(['[', ']']) && !address[..end].contains(' ');
    is_sound.then(|| (&inside[..close], &address[..end], close + end + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str, columns: usize) -> Vec<String> {
        rows(source, columns, Theme::Colored).iter().map(ToString::to_string).collect()
    }

    /// The pieces of the first row that have this modifier.
    fn with(source: &str, modifier: Modifier) -> Vec<String> {
        let row = rows(source, 200, Theme::Colored).remove(0);
        let spans = row.spans.into_iter().filter(|span| span.style.add_modifier.contains(modifier));
        spans.map(|span| span.content.into_owned()).collect()
    }

    #[test]
    fn emphasis_becomes_a_style_and_its_marks_vanish() {
        assert_eq!(shown("a **b c** *d* ~~e~~ __f__ _g_", 80), ["a b c d e f g"]);
        assert_eq!(with("a **b c** *d* __f__ _g_", Modifier::BOLD), ["b c", "f"]);
        assert_eq!(with("a **b** *d* _g_", Modifier::ITALIC), ["d", "g"]);
        assert_eq!(with("**bold *both* bold**", Modifier::BOLD), ["bold ", "both", " bold"]);
        assert_eq!(with("**bold *both* bold**", Modifier::ITALIC), ["both"]);
    }

    #[test]
    fn what_only_looks_like_emphasis_stays() {
        for text in ["snake_case_name", "2 * 3 * 4", "a ** b", "*open", "**open", "_", "`open", "[a] (b)", "a[0](", "`"]
        {
            assert_eq!(shown(text, 80), [text]);
        }
        assert_eq!(shown(r"\*not\* \_this\_", 80), ["*not* _this_"]);
    }

    #[test]
    fn code_keeps_its_characters() {
        assert_eq!(shown("use `a **b** _c_` now", 80), ["use a **b** _c_ now"]);
        assert_eq!(shown("``a ` b``", 80), ["a ` b"]);
        let fenced = "before\n```rust\nfn **main**() {\n\tx\n```\nafter";
        assert_eq!(shown(fenced, 80), ["before", "│ fn **main**() {", "│     x", "after"]);
        assert_eq!(shown("```\nnever closed", 80), ["│ never closed"]);
    }

    #[test]
    fn lists_headings_quotes_and_links_are_shown_simply() {
        assert_eq!(
            shown("# Plan\n- one\n  * two\n12. twelve\n> said", 80),
            ["Plan", "• one", "  • two", "12. twelve", "│ said"]
        );
        assert_eq!(shown("see [the docs](http://x/y)", 80), ["see the docs (http://x/y)"]);
        assert_eq!(with("see [the docs](http://x/y)", Modifier::UNDERLINED), ["the docs"]);
    }

    #[test]
    fn a_prompt_has_a_first_line() {
        assert_eq!(first_line("\n```\n# The **plan**\nmore"), "The plan");
        assert_eq!(first_line(""), "");
    }

    #[test]
    fn rows_are_broken_between_words_and_hang_below_their_text() {
        assert_eq!(shown("- one two three", 9), ["• one two ", "  three"]);
        assert_eq!(with("aaa **bbb", Modifier::BOLD), Vec::<String>::new());
        let broken = rows("aaa **bbb ccc** ddd", 7, Theme::Colored);
        assert_eq!(broken[1].spans[0].style.add_modifier, Modifier::BOLD, "{broken:?}");
        assert!(shown("漢字漢字 漢字", 5).iter().all(|row| text::width(row.trim_end()) <= 5));
    }

    #[test]
    fn nothing_reaches_the_terminal_that_would_act_on_it() {
        let wild = "\x1b[2J **\x07** `\x1b]0;x\x07`\n```\n\x1b[31m\u{9b}1m\u{202e}\n```\n[\x1b](\x1b[1m)\n- \x08";
        for row in shown(wild, 80) {
            assert!(!row.chars().any(char::is_control) && !row.contains('\u{202e}'), "{row:?}");
        }
    }

    #[test]
    fn every_width_can_be_drawn() {
        let source = "# H\n- **a** b\n```\ncode\n```\n    deep *x* 漢字 [l](u)\n> q\n\n1. z";
        for columns in 0..40 {
            shown(source, columns);
        }
        for end in (0..source.len()).filter(|end| source.is_char_boundary(*end)) {
            shown(&source[..end], 10);
        }
    }
}
