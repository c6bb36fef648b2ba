//! What an agent wrote, for whoever looks into a check that failed.

use std::fs;

use super::super::coven::Coven;

/// Lines of the agent that are shown when something failed, and how much of each.
const LAST_LINES: usize = 12;
const LINE_LENGTH: usize = 400;

/// The end of what the agent wrote; the whole stays beside the home if the run's folders are kept.
pub fn last_lines(coven: &Coven, id: &str) -> Option<String> {
    let text = coven.replay(id).ok()?;
    // It is only for whoever looks into the folder.
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
