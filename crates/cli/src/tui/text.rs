//! Text as the browser shows it: control characters made visible, cut and broken to a width in columns.

use std::borrow::Cow;

use coven_domain::text::acts;
use ratatui::style::Style;
use ratatui::text::Span;
use unicode_width::UnicodeWidthStr;

/// Replaces what a terminal would act on, or not show, by something that is seen.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unseen) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_unseen(c) { stand_in(c) } else { c }).collect())
}

/// A character that acts on a terminal, or that a reader cannot see.
pub fn is_unseen(c: char) -> bool {
    acts(c)
        // Marks that turn the reading direction could make a title look like another one.
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
}

/// What is shown in place of such a character.
pub fn stand_in(c: char) -> char {
    match u32::from(c) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).expect("every C0 control has a picture"),
        0x7f => '␡',
        _ => '\u{fffd}',
    }
}

pub fn width(text: &str) -> usize {
    text.width()
}

/// The beginning of `text`, cleaned, in at most `columns`; an ellipsis tells that something is missing.
pub fn fit(text: &str, columns: usize) -> String {
    let text = clean(text);
    if text.width() <= columns {
        return text.into_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for piece in pieces(&text) {
        used += piece.width();
        if used >= columns {
            break;
        }
        kept.push_str(&piece);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// The end of `text`: for paths, whose last folder says most.
pub fn fit_end(text: &str, columns: usize) -> String {
    let text = clean(text);
    if text.width() <= columns {
        return text.into_owned();
    }
    let pieces: Vec<String> = pieces(&text).collect();
    let mut used = 0;
    let first = pieces.iter().rposition(|piece| {
        used += piece.width();
        used >= columns
    });
    let kept = pieces[first.map_or(0, |before| before + 1)..].concat();
    if columns > 0 { format!("…{kept}") } else { String::new() }
}

/// What a person sees as one character, which is more than one `char` in many an emoji.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let span = Span::raw(text);
    span.styled_graphemes(Style::new()).map(|piece| piece.symbol.to_owned()).collect::<Vec<_>>().into_iter()
}

/// Breaks `text` at blanks into lines of at most `columns`; a last line that says more than fits ends in an ellipsis.
pub fn wrap(text: &str, columns: usize, most: usize) -> Vec<String> {
    let text = clean(text);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > most {
        let rest = lines.split_off(most.saturating_sub(1)).join(" ");
        lines.push(rest);
    }
    lines.into_iter().map(|line| fit(&line, columns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_direction_marks_are_made_visible() {
        assert_eq!(clean("a\u{1b}[31m\tb\u{7f}\u{9b}\u{202e}"), "a␛[31m␉b␡\u{fffd}\u{fffd}");
        assert!(matches!(clean("плain 漢字"), Cow::Borrowed(_)));
    }

    #[test]
    fn text_is_cut_by_columns_not_by_characters() {
        assert_eq!(fit("fix the parser", 20), "fix the parser");
        assert_eq!(fit("fix the parser", 8), "fix the…");
        // Each of these takes two columns: three and the ellipsis would take seven.
        assert_eq!(fit("漢字漢字", 6), "漢字…");
        assert_eq!(fit("漢字漢字", 8), "漢字漢字");
        assert_eq!(fit("👩‍👩‍👧x👩‍👩‍👧y", 4), "👩‍👩‍👧x…");
        assert_eq!(fit("abc", 1), "…");
        assert_eq!(fit("abc", 0), "");
    }

    #[test]
    fn a_path_keeps_its_end() {
        assert_eq!(fit_end("/home/someone/project", 10), "…e/project");
        assert_eq!(fit_end("/p", 10), "/p");
        assert_eq!(fit_end("漢字漢字", 6), "…漢字");
        assert_eq!(fit_end("abc", 0), "");
    }

    #[test]
    fn a_message_is_broken_at_blanks_and_cut_at_the_end() {
        assert_eq!(wrap("one two three", 7, 3), ["one two", "three"]);
        assert_eq!(wrap("one two three four", 7, 2), ["one two", "three …"]);
        assert_eq!(wrap("incomprehensible", 7, 2), ["incomp…"]);
        assert_eq!(wrap("", 7, 2), Vec::<String>::new());
    }
}
