//! What hook calls, reports and screens of Qwen Code, Gemini CLI and Copilot CLI mean. They were recorded from the real
//! programs with a stub model; names of folders were changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use coven_domain::request::PermissionOption;
use coven_harness::agents;
use coven_harness::hooks::{HookAnswer, HookMeaning, HookRequestBody, HookSetup, Hooks, Injection};
use coven_harness::rules::{Evidence, RuleInput, RuleSet};
use serde_json::{Value, json};

fn fixture(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn hooks(agent: &str) -> &'static Hooks {
    agents::find(agent).expect("a known agent").hooks.expect("it has hooks")
}

/// Returns the recorded lines.
fn lines(name: &str) -> Vec<Value> {
    fixture(name).lines().map(|line| serde_json::from_str(line).expect("valid JSON")).collect()
}

/// Returns each recorded call with its meanings as text.
fn calls(agent: &str) -> Vec<String> {
    lines(&format!("{agent}/hooks.jsonl"))
        .iter()
        .map(|call| {
            let event = call["event"].as_str().expect("an event");
            said(event, &(hooks(agent).read)(event, &call["payload"]))
        })
        .collect()
}

fn said(event: &str, meanings: &[HookMeaning]) -> String {
    let meanings: Vec<String> = meanings.iter().map(text_of).collect();
    format!("{event}: {}", meanings.join(", "))
}

fn text_of(meaning: &HookMeaning) -> String {
    match meaning {
        HookMeaning::Started => "started".to_owned(),
        HookMeaning::Conversation { id, transcript } => {
            format!("conversation {} {}", &id[..8], transcript.as_ref().map_or("-", |path| &path[..12]))
        }
        HookMeaning::LimitReached { detail, until } => format!("limit_reached {detail:?} {until:?}"),
        HookMeaning::Activity { fact, detail: None } => fact.to_string(),
        HookMeaning::Activity { fact, detail: Some(detail) } => format!("{fact} ({detail})"),
        HookMeaning::Asked(request) => {
            let body = match &request.body {
                HookRequestBody::Permission { title, options, .. } => {
                    let options: Vec<&str> = options.iter().map(|option| option.kind.as_str()).collect();
                    format!("{title} {options:?}")
                }
                HookRequestBody::Question { questions } => {
                    let labels: Vec<&str> = questions[0].options.iter().map(|option| option.label.as_str()).collect();
                    format!("{} {labels:?}", questions[0].prompt)
                }
            };
            format!("asked {} {body} answerable={}", short(request.key.as_deref()), request.is_answerable)
        }
        HookMeaning::Settled { key } => format!("settled {}", short(key.as_deref())),
        HookMeaning::BackgroundChanged(change) => format!("background {change:+}"),
        HookMeaning::BackgroundCount(count) => format!("background {count}"),
    }
}

fn short(key: Option<&str>) -> &str {
    key.map_or("-", |key| &key[..4])
}

#[test]
fn hooks_of_qwen_report_turns() {
    assert_eq!(
        calls("qwen"),
        [
            "SessionStart: started, conversation 3a49a5e2 /home/ann/.q",
            "UserPromptSubmit: worked",
            // The report file says what the permission is for.
            "Notification: ",
            "PostToolBatch: ",
            "Stop: background 0, turn_ended",
            "Notification: rested",
            "PostToolBatch: settled, settled -, rested",
            "Notification: ",
            // Of a subagent.
            "PostToolBatch: ",
            "Stop: background 1, turn_ended",
            "Stop: background 0, turn_ended",
            "StopFailure: limit_reached (429 slow down)",
        ]
    );
}

#[test]
fn reports_of_qwen_are_requests_and_their_ends() {
    let meanings: Vec<String> = lines("qwen/reports.jsonl")
        .iter()
        .map(|line| {
            let event = line["type"].as_str().expect("a type");
            said(event, &(hooks("qwen").read)(event, line))
        })
        .filter(|said| !said.ends_with(": "))
        .collect();
    let options = r#"["allow_once", "reject_once"] answerable=true"#;
    assert_eq!(
        meanings,
        [
            "system: started".to_owned(),
            format!("control_request: asked 49c5 wants to run: touch z1.txt {options}"),
            "control_response: settled 49c5".to_owned(),
            "control_response: settled 9abf".to_owned(),
            format!("control_request: asked 9df9 wants to use agent {options}"),
            r#"control_request: asked e298 Which database? ["Postgres", "SQLite"] answerable=false"#.to_owned(),
        ]
    );
}

#[test]
fn answers_to_qwen_name_the_request() {
    let request = lines("qwen/reports.jsonl").into_iter().find(|line| line["type"] == "control_request");
    let request = request.expect("a recorded request");
    let option = |kind: &str| PermissionOption { id: kind.to_owned(), name: String::new(), kind: kind.to_owned() };
    let answer = |answer: HookAnswer<'_>| {
        let line = (hooks("qwen").answer)(&request, &answer)?;
        Some(serde_json::from_str::<Value>(&line).expect("JSON"))
    };
    let written = |is_allowed: bool| {
        let id = "49c500d2-618f-452c-becd-ae458c67e7c2";
        Some(json!({ "type": "confirmation_response", "request_id": id, "allowed": is_allowed }))
    };
    assert_eq!(answer(HookAnswer::Option(&option("allow_once"))), written(true));
    assert_eq!(answer(HookAnswer::Option(&option("reject_once"))), written(false));
    assert_eq!(answer(HookAnswer::Rejected), written(false));
    assert_eq!(answer(HookAnswer::Answers(&[])), None);
}

#[test]
fn hooks_of_gemini_report_turns_and_dialogs() {
    assert_eq!(
        calls("gemini"),
        [
            "SessionStart: started, conversation d7f4c014 /home/ann/.g",
            "BeforeAgent: conversation d7f4c014 /home/ann/.g, worked",
            "BeforeTool: ",
            "Notification: asked - wants to run: touch a.txt [] answerable=false",
            "AfterTool: worked",
            "AfterAgent: turn_ended",
            r#"BeforeTool: asked - Which database ["Postgres", "SQLite"] answerable=false"#,
            "Notification: ",
            "AfterTool: worked",
            "SessionEnd: ",
        ]
    );
}

#[test]
fn hooks_of_copilot_report_turns_dialogs_and_limits() {
    assert_eq!(
        calls("copilot"),
        [
            "sessionStart: started, conversation e2770160 -",
            "userPromptSubmitted: worked",
            "notification: asked - wants to run: touch a.txt [] answerable=false",
            "postToolUse: worked",
            "agentStop: conversation e2770160 /home/ann/.c, turn_ended",
            "notification: question_asked (Information requested)",
            "postToolUse: worked",
            "notification: asked - wants to run: touch b.txt [] answerable=false",
            "errorOccurred: limit_reached (slow down)",
            "sessionEnd: ",
        ]
    );
}

/// Checks the rule, its meaning and its detail for each recorded screen.
#[track_caller]
fn check_screens(agent: &str, expected: &[(&str, Option<(&str, &str)>)]) {
    let rules = RuleSet::parse(agents::find(agent).expect("a known agent").rules.expect("rules")).expect("valid rules");
    for (name, expected) in expected {
        let text = fixture(&format!("{agent}/{name}.txt"));
        let lines: Vec<&str> = text.lines().collect();
        let found = rules.find(&Evidence { on: RuleInput::Screen, lines: &lines });
        let found = found.map(|it| (format!("{} {}", it.rule.means, it.rule.name), it.detail.unwrap_or_default()));
        let expected = expected.map(|(rule, detail)| (rule.to_owned(), detail.to_owned()));
        assert_eq!(found, expected, "{agent}: {name}");
    }
}

#[track_caller]
fn check_titles(agent: &str, expected: &[(&str, Option<&str>)]) {
    let rules = RuleSet::parse(agents::find(agent).expect("a known agent").rules.expect("rules")).expect("valid rules");
    for (title, expected) in expected {
        let found = rules.find(&Evidence { on: RuleInput::Title, lines: &[title] });
        assert_eq!(found.map(|it| it.rule.means.to_string()).as_deref(), *expected, "{agent}: {title}");
    }
}

#[test]
fn screens_and_titles_of_qwen() {
    check_screens(
        "qwen",
        &[
            ("trust", Some(("question trust", "asks to trust this folder"))),
            ("login", Some(("question login", "asks for a model provider"))),
            ("permission", Some(("permission permission", "Allow execution of: 'touch'?"))),
            ("question", Some(("question question", ""))),
            ("retrying", Some(("limited retrying-after-limit", "retries a refused request"))),
            ("limit", Some(("limited limit", "✕ [API Error: 429 slow down]"))),
        ],
    );
    // A text-presentation mark follows the symbol.
    check_titles(
        "qwen",
        &[
            ("◐\u{fe0e} Qwen - project", Some("working")),
            ("✳\u{fe0e} Qwen - project", Some("resting")),
            ("Qwen - project      ", Some("resting")),
            ("bash", None),
        ],
    );
}

#[test]
fn screens_and_titles_of_gemini() {
    check_screens(
        "gemini",
        &[
            ("trust", Some(("question trust", "asks to trust this folder"))),
            ("login", Some(("question login", "asks how to log in"))),
            ("permission", Some(("permission permission", "wants to run: touch a.txt"))),
            ("question", Some(("question question", "asks: Which database"))),
        ],
    );
    check_titles(
        "gemini",
        &[
            ("◇  Ready (project)", Some("idle")),
            ("✦  Working… (project)", Some("working")),
            ("✋  Action Required (project)", Some("permission")),
            ("project", None),
        ],
    );
}

#[test]
fn screens_of_copilot() {
    check_screens(
        "copilot",
        &[
            ("trust", Some(("question trust", "asks to trust this folder"))),
            ("login", Some(("question login", "asks to log in"))),
            ("permission", Some(("permission permission", "Do you want to run this command?"))),
            ("question", Some(("question question", "asks: stub message"))),
            (
                "limit",
                Some((
                    "limited limit",
                    "✗ Failed to get response from the AI model; retried 5 times (total retry wait time: 53.87 seconds) \
                     Last error: 429 sl",
                )),
            ),
            ("idle", Some(("idle idle", ""))),
            ("working", None),
        ],
    );
    check_titles("copilot", &[("run touch a.txt - GitHub Copilot", None)]);
}

struct Place {
    folder: tempfile::TempDir,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

impl Place {
    fn with(args: &[&str], env: &[(&str, &str)]) -> Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let mut env: BTreeMap<String, String> =
            env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        env.insert("HOME".to_owned(), folder.path().to_string_lossy().into_owned());
        Self { folder, args, env }
    }

    fn hook_folder(&self) -> PathBuf {
        self.folder.path().join("hooks")
    }

    fn inject(&self, agent: &str) -> Result<Injection, String> {
        let (folder, cwd) = (self.hook_folder(), self.folder.path().join("project"));
        let coven = Path::new("/opt/my tools/coven");
        let setup = HookSetup { coven, folder: &folder, args: &self.args, env: &self.env, cwd: &cwd };
        (hooks(agent).inject)(&setup)
    }
}

fn names(injection: &Injection) -> Vec<&str> {
    injection.files.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn qwen_gets_hooks_and_files() {
    let place = Place::with(&["--model", "m"], &[]);
    let injection = place.inject("qwen").expect("an injection");
    let at = |name: &str| place.hook_folder().join(name).to_string_lossy().into_owned();
    let files = ["--json-file", &at("reports.jsonl"), "--input-file", &at("answers.jsonl")];
    assert_eq!(injection.args, [&["--model", "m"][..], &files].concat());
    assert_eq!(injection.env, [("QWEN_CODE_SYSTEM_DEFAULTS_PATH".to_owned(), at("system-defaults.json"))]);
    assert_eq!(names(&injection), ["system-defaults.json", "reports.jsonl", "answers.jsonl"]);
    let settings: Value = serde_json::from_str(&injection.files[0].1).expect("valid JSON");
    assert_eq!(settings["hooks"]["Stop"][0]["hooks"][0]["command"], "'/opt/my tools/coven' hook qwen Stop");
    assert_eq!(settings["hooks"]["PermissionRequest"], Value::Null, "it would hide the dialog");
}

#[test]
fn qwen_keeps_what_the_user_and_the_administrator_set() {
    let admins = Place::with(&[], &[("QWEN_CODE_SYSTEM_DEFAULTS_PATH", "/etc/ours.json")]);
    let injection = admins.inject("qwen").expect("the files are free");
    assert_eq!((injection.env.as_slice(), names(&injection)), (&[][..], vec!["reports.jsonl", "answers.jsonl"]));
    let users = Place::with(&["--json-file=/tmp/x"], &[]);
    let injection = users.inject("qwen").expect("hooks are possible");
    assert_eq!((injection.args, injection.env.len()), (users.args.clone(), 1));
    let in_settings = Place::with(&[], &[]);
    let settings = in_settings.folder.path().join(".qwen");
    fs::create_dir(&settings).expect("disk has space");
    fs::write(settings.join("settings.json"), r#"{"dualOutput":{"jsonFile":"/tmp/x"}}"#).expect("disk has space");
    assert_eq!(in_settings.inject("qwen").expect("hooks are possible").args, [""; 0]);
    let system = admins.folder.path().join("system");
    fs::create_dir(&system).expect("disk has space");
    fs::write(system.join("system-defaults.json"), "{}").expect("disk has space");
    let settings = system.join("settings.json");
    let both = Place::with(&["-p"], &[("QWEN_CODE_SYSTEM_SETTINGS_PATH", &settings.to_string_lossy())]);
    let reason = both.inject("qwen").expect_err("nothing is left");
    assert!(reason.contains("an administrator's") && reason.contains("the arguments have -p"), "{reason}");
}

#[test]
fn gemini_gets_no_hooks_in_a_folder_that_others_can_change() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with(&[], &[]);
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o777)).expect("our own folder");
    let reason = place.inject("gemini").expect_err("Gemini would skip the file with a warning");
    assert!(reason.contains("only from folders that belong to root"), "{reason}");
    let admins = Place::with(&[], &[("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "/etc/ours.json")]);
    assert!(admins.inject("gemini").expect_err("an administrator's file").contains("is set already"));
}

#[test]
fn copilot_gets_a_plugin() {
    let place = Place::with(&["--model", "m"], &[]);
    let injection = place.inject("copilot").expect("an injection");
    let folder = place.hook_folder().to_string_lossy().into_owned();
    assert_eq!(injection.args, ["--model", "m", "--plugin-dir", &folder]);
    assert_eq!(names(&injection), ["plugin.json", "hooks.json"]);
    let plugin: Value = serde_json::from_str(&injection.files[0].1).expect("valid JSON");
    assert_eq!(plugin["hooks"], "hooks.json");
    let hooks: Value = serde_json::from_str(&injection.files[1].1).expect("valid JSON");
    assert_eq!(hooks["hooks"]["agentStop"][0]["bash"], "'/opt/my tools/coven' hook copilot agentStop");
    assert_eq!(hooks["hooks"]["permissionRequest"], Value::Null, "it would replace the user's rules");
    assert!(Place::with(&["plugin", "list"], &[]).inject("copilot").is_err());
}
