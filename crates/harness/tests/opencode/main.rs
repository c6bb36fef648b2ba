//! What coven learns from OpenCode, with calls of the plugin and screens recorded from version 1.18.33.

use std::collections::BTreeMap;
use std::path::Path;

use coven_domain::activity::ActivityFact;
use coven_domain::question::QuestionAnswer;
use coven_harness::agents;
use coven_harness::hooks::{HookAnswer, HookMeaning, HookRequestBody, HookSetup, Hooks, Injection};
use coven_harness::rules::{Evidence, RuleInput, RuleSet};
use serde_json::{Value, json};

const PERMISSION: &str = include_str!("permission.asked.json");
const QUESTION: &str = include_str!("question.asked.json");

fn hooks() -> &'static Hooks {
    let agent = agents::ALL.iter().find(|agent| agent.id == "opencode").expect("a built-in agent");
    agent.hooks.expect("hooks")
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("recorded JSON")
}

fn inject(args: &[&str], config: Option<&str>) -> Result<Injection, String> {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let env: BTreeMap<String, String> =
        config.map(|config| ("OPENCODE_CONFIG_CONTENT".to_owned(), config.to_owned())).into_iter().collect();
    (hooks().inject)(&HookSetup {
        coven: Path::new("/opt/a \"b/coven"),
        folder: Path::new("/home/x y/sessions/1/hooks"),
        args: &args,
        env: &env,
        cwd: Path::new("/project"),
    })
}

#[test]
fn the_plugin_is_added_to_the_config_of_the_user() {
    let injection = inject(&["--model", "a/b"], None).expect("an injection");
    assert_eq!(injection.args, ["--model", "a/b"]);
    let (name, plugin) = &injection.files[0];
    assert_eq!((name.as_str(), injection.files.len()), ("coven.js", 1));
    assert!(plugin.starts_with("const coven = \"/opt/a \\\"b/coven\"\n"), "the path is a JavaScript string");
    let url = "file:///home/x%20y/sessions/1/hooks/coven.js";
    let config = |injection: &Injection| parse(&injection.env[0].1);
    assert_eq!(config(&injection), json!({"plugin": [url]}));

    let user = r#"{ "theme": "nord", /* mine */ "plugin": ["a@1", "file:///b.js"], }"#;
    let merged = config(&inject(&[], Some(user)).expect("an injection"));
    assert_eq!(merged, json!({"theme": "nord", "plugin": ["a@1", "file:///b.js", url]}));
}

#[test]
fn hooks_are_unavailable_if_the_plugin_would_not_run() {
    for (args, config, reason) in [
        (&["--pure"][..], None, "--pure"),
        (&[], Some("{"), "not valid JSON"),
        (&[], Some("[1]"), "not a JSON object"),
        (&[], Some(r#"{"plugin": 1}"#), "not a list"),
    ] {
        let error = inject(args, config).expect_err(reason);
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn the_status_of_all_sessions_becomes_the_activity() {
    let read = |payload: Value| (hooks().read)("status", &payload);
    let activity = |fact, detail: Option<&str>| HookMeaning::Activity { fact, detail: detail.map(str::to_owned) };
    let conversation = HookMeaning::Conversation { id: "ses_1".to_owned(), transcript: None };
    let busy = json!({"conversation": "ses_1", "status": {"type": "busy"}});
    assert_eq!(read(busy), [conversation, activity(ActivityFact::Worked, None)]);
    let retry = |message: &str| json!({"status": {"type": "retry", "message": message, "next": 1_795_032_259_335_u64}});
    assert_eq!(read(retry("slow down")), [activity(ActivityFact::LimitReached, Some("slow down"))]);
    let unreachable = "Cannot connect to API: Was there a typo in the url or port?";
    assert_eq!(read(retry(unreachable)), [activity(ActivityFact::Worked, Some(unreachable))]);

    let idle = |error: Value| json!({"status": {"type": "idle"}, "error": error});
    let failed = |status: u64| json!({"name": "APIError", "data": {"message": "broken", "statusCode": status}});
    assert_eq!(read(idle(Value::Null)), [activity(ActivityFact::TurnEnded, None)]);
    let aborted = json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}});
    assert_eq!(read(idle(aborted)), [activity(ActivityFact::TurnEnded, None)]);
    assert_eq!(read(idle(failed(400))), [activity(ActivityFact::TurnEnded, Some("failed: broken"))]);
    assert_eq!(read(idle(failed(429))), [activity(ActivityFact::LimitReached, Some("broken"))]);
}

#[test]
fn a_permission_offers_the_answers_of_opencode() {
    let payload = parse(PERMISSION);
    let meanings = (hooks().read)("permission.asked", &payload);
    let [HookMeaning::Conversation { .. }, HookMeaning::Asked(request)] = &meanings[..] else { panic!("{meanings:?}") };
    assert_eq!((request.key.as_deref(), request.is_answerable), (payload["id"].as_str(), true));
    let HookRequestBody::Permission { title, options, tool_call } = &request.body else { panic!("{request:?}") };
    assert_eq!(title, "wants to run: touch a.txt");
    assert_eq!(tool_call["rawInput"], json!({"command": "touch a.txt"}));
    let offered: Vec<_> = options.iter().map(|it| (it.kind.as_str(), it.name.as_str())).collect();
    let always = "Allow touch * until OpenCode ends";
    assert_eq!(offered, [("allow_once", "Allow once"), ("allow_always", always), ("reject_once", "Reject")]);
    for (option, reply) in options.iter().zip(["once", "always", "reject"]) {
        let answer = (hooks().answer)(&payload, &HookAnswer::Option(option)).expect("an answer");
        assert_eq!(parse(&answer), json!({"reply": reply}));
    }
    let rejected = (hooks().answer)(&payload, &HookAnswer::Rejected).expect("an answer");
    assert_eq!(parse(&rejected), json!({"reply": "reject"}));
}

#[test]
fn a_question_is_answered_with_labels_and_own_text() {
    let payload = parse(QUESTION);
    let meanings = (hooks().read)("question.asked", &payload);
    let Some(HookMeaning::Asked(request)) = meanings.last() else { panic!("{meanings:?}") };
    let HookRequestBody::Question { questions } = &request.body else { panic!("{request:?}") };
    let labels: Vec<_> = questions[0].options.iter().map(|it| it.label.as_str()).collect();
    assert_eq!((questions[0].prompt.as_str(), labels), ("which?", vec!["a", "b"]));

    let chosen = QuestionAnswer { selected_option: Some("b".to_owned()), ..QuestionAnswer::default() };
    let own = QuestionAnswer { custom_text: Some("neither".to_owned()), ..QuestionAnswer::default() };
    for (answer, expected) in [(chosen, "b"), (own, "neither")] {
        let output = (hooks().answer)(&payload, &HookAnswer::Answers(&[answer])).expect("an answer");
        assert_eq!(parse(&output), json!({"answers": [[expected]]}));
    }
    let rejected = (hooks().answer)(&payload, &HookAnswer::Rejected).expect("an answer");
    assert_eq!(parse(&rejected), json!({"reject": true}));
}

#[test]
fn a_reply_in_the_terminal_settles_its_request() {
    let payload = parse(include_str!("permission.replied.json"));
    let key = payload["requestID"].as_str().map(str::to_owned);
    assert_eq!((hooks().read)("permission.replied", &payload), [HookMeaning::Settled { key }]);
    assert_eq!((hooks().read)("other", &payload), []);
    assert_eq!((hooks().read)("question.asked", &Value::Null), [], "a payload that was too large");
}

#[test]
fn every_recorded_screen_has_its_meaning() {
    let agent = agents::ALL.iter().find(|agent| agent.id == "opencode").expect("a built-in agent");
    let rules = RuleSet::parse(agent.rules.expect("rules")).expect("valid rules");
    for (screen, name, detail) in [
        (include_str!("home.txt"), "home", None),
        (include_str!("working.txt"), "working", None),
        (include_str!("interrupting.txt"), "working", None),
        (include_str!("idle.txt"), "prompt", None),
        (include_str!("permission.txt"), "permission", Some("asks for permission: # Shell command")),
        (include_str!("question.txt"), "question", Some("asks a question")),
        (include_str!("retrying.txt"), "retrying", Some("the model refuses requests; OpenCode retries")),
        (include_str!("no-connection.txt"), "no-connection", Some("cannot connect to the model and retries")),
    ] {
        let lines: Vec<&str> = screen.lines().collect();
        let found = rules.find(&Evidence { on: RuleInput::Screen, lines: &lines });
        let found = found.map(|it| (it.rule.name.clone(), it.detail));
        assert_eq!(found, Some((name.to_owned(), detail.map(str::to_owned))), "{screen}");
    }
}
