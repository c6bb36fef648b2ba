//! Validation of questions and answers; each error gives the reason.

use std::collections::HashSet;

use super::{Question, QuestionAnswer};

const MAX_QUESTIONS: usize = 5;
const MIN_OPTIONS: usize = 2;
const MAX_OPTIONS: usize = 5;

/// Why questions are invalid. Indices count from 0, as in the JSON input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadQuestions {
    #[error("At least one question is required to create a session")]
    None,
    #[error("a question set has at most {MAX_QUESTIONS} questions, not {count}; split it into several sets")]
    TooMany { count: usize },
    #[error("questions[{question}].prompt is empty; write the question there")]
    EmptyPrompt { question: usize },
    #[error("questions[{question}].title is empty; use a word or two")]
    EmptyTitle { question: usize },
    #[error("questions[{question}].options has {count} options; use {MIN_OPTIONS} to {MAX_OPTIONS}")]
    OptionCount { question: usize, count: usize },
    #[error("questions[{question}].options[{option}].label is empty")]
    EmptyLabel { question: usize, option: usize },
    #[error("questions[{question}].options has the label {label:?} twice; labels must be unique")]
    DuplicateLabel { question: usize, label: String },
}

/// Why answers do not match their questions. Indices count from 0, as in the files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswers {
    #[error("No answers provided")]
    None,
    #[error("Answer references invalid question index: {index}")]
    NoSuchQuestion { index: usize },
    #[error("Answer for question {question} references non-existent option: {option}")]
    NoSuchOption { question: usize, option: String },
    #[error("Answer for question {question} has neither selectedOption, selectedOptions, nor customText")]
    Empty { question: usize },
    #[error("Answer for question {question} selects an option twice: {option}")]
    SelectedTwice { question: usize, option: String },
    #[error("Answer for question {question} selects several options, but only one is allowed: {}", options.join(", "))]
    SeveralOfSingle { question: usize, options: Vec<String> },
    #[error("Answer for question {question} selects no option and has no text")]
    NothingChosen { question: usize },
    #[error("Question {question} has no answer")]
    Unanswered { question: usize },
}

/// Checks that these questions can be asked.
pub fn check_questions(questions: &[Question]) -> Result<(), BadQuestions> {
    match questions.len() {
        0 => return Err(BadQuestions::None),
        1..=MAX_QUESTIONS => {}
        count => return Err(BadQuestions::TooMany { count }),
    }
    questions.iter().enumerate().try_for_each(|(index, question)| check_question(index, question))
}

fn check_question(question: usize, asked: &Question) -> Result<(), BadQuestions> {
    if is_blank(&asked.prompt) {
        return Err(BadQuestions::EmptyPrompt { question });
    }
    if is_blank(&asked.title) {
        return Err(BadQuestions::EmptyTitle { question });
    }
    let count = asked.options.len();
    if !(MIN_OPTIONS..=MAX_OPTIONS).contains(&count) {
        return Err(BadQuestions::OptionCount { question, count });
    }
    let mut seen = HashSet::new();
    for (option, choice) in asked.options.iter().enumerate() {
        if is_blank(&choice.label) {
            return Err(BadQuestions::EmptyLabel { question, option });
        }
        if !seen.insert(&choice.label) {
            return Err(BadQuestions::DuplicateLabel { question, label: choice.label.clone() });
        }
    }
    Ok(())
}

/// Checks new answers: every question has one, and each is valid.
pub fn check_answers(questions: &[Question], answers: &[QuestionAnswer]) -> Result<(), BadAnswers> {
    check_stored_answers(questions, answers)?;
    for answer in answers {
        check_choice(&questions[answer.question_index], answer)?;
    }
    for (question, asked) in questions.iter().enumerate() {
        let given: Vec<&QuestionAnswer> = answers.iter().filter(|answer| answer.question_index == question).collect();
        if given.is_empty() {
            return Err(BadAnswers::Unanswered { question });
        }
        // A choice and a request to elaborate may coexist; two choices of a single-choice question may not.
        let mut selected: Vec<&str> = given.iter().flat_map(|answer| labels(answer)).collect();
        selected.dedup();
        if !asked.multi_select && selected.len() > 1 {
            let options = selected.into_iter().map(str::to_owned).collect();
            return Err(BadAnswers::SeveralOfSingle { question, options });
        }
    }
    Ok(())
}

fn check_choice(asked: &Question, answer: &QuestionAnswer) -> Result<(), BadAnswers> {
    let question = answer.question_index;
    let mut seen = HashSet::new();
    if let Some(option) = labels(answer).find(|option| !seen.insert(*option)) {
        return Err(BadAnswers::SelectedTwice { question, option: option.to_owned() });
    }
    // An explicit empty selection is a valid answer only for a multi-select question.
    let is_explicitly_none = asked.multi_select && answer.selected_options.is_some();
    let has_text = answer.custom_text.as_deref().is_some_and(|text| !is_blank(text));
    match seen.is_empty() && !has_text && !is_explicitly_none {
        true => Err(BadAnswers::NothingChosen { question }),
        false => Ok(()),
    }
}

/// Checks stored answers, perhaps written by another tool, before the agent receives them. Questions may be
/// unanswered, but every answer must match a question.
pub fn check_stored_answers(questions: &[Question], answers: &[QuestionAnswer]) -> Result<(), BadAnswers> {
    if answers.is_empty() {
        return Err(BadAnswers::None);
    }
    for answer in answers {
        let question = answer.question_index;
        let asked = questions.get(question).ok_or(BadAnswers::NoSuchQuestion { index: question })?;
        let is_known = |option: &str| asked.options.iter().any(|choice| choice.label == option);
        if let Some(option) = labels(answer).find(|option| !is_known(option)) {
            return Err(BadAnswers::NoSuchOption { question, option: option.to_owned() });
        }
        let has_content = answer.selected_option.is_some()
            || answer.selected_options.is_some()
            || answer.custom_text.as_deref().is_some_and(|text| !text.is_empty());
        if !has_content {
            return Err(BadAnswers::Empty { question });
        }
    }
    Ok(())
}

/// Returns every label in an answer, including one that the text for the agent omits.
fn labels(answer: &QuestionAnswer) -> impl Iterator<Item = &str> {
    let listed = answer.selected_options.iter().flatten();
    answer.selected_option.iter().chain(listed).map(String::as_str)
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::Choice;

    fn question(labels: &[&str], multi_select: bool) -> Question {
        let options = labels.iter().map(|label| Choice { description: None, label: (*label).to_owned() }).collect();
        Question { options, prompt: "Which?".into(), title: "Choice".into(), multi_select }
    }

    fn one(question_index: usize, label: &str) -> QuestionAnswer {
        QuestionAnswer { question_index, selected_option: Some(label.into()), ..QuestionAnswer::default() }
    }

    fn many(question_index: usize, labels: &[&str]) -> QuestionAnswer {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        QuestionAnswer { question_index, selected_options: Some(labels), ..QuestionAnswer::default() }
    }

    fn text(question_index: usize, text: &str) -> QuestionAnswer {
        QuestionAnswer { question_index, custom_text: Some(text.into()), ..QuestionAnswer::default() }
    }

    #[test]
    fn ask_03_no_questions_are_refused_with_the_exact_text() {
        let error = check_questions(&[]).expect_err("an empty list");
        assert_eq!(error.to_string(), "At least one question is required to create a session");
    }

    #[test]
    fn one_to_five_questions_with_two_to_five_options_can_be_asked() {
        let good = question(&["A", "B"], false);
        check_questions(std::slice::from_ref(&good)).expect("the minimum");
        check_questions(&vec![question(&["A", "B", "C", "D", "E"], true); 5]).expect("the maximum");
        assert_eq!(check_questions(&vec![good.clone(); 6]), Err(BadQuestions::TooMany { count: 6 }));
        for labels in [&["A"][..], &[], &["A", "B", "C", "D", "E", "F"]] {
            let refused = check_questions(&[good.clone(), question(labels, false)]);
            assert_eq!(refused, Err(BadQuestions::OptionCount { question: 1, count: labels.len() }));
        }
    }

    #[test]
    fn empty_texts_and_duplicate_labels_are_refused_with_their_position() {
        let good = question(&["A", "B"], false);
        let refused = |question: Question| check_questions(&[question]).expect_err("refused").to_string();
        let no_prompt = Question { prompt: " \n".into(), ..good.clone() };
        assert_eq!(refused(no_prompt), "questions[0].prompt is empty; write the question there");
        let no_title = Question { title: String::new(), ..good };
        assert_eq!(refused(no_title), "questions[0].title is empty; use a word or two");
        assert_eq!(refused(question(&["A", " "], false)), "questions[0].options[1].label is empty");
        let twice = refused(question(&["A", "B", "A"], true));
        assert_eq!(twice, "questions[0].options has the label \"A\" twice; labels must be unique");
    }

    #[test]
    fn ask_29_answers_must_match_their_questions() {
        let questions = [question(&["A", "B"], false), question(&["C", "D"], true)];
        let refused = |answers: &[QuestionAnswer]| {
            let stored = check_stored_answers(&questions, answers).expect_err("invalid answers");
            assert_eq!(check_answers(&questions, answers), Err(stored.clone()), "new and stored answers fail alike");
            stored.to_string()
        };
        assert_eq!(refused(&[]), "No answers provided");
        assert_eq!(refused(&[one(7, "A")]), "Answer references invalid question index: 7");
        assert_eq!(refused(&[one(0, "ZZZ")]), "Answer for question 0 references non-existent option: ZZZ");
        assert_eq!(refused(&[many(1, &["C", "A"])]), "Answer for question 1 references non-existent option: A");
        let sneaky = QuestionAnswer { selected_option: Some("ZZZ".into()), ..many(1, &["C"]) };
        assert_eq!(refused(&[sneaky]), "Answer for question 1 references non-existent option: ZZZ");
        let nothing = QuestionAnswer { question_index: 1, ..QuestionAnswer::default() };
        let neither = "Answer for question 1 has neither selectedOption, selectedOptions, nor customText";
        assert_eq!(refused(&[one(0, "A"), nothing]), neither);
        assert_eq!(refused(&[text(1, "")]), neither);
    }

    #[test]
    fn new_answers_must_be_complete() {
        let questions = [question(&["A", "B"], false), question(&["C", "D"], true)];
        let checked = |answers: &[QuestionAnswer]| check_answers(&questions, answers);
        assert_eq!(checked(&[one(0, "A"), many(1, &["D", "C"])]), Ok(()));
        assert_eq!(checked(&[text(0, "neither"), many(1, &[])]), Ok(()), "an empty multi-select is an answer");
        assert_eq!(checked(&[many(0, &["A"]), one(1, "C")]), Ok(()), "either field may contain the choice");
        assert_eq!(checked(&[one(0, "A"), text(0, "[ELABORATE_REQUEST] x"), many(1, &[])]), Ok(()));
        assert_eq!(checked(&[one(0, "A")]), Err(BadAnswers::Unanswered { question: 1 }));
        assert_eq!(checked(&[many(0, &[]), many(1, &[])]), Err(BadAnswers::NothingChosen { question: 0 }));
        assert_eq!(checked(&[one(0, "A"), text(1, "  ")]), Err(BadAnswers::NothingChosen { question: 1 }));
        let both = vec!["A".to_owned(), "B".to_owned()];
        let several = Err(BadAnswers::SeveralOfSingle { question: 0, options: both });
        assert_eq!(checked(&[many(0, &["A", "B"]), many(1, &[])]), several);
        assert_eq!(checked(&[one(0, "A"), one(0, "B"), many(1, &[])]), several);
        let twice = Err(BadAnswers::SelectedTwice { question: 1, option: "C".into() });
        assert_eq!(checked(&[one(0, "A"), many(1, &["C", "C"])]), twice);
    }

    #[test]
    fn stored_answers_may_omit_questions() {
        let questions = [question(&["A", "B"], false), question(&["C", "D"], true)];
        assert_eq!(check_stored_answers(&questions, &[one(1, "C")]), Ok(()));
        assert_eq!(
            check_stored_answers(&questions, &[many(0, &["A", "B"])]),
            Ok(()),
            "stored answers may select several options"
        );
    }
}
