//! Converts questions to a form of the client, and the user's reply to answers. A form is flat: one field per question,
//! and another one for free text.

use coven_domain::Timestamp;
use coven_domain::question::{Question, QuestionAnswer};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value, json};

/// The user's reply to a form.
#[derive(Debug, PartialEq)]
pub enum FormReply {
    Answers(Vec<QuestionAnswer>),
    Declined,
    /// The form was closed or left empty; the questions are still open.
    NoAnswer,
}

fn choice_field(question: usize) -> String {
    format!("question_{}", question + 1)
}

fn text_field(question: usize) -> String {
    format!("question_{}_other", question + 1)
}

/// Builds the form; `None` if the questions cannot be expressed as one.
pub fn form(questions: &[Question]) -> Option<ElicitRequestParams> {
    let mut properties = Map::new();
    for (index, question) in questions.iter().enumerate() {
        let options: Vec<Value> = question
            .options
            .iter()
            .map(|option| match &option.description {
                Some(text) => json!({"const": option.label, "title": format!("{} — {text}", option.label)}),
                None => json!({"const": option.label, "title": option.label}),
            })
            .collect();
        let mut field = match question.multi_select {
            true => json!({"type": "array", "items": {"anyOf": options}}),
            false => json!({"type": "string", "oneOf": options}),
        };
        field["title"] = json!(question.title);
        field["description"] = json!(question.prompt);
        properties.insert(choice_field(index), field);
        let other =
            json!({"type": "string", "title": format!("{}: other", question.title), "description": "Free-text answer"});
        properties.insert(text_field(index), other);
    }
    let schema = json!({"type": "object", "properties": properties});
    let Value::Object(schema) = schema else { return None };
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(questions),
        requested_schema: ElicitationSchema::from_json_schema(schema).ok()?,
    })
}

fn message(questions: &[Question]) -> String {
    match questions {
        [only] => only.prompt.clone(),
        several => {
            let lines: Vec<String> =
                several.iter().enumerate().map(|(index, it)| format!("{}. {}", index + 1, it.prompt)).collect();
            lines.join("\n")
        }
    }
}

/// Converts the result of a form to a reply.
pub fn parse_reply(questions: &[Question], result: &ElicitResult, now: Timestamp) -> FormReply {
    match result.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Decline => return FormReply::Declined,
        // Cancelled, or an action that this server does not know.
        _ => return FormReply::NoAnswer,
    }
    let content = result.content.as_ref().and_then(Value::as_object);
    let answers: Vec<QuestionAnswer> =
        questions.iter().enumerate().filter_map(|(index, question)| answer(index, question, content?, now)).collect();
    match answers.is_empty() {
        true => FormReply::NoAnswer,
        false => FormReply::Answers(answers),
    }
}

fn answer(index: usize, question: &Question, content: &Map<String, Value>, now: Timestamp) -> Option<QuestionAnswer> {
    let chosen = content.get(&choice_field(index));
    let texts = |value: &Value| match value {
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::String(text) if !text.is_empty() => vec![text.clone()],
        _ => Vec::new(),
    };
    let labels: Vec<String> = chosen.map(texts).unwrap_or_default();
    let free_text =
        content.get(&text_field(index)).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let mut answer = QuestionAnswer { question_index: index, timestamp: now.to_string(), ..QuestionAnswer::default() };
    answer.custom_text = free_text.map(str::to_owned);
    match question.multi_select {
        // An empty list is an answer if the client sent it.
        true => answer.selected_options = chosen.is_some().then_some(labels),
        // Free text replaces the choice: a single-select question has one answer.
        false if free_text.is_some() => {}
        false => answer.selected_option = labels.into_iter().next(),
    }
    let has_answer =
        answer.selected_option.is_some() || answer.selected_options.is_some() || answer.custom_text.is_some();
    has_answer.then_some(answer)
}

#[cfg(test)]
mod tests {
    use coven_domain::question::Choice;

    use super::*;

    fn questions() -> [Question; 2] {
        let options = || {
            let described = Choice { description: Some("small".into()), label: "SQLite".into() };
            vec![described, Choice { description: None, label: "PostgreSQL".into() }]
        };
        let question = |prompt: &str, multi_select| Question {
            options: options(),
            prompt: prompt.into(),
            title: "Store".into(),
            multi_select,
        };
        [question("Which one?", false), question("Which ones?", true)]
    }

    fn accepted(content: Value) -> FormReply {
        let mut result = ElicitResult::new(ElicitationAction::Accept);
        result.content = Some(content);
        parse_reply(&questions(), &result, Timestamp::from_millis(0))
    }

    #[test]
    fn every_question_has_a_choice_field_and_a_text_field() {
        let form = serde_json::to_value(form(&questions()).expect("a form")).expect("plain data");
        assert_eq!(form["message"], "1. Which one?\n2. Which ones?");
        let fields = &form["requestedSchema"]["properties"];
        assert_eq!(fields["question_1"]["type"], "string");
        assert_eq!(fields["question_1"]["oneOf"][0], json!({"const": "SQLite", "title": "SQLite — small"}));
        assert_eq!(fields["question_2"]["items"]["anyOf"][1]["const"], "PostgreSQL");
        assert_eq!(fields["question_2_other"]["type"], "string");
    }

    #[test]
    fn an_accepted_form_is_converted_to_answers() {
        let FormReply::Answers(answers) = accepted(json!({"question_1": "SQLite", "question_2": ["PostgreSQL"]}))
        else {
            panic!("both were answered")
        };
        assert_eq!(answers[0].selected_option.as_deref(), Some("SQLite"));
        assert_eq!(answers[1].selected_options.as_deref(), Some(&["PostgreSQL".to_owned()][..]));
        let FormReply::Answers(answers) =
            accepted(json!({"question_1": "SQLite", "question_1_other": " neither ", "question_2": []}))
        else {
            panic!("both were answered")
        };
        assert_eq!((answers[0].selected_option.as_deref(), answers[0].custom_text.as_deref()), (None, Some("neither")));
        assert_eq!(answers[1].selected_options, Some(Vec::new()), "choosing none of several is an answer");
    }

    #[test]
    fn closing_the_form_is_not_an_answer_and_declining_is() {
        assert_eq!(accepted(json!({})), FormReply::NoAnswer);
        let result = |action| parse_reply(&questions(), &ElicitResult::new(action), Timestamp::from_millis(0));
        assert_eq!(result(ElicitationAction::Cancel), FormReply::NoAnswer);
        assert_eq!(result(ElicitationAction::Decline), FormReply::Declined);
    }
}
