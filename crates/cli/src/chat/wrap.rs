//! Where a line of text is broken to fit a width.

use std::borrow::Cow;
use std::ops::Range;

use unicode_width::UnicodeWidthChar;

use crate::format::clean;

const TAB: usize = 4;

/// How a line may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaking {
    /// Between words; a word that is longer than a row is broken anywhere.
    Words,
    /// Anywhere: every blank counts.
    Anywhere,
}

/// The rows of a line, greedily: text added at the end changes only the last one.
pub fn rows(line: &str, columns: usize, breaking: Breaking) -> Vec<Range<usize>> {
    let columns = columns.max(1);
    let mut rows = Vec::new();
    let (mut start, mut used) = (0, 0);
    // Where the last word of this row began, and whether anything stands before it.
    let (mut word, mut has_word) = (None, false);
    for (at, c) in line.char_indices() {
        let wide = c.width().unwrap_or(0);
        if c == ' ' && breaking == Breaking::Words {
            // A blank at the edge is not seen.
            used = (used + 1).min(columns);
            word = has_word.then_some(at + 1);
            continue;
        }
        if used + wide > columns && at > start {
            let cut = word.filter(|word| *word > start).unwrap_or(at);
            rows.push(start..cut);
            used = line[cut..at].chars().map(|c| c.width().unwrap_or(0)).sum();
            (start, word) = (cut, None);
        }
        used += wide;
        has_word = true;
    }
    rows.push(start..line.len());
    rows
}

/// Text as it can stand in rows, behind what stands in `column` already: tabs become blanks, carriage returns vanish,
/// and what a terminal would act on gets the width of what stands for it.
pub fn expanded(text: &str, mut column: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => {
                let blanks = TAB - column % TAB;
                out.extend(std::iter::repeat_n(' ', blanks));
                column += blanks;
            }
            '\r' => {}
            _ => {
                out.push(c);
                column += c.width().unwrap_or(0);
            }
        }
    }
    match clean(&out) {
        Cow::Borrowed(_) => out,
        Cow::Owned(cleaned) => cleaned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(line: &str, columns: usize, breaking: Breaking) -> Vec<&str> {
        rows(line, columns, breaking).into_iter().map(|range| &line[range]).collect()
    }

    #[test]
    fn a_line_is_broken_between_words() {
        assert_eq!(broken("one two three", 7, Breaking::Words), ["one two ", "three"]);
        assert_eq!(broken("one two", 7, Breaking::Words), ["one two"]);
        assert_eq!(broken("  indented text", 10, Breaking::Words), ["  indented ", "text"]);
        assert_eq!(broken("", 7, Breaking::Words), [""]);
    }

    #[test]
    fn what_does_not_fit_at_all_is_broken_anywhere() {
        assert_eq!(broken("a incomprehensible", 7, Breaking::Words), ["a ", "incompr", "ehensib", "le"]);
        assert_eq!(broken("漢字漢字", 5, Breaking::Words), ["漢字", "漢字"]);
        assert_eq!(broken("a b  c", 3, Breaking::Anywhere), ["a b", "  c"]);
        assert_eq!(broken("漢", 0, Breaking::Anywhere), ["漢"]);
    }

    #[test]
    fn text_added_at_the_end_changes_only_the_last_row() {
        let line = "The quick brown 漢字 fox jumps over incomprehensibilities and     rests.";
        for columns in 1..30 {
            let whole = broken(line, columns, Breaking::Words);
            for (end, _) in line.char_indices().skip(1) {
                let part = broken(&line[..end], columns, Breaking::Words);
                let stable = &part[..part.len() - 1];
                assert_eq!(stable, &whole[..stable.len()], "{columns} columns, {end} bytes");
            }
        }
    }

    #[test]
    fn tabs_become_blanks_up_to_the_next_stop() {
        assert_eq!(expanded("a\tb\r", 0), "a   b");
        assert_eq!(expanded("\t", 3), " ");
    }
}
