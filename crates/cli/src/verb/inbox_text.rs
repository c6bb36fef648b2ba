//! The inbox in words: a table, the details of one item, and the question set that an item is about.

use coven_api::inbox::InboxItem;
use coven_domain::Timestamp;
use coven_domain::question::{Answer, Question};
use coven_domain::question_set::QuestionSetState;
use coven_interop::questions::{Answers, QuestionSet};
use serde::de::DeserializeOwned;

use super::questions_text::{outcome, questions_and_answers};
use crate::table::Table;
use crate::{chat, wording};

pub fn table(items: &[InboxItem], all: bool, now: Timestamp) -> Table {
    let last = if all { "STATUS" } else { "OPTIONS" };
    let mut table = Table::new(&["ID", "AGE", "SESSION", "HARNESS", "ASKS", last], &[5, 4]);
    for item in items {
        let short = |id: &Option<String>| id.as_deref().map_or("-", wording::short_id).to_owned();
        let state = match item.status.as_str() {
            "pending" if !all => options(item),
            "answered" => format!("answered: {}", answer_of(item)),
            status => status.to_owned(),
        };
        table.row([
            wording::short_id(&item.id).to_owned(),
            wording::age(&item.created_at, now),
            short(&item.session_id),
            item.harness.clone().unwrap_or_else(|| "-".to_owned()),
            item.title.clone(),
            state,
        ]);
    }
    table
}

/// What it may be answered with.
fn options(item: &InboxItem) -> String {
    let names: Vec<String> = match question_set(item) {
        None => item.options.iter().map(|option| option.id.clone()).collect(),
        Some(set) if set.questions.len() > 1 => vec![format!("{} questions", set.questions.len())],
        Some(set) => set.questions.into_iter().flat_map(|it| it.options).map(|option| option.label).collect(),
    };
    names.join(", ")
}

/// How it was answered, on one line.
pub fn answer_of(item: &InboxItem) -> String {
    if let Some(set) = question_set(item) {
        return outcome(&set);
    }
    let answer = item.answer.as_deref().unwrap_or("-");
    let option = item.options.iter().find(|option| option.id == answer);
    option.map_or_else(|| answer.to_owned(), |option| option.name.clone())
}

/// Everything about one item.
pub fn details(item: &InboxItem, now: Timestamp) -> String {
    let age = wording::age(&item.created_at, now);
    let set = question_set(item);
    let mut lines = vec![
        ("id", item.id.clone()),
        ("asks", item.title.clone()),
        ("kind", item.kind.clone()),
        ("status", item.status.clone()),
        ("asked", format!("{} ({age} ago)", item.created_at)),
    ];
    lines.extend(item.session_id.clone().map(|id| ("session", id)));
    lines.extend(item.harness.clone().map(|harness| ("harness", harness)));
    lines.extend(item.task_id.clone().map(|task| ("task", task)));
    lines.extend(item.step.clone().map(|step| ("step", step)));
    lines.extend(item.answer.as_ref().map(|_| ("answer", answer_of(item))));
    lines.extend(item.answered_by.clone().map(|by| ("by", by)));
    for option in &item.options {
        lines.push(match item.kind.as_str() {
            // Their names say it all.
            "merge" | "blocked" => ("option", option.name.clone()),
            _ => ("option", format!("{}  {} ({})", option.id, option.name, option.kind.replace('_', " "))),
        });
    }
    if let Some(set) = &set {
        lines.extend(set.working_directory.clone().map(|folder| ("folder", folder)));
        let reasons = [&set.rejection_reason, &set.abandon_reason];
        lines.extend(reasons.into_iter().flatten().map(|reason| ("reason", reason.clone())));
    }
    let mut text: String = lines.iter().map(|(name, value)| format!("{name:<10}{}\n", wording::plain(value))).collect();
    // In full: the title, which is one short line, may lack the path or file that is needed.
    if let Some(why) = reason(item) {
        text.push_str(&format!("\n{}\n", wording::readable(&why)));
    }
    let short = wording::short_id(&item.id);
    if let Some(set) = &set {
        text.push_str(&questions_and_answers(set));
    } else if let Some(prompt) = field::<String>(item, "prompt").filter(|_| item.kind == "terminal") {
        text.push_str(&format!("\n{}\n", wording::readable(&prompt)));
    } else if item.status == "broken" {
        text.push_str(&format!("\ncoven questions dismiss {short}\n"));
    } else if item.kind == "permission" {
        for row in chat::request_rows(&item.detail) {
            text.push_str(&row.text());
            text.push('\n');
        }
    }
    if item.status == "pending" {
        let look = match item.kind.as_str() {
            "merge" => format!("coven task diff {short}\n"),
            "blocked" => format!("coven task show {short}\n"),
            _ => String::new(),
        };
        text.push_str(&format!("\n{look}{}\n", how_to_answer(item)));
    }
    text
}

/// The command that answers an item, with the words it takes.
pub fn how_to_answer(item: &InboxItem) -> String {
    let answer = match item.kind.as_str() {
        "question_set" => "--option LABEL | --text TEXT | --reject".to_owned(),
        "terminal" => "'a line to type in'".to_owned(),
        "merge" => "approve | reject --reason TEXT".to_owned(),
        "blocked" => {
            let words: Vec<&str> = item.options.iter().map(|option| option.id.as_str()).collect();
            format!("{} [--reason TEXT]", words.join(" | "))
        }
        _ => "allow|deny".to_owned(),
    };
    format!("coven inbox answer {} {answer}", wording::short_id(&item.id))
}

/// Why a task waits, whole: what a merge conflicts with, and the worktree to resolve that in.
pub fn reason(item: &InboxItem) -> Option<String> {
    if !matches!(item.kind.as_str(), "merge" | "blocked") {
        return None;
    }
    let of_task = || item.detail.get("task")?.get("reason")?.as_str().map(str::to_owned);
    field::<String>(item, "error").or_else(of_task).filter(|why| !why.trim().is_empty())
}

/// The set behind an item; none if it is something else or broken.
pub fn question_set(item: &InboxItem) -> Option<QuestionSet> {
    let questions: Vec<Question> = field(item, "questions").filter(|_| item.kind == "question_set")?;
    let state = match item.status.as_str() {
        "answered" => QuestionSetState::Completed,
        status => status.parse().ok()?,
    };
    let created_at = item.created_at.parse().ok()?;
    let ended_at: Option<Timestamp> = item.answered_at.as_deref().and_then(|at| at.parse().ok());
    let answers: Option<Vec<Answer>> = field(item, "answers");
    Some(QuestionSet {
        id: item.id.parse().ok()?,
        questions,
        state,
        created_at,
        modified_at: ended_at.unwrap_or(created_at),
        call_id: None,
        working_directory: field(item, "workingDirectory"),
        session: item.session_id.clone(),
        rejection_reason: field(item, "rejectionReason"),
        answered_by: item.answered_by.clone(),
        abandon_reason: field(item, "abandonReason"),
        answers: answers.map(|answers| Answers {
            answers,
            timestamp: ended_at.unwrap_or(created_at),
            last_read_at: None,
        }),
    })
}

fn field<T: DeserializeOwned>(item: &InboxItem, name: &str) -> Option<T> {
    serde_json::from_value(item.detail.get(name)?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_api::inbox::InboxOption;
    use serde_json::json;

    fn item() -> InboxItem {
        let option =
            |id: &str, name: &str, kind: &str| InboxOption { id: id.into(), name: name.into(), kind: kind.into() };
        InboxItem {
            id: "0c7e49a2-3b1d".into(),
            kind: "permission".into(),
            status: "pending".into(),
            session_id: Some("1a2b3c4d-0000".into()),
            harness: Some("goose".into()),
            repo_id: None,
            task_id: None,
            step: None,
            title: "touch x\x1b[2J".into(),
            created_at: "2025-11-15T20:23:05.000Z".into(),
            answered_at: None,
            answered_by: None,
            answer: None,
            options: vec![option("yes", "Yes", "allow_once"), option("no", "No", "reject_once")],
            detail: json!({"toolCall": {"title": "shell", "rawInput": {"command": "touch x"}}}),
        }
    }

    fn asked() -> InboxItem {
        let question = json!({"title": "Db", "prompt": "Which\x1b[2J?", "options": [{"label": "A"}, {"label": "B"}]});
        InboxItem {
            id: "173b747a-549b-4b6b-ae62-f1b0c3f21b86".into(),
            kind: "question_set".into(),
            title: "Which?".into(),
            options: Vec::new(),
            detail: json!({"questions": [question], "workingDirectory": "/w"}),
            ..item()
        }
    }

    #[test]
    fn a_row_has_what_is_needed_to_answer() {
        let now = Timestamp::from_millis(1_763_238_189_007);
        let text = table(&[item(), asked()], false, now).text(None);
        let expected = "ID        AGE  SESSION   HARNESS  ASKS          OPTIONS\n\
                        0c7e49a2  4s   1a2b3c4d  goose    touch x [2J  yes, no\n\
                        173b747a  4s   1a2b3c4d  goose    Which?  A, B\n";
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn what_was_answered_says_how() {
        let answered = InboxItem { status: "answered".into(), answer: Some("no".into()), ..item() };
        let mut chosen = InboxItem { status: "answered".into(), ..asked() };
        chosen.detail["answers"] = json!([{"questionIndex": 0, "selectedOption": "B", "timestamp": ""}]);
        let text = table(&[answered, item(), chosen], true, Timestamp::from_millis(0)).text(None);
        let ends = ["STATUS", "answered: No", "pending", "answered: B"];
        assert!(text.lines().zip(ends).all(|(line, end)| line.ends_with(end)), "{text}");
    }

    #[test]
    fn the_details_tell_what_the_agent_wants_to_do() {
        let text = details(&item(), Timestamp::from_millis(1_763_238_189_007));
        for part in ["option    yes  Yes (allow once)", "shell: touch x", "coven inbox answer 0c7e49a2 allow|deny"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn the_details_of_a_question_set_are_its_questions() {
        let text = details(&asked(), Timestamp::from_millis(1_763_238_189_007));
        for part in ["folder    /w", "1. Db (single choice)", "   - B", "coven inbox answer 173b747a --option LABEL"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains('\x1b'));
        let broken = InboxItem { status: "broken".into(), detail: json!({"error": "torn"}), ..asked() };
        let text = details(&broken, Timestamp::from_millis(0));
        assert!(text.ends_with("\ncoven questions dismiss 173b747a\n"), "{text}");
    }
}
