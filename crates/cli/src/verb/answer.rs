//! `coven answer`: answers questions, on a screen or with one command.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use coven_domain::question::Answer;
use coven_host::clock;
use coven_host::questions::QuestionFolder;
use serde::Deserialize;
use serde_json::json;

use super::answer_flags::Pieces;
use crate::command_line::Place;
use crate::failure::Failure;
use crate::{answer, output};

/// Answers the questions of agents: on a screen, or one set with one command
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven answer                                   all that wait, the oldest first; ? shows the keys
  coven answer 1a2b --option SQLite
  coven answer 1a2b --option Auth --option Logs --text \"and search\"    a multiple choice
  coven answer 1a2b --question 1 --option A --question 2 --text \"as it is\"
  coven answer 1a2b --answers '{\"0\":{\"selectedOption\":\"A\"},\"1\":{\"selectedOptions\":[]}}'
  coven answer 1a2b --reject --reason \"too vague\"

Needs no daemon and no home. On the screen, what was chosen and typed is kept until it is sent.
Exits with 0 if the answers were given, 2 if they are wrong, 3 if there is no such set, 4 if it is finished already.")]
pub struct Args {
    /// The set: its id, or any beginning of it that no other set has [default: the screen with all that wait]
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: Option<String>,
    #[command(flatten)]
    pieces: Pieces,
    /// All answers as JSON, by the index of the question, from 0; `-` reads standard input
    #[arg(long, value_name = "JSON", conflicts_with_all = ["option", "text", "question", "reject"])]
    answers: Option<String>,
    /// Decline to answer
    #[arg(long, conflicts_with_all = ["option", "text", "question"])]
    reject: bool,
    /// Why it is rejected
    #[arg(long, value_name = "TEXT", requires = "reject")]
    reason: Option<String>,
    /// Print what became of the set
    #[arg(long, requires = "id")]
    json: bool,
}

pub fn run(args: Args, _place: &Place) -> Result<ExitCode, Failure> {
    let folder = QuestionFolder::locate();
    let says_something = args.reject || args.answers.is_some() || !args.pieces.is_empty();
    let Some(prefix) = &args.id else {
        return if says_something { Err(no_id()) } else { screen(folder) };
    };
    if !says_something {
        return Err(Failure::usage(
            "there is no answer",
            "Give --option, --text, --answers or --reject; `coven answer` without an id opens the screen",
        ));
    }
    folder.abandon_orphans(clock::now());
    let id = folder.find(prefix)?;
    let (status, what_happened) = if args.reject {
        folder.reject(&id, args.reason.as_deref(), clock::now())?;
        ("rejected", "rejected")
    } else {
        let answers = match args.answers {
            Some(text) => from_json(&given(text)?)?,
            None => args.pieces.answers(&folder.read(&id)?.questions)?,
        };
        folder.answer(&id, answers, clock::now())?;
        ("completed", "answered")
    };
    match args.json {
        true => output::line(format_args!("{}", json!({"id": id, "status": status})))?,
        false => output::line(format_args!("{what_happened}: {id}"))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn screen(folder: QuestionFolder) -> Result<ExitCode, Failure> {
    if !output::is_terminal() || !(io::stdin().is_terminal() || std::fs::File::open("/dev/tty").is_ok()) {
        return Err(Failure::usage(
            "there is no terminal to show the questions on",
            "List them with `coven questions list` and answer with `coven answer <id> --option LABEL`",
        ));
    }
    match answer::open(folder)? {
        0 => {}
        1 => output::note(format_args!("[a question set waits; what you chose is kept — coven answer]")),
        count => output::note(format_args!("[{count} question sets wait; what you chose is kept — coven answer]")),
    }
    Ok(ExitCode::SUCCESS)
}

fn no_id() -> Failure {
    Failure::usage("no set is named", "Give its id: `coven questions list` has them")
}

fn given(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text).map_err(Failure::Input)?;
    Ok(text)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Given {
    selected_option: Option<String>,
    selected_options: Option<Vec<String>>,
    custom_text: Option<String>,
}

/// `{"0":{"selectedOption":"A"}}`
fn from_json(text: &str) -> Result<Vec<Answer>, Failure> {
    let answers: BTreeMap<usize, Given> = serde_json::from_str(text).map_err(|error| {
        Failure::usage(
            format!("--answers: {error}"),
            "It looks like this: {\"0\":{\"selectedOption\":\"A\"},\"1\":{\"selectedOptions\":[\"B\"],\"customText\":\"and more\"}}",
        )
    })?;
    let answer = |(question_index, Given { selected_option, selected_options, custom_text })| Answer {
        question_index,
        selected_option,
        selected_options,
        custom_text,
        timestamp: String::new(),
    };
    Ok(answers.into_iter().map(answer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_by_the_index_of_their_question() {
        let answers = from_json(r#"{"1":{"selectedOptions":[],"customText":"x"},"0":{"selectedOption":"A"}}"#);
        let first = Answer { selected_option: Some("A".into()), ..Answer::default() };
        let second = Answer {
            question_index: 1,
            selected_options: Some(Vec::new()),
            custom_text: Some("x".into()),
            ..Answer::default()
        };
        assert_eq!(answers.expect("good JSON"), [first, second]);
    }

    #[test]
    fn other_json_is_refused_with_an_example() {
        for text in ["", "[]", r#"{"a":{}}"#, r#"{"-1":{}}"#, r#"{"0":{"selectOption":"A"}}"#, r#"{"0":"A"}"#] {
            let failure = from_json(text).expect_err(text);
            assert!(failure.exit_code() == 2 && failure.sentence().contains("It looks like this"), "{text}");
        }
    }
}
