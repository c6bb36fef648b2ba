//! Recognises a reached limit, and when it resets, in the text of an agent.

use std::time::Duration;

use coven_domain::Timestamp;

/// Number of lines at the end of an output that may contain the error that ended the agent.
const LAST_LINES: usize = 20;
/// A time further away is a number that means something else.
const MAX_WAIT: Duration = Duration::from_secs(31 * 86_400);

/// Lower-case texts of errors about a quota or a rate limit.
const PHRASES: [&str; 12] = [
    "rate limit",
    "rate_limit",
    "ratelimit",
    "usage limit",
    "usage_limit",
    "session limit reached",
    "weekly limit reached",
    "quota exceeded",
    "exceeded your current quota",
    "resource_exhausted",
    "too many requests",
    "insufficient_quota",
];
/// Lower-case words in front of the time until the reset.
const BEFORE_DURATION: [&str; 7] =
    ["try again in", "retry in", "retrying in", "retry after", "retry-after", "resets in", "reset in"];
/// Lower-case words in front of the time of the reset.
const BEFORE_TIME: [&str; 6] = ["try again at", "resets at", "reset at", "reset_at", "resets_at", "until"];

/// A limit that an agent reported in its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReport {
    /// The line that says so.
    pub line: String,
    pub resets_at: Option<Timestamp>,
}

/// Finds the limit that ended an agent, in the last lines of its output.
pub fn find(output: &str, now: Timestamp) -> Option<LimitReport> {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    let line = last.iter().rev().find(|line| is_limit(line))?;
    // The time may be on another line of the same error.
    let resets_at = reset_time(line, now).or_else(|| last.iter().rev().find_map(|line| reset_time(line, now)));
    Some(LimitReport { line: line.trim().to_owned(), resets_at })
}

fn is_limit(line: &str) -> bool {
    let line = line.to_lowercase();
    PHRASES.iter().any(|phrase| line.contains(phrase)) || (line.contains("429") && line.contains("error"))
}

/// Returns the time at which a limit resets, if the text says so: `try again in 2 hours 5 minutes`, a time in ISO 8601, or
/// seconds since 1970 after `|` or a word such as `resets_at`.
pub fn reset_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    let lower = text.to_ascii_lowercase();
    let rest_after = |words: &[&str]| words.iter().find_map(|word| lower.split_once(word).map(|(_, rest)| rest));
    let found = rest_after(&BEFORE_DURATION)
        .and_then(duration)
        .map(|wait| now.after(wait))
        .or_else(|| rest_after(&BEFORE_TIME).and_then(moment))
        .or_else(|| lower.rsplit_once('|').and_then(|(_, rest)| epoch(rest)));
    found.filter(|reset| *reset >= now && reset.since(now) <= MAX_WAIT)
}

/// Parses `2 hours 5 minutes`, `1h30m`, `1.5s` and `30`, which means seconds.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start_matches([' ', ':', '"', '=', '\'']);
    let mut total: Option<Duration> = None;
    while let Some((number, after)) = leading_number(rest) {
        let after = after.trim_start_matches(' ');
        let word: String = after.chars().take_while(char::is_ascii_alphabetic).collect();
        let seconds = match word.as_str() {
            "ms" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ if total.is_none() => return Duration::try_from_secs_f64(number).ok(),
            _ => break,
        };
        total = total.unwrap_or_default().checked_add(Duration::try_from_secs_f64(number * seconds).ok()?);
        rest = after[word.len()..].trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    total
}

fn leading_number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].trim_end_matches('.');
    Some((number.parse().ok()?, &text[end..]))
}

/// Parses a time in ISO 8601, or seconds or milliseconds since 1970.
fn moment(text: &str) -> Option<Timestamp> {
    let rest = text.trim_start_matches([' ', ':', '"', '=', '\'']);
    let word = rest.split([' ', '"', ',', '\'', '}', ')']).next()?;
    word.trim_end_matches('.').to_ascii_uppercase().parse().ok().or_else(|| epoch(rest))
}

fn epoch(text: &str) -> Option<Timestamp> {
    let text = text.trim_start();
    let digits = &text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())];
    let number: i64 = digits.parse().ok()?;
    match digits.len() {
        10 => Some(Timestamp::from_millis(number * 1000)),
        13 => Some(Timestamp::from_millis(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-02T03:04:05Z.
    const NOW: Timestamp = Timestamp::from_millis(1_767_323_045_000);

    fn seconds(text: &str) -> Option<u64> {
        reset_time(text, NOW).map(|reset| reset.since(NOW).as_secs())
    }

    #[test]
    fn the_time_of_the_reset_is_found_in_many_forms() {
        for (text, expected) in [
            ("You've hit your usage limit. Try again in 3 days 2 hours 5 minutes.", Some(266_700)),
            ("rate limit; please retry after 30 seconds", Some(30)),
            ("Please try again in 1.5s. Visit the page", Some(1)),
            ("{\"retry-after\": \"12\"}", Some(12)),
            ("retrying in 1h30m", Some(5400)),
            ("limit reached|1767323105", Some(60)),
            ("limit reached|1767323105000 end", Some(60)),
            ("{\"resets_at\":1767323105,\"x\":1}", Some(60)),
            ("your limit resets at 2026-01-02T03:05:05Z.", Some(60)),
            ("resets at 3pm", None),
            ("try again in a moment", None),
            // Past, and too far away.
            ("limit reached|1667323105", None),
            ("limit reached|1967323105", None),
            ("nothing", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn only_the_last_lines_count_and_the_time_may_be_on_another_line() {
        let output = "working\nError: 429 {\"type\":\"error\"}\nretry after 20s\n\n";
        let report = find(output, NOW).expect("a limit");
        assert_eq!(report.line, "Error: 429 {\"type\":\"error\"}");
        assert_eq!(report.resets_at, Some(NOW.after(Duration::from_secs(20))));
        let old = format!("usage limit reached\n{}", "later\n".repeat(30));
        assert_eq!(find(&old, NOW), None);
        assert_eq!(find("all 429 tests passed", NOW), None);
        assert_eq!(find("HTTP 429 Too Many Requests", NOW).map(|report| report.resets_at), Some(None));
        assert_eq!(find("", NOW), None);
    }
}
