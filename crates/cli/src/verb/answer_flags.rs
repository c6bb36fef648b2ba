//! Answers from flags: each `--option` and `--text` applies to the `--question` before it.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use coven_domain::question::{Choice, Question, QuestionAnswer};

use crate::failure::Failure;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Number of the question that the next flags answer, from 1.
    Question(usize),
    Option(String),
    Text(String),
}

/// The flags in the order they were given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pieces(Vec<Piece>);

impl Args for Pieces {
    fn augment_args(command: Command) -> Command {
        let option = Arg::new("option")
            .long("option")
            .value_name("LABEL")
            .action(clap::ArgAction::Append)
            .help("Option to choose; repeat it for a multiple choice");
        let text =
            Arg::new("text").long("text").value_name("TEXT").action(clap::ArgAction::Append).help("Free-text answer");
        let question = Arg::new("question")
            .long("question")
            .value_name("N")
            .action(clap::ArgAction::Append)
            .value_parser(value_parser!(usize))
            .help("Number of the question that the next flags answer, from 1 [default: the only one]");
        command.args([option, text, question])
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Pieces {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut placed: Vec<(usize, Piece)> = Vec::new();
        let places = |name: &str| matches.indices_of(name).into_iter().flatten();
        let texts = |name: &str| matches.get_many::<String>(name).into_iter().flatten().cloned();
        placed.extend(places("option").zip(texts("option").map(Piece::Option)));
        placed.extend(places("text").zip(texts("text").map(Piece::Text)));
        let numbers = matches.get_many::<usize>("question").into_iter().flatten().copied();
        placed.extend(places("question").zip(numbers.map(Piece::Question)));
        placed.sort_by_key(|(place, _)| *place);
        Ok(Self(placed.into_iter().map(|(_, piece)| piece).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Pieces {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the label if a single `--option` was given.
    pub fn only_option(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Option(label)] => Some(label),
            _ => None,
        }
    }

    /// The option of the only question.
    pub fn option(label: String) -> Self {
        Self(vec![Piece::Option(label)])
    }

    /// Builds the answers to these questions, without timestamps: those are set on writing.
    pub fn answers(&self, questions: &[Question]) -> Result<Vec<QuestionAnswer>, Failure> {
        let mut chosen: Vec<(Vec<String>, Option<String>)> = vec![Default::default(); questions.len()];
        let mut at = (questions.len() == 1).then_some(0);
        for piece in &self.0 {
            if let Piece::Question(number) = piece {
                at = Some(number.checked_sub(1).filter(|place| *place < questions.len()).ok_or_else(|| {
                    let count = questions.len();
                    Failure::usage(
                        format!("question {number} does not exist"),
                        format!("The set has {count}; they are numbered from 1"),
                    )
                })?);
                continue;
            }
            let Some(place) = at else {
                return Err(Failure::usage(
                    format!("the set has {} questions", questions.len()),
                    "Choose the question for each answer: --question 1 --option A --question 2 --option B",
                ));
            };
            match piece {
                Piece::Option(given) => {
                    let label =
                        find(&questions[place].options, given).ok_or_else(|| unknown(place, questions, given))?;
                    chosen[place].0.push(label.to_owned());
                }
                Piece::Text(text) if chosen[place].1.is_some() || text.trim().is_empty() => {
                    return Err(Failure::usage(
                        format!("question {} needs exactly one non-empty --text", place + 1),
                        "Give --text once for each question",
                    ));
                }
                Piece::Text(text) => chosen[place].1 = Some(text.clone()),
                Piece::Question(_) => {}
            }
        }
        let answers = questions.iter().zip(chosen).enumerate();
        answers.map(|(place, (question, chosen))| answer(place, question, chosen)).collect()
    }
}

fn answer(
    question_index: usize,
    question: &Question,
    (mut labels, custom_text): (Vec<String>, Option<String>),
) -> Result<QuestionAnswer, Failure> {
    let number = question_index + 1;
    if labels.is_empty() && custom_text.is_none() {
        return Err(Failure::usage(
            format!("question {number} has no answer"),
            format!("Add --question {number} --option LABEL, or --text; every question needs one"),
        ));
    }
    let mut answer = QuestionAnswer { question_index, custom_text, ..QuestionAnswer::default() };
    if question.multi_select {
        answer.selected_options = (!labels.is_empty()).then_some(labels);
    } else if labels.len() > 1 || (labels.len() == 1 && answer.custom_text.is_some()) {
        return Err(Failure::usage(
            format!("question {number} is a single choice"),
            "Give one --option, or one --text instead",
        ));
    } else {
        answer.selected_option = labels.pop();
    }
    Ok(answer)
}

/// Finds an option by its exact label, or by the only label that matches without case and recommendation mark.
fn find<'a>(options: &'a [Choice], given: &str) -> Option<&'a str> {
    if let Some(exact) = options.iter().find(|option| option.label == given) {
        return Some(&exact.label);
    }
    let bare = |label: &str| {
        let label = label.to_lowercase();
        let marks = ["(recommended)", "[recommended]", "(추천)", "[추천]"];
        marks.iter().fold(label, |label, mark| label.replace(mark, "")).trim().to_owned()
    };
    let mut meant = options.iter().filter(|option| bare(&option.label) == bare(given));
    match (meant.next(), meant.next()) {
        (Some(only), None) => Some(&only.label),
        _ => None,
    }
}

fn unknown(place: usize, questions: &[Question], given: &str) -> Failure {
    let labels: Vec<String> = questions[place].options.iter().map(|option| format!("{:?}", option.label)).collect();
    Failure::usage(
        format!("question {} has no option {given:?}", place + 1),
        format!("Choose from {}", labels.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(multi_select: bool) -> Question {
        let option = |label: &str| Choice { label: label.into(), description: None };
        let options = vec![option("SQLite (Recommended)"), option("B"), option("b")];
        Question { options, prompt: "Which?".into(), title: "W".into(), multi_select }
    }

    fn pieces(line: &[&str]) -> Pieces {
        let command = Pieces::augment_args(Command::new("answer").no_binary_name(true));
        let matches = command.try_get_matches_from(line).expect("a good line");
        Pieces::from_arg_matches(&matches).expect("always")
    }

    fn error(line: &[&str], questions: &[Question]) -> String {
        pieces(line).answers(questions).expect_err("invalid").sentence()
    }

    #[test]
    fn flags_apply_to_the_question_before_them() {
        let questions = [question(false), question(true)];
        let line =
            ["--question", "2", "--option", "B", "--text", "mine", "--option", "b", "--question", "1", "--option", "b"];
        let answers = pieces(&line).answers(&questions).expect("good answers");
        let first = QuestionAnswer { selected_option: Some("b".into()), ..QuestionAnswer::default() };
        let second = QuestionAnswer {
            question_index: 1,
            selected_options: Some(vec!["B".into(), "b".into()]),
            custom_text: Some("mine".into()),
            ..QuestionAnswer::default()
        };
        assert_eq!(answers, [first, second]);
    }

    #[test]
    fn a_label_may_be_given_without_its_mark() {
        let answers = pieces(&["--option", "sqlite"]).answers(&[question(false)]).expect("good answers");
        assert_eq!(answers[0].selected_option.as_deref(), Some("SQLite (Recommended)"));
    }

    #[test]
    fn invalid_answers_are_rejected_with_the_reason() {
        let single = [question(false)];
        assert_eq!(
            error(&["--option", "ZZZ"], &single),
            "question 1 has no option \"ZZZ\". Choose from \"SQLite (Recommended)\", \"B\", \"b\"."
        );
        assert!(error(&["--option", "B", "--option", "b"], &single).contains("is a single choice"));
        assert!(error(&["--option", "B", "--text", "x"], &single).contains("is a single choice"));
        assert!(error(&["--text", " "], &single).contains("one non-empty --text"));
        assert!(error(&["--question", "2", "--option", "B"], &single).contains("question 2 does not exist"));
        assert!(error(&["--question", "0", "--option", "B"], &single).contains("question 0 does not exist"));
        let both = [question(false), question(true)];
        assert!(error(&["--option", "B"], &both).contains("the set has 2 questions"));
        assert!(error(&["--question", "1", "--option", "B"], &both).contains("question 2 has no answer"));
    }
}
