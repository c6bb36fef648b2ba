//! Turns the words and flags of an answer into what the inbox item takes, and sends it.

use coven_api::inbox::{AnswerRequest, InboxDetail, InboxItem, InboxKind, InboxOption, Rejection};
use coven_api::routes::{AnswerInboxItem, Endpoint, GetInboxItem};
use coven_domain::question::{Question, QuestionAnswer};

use super::answer_flags::Pieces;
use super::answer_reply::{Reply, ReplyArgs};
use super::inbox_text::{answer_of, how_to_answer, question_set};
use crate::daemon_client::DaemonClient;
use crate::failure::Failure;
use crate::format;

/// Sends the answer to the item. The daemon checks that it fits.
pub async fn send(
    link: &mut DaemonClient,
    id: &str,
    answer: Option<String>,
    reply: ReplyArgs,
) -> Result<InboxItem, Failure> {
    let item = link.call(GetInboxItem::of(id)).await?;
    let body = body(&item, answer, reply)?;
    Ok(link.call(AnswerInboxItem::of(&item.id).body(&body)).await?)
}

fn body(item: &InboxItem, answer: Option<String>, reply: ReplyArgs) -> Result<AnswerRequest, Failure> {
    if answer.is_none() && reply.is_empty() {
        return Err(Failure::usage("no answer was given", format!("Give one with {}", how_to_answer(item))));
    }
    match item.kind {
        InboxKind::Permission => permission(item, answer, reply),
        InboxKind::Question | InboxKind::QuestionSet => questions(item, answer, reply),
        // Never type a flag's name into a terminal.
        InboxKind::Terminal if reply.is_rejection() => Err(unfit(item)),
        InboxKind::Merge | InboxKind::Blocked => task(item, answer, reply),
        InboxKind::Terminal => match answer.or_else(|| only_word(&reply)) {
            Some(word) => Ok(AnswerRequest { option: Some(word), reason: reply.reason, ..AnswerRequest::default() }),
            None => Err(unfit(item)),
        },
    }
}

/// A task takes one of its options, or a decision for which the daemon picks the option.
fn task(item: &InboxItem, answer: Option<String>, reply: ReplyArgs) -> Result<AnswerRequest, Failure> {
    let Some(word) = answer.or_else(|| only_word(&reply)) else { return Err(unfit(item)) };
    let is_decision = matches!(word.as_str(), "allow" | "deny");
    let (decision, option) = if is_decision { (Some(word), None) } else { (None, Some(word)) };
    Ok(AnswerRequest { decision, option, reason: reply.reason, ..AnswerRequest::default() })
}

/// Returns the one word that means the same as all flags, if there is one.
fn only_word(reply: &ReplyArgs) -> Option<String> {
    match reply.is_rejection() {
        true => Some("reject".to_owned()),
        false => reply.only_option().map(str::to_owned),
    }
}

/// A permission takes a decision, or an option by its id, kind or name.
fn permission(item: &InboxItem, answer: Option<String>, reply: ReplyArgs) -> Result<AnswerRequest, Failure> {
    let Some(word) = answer.or_else(|| only_word(&reply)) else { return Err(unfit(item)) };
    let reason = reply.reason;
    let decided = |decision: &str| AnswerRequest {
        decision: Some(decision.to_owned()),
        reason: reason.clone(),
        ..AnswerRequest::default()
    };
    let chosen = |option: &InboxOption| AnswerRequest {
        option: Some(option.id.clone()),
        reason: reason.clone(),
        ..AnswerRequest::default()
    };
    let by = |is_meant: &dyn Fn(&InboxOption) -> bool| item.options.iter().find(|option| is_meant(option));
    if let Some(option) = by(&|option| option.id == word) {
        return Ok(chosen(option));
    }
    let kind = match word.as_str() {
        "allow" => return Ok(decided("allow")),
        "deny" | "reject" => return Ok(decided("deny")),
        "always" => "allow_always",
        other => other,
    };
    match by(&|option| option.kind == kind).or_else(|| by(&|option| option.name.eq_ignore_ascii_case(&word))) {
        Some(option) => Ok(chosen(option)),
        None => Err(Failure::usage(
            format!("the agent offers no option {word:?} for this permission"),
            format!("Choose allow, deny or one of: {}", labels(item)),
        )),
    }
}

fn labels(item: &InboxItem) -> String {
    let labels: Vec<String> = item.options.iter().map(|option| format!("{} ({})", option.id, option.name)).collect();
    labels.join(", ")
}

/// Questions take an option or a text each, or a rejection.
fn questions(item: &InboxItem, answer: Option<String>, reply: ReplyArgs) -> Result<AnswerRequest, Failure> {
    let Some(set) = question_set(item) else {
        // The set is broken; the daemon says why.
        return Ok(AnswerRequest { answers: Some(Vec::new()), ..AnswerRequest::default() });
    };
    let reply = match answer {
        Some(word) if word == "reject" && !has_option(&set.questions, "reject") => Reply::Rejection(reply.reason),
        Some(word) => Reply::Answers(answers_of(&set.questions, word)?),
        None => reply.reply(&set.questions)?,
    };
    Ok(match reply {
        Reply::Answers(answers) => {
            let answers = Some(answers.into_iter().map(Into::into).collect());
            AnswerRequest { answers, ..AnswerRequest::default() }
        }
        Reply::Rejection(reason) => AnswerRequest { reject: Some(Rejection { reason }), ..AnswerRequest::default() },
    })
}

fn has_option(questions: &[Question], label: &str) -> bool {
    questions.iter().any(|question| question.options.iter().any(|option| option.label == label))
}

/// Returns the answers for one word: the option of the only question, or its text if it has no options.
fn answers_of(questions: &[Question], word: String) -> Result<Vec<QuestionAnswer>, Failure> {
    match questions {
        [only] if only.options.is_empty() => {
            Ok(vec![QuestionAnswer { custom_text: Some(word), ..QuestionAnswer::default() }])
        }
        _ => Pieces::option(word).answers(questions),
    }
}

/// The error for an answer of another kind of item.
fn unfit(item: &InboxItem) -> Failure {
    let what = match &item.detail {
        InboxDetail::Permission { .. } => "a permission needs one of its options",
        InboxDetail::Question { .. } | InboxDetail::QuestionSet { .. } => "a question needs an option or a text",
        InboxDetail::Terminal { .. } => "a terminal prompt needs one line",
        InboxDetail::Task { .. } => "a task needs one word",
    };
    Failure::usage(what, format!("Answer with {}", how_to_answer(item)))
}

/// Formats what became of an item, on one line.
pub fn what_happened(item: &InboxItem) -> String {
    let title = format::sanitize_line(&item.title);
    match item.status {
        status if status.is_answered() => format!("answered: {title}: {}", format::sanitize_line(&answer_of(item))),
        status => format!("{status}: {title}"),
    }
}
