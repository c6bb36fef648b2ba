//! Input of `coven ask`: JSON from an argument or standard input, or one question from flags.

use coven_domain::question::{Choice, Question};
use serde_json::Value;

use crate::failure::Failure;

/// Title of a question without --title.
const TITLE: &str = "Question";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub questions: Vec<Question>,
    pub working_directory: Option<String>,
}

/// Parses `{"questions":[…],"workingDirectory"?}`, or only the list.
pub fn from_json(text: &str) -> Result<Input, Failure> {
    let wrong = |what: String| {
        let example =
            r#"{"questions":[{"title":"Database","prompt":"Which?","options":[{"label":"A"},{"label":"B"}]}]}"#;
        Failure::usage(what, format!("Expected: {example}"))
    };
    let given: Value =
        serde_json::from_str(text).map_err(|error| wrong(format!("the questions are not valid JSON: {error}")))?;
    let (list, working_directory) = match given {
        Value::Array(list) => (list, None),
        Value::Object(mut fields) => {
            let working_directory = match fields.remove("workingDirectory") {
                None | Some(Value::Null) => None,
                Some(Value::String(folder)) => Some(folder),
                Some(_) => return Err(wrong("workingDirectory is not a string".to_owned())),
            };
            match fields.remove("questions") {
                Some(Value::Array(list)) => (list, working_directory),
                _ => return Err(wrong("the list of questions is missing".to_owned())),
            }
        }
        _ => return Err(wrong("the list of questions is missing".to_owned())),
    };
    let questions = list.into_iter().enumerate().map(|(place, question)| {
        serde_json::from_value(question).map_err(|error| wrong(format!("questions[{place}]: {error}")))
    });
    Ok(Input { questions: questions.collect::<Result<_, _>>()?, working_directory })
}

/// Builds one question from flags. An option may be `LABEL=DESCRIPTION`.
pub fn from_flags(prompt: String, title: Option<String>, options: &[String], multi_select: bool) -> Input {
    let option = |given: &String| match given.split_once('=') {
        Some((label, description)) => {
            let description = Some(description.trim().to_owned()).filter(|it| !it.is_empty());
            Choice { label: label.trim().to_owned(), description }
        }
        None => Choice { label: given.trim().to_owned(), description: None },
    };
    let options = options.iter().map(option).collect();
    let question = Question { options, prompt, title: title.unwrap_or_else(|| TITLE.to_owned()), multi_select };
    Input { questions: vec![question], working_directory: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_may_be_the_object_or_only_the_list() {
        let list = r#"[{"title":"T","prompt":"P?","options":[{"label":"A","description":"d"},{"label":"B"}],"multiSelect":true}]"#;
        let only = from_json(list).expect("good JSON");
        assert!(only.questions[0].multi_select && only.questions[0].options[0].description.as_deref() == Some("d"));
        let object = from_json(&format!(r#"{{"questions":{list},"workingDirectory":"/w","nonBlocking":false}}"#));
        assert_eq!(object.expect("good JSON"), Input { working_directory: Some("/w".into()), ..only });
    }

    #[test]
    fn invalid_json_is_rejected_with_its_position() {
        let error = |text: &str| from_json(text).expect_err("invalid").sentence();
        assert!(error("{").starts_with("the questions are not valid JSON: "));
        assert!(error("{}").starts_with("the list of questions is missing"));
        assert!(error(r#"[{"title":"T","prompt":"P"}]"#).starts_with("questions[0]: missing field `options`"));
        assert!(error(r#"{"questions":[],"workingDirectory":1}"#).starts_with("workingDirectory is not a string"));
    }

    #[test]
    fn flags_make_one_question() {
        let options = ["A".to_owned(), "B = the other = one".to_owned(), "C=".to_owned()];
        let input = from_flags("Which?".into(), None, &options, false);
        let option = |label: &str, description: Option<&str>| Choice {
            label: label.into(),
            description: description.map(str::to_owned),
        };
        let options = vec![option("A", None), option("B", Some("the other = one")), option("C", None)];
        let question = Question { options, prompt: "Which?".into(), title: TITLE.into(), multi_select: false };
        assert_eq!(input, Input { questions: vec![question], working_directory: None });
    }
}
