//! The hooks and settings that coven passes to Codex, and what its calls mean.
//!
//! Codex asks the user to review a hook unless its state contains the hash of the hook, so coven passes the hashes of its
//! own hooks. It runs the hook of a permission before it shows the dialog, so that hook only reports.

use coven_domain::activity::ActivityFact;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::hooks::{HookAnswer, HookMeaning, HookRequest, HookRequestBody, HookSetup, Hooks, Injection};

pub(super) static HOOKS: Hooks = Hooks { inject, read, answer };

/// The events, and their names in the state of hooks.
const EVENTS: [(&str, &str); 6] = [
    ("SessionStart", "session_start"),
    ("UserPromptSubmit", "user_prompt_submit"),
    ("PreToolUse", "pre_tool_use"),
    ("PermissionRequest", "permission_request"),
    ("PostToolUse", "post_tool_use"),
    ("Stop", "stop"),
];
/// The name that Codex gives to settings from the command line.
const LAYER: &str = "/<session-flags>/config.toml";
/// The time limit that Codex gives to hooks, which is part of the hash.
const TIMEOUT_SECONDS: u32 = 600;
/// The default title does not differ between the end of a turn and a turn without animation.
const TERMINAL: [&str; 4] = [
    "tui.notifications=true",
    r#"tui.notification_method="osc9""#,
    r#"tui.notification_condition="always""#,
    r#"tui.terminal_title=["activity","status","project"]"#,
];

fn inject(setup: &HookSetup<'_>) -> Result<Injection, String> {
    if has_hooks(setup.args) {
        return Err("the arguments of the launch contain hooks for Codex".to_owned());
    }
    let mut settings: Vec<String> = TERMINAL.iter().map(|setting| (*setting).to_owned()).collect();
    let mut trusted = Vec::new();
    for (event, name) in EVENTS {
        let coven = setup.coven.to_string_lossy().replace('\'', r"'\''");
        let command = format!("'{coven}' hook codex {event}");
        settings.push(format!(r#"hooks.{event}=[{{hooks=[{{type="command",command={}}}]}}]"#, json!(command)));
        trusted.push(format!(r#""{LAYER}:{name}:0:0"={{trusted_hash="{}"}}"#, hash(name, &command)));
    }
    settings.push(format!("hooks.state={{{}}}", trusted.join(",")));
    // The user's arguments follow, so a setting of theirs wins.
    let mut args: Vec<String> = settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]).collect();
    args.extend_from_slice(setup.args);
    Ok(Injection { args, ..Injection::default() })
}

/// Reports whether the arguments set hooks: two sources on the command line replace each other.
fn has_hooks(args: &[String]) -> bool {
    let is_setting = |text: &str| text.trim_start().starts_with("hooks");
    let follows_flag =
        args.windows(2).any(|pair| matches!(pair[0].as_str(), "-c" | "--config") && is_setting(&pair[1]));
    let joined =
        |arg: &String| arg.strip_prefix("--config=").or_else(|| arg.strip_prefix("-c")).is_some_and(is_setting);
    follows_flag || args.iter().any(joined)
}

/// Returns the hash by which Codex recognises a hook: of its normalized JSON with sorted keys.
pub(super) fn hash(event: &str, command: &str) -> String {
    let command = json!(command);
    let normalized = format!(
        r#"{{"event_name":"{event}","hooks":[{{"async":false,"command":{command},"timeout":{TIMEOUT_SECONDS},"type":"command"}}]}}"#
    );
    let digest = Sha256::digest(normalized.as_bytes());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

fn read(event: &str, payload: &Value) -> Vec<HookMeaning> {
    let mut meanings = Vec::new();
    if let Some(id) = text(payload, "session_id") {
        let transcript = text(payload, "transcript_path").map(str::to_owned);
        meanings.push(HookMeaning::Conversation { id: id.to_owned(), transcript });
    }
    match event {
        "SessionStart" => meanings.push(HookMeaning::Started),
        "UserPromptSubmit" | "PostToolUse" => meanings.push(activity(ActivityFact::Worked, None)),
        "PreToolUse" => meanings.push(activity(ActivityFact::Worked, Some(described("runs", "uses", payload)))),
        "PermissionRequest" => meanings.push(HookMeaning::Asked(HookRequest {
            key: None,
            body: HookRequestBody::Permission {
                title: described("wants to run", "wants to use", payload),
                options: Vec::new(),
                tool_call: payload["tool_input"].clone(),
            },
            is_answerable: false,
        })),
        "Stop" => meanings.push(activity(ActivityFact::TurnEnded, None)),
        _ => {}
    }
    meanings
}

const fn activity(fact: ActivityFact, detail: Option<String>) -> HookMeaning {
    HookMeaning::Activity { fact, detail }
}

fn described(runs: &str, uses: &str, payload: &Value) -> String {
    match (text(payload, "tool_name"), text(&payload["tool_input"], "command")) {
        (Some("Bash"), Some(command)) => format!("{runs}: {command}"),
        (tool, _) => format!("{uses}: {}", tool.unwrap_or("a tool")),
    }
}

const fn answer(_: &Value, _: &HookAnswer<'_>) -> Option<String> {
    None
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    fn injected(args: &[&str]) -> Result<Vec<String>, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let here = Path::new("/opt/coven");
        inject(&HookSetup { coven: here, folder: here, args: &args, env: &BTreeMap::new(), cwd: here })
            .map(|it| it.args)
    }

    #[test]
    fn the_hash_is_the_one_that_codex_computes() {
        // Recorded: what Codex stored when the user trusted this hook.
        let recorded = "sha256:2de948b0dfa39544e9d0ecce2a12daa2b39ddf3d0dce3ee89c98fa7f91519df4";
        assert_eq!(hash("stop", "coven hook codex Stop"), recorded);
    }

    #[test]
    fn hooks_are_passed_before_the_arguments_of_the_user() {
        let args = injected(&["-c", "model=\"x\""]).expect("injected");
        assert_eq!(args[args.len() - 2..], ["-c", "model=\"x\""]);
        assert!(
            args.contains(
                &r#"hooks.Stop=[{hooks=[{type="command",command="'/opt/coven' hook codex Stop"}]}]"#.to_owned()
            )
        );
        let state = args.iter().find(|arg| arg.starts_with("hooks.state=")).expect("the hashes");
        assert!(EVENTS.iter().all(|(_, name)| state.contains(&format!(":{name}:0:0"))), "{state}");
        assert!(args.iter().all(|arg| !arg.contains("bypass")));
        for setting in args.iter().filter(|arg| arg.contains('=')) {
            setting.parse::<toml_edit::DocumentMut>().expect(setting);
        }
    }

    #[test]
    fn hooks_on_the_command_line_stay_as_they_are() {
        for args in [&["-c", "hooks.Stop=[]"][..], &["--config=hooks.Stop=[]"], &["-chooks.Stop=[]"]] {
            let error = injected(args).expect_err("not merged");
            assert!(error.contains("contain hooks"), "{error}");
        }
    }

    #[test]
    fn a_recorded_session_becomes_facts() {
        let mut facts = Vec::new();
        for line in include_str!("../../../tests/codex/session.jsonl").lines() {
            let call: Value = serde_json::from_str(line).expect("a recorded call");
            for meaning in read(call["event"].as_str().expect("an event"), &call["payload"]) {
                match meaning {
                    HookMeaning::Activity { fact, detail } => facts.push((fact, detail)),
                    HookMeaning::Asked(request) => {
                        assert!(!request.is_answerable);
                        let HookRequestBody::Permission { title, .. } = request.body else { panic!("{line}") };
                        facts.push((ActivityFact::PermissionAsked, Some(title)));
                    }
                    HookMeaning::Conversation { transcript, .. } => assert!(transcript.is_some()),
                    HookMeaning::Started => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        let expected = [
            (ActivityFact::Worked, None),
            (ActivityFact::Worked, Some("runs: touch x3")),
            (ActivityFact::PermissionAsked, Some("wants to run: touch x3")),
            (ActivityFact::Worked, None),
            (ActivityFact::TurnEnded, None),
            (ActivityFact::Worked, None),
            (ActivityFact::Worked, None),
        ];
        assert_eq!(facts, expected.map(|(fact, detail)| (fact, detail.map(str::to_owned))));
    }

    #[test]
    fn screens_and_signals_are_recognised() {
        use crate::rules::RuleMeaning::{Limited, Permission, Question, Resting, Working};
        use crate::rules::{Evidence, RuleInput, RuleSet};
        let rules = RuleSet::parse(include_str!("screen.toml")).expect("valid rules");
        let found = |on, lines: &[&str]| rules.find(&Evidence { on, lines }).map(|found| found.rule.means);
        for (screen, expected) in [
            (include_str!("../../../tests/codex/permission.txt"), Some(Permission)),
            (include_str!("../../../tests/codex/hooks.txt"), Some(Question)),
            (include_str!("../../../tests/codex/question.txt"), Some(Question)),
            (include_str!("../../../tests/codex/limit.txt"), Some(Limited)),
            (include_str!("../../../tests/codex/idle.txt"), None),
        ] {
            let lines: Vec<&str> = screen.lines().collect();
            assert_eq!(found(RuleInput::Screen, &lines), expected, "{screen}");
        }
        for (title, expected) in [
            ("⠋ Starting | shop", Some(Working)),
            ("⠴ Working | shop", Some(Working)),
            ("[ ! ] Action Required | shop", Some(Permission)),
            ("Ready | shop", Some(Resting)),
            ("shop", None),
        ] {
            assert_eq!(found(RuleInput::Title, &[title]), expected, "{title}");
        }
        assert_eq!(found(RuleInput::Notification, &["Approval requested: touch x1"]), Some(Permission));
        assert_eq!(found(RuleInput::Notification, &["done"]), None);
    }
}
