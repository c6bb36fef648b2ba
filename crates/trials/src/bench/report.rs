//! The rows of the benchmark table and their formatting.

use std::fmt::Write as _;

use serde::Serialize;

use super::stats::Spread;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Yes,
    No,
    /// A figure for comparison, without a bar.
    Anchor,
    /// The figure could not be measured; the measured column has the reason.
    Missing,
}

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub figure: String,
    pub measured: String,
    pub bar: String,
    pub reached: Verdict,
}

impl Row {
    pub fn at_least(figure: impl Into<String>, measured: Spread, bar: f64) -> Self {
        Self::judged(figure, measured.to_string(), format!("≥ {bar:.2}"), measured.median >= bar)
    }

    pub fn at_most(figure: impl Into<String>, measured: Spread, bar: f64) -> Self {
        Self::judged(figure, measured.to_string(), format!("≤ {bar:.2}"), measured.median <= bar)
    }

    pub fn judged(figure: impl Into<String>, measured: String, bar: impl Into<String>, reached: bool) -> Self {
        let reached = if reached { Verdict::Yes } else { Verdict::No };
        Self { figure: figure.into(), measured, bar: bar.into(), reached }
    }

    pub fn anchor(figure: impl Into<String>, measured: impl ToString) -> Self {
        Self { figure: figure.into(), measured: measured.to_string(), bar: String::new(), reached: Verdict::Anchor }
    }

    pub fn missing(figure: impl Into<String>, why: impl Into<String>) -> Self {
        Self { figure: figure.into(), measured: why.into(), bar: String::new(), reached: Verdict::Missing }
    }

    pub fn no_peer(figure: impl Into<String>, peer: &str) -> Self {
        Self::missing(figure, format!("peer not installed: {peer}"))
    }
}

pub const TABLE_HEAD: &str = "| figure | measured (median [min..max]) | bar | reached |\n|---|---|---|---|\n";

/// Formats the rows as lines of a Markdown table, without its head.
pub fn lines(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let reached = match row.reached {
            Verdict::Yes => "yes",
            Verdict::No => "**no**",
            Verdict::Anchor => "",
            Verdict::Missing => "not measured",
        };
        writeln!(text, "| {} | {} | {} | {reached} |", row.figure, row.measured, row.bar)
            .expect("writing to a string cannot fail");
    }
    text
}
