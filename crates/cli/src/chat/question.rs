//! Questions of the agent that wait for a person.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use coven_api::inbox::{InboxDetail, InboxItem, InboxStatus};
use serde_json::Value;

use super::report::{Answer, Chosen};
use super::row::{Row, Style};
use super::tool::ToolCall;

/// A key so soon after a question came up was meant for something else.
const TOO_SOON: Duration = Duration::from_millis(300);
/// Keys for options: 1 to 9.
const MOST_OPTIONS: usize = 9;
/// So many rows of what the agent wants to do are shown.
const MOST_DETAIL: usize = 6;

#[derive(Debug, Default)]
pub struct Questions {
    pending: Vec<InboxItem>,
    /// Answered here; the daemon has not confirmed it.
    answering: HashSet<String>,
    /// What became of these has been told.
    told: HashSet<String>,
    asked_at: Option<Instant>,
}

impl Questions {
    /// The question to show now.
    pub fn current(&self) -> Option<&InboxItem> {
        self.pending.iter().find(|item| !self.answering.contains(&item.id))
    }

    fn count(&self) -> usize {
        self.pending.iter().filter(|item| !self.answering.contains(&item.id)).count()
    }

    /// Takes the inbox as it is now; returns what to tell.
    pub fn update(&mut self, pending: Vec<InboxItem>, settled: Vec<InboxItem>, now: Instant) -> Vec<String> {
        let before = self.current().map(|item| item.id.clone());
        self.pending = pending;
        self.pending.retain(|item| !self.told.contains(&item.id));
        let notes = settled.iter().filter_map(|item| self.settle(item)).collect();
        self.note_time(before, now);
        notes
    }

    /// What a key means for the question that is shown.
    pub fn chosen(&self, key: char, now: Instant) -> Option<(String, Chosen)> {
        let item = self.current()?;
        if self.asked_at.is_some_and(|asked| now.duration_since(asked) < TOO_SOON) {
            return None;
        }
        let answer = match key {
            'a' => Chosen::Allow,
            'd' => Chosen::Deny,
            '1'..='9' => {
                let place = key.to_digit(10).and_then(|digit| usize::try_from(digit).ok())?;
                Chosen::Option(item.options.get(place - 1)?.id.clone())
            }
            _ => return None,
        };
        Some((item.id.clone(), answer))
    }

    /// The question was answered here: the next one may be shown.
    pub fn answer(&mut self, id: &str, now: Instant) {
        let before = self.current().map(|item| item.id.clone());
        self.answering.insert(id.to_owned());
        self.note_time(before, now);
    }

    /// What the daemon said to an answer of ours.
    pub fn answered(&mut self, id: &str, answer: Result<Answer, String>, now: Instant) -> Vec<String> {
        let before = self.current().map(|item| item.id.clone());
        let notes = match answer {
            Ok(Answer::Settled(item)) => self.settle(&item),
            Ok(_) => None,
            // Whoever was first is told with the next look at the inbox; a question nobody answered comes up again.
            Err(why) => Some(why),
        };
        self.answering.remove(id);
        self.note_time(before, now);
        notes.into_iter().collect()
    }

    fn note_time(&mut self, before: Option<String>, now: Instant) {
        if self.current().map(|item| &item.id) != before.as_ref() {
            self.asked_at = Some(now);
        }
    }

    fn settle(&mut self, item: &InboxItem) -> Option<String> {
        self.pending.retain(|pending| pending.id != item.id);
        if !self.told.insert(item.id.clone()) {
            return None;
        }
        let is_ours = self.answering.contains(&item.id);
        let answer = item.answer.as_deref().and_then(|answer| item.options.iter().find(|option| option.id == answer));
        let answer = answer.map_or_else(|| item.answer.clone().unwrap_or_default(), |option| option.name.clone());
        Some(match (item.status, item.answered_by.as_deref()) {
            (InboxStatus::Answered, _) if is_ours => format!("{}: {answer}", item.title),
            (InboxStatus::Answered, Some("rule")) => format!("{}: {answer} (by a rule)", item.title),
            (InboxStatus::Answered, _) => format!("{}: {answer} (answered elsewhere)", item.title),
            _ => format!("{}: no answer is needed any more", item.title),
        })
    }

    /// The question with its options, numbered.
    pub fn rows(&self, columns: usize, has_content: bool) -> Vec<Row> {
        let Some(item) = self.current() else { return Vec::new() };
        let count = self.count();
        let more = if count > 1 { format!(" (1 of {count})") } else { String::new() };
        let asker = item.harness.as_deref().unwrap_or("the agent");
        let mut rows = vec![Row::new(Style::Alert, &format!("? {asker} asks{more}: ")).with(Style::Bold, &item.title)];
        let call = match &item.detail {
            InboxDetail::Permission { permission } => ToolCall::of_request(&permission.tool_call),
            _ => ToolCall::of_request(&Value::Null),
        };
        let label = call.label();
        if !item.title.contains(&label) && label != "tool call" {
            rows.push(Row::new(Style::Plain, "    ").with(Style::Plain, &label));
        }
        let detail = call.content_rows();
        let most = if has_content { MOST_DETAIL * 2 } else { MOST_DETAIL };
        rows.extend(detail.iter().take(most).cloned());
        if detail.len() > most {
            rows.push(Row::new(
                Style::Dim,
                &format!("    … {} more lines: coven inbox show {}", detail.len() - most, short(item)),
            ));
        }
        for (place, option) in item.options.iter().take(MOST_OPTIONS).enumerate() {
            rows.push(Row::new(Style::Bold, &format!("  {} ", place + 1)).with(Style::Plain, &option.name));
        }
        rows.push(Row::new(Style::Dim, "  a allow · d deny · Ctrl-C cancels the turn"));
        rows.into_iter().map(|row| row.cut(columns)).collect()
    }
}

fn short(item: &InboxItem) -> &str {
    crate::format::short_id(&item.id)
}
