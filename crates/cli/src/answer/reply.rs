//! What a person has decided about one question so far. Nothing that was typed is forgotten by choosing otherwise.

use coven_domain::Timestamp;
use coven_domain::question::{Question, QuestionAnswer, elaboration};
use serde::{Deserialize, Serialize};

/// A row of a question that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choosable {
    /// The place of one of its options.
    Option(usize),
    /// An answer in one's own words.
    Other,
    /// Of several options: none of them.
    Nothing,
    /// Ask the agent to say more first.
    Elaboration,
}

impl Choosable {
    /// What can be chosen, in the order of the screen.
    pub fn of(question: &Question) -> Vec<Self> {
        let options = (0..question.options.len()).map(Self::Option);
        let nothing = question.multi_select.then_some(Self::Nothing);
        options.chain([Self::Other]).chain(nothing).chain([Self::Elaboration]).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reply {
    /// Places of the chosen options, ascending.
    chosen: Vec<usize>,
    /// The text counts; it is kept where it does not.
    is_other: bool,
    other: String,
    is_nothing: bool,
    is_elaboration: bool,
    note: String,
}

impl Reply {
    pub fn is_chosen(&self, what: Choosable) -> bool {
        match what {
            Choosable::Option(place) => self.chosen.contains(&place),
            Choosable::Other => self.is_other,
            Choosable::Nothing => self.is_nothing,
            Choosable::Elaboration => self.is_elaboration,
        }
    }

    pub fn is_given(&self) -> bool {
        !self.chosen.is_empty() || self.is_other || self.is_nothing || self.is_elaboration
    }

    /// Nothing worth keeping.
    pub fn is_blank(&self) -> bool {
        *self == Self::default()
    }

    /// The text behind a row that has one.
    pub fn text(&self, what: Choosable) -> &str {
        match what {
            Choosable::Other => &self.other,
            Choosable::Elaboration => &self.note,
            Choosable::Option(_) | Choosable::Nothing => "",
        }
    }

    /// Keeps the text of a row without choosing it; a text of one's own that is empty is no answer any more.
    pub fn keep_text(&mut self, what: Choosable, text: &str) {
        match what {
            Choosable::Other => {
                text.clone_into(&mut self.other);
                self.is_other &= !text.trim().is_empty();
            }
            Choosable::Elaboration => text.clone_into(&mut self.note),
            Choosable::Option(_) | Choosable::Nothing => {}
        }
    }

    /// Chooses a row; of a question with several answers it is taken away again if it was chosen.
    pub fn choose(&mut self, question: &Question, what: Choosable) {
        if question.multi_select && self.is_chosen(what) {
            self.unchoose(what);
            return;
        }
        // What does not go together with the new choice gives way.
        self.is_elaboration = false;
        self.is_nothing = false;
        let is_alone = !question.multi_select || matches!(what, Choosable::Nothing | Choosable::Elaboration);
        if is_alone {
            self.chosen.clear();
            self.is_other = false;
        }
        match what {
            Choosable::Option(place) if place < question.options.len() => {
                self.chosen.push(place);
                self.chosen.sort_unstable();
                self.chosen.dedup();
            }
            Choosable::Option(_) => {}
            Choosable::Other => self.is_other = !self.other.trim().is_empty(),
            Choosable::Nothing => self.is_nothing = true,
            Choosable::Elaboration => self.is_elaboration = true,
        }
    }

    pub fn unchoose(&mut self, what: Choosable) {
        match what {
            Choosable::Option(place) => self.chosen.retain(|chosen| *chosen != place),
            Choosable::Other => self.is_other = false,
            Choosable::Nothing => self.is_nothing = false,
            Choosable::Elaboration => self.is_elaboration = false,
        }
    }

    /// Chooses what the agent recommends; whether it recommends anything.
    pub fn choose_recommended(&mut self, question: &Question) -> bool {
        let mut recommended: Vec<usize> =
            (0..question.options.len()).filter(|place| question.options[*place].is_recommended()).collect();
        if !question.multi_select {
            recommended.truncate(1);
        }
        if recommended.is_empty() {
            return false;
        }
        // Words of one's own beside a multiple choice stay.
        let is_other = self.is_other && question.multi_select;
        *self = Self { chosen: recommended, is_other, is_nothing: false, is_elaboration: false, ..self.clone() };
        true
    }

    /// The answer as the agent gets it; nothing while there is none.
    pub fn answer(&self, question_index: usize, question: &Question, now: Timestamp) -> Option<QuestionAnswer> {
        if !self.is_given() {
            return None;
        }
        let mut answer = QuestionAnswer { question_index, timestamp: now.to_string(), ..QuestionAnswer::default() };
        if self.is_elaboration {
            answer.custom_text = Some(elaboration(question, Some(&self.note)));
            return Some(answer);
        }
        let mut labels: Vec<String> =
            self.chosen.iter().filter_map(|place| question.options.get(*place)).map(|it| it.label.clone()).collect();
        if question.multi_select {
            answer.selected_options = (!labels.is_empty() || self.is_nothing).then_some(labels);
        } else {
            answer.selected_option = labels.pop();
        }
        answer.custom_text = self.is_other.then(|| self.other.trim().to_owned());
        Some(answer)
    }

    /// A draft may be about a set that somebody has changed meanwhile.
    pub fn fits(&self, question: &Question) -> bool {
        let places = self.chosen.iter().all(|place| *place < question.options.len());
        places && (question.multi_select || (self.chosen.len() <= 1 && !self.is_nothing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Choosable::{Elaboration, Nothing, Option as Place, Other};
    use coven_domain::question::Choice;

    fn question(multi_select: bool) -> Question {
        let option = |label: &str| Choice { label: label.into(), description: None };
        let options = vec![option("A"), option("B (Recommended)"), option("C [recommended]")];
        Question { options, prompt: "Which?".into(), title: "W".into(), multi_select }
    }

    fn answer(reply: &Reply, question: &Question) -> (Option<String>, Option<Vec<String>>, Option<String>) {
        let answer = reply.answer(0, question, Timestamp::from_millis(0)).expect("an answer");
        (answer.selected_option, answer.selected_options, answer.custom_text)
    }

    #[test]
    fn of_a_single_choice_one_is_chosen_and_words_exclude_options() {
        let question = question(false);
        let mut reply = Reply::default();
        assert_eq!(reply.answer(0, &question, Timestamp::from_millis(0)), None);
        reply.choose(&question, Place(0));
        reply.choose(&question, Place(2));
        assert_eq!(answer(&reply, &question), (Some("C [recommended]".into()), None, None));
        reply.keep_text(Other, " mine\n");
        assert!(reply.is_chosen(Place(2)), "typing alone chooses nothing");
        reply.choose(&question, Other);
        assert_eq!(answer(&reply, &question), (None, None, Some("mine".into())));
        reply.choose(&question, Place(0));
        assert_eq!(reply.text(Other), " mine\n", "kept");
        assert_eq!(answer(&reply, &question), (Some("A".into()), None, None));
    }

    #[test]
    fn of_a_multiple_choice_options_and_words_go_together() {
        let question = question(true);
        let mut reply = Reply::default();
        reply.keep_text(Other, "mine");
        for what in [Place(2), Other, Place(0), Place(1), Place(1)] {
            reply.choose(&question, what);
        }
        let labels = Some(vec!["A".into(), "C [recommended]".into()]);
        assert_eq!(answer(&reply, &question), (None, labels, Some("mine".into())));
        reply.choose(&question, Nothing);
        assert_eq!(answer(&reply, &question), (None, Some(Vec::new()), None));
        reply.choose(&question, Place(1));
        assert!(!reply.is_chosen(Nothing));
    }

    #[test]
    fn an_empty_text_is_no_answer() {
        let mut reply = Reply::default();
        reply.keep_text(Other, "x");
        reply.choose(&question(true), Other);
        reply.keep_text(Other, "  ");
        assert!(!reply.is_given());
    }

    #[test]
    fn asking_for_more_excludes_everything_else() {
        let question = question(true);
        let mut reply = Reply::default();
        reply.choose(&question, Place(0));
        reply.keep_text(Elaboration, "costs?");
        reply.choose(&question, Elaboration);
        let (none, nothing, text) = answer(&reply, &question);
        assert_eq!((none, nothing), (None, None));
        let text = text.expect("a text");
        assert!(text.starts_with("[ELABORATE_REQUEST] ") && text.ends_with("\nUser note: costs?"), "{text}");
    }

    #[test]
    fn what_is_recommended_is_chosen_at_once() {
        let (single, multiple) = (question(false), question(true));
        let mut reply = Reply::default();
        assert!(reply.choose_recommended(&single));
        assert_eq!(answer(&reply, &single).0, Some("B (Recommended)".into()));
        assert!(reply.choose_recommended(&multiple));
        assert_eq!(answer(&reply, &multiple).1.map(|labels| labels.len()), Some(2));
        let plain = Question { options: vec![single.options[0].clone(); 2], ..single };
        assert!(!Reply::default().choose_recommended(&plain));
    }

    #[test]
    fn a_reply_of_other_questions_does_not_fit() {
        let mut reply = Reply::default();
        reply.choose_recommended(&question(true));
        assert!(reply.fits(&question(true)) && !reply.fits(&question(false)));
    }
}
