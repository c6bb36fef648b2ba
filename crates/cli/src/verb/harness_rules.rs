//! `coven harness rules`: lists the rules for an agent's screen and signals, and tries them on a recording.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use coven_engine::evidence::{Finding, ScreenMatch, match_screen, match_signal};
use coven_files::Links;
use coven_harness::Harness;
use coven_harness::rules::{Match, Rule, RuleInput, RuleSet};
use coven_screen::Screen;
use serde::Serialize;

use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::ledger::{Ledger, size_of};
use crate::output;
use crate::table::Table;

/// Size of a recording that does not say its size.
const DEFAULT_SIZE: (u16, u16) = (24, 80);
/// Maximum number of bytes between two evaluations of the screen.
const PIECE_BYTES: usize = 512;

#[derive(Debug, Subcommand)]
pub enum RulesVerb {
    /// Lists the rules of a harness in the order in which they are tried
    #[command(after_help = "Examples:
  coven harness rules list shell
  coven harness rules list claude --json")]
    List {
        /// Harness id
        #[arg(value_name = "HARNESS", value_parser = NonEmptyStringValueParser::new())]
        harness: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Plays a recording and prints every rule that matches
    #[command(after_help = "Examples:
  coven harness rules test 1a2b                       the log of a session
  coven harness rules test recording --harness mine   a file with the bytes of a terminal
  coven harness rules test recording --harness mine --rows 40 --cols 120 --json

A line `settled` means that a dialog is no longer on the screen.")]
    Test {
        /// File, session id, or unique prefix of it
        #[arg(value_name = "RECORDING", value_parser = NonEmptyStringValueParser::new())]
        recording: String,
        /// Harness whose rules are tried [default: the one of the session]
        #[arg(long)]
        harness: Option<String>,
        /// Rows of the terminal at the start [default: those of the session, else 24]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
        rows: Option<u16>,
        /// Columns of the terminal at the start [default: those of the session, else 80]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=1000))]
        cols: Option<u16>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub fn run(verb: RulesVerb, place: &Place) -> Result<ExitCode, Failure> {
    match verb {
        RulesVerb::List { harness, json } => list(&harness_of(place, &harness)?, json)?,
        RulesVerb::Test { recording, harness, rows, cols, json } => {
            test(place, &recording, harness, (rows, cols), json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn harness_of(place: &Place, id: &str) -> Result<Harness, Failure> {
    let (_, config, withheld) = place.config()?;
    if withheld.has(&format!("harnesses.{id}")) {
        let what = format!("the definition of the harness {id:?} is not in force");
        return Err(Failure::refused(what, "Read it and agree with `coven trust`"));
    }
    let harnesses = coven_harness::all(&config.harnesses);
    let known: Vec<String> = harnesses.iter().map(|harness| harness.id.clone()).collect();
    let found = harnesses.into_iter().find(|harness| harness.id == id);
    found.ok_or_else(|| {
        Failure::not_found(format!("no harness is named {id:?}"), format!("Choose one of: {}", known.join(", ")))
    })
}

#[derive(Serialize)]
struct RulesRecord<'a> {
    harness: &'a str,
    /// The version of the program that the built-in rules were tested with.
    tested_with: Option<&'a str>,
    rules: &'a [Rule],
}

fn list(harness: &Harness, json: bool) -> Result<(), Failure> {
    let rules = &harness.rules;
    let tested_with = rules.tested_with.as_deref();
    if json {
        return output::record(&RulesRecord { harness: &harness.id, tested_with, rules: rules.rules() });
    }
    if rules.is_empty() {
        return output::line(format_args!(
            "The harness {} has no rules; add some as harnesses.{}.rules",
            harness.id, harness.id
        ));
    }
    let mut table = Table::new(&["RULE", "ON", "MEANS", "IF", "DETAIL"], &[3, 4]);
    for rule in rules.rules() {
        let detail = rule.detail.clone().unwrap_or_default();
        table.row([rule.name.clone(), rule.on.to_string(), rule.means.to_string(), conditions(rule), detail]);
    }
    output::text(&table.text(output::terminal_size().map(|(_, cols)| usize::from(cols))))?;
    match tested_with {
        Some(version) => output::line(format_args!("\nThe built-in rules were tested with {version}.")),
        None => Ok(()),
    }
}

fn conditions(rule: &Rule) -> String {
    let listed = |name: &str, texts: &[String]| match texts {
        [] => None,
        texts => {
            Some(format!("{name} {}", texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ")))
        }
    };
    let all = [
        listed("all", &rule.all),
        listed("any", &rule.any),
        listed("starts", &rule.starts),
        listed("none", &rule.none),
        rule.bottom.map(|lines| format!("last {lines} lines")),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// A rule that matched at an offset of the recording.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct MatchRecord {
    /// Number of bytes that were played.
    offset: u64,
    on: RuleInput,
    rule: String,
    means: String,
    detail: Option<String>,
}

#[derive(Serialize)]
struct TestRecord<'a> {
    harness: &'a str,
    matches: &'a [MatchRecord],
}

fn test(
    place: &Place,
    recording: &str,
    harness: Option<String>,
    size: (Option<u16>, Option<u16>),
    json: bool,
) -> Result<(), Failure> {
    let file = PathBuf::from(recording);
    let (harness, matches) = match file.is_file() {
        true => test_file(place, &file, harness, size)?,
        false => block_on(test_session(place, recording, harness, size))?,
    };
    if json {
        return output::record(&TestRecord { harness: &harness.id, matches: &matches });
    }
    if matches.is_empty() {
        return output::line(format_args!("No rule of the harness {} matches.", harness.id));
    }
    let mut table = Table::new(&["OFFSET", "ON", "RULE", "MEANS", "DETAIL"], &[4]);
    for found in matches {
        let detail = found.detail.unwrap_or_default();
        table.row([found.offset.to_string(), found.on.to_string(), found.rule, found.means, detail]);
    }
    output::text(&table.text(output::terminal_size().map(|(_, cols)| usize::from(cols))))
}

fn test_file(
    place: &Place,
    path: &Path,
    harness: Option<String>,
    (rows, cols): (Option<u16>, Option<u16>),
) -> Result<(Harness, Vec<MatchRecord>), Failure> {
    let hint = "Add --harness NAME; `coven harness list` prints the names";
    let id = harness.ok_or_else(|| Failure::usage("a file does not say which harness wrote it", hint))?;
    let harness = harness_of(place, &id)?;
    let failed = |source| Failure::File { path: path.to_owned(), source };
    let mut file = coven_files::open(path, Links::Follow).map_err(|error| failed(error.into()))?;
    let mut player = Player::new(&harness.rules, (rows.unwrap_or(DEFAULT_SIZE.0), cols.unwrap_or(DEFAULT_SIZE.1)));
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            count => player.play(&buffer[..count]),
        }
    }
    let matches = player.end();
    Ok((harness, matches))
}

async fn test_session(
    place: &Place,
    id: &str,
    harness: Option<String>,
    (rows, cols): (Option<u16>, Option<u16>),
) -> Result<(Harness, Vec<MatchRecord>), Failure> {
    let mut link = DaemonClient::open(&place.home()?).await?;
    let record = link.session(id).await?;
    let harness = harness_of(place, harness.as_deref().unwrap_or(&record.harness))?;
    let mut player = Player::new(&harness.rules, (rows.unwrap_or(DEFAULT_SIZE.0), cols.unwrap_or(DEFAULT_SIZE.1)));
    let (id, mut is_first) = (record.id.to_string(), true);
    let mut ledger = Ledger::after(&id, 0);
    while let Some(entry) = ledger.next(&mut link).await? {
        if let Some((known_rows, known_cols)) = size_of(&entry) {
            let given = if is_first { (rows, cols) } else { (None, None) };
            player.screen.resize(given.0.unwrap_or(known_rows), given.1.unwrap_or(known_cols));
            is_first = false;
        }
        if entry.kind == coven_domain::entry::EntryKind::Output {
            player.play(&entry.bytes());
        }
    }
    let matches = player.end();
    Ok((harness, matches))
}

/// Plays bytes through a screen and collects the rules that match.
struct Player<'a> {
    rules: &'a RuleSet,
    screen: Screen,
    on_screen: ScreenMatch,
    /// Name of the screen rule that matched last.
    shown: String,
    offset: u64,
    /// Bytes since the last evaluation of the screen.
    unseen: usize,
    found: Vec<MatchRecord>,
}

impl<'a> Player<'a> {
    fn new(rules: &'a RuleSet, (rows, cols): (u16, u16)) -> Self {
        let (screen, on_screen) = (Screen::new(rows, cols), ScreenMatch::default());
        Self { rules, screen, on_screen, shown: String::new(), offset: 0, unseen: 0, found: Vec::new() }
    }

    fn play(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // Control strings end with BEL or ESC \, so a piece has at most one signal.
            let limit = bytes.len().min(PIECE_BYTES - self.unseen);
            let end = bytes[..limit].iter().position(|byte| matches!(byte, 0x07 | b'\\' | 0x9c));
            let (piece, rest) = bytes.split_at(end.map_or(limit, |end| end + 1));
            self.step(piece);
            bytes = rest;
        }
    }

    fn step(&mut self, piece: &[u8]) {
        self.screen.feed(piece);
        (self.offset, self.unseen) = (self.offset + piece.len() as u64, self.unseen + piece.len());
        for signal in self.screen.take_signals() {
            if let Some(found) = match_signal(self.rules, &signal) {
                self.found.push(of_match(self.offset, &found));
            }
        }
        if self.unseen == PIECE_BYTES {
            self.evaluate();
        }
    }

    fn evaluate(&mut self) {
        self.unseen = 0;
        if !self.rules.reads(RuleInput::Screen) {
            return;
        }
        let text = self.screen.text();
        let found = match_screen(self.rules, &text);
        for (fact, _) in self.on_screen.update(found.as_ref()) as Vec<Finding> {
            match found.as_ref().filter(|found| found.rule.means.fact() == fact) {
                Some(found) => {
                    self.shown.clone_from(&found.rule.name);
                    self.found.push(of_match(self.offset, found));
                }
                None => self.found.push(MatchRecord {
                    offset: self.offset,
                    on: RuleInput::Screen,
                    rule: self.shown.clone(),
                    means: fact.to_string(),
                    detail: None,
                }),
            }
        }
    }

    /// Evaluates the last screen. A dialog counts as closed only after two screens without it.
    fn end(mut self) -> Vec<MatchRecord> {
        self.evaluate();
        self.evaluate();
        self.found
    }
}

fn of_match(offset: u64, found: &Match<'_>) -> MatchRecord {
    let (on, rule, means) = (found.rule.on, found.rule.name.clone(), found.rule.means.to_string());
    MatchRecord { offset, on, rule, means, detail: found.detail.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
tested_with = "1"
[[rule]]
name = "trust"
on = "screen"
means = "question"
all = ["Do you trust"]
detail = "asks: {line}"
[[rule]]
name = "spinner"
on = "title"
means = "working"
starts = ["*"]
"#;

    #[test]
    fn every_match_has_the_offset_at_which_it_is_complete() {
        let rules = RuleSet::parse(RULES).expect("valid rules");
        let mut player = Player::new(&rules, (24, 80));
        let dialog = format!("Do you trust it?{}", " ".repeat(2 * PIECE_BYTES));
        let closed = format!("\x1b[2J{}", "\x1b[H".repeat(PIECE_BYTES));
        for text in ["\x1b]0;* one\x07", "\x1b]0;* two\x1b\\", &dialog, &closed] {
            player.play(text.as_bytes());
        }
        let found = player.end();
        let short: Vec<(&str, &str)> = found.iter().map(|it| (it.rule.as_str(), it.means.as_str())).collect();
        let expected = [("spinner", "working"), ("spinner", "working"), ("trust", "question"), ("trust", "settled")];
        assert_eq!(short, expected, "{found:?}");
        assert_eq!((found[0].offset, found[1].offset), (10, 21));
        assert_eq!(found[2].detail.as_deref(), Some("asks: Do you trust it?"));
    }
}
