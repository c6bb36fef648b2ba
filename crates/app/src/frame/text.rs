//! Text from outside, made safe to show, and cut or wrapped to a width in columns.

use std::borrow::Cow;

use coven_domain::text::acts;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

const TAB_WIDTH: usize = 4;

/// Reports whether a character acts on the terminal, or changes how the text around it looks.
pub fn is_unsafe(c: char) -> bool {
    acts(c) || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
}

/// Returns the text without control characters, escape sequences and bidi controls. A line break or tab becomes a space.
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\u{1b}' => skip_escape(&mut characters),
            '\n' | '\t' => clean.push(' '),
            c if is_unsafe(c) => {}
            c => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

/// Skips the rest of an escape sequence, so that its parameters are not shown as text.
fn skip_escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.next() {
        Some('[') => {
            while let Some(c) = characters.next_if(|c| !is_unsafe(*c)) {
                if matches!(c, '\u{40}'..='\u{7e}') {
                    break;
                }
            }
        }
        Some(']' | 'P' | '_' | '^' | 'X') => {
            while let Some(c) = characters.next_if(|c| *c != '\n') {
                if c == '\u{7}' || c == '\u{9c}' || (c == '\u{1b}' && characters.next_if_eq(&'\\').is_some()) {
                    break;
                }
            }
        }
        _ => {}
    }
}

pub fn width(text: &str) -> usize {
    text.width()
}

/// Returns the start of a text, made safe, in at most `columns`; `…` marks a cut.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    let clean = line(text);
    if clean.width() <= columns {
        return clean;
    }
    let mut kept = String::new();
    let mut used = 0;
    for piece in clean.graphemes(true) {
        used += piece.width();
        if used >= columns {
            break;
        }
        kept.push_str(piece);
    }
    if columns > 0 {
        kept.push('…');
    }
    Cow::Owned(kept)
}

/// Returns the end of a text: for paths, whose last folder says most.
pub fn fit_end(text: &str, columns: usize) -> String {
    let clean = line(text);
    if clean.width() <= columns {
        return clean.into_owned();
    }
    let mut used = 0;
    let mut kept: Vec<&str> = clean
        .graphemes(true)
        .rev()
        .take_while(|piece| {
            used += piece.width();
            used < columns
        })
        .collect();
    kept.reverse();
    if columns > 0 { format!("…{}", kept.concat()) } else { String::new() }
}

/// Wraps a text of several lines at blanks; a word that is longer than a row is broken anywhere.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    text.trim_end_matches('\n').split('\n').flat_map(|row| wrap_line(row, columns)).collect()
}

fn wrap_line(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let expanded = text.trim_end_matches('\r').replace('\t', &" ".repeat(TAB_WIDTH));
    let clean = line(&expanded);
    let mut rows = Vec::new();
    let mut row = String::new();
    let mut used = 0;
    for word in clean.split_word_bounds() {
        let wide = word.width();
        if used + wide <= columns {
            row.push_str(word);
            used += wide;
            continue;
        }
        if wide <= columns {
            rows.push(std::mem::take(&mut row).trim_end().to_owned());
            used = 0;
            if !word.trim().is_empty() {
                row.push_str(word);
                used = wide;
            }
            continue;
        }
        for piece in word.graphemes(true) {
            if used + piece.width() > columns {
                rows.push(std::mem::take(&mut row));
                used = 0;
            }
            row.push_str(piece);
            used += piece.width();
        }
    }
    rows.push(row.trim_end().to_owned());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_marks_are_removed() {
        assert_eq!(line("a\u{1b}[31mred\u{1b}[0m\tb\u{7f}\u{202e}c"), "ared bc");
        assert_eq!(line("x\u{1b}]2;title\u{7}y\u{1b}]8;;http://e\u{1b}\\z"), "xyz");
        assert_eq!(line("x\u{1b}[12\u{1b}[31my\u{1b}"), "xy");
        assert!(matches!(line("плain 漢字"), Cow::Borrowed(_)));
    }

    #[test]
    fn text_is_cut_by_columns() {
        assert_eq!(fit("fix the parser", 20), "fix the parser");
        assert_eq!(fit("fix the parser", 8), "fix the…");
        assert_eq!(fit("漢字漢字", 6), "漢字…");
        assert_eq!(fit("👩‍👩‍👧x👩‍👩‍👧y", 4), "👩‍👩‍👧x…");
        assert_eq!((fit("abc", 1).as_ref(), fit("abc", 0).as_ref()), ("…", ""));
    }

    #[test]
    fn a_path_keeps_its_end() {
        assert_eq!(fit_end("/home/user/project", 10), "…r/project");
        assert_eq!(fit_end("/p", 10), "/p");
        assert_eq!(fit_end("漢字漢字", 6), "…漢字");
    }

    #[test]
    fn text_is_wrapped_at_blanks_and_long_words_anywhere() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a\n\nb\n", 7), ["a", "", "b"]);
        assert_eq!(wrap("incomprehensible x", 6), ["incomp", "rehens", "ible x"]);
        assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"]);
    }
}
