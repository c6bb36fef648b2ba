//! Results of the trials: one row per agent, as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::TrialResult;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "note")]
pub enum Check {
    Passed(String),
    /// A known limit of the agent, independent of coven.
    Limit(String),
    Failed(String),
    /// The agent could not be installed, with the reason.
    NotInstalled(String),
    /// An earlier check failed.
    NotReached,
}

impl From<TrialResult<String>> for Check {
    fn from(outcome: TrialResult<String>) -> Self {
        match outcome {
            Ok(note) => Self::Passed(note),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

impl Check {
    pub fn has_passed(&self) -> bool {
        matches!(self, Self::Passed(_) | Self::Limit(_))
    }

    fn cell(&self) -> &str {
        match self {
            Self::Passed(note) | Self::Limit(note) => note,
            Self::Failed(_) => "NO",
            Self::NotInstalled(_) => "not installed",
            Self::NotReached => "-",
        }
    }
}

/// The results of one agent.
pub trait Row {
    fn agent(&self) -> &'static str;
    fn checks(&self) -> Vec<(&'static str, &Check)>;
    /// Returns the agent's limits, independent of coven.
    fn notes(&self) -> Option<&'static str>;
    /// Returns the last output, if a check failed.
    fn evidence(&self) -> Option<&str>;

    fn has_passed(&self) -> bool {
        self.was_tried() && !self.checks().iter().any(|(_, check)| matches!(check, Check::Failed(_)))
    }

    fn was_tried(&self) -> bool {
        !self.checks().iter().any(|(_, check)| matches!(check, Check::NotInstalled(_)))
    }
}

/// Formats the table, followed by the failures.
pub fn table(rows: &[impl Row]) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    if let Some(first) = rows.first() {
        let names = first.checks().into_iter().map(|(name, _)| name);
        lines.push(["agent"].into_iter().chain(names).chain(["verdict", "notes"]).map(str::to_owned).collect());
    }
    for row in rows {
        let checks = row.checks();
        let cells = checks.iter().map(|(_, check)| check.cell());
        let verdict = match (row.was_tried(), row.has_passed()) {
            (false, _) => "-",
            (true, true) => "pass",
            (true, false) => "FAIL",
        };
        let notes = row.notes().unwrap_or_default();
        lines.push([row.agent()].into_iter().chain(cells).chain([verdict, notes]).map(str::to_owned).collect());
    }
    let mut text = aligned(&lines);
    for row in rows {
        for (name, check) in row.checks() {
            if let Check::Failed(reason) | Check::NotInstalled(reason) = check {
                let _ = writeln!(text, "{}: {name}: {reason}", row.agent());
            }
        }
        if let Some(evidence) = row.evidence() {
            let _ = writeln!(text, "{}: last output:\n{}", row.agent(), evidence.trim_end());
        }
    }
    text
}

pub fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let lines = [vec!["a".to_owned(), "bb".to_owned()], vec!["ccc".to_owned(), "d".to_owned()]];
        assert_eq!(aligned(&lines), "a    bb\nccc  d\n");
    }
}
