//! Hooks of a program that calls `coven hook` itself: a small protocol for agents that only the config defines.
//! `docs/harnesses.md` describes it for their authors.

use coven_domain::activity::ActivityFact;
use coven_domain::question::{Question, check_questions};
use coven_domain::request::PermissionOption;
use coven_domain::text::one_line;
use serde_json::{Value, json};

use crate::hooks::{HookAnswer, HookMeaning, HookRequest, HookRequestBody, HookSetup, Hooks, Injection};

pub static HOOKS: Hooks = Hooks { inject, read, answer };

/// Variable with the path of coven, so that the program does not depend on PATH.
pub const PROGRAM_VARIABLE: &str = "COVEN_PROGRAM";

const TITLE_CHARS: usize = 200;
const MAX_OPTIONS: usize = 20;

#[expect(clippy::unnecessary_wraps, reason = "other agents can refuse")]
fn inject(setup: &HookSetup<'_>) -> Result<Injection, String> {
    let program = setup.coven.to_string_lossy().into_owned();
    Ok(Injection { args: setup.args.to_vec(), env: vec![(PROGRAM_VARIABLE.to_owned(), program)], files: Vec::new() })
}

fn read(event: &str, payload: &Value) -> Vec<HookMeaning> {
    let detail = text(payload, "detail");
    let did = |fact| vec![HookMeaning::Activity { fact, detail: detail.clone() }];
    match event {
        "started" => started(payload),
        "working" => did(ActivityFact::Worked),
        "idle" => did(ActivityFact::TurnEnded),
        "limited" => did(ActivityFact::LimitReached),
        "permission" => permission(payload).unwrap_or_else(|| did(ActivityFact::PermissionAsked)),
        "question" => question(payload).unwrap_or_else(|| did(ActivityFact::QuestionAsked)),
        "settled" => vec![HookMeaning::Settled { key: text(payload, "key") }],
        "background" => background(payload),
        _ => Vec::new(),
    }
}

fn started(payload: &Value) -> Vec<HookMeaning> {
    let conversation = text(payload, "conversation")
        .map(|id| HookMeaning::Conversation { id, transcript: text(payload, "transcript") });
    [HookMeaning::Started].into_iter().chain(conversation).collect()
}

/// Returns a request that can be answered; `None` if the payload offers no options.
fn permission(payload: &Value) -> Option<Vec<HookMeaning>> {
    let options: Vec<PermissionOption> = payload["options"]
        .as_array()?
        .iter()
        .filter_map(|option| serde_json::from_value(option.clone()).ok())
        .take(MAX_OPTIONS)
        .collect();
    if options.is_empty() {
        return None;
    }
    let title = text(payload, "title").or_else(|| text(payload, "detail"));
    let title = one_line(&title.unwrap_or_else(|| "asks for a permission".to_owned()), TITLE_CHARS);
    let tool_call = json!({ "title": title });
    let body = HookRequestBody::Permission { title, options, tool_call };
    Some(vec![HookMeaning::Asked(HookRequest { key: text(payload, "key"), body, is_answerable: true })])
}

/// Returns a request that can be answered; `None` if the payload has no valid questions.
fn question(payload: &Value) -> Option<Vec<HookMeaning>> {
    let questions: Vec<Question> = serde_json::from_value(payload["questions"].clone()).ok()?;
    check_questions(&questions).ok()?;
    let body = HookRequestBody::Question { questions };
    Some(vec![HookMeaning::Asked(HookRequest { key: text(payload, "key"), body, is_answerable: true })])
}

fn background(payload: &Value) -> Vec<HookMeaning> {
    let count = payload["count"].as_u64().and_then(|count| u32::try_from(count).ok());
    count.map(HookMeaning::BackgroundCount).into_iter().collect()
}

fn text(payload: &Value, key: &str) -> Option<String> {
    payload[key].as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

#[expect(clippy::unnecessary_wraps, reason = "other agents do not accept every answer")]
fn answer(_: &Value, answer: &HookAnswer<'_>) -> Option<String> {
    let answer = match answer {
        HookAnswer::Option(option) => {
            let decision = if option.kind.starts_with("allow") { "allow" } else { "deny" };
            json!({ "decision": decision, "option": option.id })
        }
        HookAnswer::Answers(answers) => json!({ "decision": "answer", "answers": answers }),
        HookAnswer::Rejected => json!({ "decision": "deny" }),
    };
    Some(answer.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_meanings_and_unknown_ones_have_none() {
        let activity =
            |fact, detail: Option<&str>| vec![HookMeaning::Activity { fact, detail: detail.map(str::to_owned) }];
        let detail = json!({ "detail": "builds" });
        assert_eq!(read("working", &detail), activity(ActivityFact::Worked, Some("builds")));
        assert_eq!(read("idle", &Value::Null), activity(ActivityFact::TurnEnded, None));
        assert_eq!(read("limited", &json!({ "detail": 7 })), activity(ActivityFact::LimitReached, None));
        assert_eq!(read("background", &json!({ "count": 2 })), [HookMeaning::BackgroundCount(2)]);
        assert_eq!(read("settled", &json!({ "key": "k" })), [HookMeaning::Settled { key: Some("k".to_owned()) }]);
        let conversation = HookMeaning::Conversation { id: "c1".to_owned(), transcript: None };
        assert_eq!(read("started", &json!({ "conversation": "c1" })), [HookMeaning::Started, conversation]);
        for (event, payload) in [("background", json!({ "count": -1 })), ("other", detail)] {
            assert_eq!(read(event, &payload), [], "{event}");
        }
    }

    #[test]
    fn a_permission_with_options_can_be_answered() {
        let options = json!([{ "id": "y", "name": "Yes", "kind": "allow_once" }, { "id": 1 }]);
        let meanings = read("permission", &json!({ "title": "wants to run: ls\nnow", "key": "7", "options": options }));
        let [HookMeaning::Asked(HookRequest { key, body, is_answerable: true })] = &meanings[..] else {
            panic!("{meanings:?}")
        };
        let HookRequestBody::Permission { title, options, .. } = body else { panic!("{body:?}") };
        assert_eq!((key.as_deref(), title.as_str(), options.len()), (Some("7"), "wants to run: ls now", 1));
        let shown = |payload| matches!(read("permission", &payload)[..], [HookMeaning::Activity { .. }]);
        assert!(shown(json!({ "detail": "x" })) && shown(json!({ "options": "yes" })) && shown(Value::Null));
        assert_eq!(
            answer(&Value::Null, &HookAnswer::Option(&options[0])).as_deref(),
            Some(r#"{"decision":"allow","option":"y"}"#)
        );
    }

    #[test]
    fn questions_must_be_valid_to_be_answered() {
        let question = json!({ "title": "DB", "prompt": "Which?", "options": [{ "label": "a" }, { "label": "b" }] });
        assert!(matches!(read("question", &json!({ "questions": [question] }))[..], [HookMeaning::Asked(_)]));
        for bad in [json!({ "questions": [] }), json!({ "questions": 1 }), Value::Null] {
            assert!(matches!(read("question", &bad)[..], [HookMeaning::Activity { .. }]), "{bad}");
        }
    }
}
