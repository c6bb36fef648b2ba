//! What the folder's reports do to the queue.

use super::draft::Draft;
use super::state::{App, Asked, Effect, Mode, Report, Sending, Waiting};

impl App {
    pub(super) fn report(&mut self, report: Report) -> Vec<Effect> {
        match report {
            Report::Listed { broken } => {
                self.is_complete = true;
                self.at = 0;
                match broken {
                    0 => {}
                    1 => self.problem("a broken set is left out; `coven questions list --all` names it"),
                    _ => self
                        .problem(format!("{broken} broken sets are left out; `coven questions list --all` names them")),
                }
                Vec::new()
            }
            Report::Asked { asked, draft } => self.asked(asked, draft),
            Report::Finished { id, how } => {
                let Some(title) = self.remove(&id) else { return Vec::new() };
                self.news(format!("“{title}” {how}"));
                vec![Effect::DropDraft(id)]
            }
            Report::Sent { id, what, result } => self.sent(id, what, result),
            Report::Trouble(why) => {
                self.trouble = Some(why);
                Vec::new()
            }
        }
    }

    fn asked(&mut self, asked: Asked, draft: Option<Draft>) -> Vec<Effect> {
        self.trouble = None;
        if let Some(known) = self.queue.iter_mut().find(|waiting| waiting.asked.id == asked.id) {
            // The questions of a set do not change; if somebody changed them all the same, the draft follows.
            if known.asked.questions != asked.questions {
                known.draft = std::mem::take(&mut known.draft).fitted(&asked.questions);
                known.asked = asked;
                known.rest_cursors();
                self.mode = Mode::Asking;
            }
            return Vec::new();
        }
        let title = asked.title();
        let shown = self.current().map(|waiting| waiting.asked.id.clone());
        let place = self
            .queue
            .partition_point(|waiting| (waiting.asked.asked_at, &waiting.asked.id) < (asked.asked_at, &asked.id));
        self.queue.insert(place, Waiting::new(asked, draft));
        if !self.is_complete {
            return Vec::new();
        }
        match shown {
            Some(shown) => {
                self.at = self.place(&shown).unwrap_or(0);
                self.news(format!("new: “{title}”; ] goes to it, s lists all {}", self.queue.len()));
            }
            None => {
                self.at = 0;
                self.offset = 0;
            }
        }
        vec![Effect::Bell]
    }

    fn sent(&mut self, id: String, what: Sending, result: Result<(), String>) -> Vec<Effect> {
        match result {
            Ok(()) => {
                let Some(title) = self.remove(&id) else { return Vec::new() };
                let done = if what == Sending::Answers { "sent" } else { "rejected" };
                self.news(match self.queue.len() {
                    0 => format!("{done}: “{title}”"),
                    left => format!("{done}: “{title}”; {left} more to answer"),
                });
                vec![Effect::DropDraft(id)]
            }
            Err(why) => {
                if let Some(waiting) = self.queue.iter_mut().find(|waiting| waiting.asked.id == id) {
                    waiting.is_sending = false;
                    self.problem(format!("not sent, everything is kept: {why}"));
                }
                Vec::new()
            }
        }
    }

    /// Takes a set off the queue; what it was called, if it was there.
    fn remove(&mut self, id: &str) -> Option<String> {
        let place = self.place(id)?;
        let gone = self.queue.remove(place);
        if place < self.at {
            self.at -= 1;
        } else if place == self.at {
            self.at = self.at.min(self.queue.len().saturating_sub(1));
            self.offset = 0;
            if matches!(self.mode, Mode::Typing { .. } | Mode::Rejecting(_)) {
                // The rest of the sentence must not be taken for keys of the next set.
                self.is_deaf = self.is_typing_on();
                self.mode = Mode::Asking;
            }
        }
        match &mut self.mode {
            Mode::Picking(_) if self.queue.is_empty() => self.mode = Mode::Asking,
            Mode::Picking(row) => *row = (*row).min(self.queue.len() - 1),
            _ => {}
        }
        Some(gone.asked.title())
    }
}
