//! Text returned to the agent for its questions, identical to that of the tool whose files coven shares.

use super::{Choice, Question, QuestionAnswer};
use crate::QuestionSetId;

/// Prefix of a custom text when the human wants to know more before deciding.
pub const ELABORATE_REQUEST: &str = "[ELABORATE_REQUEST]";
/// Prefix of a custom text when the human wants the question rephrased.
pub const REPHRASE_REQUEST: &str = "[REPHRASE_REQUEST]";
/// Error text for tools that report a rejection as an error.
pub const SESSION_REJECTED: &str = "SESSION_REJECTED";

/// Returns the first line of a tool result, without its line end.
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

/// Lists every answered question with its number and answer. Unanswered questions are omitted but keep their number.
pub fn format_answers(questions: &[Question], answers: &[QuestionAnswer]) -> String {
    let blocks: Vec<String> = questions
        .iter()
        .enumerate()
        .filter_map(|(index, question)| {
            let given: Vec<&QuestionAnswer> = answers.iter().filter(|answer| answer.question_index == index).collect();
            (!given.is_empty()).then(|| block(index + 1, question, &given))
        })
        .collect();
    format!("Here are the user's answers:\n\n{}", blocks.join("\n\n"))
}

fn block(number: usize, question: &Question, given: &[&QuestionAnswer]) -> String {
    let mut lines = vec![format!("{number}. {}", question.prompt)];
    for answer in given {
        lines.extend(lines_of(question, answer));
    }
    lines.join("\n")
}

fn lines_of(question: &Question, answer: &QuestionAnswer) -> Vec<String> {
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

/// Returns the text that the agent receives when the human rejects the set.
pub fn format_rejection(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("User rejected this question set.\n\nRejection reason: \"{reason}\"\n\n"),
        None => "User rejected this question set.\n\nNo reason provided.\n\n".to_owned(),
    }
}

/// Returns the custom text of an answer that asks for more detail instead of choosing.
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

    fn lines(question: &Question, answer: QuestionAnswer) -> String {
        let text = format_answers(std::slice::from_ref(question), &[answer]);
        let head = format!("Here are the user's answers:\n\n1. {}\n", question.prompt);
        text.strip_prefix(&head).expect("the heading comes first").to_owned()
    }

    fn one(label: &str) -> QuestionAnswer {
        QuestionAnswer { selected_option: Some(label.into()), ..QuestionAnswer::default() }
    }

    fn many(labels: &[&str]) -> QuestionAnswer {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        QuestionAnswer { selected_options: Some(labels), ..QuestionAnswer::default() }
    }

    #[test]
    fn ask_25_a_single_choice_is_one_line_with_its_description() {
        let chosen = lines(&databases(false), one("PostgreSQL (recommended)"));
        assert_eq!(chosen, "→ PostgreSQL (recommended) — Relational, mature");
        assert_eq!(lines(&databases(false), one("SQLite")), "→ SQLite");
        assert_eq!(lines(&databases(false), one("None")), "→ None", "an empty description is omitted");
    }

    #[test]
    fn ask_26_each_choice_of_a_multi_select_has_a_line_in_the_order_chosen() {
        let chosen = lines(&databases(true), many(&["SQLite", "PostgreSQL (recommended)"]));
        assert_eq!(chosen, "→ SQLite\n→ PostgreSQL (recommended) — Relational, mature");
    }

    #[test]
    fn ask_27_custom_text_is_quoted_and_only_the_quote_is_escaped() {
        let words = |text: &str| QuestionAnswer { custom_text: Some(text.into()), ..QuestionAnswer::default() };
        assert_eq!(lines(&databases(false), words("don't")), "→ Other: 'don\\'t'");
        let raw = lines(&databases(false), words("it's \"x\" \\ y\nline2"));
        assert_eq!(raw, "→ Other: 'it\\'s \"x\" \\ y\nline2'");
    }

    #[test]
    fn ask_28_an_empty_multi_select_is_shown_as_no_selection() {
        assert_eq!(lines(&databases(true), many(&[])), "→ (No selection)");
        assert_eq!(lines(&databases(true), QuestionAnswer::default()), "→ (No selection)");
        assert_eq!(lines(&databases(false), QuestionAnswer::default()), "→ No answer provided");
        let with_words = QuestionAnswer { custom_text: Some("later".into()), ..many(&[]) };
        assert_eq!(lines(&databases(true), with_words), "→ Other: 'later'");
    }

    #[test]
    fn a_complete_set_matches_the_compatible_tool_exactly() {
        let questions = [
            databases(false),
            question("Which features?", &[("Auth", Some("Login")), ("Logs", None)], true),
            question("Anything else?", &[("A", None), ("B", None)], false),
            question("None?", &[("A", None), ("B", None)], true),
        ];
        let answers = [
            one("PostgreSQL (recommended)"),
            QuestionAnswer {
                question_index: 1,
                custom_text: Some("it's \"x\" \\ y\nline2".into()),
                ..many(&["Auth", "Logs"])
            },
            QuestionAnswer { question_index: 2, custom_text: Some("don't".into()), ..QuestionAnswer::default() },
            QuestionAnswer { question_index: 3, ..many(&[]) },
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
    fn unanswered_questions_are_omitted_and_keep_their_number() {
        let questions = [databases(false), question("P?", &[("A", None), ("B", None)], false)];
        let text = format_answers(&questions, &[QuestionAnswer { question_index: 1, ..one("B") }]);
        assert_eq!(text, "Here are the user's answers:\n\n2. P?\n→ B");
    }

    #[test]
    fn headers_contain_the_known_fields() {
        let id = "08526cd9-b945-47af-9618-bdd88520ef89".parse().expect("an id");
        assert_eq!(header(&id, Some(1), Some("pending")), "[Session: 08526cd9 | Questions: 1 | Status: pending]");
        assert_eq!(header(&id, None, Some("rejected")), "[Session: 08526cd9 | Status: rejected]");
    }

    #[test]
    fn a_rejection_contains_the_reason_verbatim() {
        let vague = "User rejected this question set.\n\nRejection reason: \"Too \"vague\"\"\n\n";
        assert_eq!(format_rejection(Some("Too \"vague\"")), vague);
        assert_eq!(format_rejection(None), "User rejected this question set.\n\nNo reason provided.\n\n");
    }

    #[test]
    fn a_request_for_detail_has_no_arrow() {
        let asked = databases(false);
        let request =
            QuestionAnswer { custom_text: Some(elaboration(&asked, Some(" more "))), ..QuestionAnswer::default() };
        let text = format_answers(std::slice::from_ref(&asked), &[one("SQLite"), request]);
        assert_eq!(
            text,
            "Here are the user's answers:\n\n1. Which database?\n→ SQLite\n\
             [ELABORATE_REQUEST] The user wants to know more about \"Title\" before deciding\nUser note: more"
        );
        assert!(!elaboration(&asked, Some(" ")).contains('\n'));
        let rephrase =
            QuestionAnswer { custom_text: Some("[REPHRASE_REQUEST] 'x'".into()), ..QuestionAnswer::default() };
        assert_eq!(lines(&asked, rephrase), "[REPHRASE_REQUEST] 'x'");
    }
}
