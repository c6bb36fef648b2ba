//! Formats the inbox for people: a table, the details of one item, and its question set.

use coven_api::SessionRecord;
use coven_api::inbox::{InboxDetail, InboxItem, InboxKind, InboxStatus};
use coven_api::question::{AnswerRecord, QuestionRecord};
use coven_domain::Timestamp;
use coven_domain::question::{Choice, Question, QuestionAnswer};
use coven_domain::question_set::{Answers, QuestionSet};

use super::questions_text::{outcome, questions_and_answers};
use crate::table::Table;
use crate::{activity, chat, format};

pub fn table(items: &[InboxItem], all: bool, now: Timestamp) -> Table {
    let last = if all { "STATUS" } else { "OPTIONS" };
    let mut table = Table::new(&["ID", "AGE", "KIND", "SESSION", "HARNESS", "ASKS", last], &[6, 5]);
    // An agent that waits comes before work that is finished.
    let mut items: Vec<&InboxItem> = items.iter().collect();
    items.sort_by_key(|item| matches!(item.kind, InboxKind::Merge | InboxKind::Blocked));
    for item in items {
        let state = match item.status {
            InboxStatus::Pending if !all => options(item),
            status if status.is_answered() => format!("answered: {}", answer_of(item)),
            status => status.to_string(),
        };
        table.row([
            format::short_id(&item.id).to_owned(),
            format::format_duration(now.since(item.created_at)),
            kind(item.kind).to_owned(),
            item.session_id.map_or_else(|| "-".to_owned(), |id| id.short()),
            item.harness.clone().unwrap_or_else(|| "-".to_owned()),
            item.title.clone(),
            state,
        ]);
    }
    table
}

/// Names what is needed, as notifications do.
const fn kind(kind: InboxKind) -> &'static str {
    match kind {
        InboxKind::Permission => "permission",
        InboxKind::QuestionSet | InboxKind::Question => "question",
        InboxKind::Terminal => "input",
        InboxKind::Merge => "review",
        InboxKind::Blocked => "blocked",
    }
}

/// Formats the sessions whose agents wait in their terminals and have no item in the inbox.
pub fn waiting_table(sessions: &[SessionRecord], now: Timestamp) -> Table {
    let mut table = Table::new(&["SESSION", "ACTIVITY", "HARNESS", "DETAIL", "CWD"], &[4, 3]);
    for session in sessions {
        table.row([
            session.id.short(),
            activity::cell(session, now),
            session.harness.clone(),
            session.activity_detail.clone().unwrap_or_default(),
            session.cwd.clone(),
        ]);
    }
    table
}

/// Lists the possible answers.
fn options(item: &InboxItem) -> String {
    let names: Vec<String> = match question_set(item) {
        None => item.options.iter().map(|option| option.id.clone()).collect(),
        Some(set) if set.questions.len() > 1 => vec![format!("{} questions", set.questions.len())],
        Some(set) => set.questions.into_iter().flat_map(|it| it.options).map(|option| option.label).collect(),
    };
    names.join(", ")
}

/// Formats the answer on one line.
pub fn answer_of(item: &InboxItem) -> String {
    if let Some(set) = question_set(item) {
        return outcome(&set);
    }
    let answer = item.answer.as_deref().unwrap_or("-");
    let option = item.options.iter().find(|option| option.id == answer);
    option.map_or_else(|| answer.to_owned(), |option| option.name.clone())
}

/// Formats one item in full.
pub fn details(item: &InboxItem, now: Timestamp) -> String {
    let age = format::format_duration(now.since(item.created_at));
    let set = question_set(item);
    let mut lines = vec![
        ("id", item.id.clone()),
        ("asks", item.title.clone()),
        ("kind", item.kind.to_string()),
        ("status", item.status.to_string()),
        ("asked", format!("{} ({age} ago)", item.created_at)),
    ];
    lines.extend(item.session_id.map(|id| ("session", id.to_string())));
    lines.extend(item.harness.clone().map(|harness| ("harness", harness)));
    lines.extend(item.task_id.map(|task| ("task", task.to_string())));
    lines.extend(item.step.clone().map(|step| ("step", step)));
    lines.extend(item.answer.as_ref().map(|_| ("answer", answer_of(item))));
    lines.extend(item.answered_by.clone().map(|by| ("by", by)));
    for option in &item.options {
        lines.push(match item.kind {
            // The names of these options say enough without id and kind.
            InboxKind::Merge | InboxKind::Blocked => ("option", option.name.clone()),
            _ => ("option", format!("{}  {} ({})", option.id, option.name, option.kind.replace('_', " "))),
        });
    }
    if let Some(set) = &set {
        lines.extend(set.working_directory.clone().map(|folder| ("folder", folder)));
        let reasons = [&set.rejection_reason, &set.abandon_reason];
        lines.extend(reasons.into_iter().flatten().map(|reason| ("reason", reason.clone())));
    }
    let mut text: String =
        lines.iter().map(|(name, value)| format!("{name:<10}{}\n", format::sanitize_line(value))).collect();
    // In full: the title is one short line and may lack the path that the user needs.
    if let Some(why) = reason(item) {
        text.push_str(&format!("\n{}\n", format::readable(&why)));
    }
    let short = format::short_id(&item.id);
    match (&item.detail, &set) {
        (_, Some(set)) => text.push_str(&questions_and_answers(set)),
        (InboxDetail::Terminal { question_set }, None) => {
            for question in &question_set.questions {
                text.push_str(&format!("\n{}\n", format::readable(&question.prompt)));
            }
        }
        (InboxDetail::QuestionSet { .. } | InboxDetail::Question { .. }, None) => {
            text.push_str(&format!("\ncoven questions dismiss {short}\n"))
        }
        (InboxDetail::Permission { permission }, None) => {
            for row in chat::request_rows(&permission.tool_call) {
                text.push_str(&row.text());
                text.push('\n');
            }
        }
        (InboxDetail::Task { .. }, None) => {}
    }
    if item.status == InboxStatus::Pending {
        let look = match item.kind {
            InboxKind::Merge => format!("coven task diff {short}\n"),
            InboxKind::Blocked => format!("coven task show {short}\n"),
            InboxKind::Permission | InboxKind::QuestionSet | InboxKind::Question | InboxKind::Terminal => String::new(),
        };
        text.push_str(&format!("\n{look}{}\n", how_to_answer(item)));
    }
    text
}

/// Returns the command that answers an item, with its possible answers.
pub fn how_to_answer(item: &InboxItem) -> String {
    let answer = match item.kind {
        InboxKind::QuestionSet | InboxKind::Question => "--option LABEL | --text TEXT | --reject".to_owned(),
        InboxKind::Terminal => "'LINE TO TYPE'".to_owned(),
        InboxKind::Merge => "approve | reject --reason TEXT".to_owned(),
        InboxKind::Blocked => {
            let words: Vec<&str> = item.options.iter().map(|option| option.id.as_str()).collect();
            format!("{} [--reason TEXT]", words.join(" | "))
        }
        InboxKind::Permission => match item.options.iter().any(|option| option.kind == "allow_always") {
            true => "allow|always|deny".to_owned(),
            false => "allow|deny".to_owned(),
        },
    };
    format!("coven inbox answer {} {answer}", format::short_id(&item.id))
}

/// Returns the full reason why a task needs a human, e.g. the conflicting files and the worktree to resolve them in.
pub fn reason(item: &InboxItem) -> Option<String> {
    let InboxDetail::Task { task, error } = &item.detail else { return None };
    error.clone().or_else(|| task.reason.clone()).filter(|why| !why.trim().is_empty())
}

/// Returns the question set of an item, or `None` if the item has another kind or a broken set.
pub fn question_set(item: &InboxItem) -> Option<QuestionSet> {
    let (InboxDetail::QuestionSet { question_set: set } | InboxDetail::Question { question_set: set }) = &item.detail
    else {
        return None;
    };
    let state = set.status.as_str().parse().ok()?;
    let question = |it: &QuestionRecord| Question {
        options: it
            .options
            .iter()
            .map(|it| Choice { label: it.label.clone(), description: it.description.clone() })
            .collect(),
        prompt: it.prompt.clone(),
        title: it.title.clone(),
        multi_select: it.multi_select,
    };
    let answer = |it: &AnswerRecord| QuestionAnswer {
        question_index: it.question_index,
        selected_option: None,
        selected_options: Some(it.selected_options.clone()),
        custom_text: it.custom_text.clone(),
        timestamp: String::new(),
    };
    Some(QuestionSet {
        id: item.id.parse().ok()?,
        questions: set.questions.iter().map(question).collect(),
        state,
        created_at: set.created_at,
        modified_at: set.updated_at,
        call_id: set.call_id.clone(),
        working_directory: set.working_directory.clone(),
        session: set.session_id.map(|id| id.to_string()),
        answered_by: set.answered_by.clone(),
        rejection_reason: set.rejection_reason.clone(),
        abandon_reason: set.abandon_reason.clone(),
        answers: set.answers.as_ref().map(|answers| Answers {
            answers: answers.iter().map(answer).collect(),
            timestamp: set.answered_at.unwrap_or(set.updated_at),
            last_read_at: set.read_at,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_api::inbox::InboxOption;
    use coven_api::question::QuestionSetRecord;
    use coven_domain::question_set::QuestionSetState;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::from_millis(1_763_238_189_007);

    fn item() -> InboxItem {
        let option =
            |id: &str, name: &str, kind: &str| InboxOption { id: id.into(), name: name.into(), kind: kind.into() };
        InboxItem {
            id: "0c7e49a2-3b1d".into(),
            kind: InboxKind::Permission,
            status: InboxStatus::Pending,
            session_id: Some("1a2b3c4d-0000-4000-8000-000000000000".parse().expect("an id")),
            harness: Some("goose".into()),
            repo_id: None,
            task_id: None,
            step: None,
            title: "touch x\x1b[2J".into(),
            created_at: "2025-11-15T20:23:05.000Z".parse().expect("a time"),
            answered_at: None,
            answered_by: None,
            answer: None,
            options: vec![option("yes", "Yes", "allow_once"), option("no", "No", "reject_once")],
            detail: chat::fixtures::permission_detail(
                json!({"toolCall": {"title": "shell", "rawInput": {"command": "touch x"}}}),
            ),
        }
    }

    fn set(state: QuestionSetState) -> QuestionSet {
        let option = |label: &str| Choice { label: label.into(), description: None };
        QuestionSet {
            id: "173b747a-549b-4b6b-ae62-f1b0c3f21b86".parse().expect("an id"),
            questions: vec![Question {
                options: vec![option("A"), option("B")],
                prompt: "Which\x1b[2J?".into(),
                title: "Db".into(),
                multi_select: false,
            }],
            state,
            created_at: NOW,
            modified_at: NOW,
            call_id: None,
            working_directory: Some("/w".into()),
            session: None,
            answered_by: None,
            rejection_reason: None,
            abandon_reason: None,
            answers: None,
        }
    }

    fn asked(set: QuestionSet) -> InboxItem {
        let question_set = QuestionSetRecord::from(set);
        InboxItem {
            id: question_set.id.to_string(),
            kind: InboxKind::QuestionSet,
            status: question_set.status.into(),
            title: "Which?".into(),
            options: Vec::new(),
            detail: InboxDetail::QuestionSet { question_set },
            ..item()
        }
    }

    #[test]
    fn a_question_set_is_restored_from_its_record() {
        let answer = QuestionAnswer {
            selected_options: Some(vec!["B".into()]),
            custom_text: Some("x".into()),
            ..QuestionAnswer::default()
        };
        let given = Answers { answers: vec![answer], timestamp: NOW, last_read_at: None };
        let done =
            QuestionSet { answers: Some(given), answered_by: Some("human".into()), ..set(QuestionSetState::Completed) };
        assert_eq!(question_set(&asked(done.clone())), Some(done));
    }

    #[test]
    fn a_row_lists_the_possible_answers() {
        let text = table(&[item(), asked(set(QuestionSetState::Pending))], false, NOW).text(None);
        let expected = "ID        AGE  KIND  SESSION   HARNESS  ASKS          OPTIONS\n\
                        0c7e49a2  4s   permission  1a2b3c4d  goose    touch x [2J  yes, no\n\
                        173b747a  4s   question  1a2b3c4d  goose    Which?  A, B\n";
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn an_answered_item_shows_its_answer() {
        let answered = InboxItem { status: InboxStatus::Answered, answer: Some("no".into()), ..item() };
        let answer = QuestionAnswer { selected_option: Some("B".into()), ..QuestionAnswer::default() };
        let given = Answers { answers: vec![answer], timestamp: NOW, last_read_at: None };
        let chosen = asked(QuestionSet { answers: Some(given), ..set(QuestionSetState::Completed) });
        let text = table(&[answered, item(), chosen], true, Timestamp::from_millis(0)).text(None);
        let ends = ["STATUS", "answered: No", "pending", "answered: B"];
        assert!(text.lines().zip(ends).all(|(line, end)| line.ends_with(end)), "{text}");
    }

    #[test]
    fn details_show_what_the_agent_wants_to_do() {
        let text = details(&item(), NOW);
        for part in ["option    yes  Yes (allow once)", "shell: touch x", "coven inbox answer 0c7e49a2 allow|deny"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn details_of_a_question_set_list_its_questions() {
        let text = details(&asked(set(QuestionSetState::Pending)), NOW);
        for part in ["folder    /w", "1. Db (single choice)", "   - B", "coven inbox answer 173b747a --option LABEL"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains('\x1b'));
        let id = set(QuestionSetState::Pending).id;
        let broken = InboxItem {
            status: InboxStatus::Broken,
            detail: InboxDetail::QuestionSet { question_set: QuestionSetRecord::broken(id.into(), "torn".into(), NOW) },
            ..asked(set(QuestionSetState::Pending))
        };
        let text = details(&broken, Timestamp::from_millis(0));
        assert!(text.ends_with("\ncoven questions dismiss 173b747a\n"), "{text}");
    }
}
