//! The text an agent gets for its questions, to the character as the tool beside which coven works writes it.

use super::{Answer, Choice, Question};
use crate::QuestionSetId;

/// What a custom text begins with when the human wants to know more before deciding.
pub const ELABORATE_REQUEST: &str = "[ELABORATE_REQUEST]";
/// What a custom text begins with when the human wants the question put differently.
pub const REPHRASE_REQUEST: &str = "[REPHRASE_REQUEST]";
/// The text of the error where a rejection has to be one.
pub const SESSION_REJECTED: &str = "SESSION_REJECTED";

/// The line in front of what a tool call returns, without its line end.
pub fn header(id: &QuestionSetId, questions: Option<usize>, status: Option<&str>) -> String {
    let mut line = format!("[Session: {}", id.short());
    if let Some(count) = questions {
        line.push_str(&format!(" | Questions: {count}"));
    }
    if let Some(status) = status {
        line.push_str(&format!(" | Status: {status}"));
    }
    line.push(']');
    line
}

/// Every answered question with its number and what was chosen; unanswered ones are left out and keep their number.
pub fn format_answers(questions: &[Question], answers: &[Answer]) -> String {
    let blocks: Vec<String> = questions
        .iter()
        .enumerate()
        .filter_map(|(index, question)| {
            let given: Vec<&Answer> = answers.iter().filter(|answer| answer.question_index == index).collect();
            (!given.is_empty()).then(|| block(index + 1, question, &given))
        })
        .collect();
    format!("Here are the user's answers:\n\n{}", blocks.join("\n\n"))
}

fn block(number: usize, question: &Question, given: &[&Answer]) -> String {
    let mut lines = vec![format!("{number}. {}", question.prompt)];
    for answer in given {
        lines.extend(lines_of(question, answer));
    }
    lines.join("\n")
}

fn lines_of(question: &Question, answer: &Answer) -> Vec<String> {
    let mut lines: Vec<String> = answer.selected().map(|label| chosen(question, label)).collect();
    match answer.custom_text.as_deref().filter(|text| !text.is_empty()) {
        Some(text) if [ELABORATE_REQUEST, REPHRASE_REQUEST].iter().any(|marker| text.starts_with(marker)) => {
            lines.push(text.to_owned());
        }
        Some(text) => lines.push(format!("→ Other: '{}'", text.replace('\'', "\\'"))),
        None if !lines.is_empty() => {}
        None if question.multi_select || answer.selected_options.is_some() => lines.push("→ (No selection)".into()),
        None => lines.push("→ No answer provided".into()),
    }
    lines
}

fn chosen(question: &Question, label: &str) -> String {
    let choice = question.options.iter().find(|choice| choice.label == label);
    match choice.and_then(|Choice { description, .. }| description.as_deref()).filter(|text| !text.is_empty()) {
        Some(description) => format!("→ {label} — {description}"),
        None => format!("→ {label}"),
    }
}

/// What the agent reads when the human rejected the set.
pub fn format_rejection(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("User rejected this question set.\n\nRejection reason: \"{reason}\"\n\n"),
        None => "User rejected this question set.\n\nNo reason provided.\n\n".to_owned(),
    }
}

/// The custom text of an answer that asks for more detail instead of choosing.
pub fn elaboration(question: &Question, note: Option<&str>) -> String {
    let mut text =
        format!("{ELABORATE_REQUEST} The user wants to know more about \"{}\" before deciding", question.title);
    if let Some(note) = note.map(str::trim).filter(|note| !note.is_empty()) {
        text.push_str(&format!("\nUser note: {note}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(prompt: &str, options: &[(&str, Option<&str>)], multi_select: bool) -> Question {
        let options = options
            .iter()
            .map(|(label, description)| Choice {
                description: description.map(str::to_owned),
                label: (*label).to_owned(),
            })
            .collect();
        Question { options, prompt: prompt.into(), title: "Title".into(), multi_select }
    }

    fn databases(multi_select: bool) -> Question {
        let options = [("PostgreSQL (recommended)", Some("Relational, mature")), ("SQLite", None), ("None", Some(""))];
        question("Which database?", &options, multi_select)
    }

    fn lines(question: &Question, answer: Answer) -> String {
        let text = format_answers(std::slice::from_ref(question), &[answer]);
        let head = format!("Here are the user's answers:\n\n1. {}\n", question.prompt);
        text.strip_prefix(&head).expect("the head comes first").to_owned()
    }

    fn one(label: &str) -> Answer {
        Answer { selected_option: Some(label.into()), ..Answer::default() }
    }

    fn many(labels: &[&str]) -> Answer {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Answer { selected_options: Some(labels), ..Answer::default() }
    }

    #[test]
    fn ask_25_a_single_choice_is_one_line_with_its_description() {
        let chosen = lines(&databases(false), one("PostgreSQL (recommended)"));
        assert_eq!(chosen, "→ PostgreSQL (recommended) — Relational, mature");
        assert_eq!(lines(&databases(false), one("SQLite")), "→ SQLite");
        assert_eq!(lines(&databases(false), one("None")), "→ None", "an empty description is none");
    }

    #[test]
    fn ask_26_every_choice_of_many_has_its_line_in_the_order_chosen() {
        let chosen = lines(&databases(true), many(&["SQLite", "PostgreSQL (recommended)"]));
        assert_eq!(chosen, "→ SQLite\n→ PostgreSQL (recommended) — Relational, mature");
    }

    #[test]
    fn ask_27_own_words_are_quoted_and_only_the_quote_is_escaped() {
        let words = |text: &str| Answer { custom_text: Some(text.into()), ..Answer::default() };
        assert_eq!(lines(&databases(false), words("don't")), "→ Other: 'don\\'t'");
        let raw = lines(&databases(false), words("it's \"x\" \\ y\nline2"));
        assert_eq!(raw, "→ Other: 'it\\'s \"x\" \\ y\nline2'");
    }

    #[test]
    fn ask_28_none_of_many_is_said_so() {
        assert_eq!(lines(&databases(true), many(&[])), "→ (No selection)");
        assert_eq!(lines(&databases(true), Answer::default()), "→ (No selection)");
        assert_eq!(lines(&databases(false), Answer::default()), "→ No answer provided");
        let with_words = Answer { custom_text: Some("later".into()), ..many(&[]) };
        assert_eq!(lines(&databases(true), with_words), "→ Other: 'later'");
    }

    #[test]
    fn a_whole_set_reads_to_the_character_as_the_first_tool_wrote_it() {
        let questions = [
            databases(false),
            question("Which features?", &[("Auth", Some("Login")), ("Logs", None)], true),
            question("Anything else?", &[("A", None), ("B", None)], false),
            question("None?", &[("A", None), ("B", None)], true),
        ];
        let answers = [
            one("PostgreSQL (recommended)"),
            Answer { question_index: 1, custom_text: Some("it's \"x\" \\ y\nline2".into()), ..many(&["Auth", "Logs"]) },
            Answer { question_index: 2, custom_text: Some("don't".into()), ..Answer::default() },
            Answer { question_index: 3, ..many(&[]) },
        ];
        let id = "ccac2974-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("an id");
        let text = format!("{}\n\n{}", header(&id, Some(4), None), format_answers(&questions, &answers));
        assert_eq!(
            text,
            "[Session: ccac2974 | Questions: 4]\n\nHere are the user's answers:\n\n1. Which database?\n\
             → PostgreSQL (recommended) — Relational, mature\n\n2. Which features?\n→ Auth — Login\n→ Logs\n\
             → Other: 'it\\'s \"x\" \\ y\nline2'\n\n3. Anything else?\n→ Other: 'don\\'t'\n\n4. None?\n→ (No selection)"
        );
    }

    #[test]
    fn unanswered_questions_are_left_out_and_keep_their_number() {
        let questions = [databases(false), question("P?", &[("A", None), ("B", None)], false)];
        let text = format_answers(&questions, &[Answer { question_index: 1, ..one("B") }]);
        assert_eq!(text, "Here are the user's answers:\n\n2. P?\n→ B");
    }

    #[test]
    fn headers_say_what_is_known() {
        let id = "08526cd9-b945-47af-9618-bdd88520ef89".parse().expect("an id");
        assert_eq!(header(&id, Some(1), Some("pending")), "[Session: 08526cd9 | Questions: 1 | Status: pending]");
        assert_eq!(header(&id, None, Some("rejected")), "[Session: 08526cd9 | Status: rejected]");
    }

    #[test]
    fn a_rejection_gives_the_reason_as_it_is() {
        let vague = "User rejected this question set.\n\nRejection reason: \"Too \"vague\"\"\n\n";
        assert_eq!(format_rejection(Some("Too \"vague\"")), vague);
        assert_eq!(format_rejection(None), "User rejected this question set.\n\nNo reason provided.\n\n");
    }

    #[test]
    fn a_wish_to_know_more_stands_without_an_arrow() {
        let asked = databases(false);
        let wish = Answer { custom_text: Some(elaboration(&asked, Some(" more "))), ..Answer::default() };
        let text = format_answers(std::slice::from_ref(&asked), &[one("SQLite"), wish]);
        assert_eq!(
            text,
            "Here are the user's answers:\n\n1. Which database?\n→ SQLite\n\
             [ELABORATE_REQUEST] The user wants to know more about \"Title\" before deciding\nUser note: more"
        );
        assert!(!elaboration(&asked, Some(" ")).contains('\n'));
        let rephrase = Answer { custom_text: Some("[REPHRASE_REQUEST] 'x'".into()), ..Answer::default() };
        assert_eq!(lines(&asked, rephrase), "[REPHRASE_REQUEST] 'x'");
    }
}
