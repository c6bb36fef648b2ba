//! The context of the next prompt: turns since the last clear, trimmed to fit the token limit.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Turn, TurnRole};

/// Number of turns that trimming keeps at the start and at the end.
const KEPT_FIRST: usize = 2;
const KEPT_LAST: usize = 10;
const CHARS_PER_TOKEN: u64 = 4;
/// If the context is too large, a single turn takes at most a quarter of the limit.
const LARGEST_SHARE: u64 = 4;
const SEPARATOR: &str = "\n\n";

/// Estimates the number of tokens at four characters per token.
pub fn estimated_tokens(text: &str) -> u64 {
    chars(text) / CHARS_PER_TOKEN
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}

/// The number of turns that a trim kept and dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trim {
    pub kept_first: usize,
    pub kept_last: usize,
    pub dropped: usize,
}

impl fmt::Display for Trim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context trimmed. Kept first {} and last {} turns.", self.kept_first, self.kept_last)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warning {
    At80,
    At90,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::At80 => "Context at 80% capacity. Consider /clear or /save.",
            Self::At90 => "Context at 90% capacity. Auto-trimming soon.",
        })
    }
}

/// A prompt that fits the token limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted {
    pub prompt: String,
    /// Set if turns were removed from the context; the caller records it in the file.
    pub trimmed: Option<Trim>,
    /// A turn or the message was too large; its middle was removed.
    pub is_cut: bool,
}

/// The turns of a conversation in the next prompt: some at the start, and all from a later turn on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    first: Range<usize>,
    last: Range<usize>,
    warned: Option<Warned>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Warned {
    of: Warning,
    turns: usize,
}

impl Context {
    /// Creates a context without the turns before `turn`.
    pub fn starting_at(turn: usize) -> Self {
        Self { first: turn..turn, last: turn..turn, warned: None }
    }

    /// Extends the context to the first `turns` turns of the conversation.
    pub fn grow_to(&mut self, turns: usize) {
        self.last.end = self.last.end.max(turns);
    }

    /// Keeps this many turns at the start and at the end. Returns `None` if no turn was dropped.
    pub fn trim(&mut self, kept_first: usize, kept_last: usize) -> Option<Trim> {
        let before = self.len();
        if kept_first.saturating_add(kept_last) >= before {
            return None;
        }
        self.first.end = match self.first.end == self.last.start {
            // No turns were dropped yet: the context is one contiguous range.
            true => self.first.start + kept_first,
            false => self.first.end.min(self.first.start + kept_first),
        };
        self.last.start = self.last.start.max(self.last.end - kept_last.min(self.last.len()));
        Some(Trim { kept_first: self.first.len(), kept_last: self.last.len(), dropped: before - self.len() })
    }

    /// Returns the number of turns.
    pub fn len(&self) -> usize {
        self.first.len() + self.last.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the turns in order.
    pub fn turns<'t>(&self, turns: &'t [Turn]) -> impl Iterator<Item = &'t Turn> + use<'t> {
        turns[self.first.clone()].iter().chain(&turns[self.last.clone()])
    }

    /// Estimates the size of the context in tokens.
    pub fn tokens(&self, turns: &[Turn]) -> u64 {
        self.chars(turns, u64::MAX) / CHARS_PER_TOKEN
    }

    /// Returns each warning level once; again if usage fell below 80 % in between.
    pub fn warning(&mut self, turns: &[Turn], max_tokens: u64) -> Option<Warning> {
        let used = u128::from(self.tokens(turns)) * 100;
        let is_at = |percent: u128| max_tokens > 0 && used >= u128::from(max_tokens) * percent;
        let of = match (is_at(80), is_at(90)) {
            (_, true) => Warning::At90,
            (true, false) => Warning::At80,
            (false, false) => {
                self.warned = None;
                return None;
            }
        };
        let is_new = self.warned.is_none_or(|warned| warned.of < of);
        if self.warned.is_none_or(|warned| warned.of != of) {
            self.warned = Some(Warned { of, turns: self.last.end });
        }
        is_new.then_some(of)
    }

    /// Builds the prompt for this message. Trims one turn after the 90 % warning, or earlier if it would not fit.
    pub fn fit(&mut self, turns: &[Turn], message: &str, max_tokens: u64) -> Fitted {
        let room = max_tokens.saturating_mul(CHARS_PER_TOKEN);
        let fits = |context: &Self, cap| context.prompt_chars(turns, message, cap) <= room;
        let is_due = self.warned.is_some_and(|warned| warned.of == Warning::At90 && warned.turns < self.last.end);
        let before = self.len();
        if is_due || !fits(self, u64::MAX) {
            self.trim(KEPT_FIRST, KEPT_LAST);
        }
        let cap = if fits(self, u64::MAX) { u64::MAX } else { room / LARGEST_SHARE };
        while !fits(self, cap) && !self.is_empty() {
            self.drop_one();
        }
        let dropped = before - self.len();
        let trimmed = (dropped > 0).then(|| Trim { kept_first: self.first.len(), kept_last: self.last.len(), dropped });
        if trimmed.is_some() {
            self.warned = None;
        }
        let prompt = self.render(turns, message, cap);
        let is_cut = self.turns(turns).any(|turn| chars(&turn.content) > cap) || chars(&prompt) > room;
        // Only the message is left.
        let prompt = if chars(&prompt) > room { without_middle(&prompt, room).into_owned() } else { prompt };
        Fitted { prompt, trimmed, is_cut }
    }

    /// Drops the oldest turn of the end part, or one of the start part once the end is a single exchange.
    fn drop_one(&mut self) {
        let (first, last) = match self.first.end == self.last.start {
            true => (KEPT_FIRST.min(self.len() / 2), self.len() - KEPT_FIRST.min(self.len() / 2)),
            false => (self.first.len(), self.last.len()),
        };
        match first > 0 && last <= 2 {
            true => self.trim(first - 1, last),
            false => self.trim(first, last.saturating_sub(1)),
        };
    }

    fn render(&self, turns: &[Turn], message: &str, cap: u64) -> String {
        if self.is_empty() {
            return message.to_owned();
        }
        let mut prompt = String::new();
        for turn in &turns[self.first.clone()] {
            push_block(&mut prompt, turn.role, &without_middle(&turn.content, cap));
        }
        if let Some(marker) = self.marker() {
            prompt.push_str(&marker);
            prompt.push_str(SEPARATOR);
        }
        for turn in &turns[self.last.clone()] {
            push_block(&mut prompt, turn.role, &without_middle(&turn.content, cap));
        }
        push_block(&mut prompt, TurnRole::User, message);
        prompt.truncate(prompt.len() - SEPARATOR.len());
        prompt
    }

    fn prompt_chars(&self, turns: &[Turn], message: &str, cap: u64) -> u64 {
        match self.is_empty() {
            true => chars(message),
            false => self.chars(turns, cap) + block_chars(TurnRole::User, chars(message)) - chars(SEPARATOR),
        }
    }

    fn chars(&self, turns: &[Turn], cap: u64) -> u64 {
        let blocks = self.turns(turns).map(|turn| block_chars(turn.role, chars(&turn.content).min(cap)));
        let marker = self.marker().map_or(0, |marker| chars(&marker) + chars(SEPARATOR));
        blocks.sum::<u64>() + marker
    }

    fn marker(&self) -> Option<String> {
        match self.last.start - self.first.end {
            0 => None,
            1 => Some("[1 earlier turn is left out here]".to_owned()),
            count => Some(format!("[{count} earlier turns are left out here]")),
        }
    }
}

fn push_block(prompt: &mut String, role: TurnRole, text: &str) {
    prompt.push_str(role.label());
    prompt.push_str(": ");
    prompt.push_str(text);
    prompt.push_str(SEPARATOR);
}

fn block_chars(role: TurnRole, text: u64) -> u64 {
    chars(role.label()) + chars(": ") + text + chars(SEPARATOR)
}

/// Shortens the text to `max_chars` by replacing its middle with a marker.
fn without_middle(text: &str, max_chars: u64) -> Cow<'_, str> {
    // A character has at least one byte.
    if text.len() as u64 <= max_chars || chars(text) <= max_chars {
        return text.into();
    }
    let marker = format!("{SEPARATOR}[the middle of {} characters is left out here]{SEPARATOR}", chars(text));
    let Some(left) = max_chars.checked_sub(chars(&marker)) else {
        return text.chars().take(usize::try_from(max_chars).unwrap_or(usize::MAX)).collect();
    };
    let (head, tail) = (left - left / 2, left / 2);
    let start = text.char_indices().nth(head as usize).map_or(text.len(), |(at, _)| at);
    let end = match tail {
        0 => text.len(),
        tail => text.char_indices().nth_back(tail as usize - 1).map_or(0, |(at, _)| at),
    };
    format!("{}{marker}{}", &text[..start], &text[end..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn turns(count: usize, chars: usize) -> Vec<Turn> {
        let role = |at| if at % 2 == 0 { TurnRole::User } else { TurnRole::Assistant };
        let text = |at: usize| format!("{:x<chars$}", format!("{} ", at + 1));
        (0..count).map(|at| Turn::new(role(at), text(at), Timestamp::from_millis(0))).collect()
    }

    fn all(turns: &[Turn]) -> Context {
        let mut context = Context::starting_at(0);
        context.grow_to(turns.len());
        context
    }

    fn numbers(context: &Context, turns: &[Turn]) -> Vec<usize> {
        let number = |turn: &Turn| turn.content.split(' ').next().and_then(|word| word.parse().ok());
        context.turns(turns).map(|turn| number(turn).expect("each turn starts with its number")).collect()
    }

    #[test]
    fn a_token_has_four_characters_of_any_size() {
        assert_eq!(["", "abc", "abcd", "abcdefg", "日本語日本語日本"].map(estimated_tokens), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn trimming_twenty_turns_drops_the_third_to_the_tenth() {
        let turns = turns(20, 400);
        let mut context = all(&turns);
        let max_tokens = context.tokens(&turns) - 1;
        let fitted = context.fit(&turns, "hm", max_tokens);
        let trim = fitted.trimmed.expect("too large");
        assert_eq!(trim, Trim { kept_first: 2, kept_last: 10, dropped: 8 });
        assert_eq!(trim.to_string(), "Context trimmed. Kept first 2 and last 10 turns.");
        assert_eq!(numbers(&context, &turns), [1, 2, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
        assert!(fitted.prompt.contains("\n\n[8 earlier turns are left out here]\n\nUser: 11 "), "{}", fitted.prompt);
        assert!(fitted.prompt.ends_with("\n\nUser: hm") && !fitted.is_cut);
    }

    #[test]
    fn trimming_keeps_fewer_turns_if_necessary() {
        let turns = turns(12, 400);
        let mut context = all(&turns);
        let fitted = context.fit(&turns, "hm", 650);
        assert_eq!(fitted.trimmed, Some(Trim { kept_first: 2, kept_last: 4, dropped: 6 }));
        assert_eq!(numbers(&context, &turns), [1, 2, 9, 10, 11, 12]);
    }

    #[test]
    fn a_huge_turn_loses_its_middle_before_other_turns_are_dropped() {
        let mut turns = turns(4, 40);
        turns[2].content = format!("start {} end", "y".repeat(1_000_000));
        let mut context = all(&turns);
        let fitted = context.fit(&turns, "hm", 1000);
        assert_eq!((fitted.trimmed, fitted.is_cut), (None, true));
        assert!(fitted.prompt.contains("User: start yyy") && fitted.prompt.contains("yyy end\n\n"));
        assert!(
            fitted.prompt.contains("\n\n[the middle of 1000010 characters is left out here]\n\n"),
            "{}",
            fitted.prompt
        );
    }

    #[test]
    fn a_prompt_always_fits() {
        for count in 0..30 {
            for chars in [1, 50, 3000] {
                let turns = turns(count, chars);
                for message in [String::new(), "hm".into(), "é".repeat(5000)] {
                    for max_tokens in [0, 1, 9, 30, 100, 1000, 10_000, u64::MAX] {
                        let mut context = all(&turns);
                        let fitted = context.fit(&turns, &message, max_tokens);
                        let tokens = estimated_tokens(&fitted.prompt);
                        assert!(tokens <= max_tokens, "{count} × {chars}: {tokens} of {max_tokens}");
                        assert_eq!(
                            fitted.trimmed.is_some(),
                            context.len() < count,
                            "{count} × {chars} in {max_tokens}"
                        );
                        // A recorded trim leads to the same context when the file is read again.
                        if let Some(trim) = fitted.trimmed {
                            let mut again = all(&turns);
                            again.trim(trim.kept_first, trim.kept_last);
                            assert_eq!(numbers(&again, &turns), numbers(&context, &turns));
                        }
                        assert_eq!(
                            context.fit(&turns, &message, max_tokens).trimmed,
                            None,
                            "a second fit trims no more"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_context_that_fits_is_sent_in_full() {
        let turns = turns(30, 100);
        let fitted = all(&turns).fit(&turns, "hm", 100_000);
        assert_eq!((fitted.trimmed, fitted.is_cut), (None, false));
        assert_eq!(fitted.prompt.matches(": ").count(), 31);
    }

    #[test]
    fn each_warning_is_given_once_and_trimming_follows_one_turn_later() {
        let mut turns = turns(14, 400);
        let mut context = all(&turns);
        let used = context.tokens(&turns);
        assert_eq!(context.warning(&turns, used * 2), None);
        let max = used * 100 / 82;
        let first = context.warning(&turns, max).expect("82 %");
        assert_eq!(first.to_string(), "Context at 80% capacity. Consider /clear or /save.");
        assert_eq!(context.warning(&turns, max), None, "once");

        turns.extend(super::tests::turns(2, 300));
        context.grow_to(turns.len());
        let second = context.warning(&turns, max).expect("above 90 %");
        assert_eq!(second.to_string(), "Context at 90% capacity. Auto-trimming soon.");
        assert_eq!(context.fit(&turns, "hm", max).trimmed, None, "trimming waits for one more turn");
        turns.extend(super::tests::turns(2, 4));
        context.grow_to(turns.len());
        assert_eq!(context.warning(&turns, max), None);
        let trim = context.fit(&turns, "hm", max).trimmed.expect("announced");
        assert_eq!((trim.kept_first, trim.kept_last, trim.dropped), (2, 10, 6));
        assert_eq!(context.warning(&turns, max), None, "usage is low again");
    }
}
