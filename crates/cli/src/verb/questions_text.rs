//! Formats question sets for people.

use coven_domain::Timestamp;
use coven_domain::question::{Question, format_answers};
use coven_domain::question_set::QuestionSetState;
use coven_interop::questions::{Listed, QuestionSet};

use crate::format;
use crate::table::Table;

pub fn list_table(listed: &[Listed], now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "AGE", "STATUS", "QUESTIONS", "FOLDER"], &[4, 3]);
    for listed in listed {
        match listed {
            Listed::Sound(set) => table.row([
                set.id.short(),
                format::format_duration(now.since(set.created_at)),
                set.state.to_string(),
                titles(set),
                set.working_directory.clone().unwrap_or_else(|| "-".to_owned()),
            ]),
            Listed::Broken { id, why } => {
                table.row([id.short(), "-".into(), "broken".into(), why.to_string(), "-".into()]);
            }
        }
    }
    table
}

pub fn history_table(sets: &[QuestionSet], now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "ENDED", "STATUS", "READ", "QUESTIONS", "OUTCOME"], &[5, 4]);
    for set in sets {
        let is_read = set.answers.as_ref().map(|answers| answers.last_read_at.is_some());
        table.row([
            set.id.short(),
            format::format_duration(now.since(set.modified_at)),
            set.state.to_string(),
            is_read.map_or("-", |is_read| if is_read { "yes" } else { "no" }).to_owned(),
            titles(set),
            outcome(set),
        ]);
    }
    table
}

fn titles(set: &QuestionSet) -> String {
    let titles: Vec<&str> = set.questions.iter().map(|question| question.title.as_str()).collect();
    titles.join(", ")
}

/// Formats the result of a set on one line.
pub fn outcome(set: &QuestionSet) -> String {
    let reason = set.rejection_reason.clone().or_else(|| set.abandon_reason.clone());
    let Some(given) = &set.answers else { return reason.unwrap_or_else(|| "-".to_owned()) };
    let answers = given.answers.iter().map(|answer| {
        let chosen = answer.selected().map(str::to_owned).chain(answer.custom_text.clone());
        match chosen.collect::<Vec<_>>() {
            chosen if chosen.is_empty() => "(none)".to_owned(),
            chosen => chosen.join(" + "),
        }
    });
    answers.collect::<Vec<_>>().join("; ")
}

/// Returns whether the set contains this text, ignoring case.
pub fn mentions(set: &QuestionSet, words: &str) -> bool {
    let words = words.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&words);
    let in_question = |question: &Question| {
        let options = || question.options.iter();
        has(&question.prompt)
            || has(&question.title)
            || options().any(|option| has(&option.label) || option.description.as_deref().is_some_and(has))
    };
    set.questions.iter().any(in_question)
        || has(&outcome(set))
        || has(&set.id.to_string())
        || set.working_directory.as_deref().is_some_and(has)
}

/// Formats one set in full.
pub fn details(set: &QuestionSet, now: Timestamp) -> String {
    let age = format::format_duration(now.since(set.created_at));
    let mut lines = vec![
        ("id", set.id.to_string()),
        ("status", set.state.to_string()),
        ("asked", format!("{} ({age} ago)", set.created_at)),
    ];
    lines.extend(set.working_directory.clone().map(|folder| ("folder", folder)));
    lines.extend(set.session.clone().map(|session| ("session", session)));
    lines.extend(set.rejection_reason.clone().map(|reason| ("reason", reason)));
    lines.extend(set.abandon_reason.clone().map(|reason| ("reason", reason)));
    let mut text: String =
        lines.iter().map(|(name, value)| format!("{name:<10}{}\n", format::sanitize_line(value))).collect();
    text.push_str(&questions_and_answers(set));
    if set.state == QuestionSetState::Pending {
        text.push_str(&format!("\ncoven answer {} --option LABEL | --text TEXT | --reject\n", set.id.short()));
    }
    text
}

/// Formats the questions with their options, and the answers.
pub fn questions_and_answers(set: &QuestionSet) -> String {
    let mut text = String::new();
    for (place, question) in set.questions.iter().enumerate() {
        let kind = if question.multi_select { "multiple choice" } else { "single choice" };
        let title = format::sanitize_line(&question.title);
        text.push_str(&format!("\n{}. {title} ({kind})\n", place + 1));
        for line in format::readable(&question.prompt).lines() {
            text.push_str(&format!("   {line}\n"));
        }
        for option in &question.options {
            let description = option.description.as_deref().map(|it| format!(" — {it}")).unwrap_or_default();
            text.push_str(&format!(
                "   - {}{}\n",
                format::sanitize_line(&option.label),
                format::sanitize_line(&description)
            ));
        }
    }
    if let Some(given) = &set.answers {
        text.push_str(&format!("\n{}\n", format::readable(&format_answers(&set.questions, &given.answers))));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_domain::question::{Choice, QuestionAnswer};
    use coven_interop::questions::{Answers, QuestionError};

    const NOW: Timestamp = Timestamp::from_millis(1_763_238_189_007);

    fn set(state: QuestionSetState) -> QuestionSet {
        let option = |label: &str, description: Option<&str>| Choice {
            label: label.into(),
            description: description.map(str::to_owned),
        };
        let question = Question {
            options: vec![option("A", Some("first")), option("B\x1b[2J", None)],
            prompt: "Which\x1b[31m?\nReally".into(),
            title: "Letter".into(),
            multi_select: true,
        };
        QuestionSet {
            id: "173b747a-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("an id"),
            questions: vec![question],
            state,
            created_at: Timestamp::from_millis(NOW.as_millis() - 240_000),
            modified_at: Timestamp::from_millis(NOW.as_millis() - 4_000),
            call_id: None,
            working_directory: Some("/work".into()),
            session: None,
            rejection_reason: None,
            answered_by: None,
            abandon_reason: None,
            answers: None,
        }
    }

    fn answered() -> QuestionSet {
        let answer = QuestionAnswer {
            selected_options: Some(vec!["A".into()]),
            custom_text: Some("and Ω".into()),
            ..QuestionAnswer::default()
        };
        let answers = Some(Answers { answers: vec![answer], timestamp: NOW, last_read_at: None });
        QuestionSet { answers, ..set(QuestionSetState::Completed) }
    }

    #[test]
    fn a_row_has_id_age_status_and_titles() {
        let broken = Listed::Broken {
            id: "273b747a-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("an id"),
            why: QuestionError::NotFound { id: "x".into() },
        };
        let text = list_table(&[Listed::Sound(set(QuestionSetState::Pending)), broken], NOW).text(None);
        let expected = "ID        AGE  STATUS   QUESTIONS             FOLDER\n\
                        173b747a  4m   pending  Letter                /work\n\
                        273b747a  -    broken   Session not found: x  -\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn history_shows_the_outcome() {
        let rejected = QuestionSet { rejection_reason: Some("too vague".into()), ..set(QuestionSetState::Rejected) };
        let text = history_table(&[answered(), rejected], NOW).text(None);
        let expected = "ID        ENDED  STATUS     READ  QUESTIONS  OUTCOME\n\
                        173b747a  4s     completed  no    Letter     A + and Ω\n\
                        173b747a  4s     rejected   -     Letter     too vague\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_search_finds_questions_options_and_answers_in_any_case() {
        let set = answered();
        for words in ["WHICH", "letter", "FIRST", "and ω", "173B", "/Work"] {
            assert!(mentions(&set, words), "{words}");
        }
        assert!(!mentions(&set, "nowhere"));
    }

    #[test]
    fn details_show_sanitized_questions_and_answers() {
        let pending = details(&set(QuestionSetState::Pending), NOW);
        for part in
            ["1. Letter (multiple choice)", "   Which␛[31m?\n   Really\n", "   - A — first", "coven answer 173b747a"]
        {
            assert!(pending.contains(part), "{part} in {pending}");
        }
        let done = details(&answered(), NOW);
        assert!(done.contains("→ A — first\n→ Other: 'and Ω'\n") && !done.contains("coven answer"), "{done}");
        assert!(!pending.contains('\x1b') && !done.contains('\x1b'));
    }
}
