//! The agent's output, for debugging a failed check.

use std::fs;

use super::super::coven::Coven;

/// Number of output lines to show after a failure, and their maximum length.
const LAST_LINES: usize = 12;
const LINE_LENGTH: usize = 400;

/// Returns the end of the agent's output. The full output is written next to the home, for `--keep`.
pub fn last_lines(coven: &Coven, id: &str) -> Option<String> {
    let text = coven.replay(id).ok()?;
    // Optional: only a debugging aid.
    let _ = fs::write(coven.home.with_file_name(format!("lines-{id}.jsonl")), &text);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].iter();
    Some(last.map(|line| clipped(line)).collect::<Vec<_>>().join("\n"))
}

fn clipped(line: &str) -> String {
    match line.char_indices().nth(LINE_LENGTH) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = "ä".repeat(LINE_LENGTH + 1);
        assert_eq!(clipped(&line), format!("{}…", "ä".repeat(LINE_LENGTH)));
        assert_eq!(clipped("short"), "short");
    }
}
