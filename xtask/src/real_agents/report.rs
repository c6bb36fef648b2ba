//! The outcome of the trials: one row for each agent, as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::Outcome;
use super::catalogue::Agent;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "note")]
pub enum Check {
    Passed(String),
    Failed(String),
    /// An earlier step did not get so far.
    NotReached,
}

impl From<Outcome<String>> for Check {
    fn from(outcome: Outcome<String>) -> Self {
        match outcome {
            Ok(note) => Self::Passed(note),
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

impl Check {
    pub fn has_passed(&self) -> bool {
        matches!(self, Self::Passed(_))
    }

    fn cell(&self) -> &str {
        match self {
            Self::Passed(note) => note,
            Self::Failed(_) => "NO",
            Self::NotReached => "-",
        }
    }
}

#[derive(Debug, Serialize)]
pub struct Row {
    pub agent: &'static str,
    pub version: Check,
    pub launched: Check,
    pub screen_shows: Check,
    pub input_works: Check,
    pub survives: Check,
    pub identity: Check,
    pub kill: Check,
    pub limit: Option<&'static str>,
    /// What was on the screen when something failed.
    pub last_screen: Option<String>,
}

impl Row {
    pub fn new(agent: &Agent) -> Self {
        Self {
            agent: agent.name,
            version: Check::NotReached,
            launched: Check::NotReached,
            screen_shows: Check::NotReached,
            input_works: Check::NotReached,
            survives: Check::NotReached,
            identity: Check::NotReached,
            kill: Check::NotReached,
            limit: agent.limit,
            last_screen: None,
        }
    }

    pub fn not_started(agent: &Agent, reason: String) -> Self {
        Self { launched: Check::Failed(reason), ..Self::new(agent) }
    }

    pub fn has_passed(&self) -> bool {
        self.checks().iter().all(|(_, check)| check.has_passed())
    }

    fn checks(&self) -> [(&'static str, &Check); 7] {
        [
            ("version", &self.version),
            ("launched", &self.launched),
            ("screen shows", &self.screen_shows),
            ("input works", &self.input_works),
            ("survives kill -9 of the daemon", &self.survives),
            ("identity seen", &self.identity),
            ("kill", &self.kill),
        ]
    }
}

/// The table, then what failed and how, then what each agent cannot do.
pub fn table(rows: &[Row]) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    if let Some(first) = rows.first() {
        let names = first.checks().map(|(name, _)| name);
        lines.push(["agent"].into_iter().chain(names).chain(["verdict"]).map(str::to_owned).collect());
    }
    for row in rows {
        let cells = row.checks().map(|(_, check)| check.cell().to_owned());
        let verdict = if row.has_passed() { "pass" } else { "FAIL" };
        lines.push([row.agent.to_owned()].into_iter().chain(cells).chain([verdict.to_owned()]).collect());
    }
    let mut text = aligned(&lines);
    for row in rows {
        for (name, check) in row.checks() {
            if let Check::Failed(reason) = check {
                let _ = writeln!(text, "{}: {name}: {reason}", row.agent);
            }
        }
        if let Some(screen) = &row.last_screen {
            let _ = writeln!(text, "{}: last screen:\n{}", row.agent, screen.trim_end());
        }
    }
    for row in rows {
        if let Some(limit) = row.limit {
            let _ = writeln!(text, "{}: limit: {limit}", row.agent);
        }
    }
    text
}

fn aligned(lines: &[Vec<String>]) -> String {
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
    fn columns_line_up() {
        let lines = [vec!["a".to_owned(), "bb".to_owned()], vec!["ccc".to_owned(), "d".to_owned()]];
        assert_eq!(aligned(&lines), "a    bb\nccc  d\n");
    }
}
