//! `coven --help`: the verbs people use, in groups, on one screen. `coven help --all` has every verb.

use std::ffi::OsString;

use clap::Command;

/// Groups of verbs in the order of the help. Verbs of no group are for programs; `coven help --all` lists them too.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Sessions",
        &[
            "run", "sessions", "attach", "chat", "prompt", "input", "screen", "show", "why", "wait", "start", "finish",
            "kill", "rename",
        ],
    ),
    ("Answering", &["inbox", "answer", "questions", "ask", "mcp"]),
    ("Tasks", &["board", "task", "workflow", "repo"]),
    ("History", &["replay", "export", "archive", "summon", "sacrifice", "spawn"]),
    ("Setup", &["init", "daemon", "doctor", "config", "harness", "trust", "db", "completions"]),
];
/// Columns of the help, as everywhere.
const MAX_COLS: usize = 100;

const FIRST_STEPS: &str = "\
First steps:
  coven                              the app: all sessions, who needs you, a terminal to type into
  coven run demo                     a scripted agent, to see how it works
  coven run claude \"fix the tests\"   an agent in this folder; Ctrl-\\ detaches
";

/// Returns the help for a command line that asks for it, if that is what it does.
pub fn asked_for(line: &[OsString], command: impl Fn() -> Command) -> Option<String> {
    let mut words = line.iter().skip(1).map(|word| word.to_str());
    match (words.next()??, words.next(), words.next()) {
        ("--help" | "-h" | "help", None, None) => Some(short(&command())),
        ("help", Some(Some("--all")), None) => Some(command().render_long_help().to_string()),
        _ => None,
    }
}

fn short(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{about}\n\nUsage: coven [--home DIR] [COMMAND]\n\n{FIRST_STEPS}");
    for (group, verbs) in GROUPS {
        text.push_str(&format!("\n{group}:\n"));
        for verb in *verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about).map(ToString::to_string);
            let line = format!("  {verb:<12} {}", about.unwrap_or_default());
            text.push_str(&format!("{}\n", cut(&line)));
        }
    }
    text.push_str("\n`coven COMMAND --help` has options and examples. `coven help --all` has every command.\n");
    text
}

/// Returns a line without what does not fit.
fn cut(line: &str) -> String {
    if line.chars().count() <= MAX_COLS {
        return line.to_owned();
    }
    let kept: String = line.chars().take(MAX_COLS - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    #[test]
    fn the_help_fits_one_screen_and_names_only_real_verbs() {
        let command = command_line::command();
        let text = short(&command);
        assert!(text.lines().count() <= 60, "{} lines", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= MAX_COLS), "{text}");
        for (_, verbs) in GROUPS {
            verbs.iter().for_each(|verb| assert!(command.find_subcommand(verb).is_some(), "{verb}"));
        }
    }

    #[test]
    fn no_line_of_the_help_is_cut() {
        assert!(!short(&command_line::command()).contains('…'));
    }
}
