//! What counts as a failure, and what is said of it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use coven_harness::print_mode::PrintPrompt;
use coven_host::print_mode::{TurnError, run_turn};

use crate::stand::{Stand, format_of, never};

#[test]
fn words_on_standard_error_are_no_failure() {
    let script = "echo 'ERROR: forbidden, unauthorized, 429 rate limit, connection refused' >&2; echo answer";
    assert_eq!(Stand::new().turn(script, "hello").expect("an answer").text, "answer");
}

#[test]
fn the_exit_code_is_one_and_the_end_of_standard_error_says_why() {
    let error = Stand::new().turn("echo answer; echo first >&2; echo second >&2; exit 3", "hello");
    let error = error.expect_err("it says so");
    assert_eq!(error.to_string(), "Scripted failed (exit status: 3): second");
    let TurnError::Failed { status, stderr, .. } = error else { panic!("{error:?}") };
    assert_eq!((status.code(), stderr.as_str()), (Some(3), "first\nsecond"));
}

#[test]
fn a_signal_is_a_failure_too() {
    let error = Stand::new().turn("kill -KILL $$", "hello").expect_err("it was killed").to_string();
    assert!(error.starts_with("Scripted failed (signal: 9"), "{error}");
}

#[test]
fn standard_error_is_kept_to_its_last_16_kib() {
    let error = Stand::new().turn("head -c 3000000 /dev/zero | tr '\\0' e >&2; echo the end >&2; exit 1", "hello");
    let Err(TurnError::Failed { stderr, .. }) = error else { panic!("{error:?}") };
    assert!(stderr.len() <= 16 << 10 && stderr.ends_with("ethe end"), "{}", stderr.len());
}

#[test]
fn an_agents_own_words_come_before_standard_error() {
    let stand = Stand::new();
    let line = r#"{"type":"turn.failed","error":{"message":"no such model"}}"#;
    let mut harness = stand.harness(&format!("echo '{line}'; echo noise >&2; exit 1"));
    harness.mode.format = format_of("codex");
    let error = run_turn(&stand.spec(&harness, "hello"), |_| {}, &never()).expect_err("it failed");
    assert_eq!(error.to_string(), "Scripted failed (exit status: 1): no such model");
}

#[test]
fn trouble_in_place_of_an_answer_is_a_failure_whatever_the_exit_code() {
    let stand = Stand::new();
    let line = r#"{"type":"message_end","message":{"role":"assistant","content":[],"errorMessage":"400: no"}}"#;
    let mut harness = stand.harness(&format!("echo '{line}'"));
    harness.mode.format = format_of("pi");
    let error = run_turn(&stand.spec(&harness, "hello"), |_| {}, &never()).expect_err("no answer");
    assert_eq!(error.to_string(), "Scripted did not answer: 400: no");
}

#[test]
fn a_missing_program_folder_or_interpreter_is_told_apart() {
    let stand = Stand::new();
    let mut harness = stand.harness("echo answer");
    harness.program = PathBuf::from("/nowhere/agent");
    let error = run_turn(&stand.spec(&harness, "hello"), |_| {}, &never()).expect_err("no program");
    assert!(matches!(error, TurnError::Missing { .. }), "{error:?}");
    assert!(error.to_string().contains("/nowhere/agent"), "{error}");

    let harness = stand.harness("echo answer");
    let nowhere = stand.path("nowhere");
    let mut spec = stand.spec(&harness, "hello");
    spec.cwd = &nowhere;
    let error = run_turn(&spec, |_| {}, &never()).expect_err("no folder");
    assert!(matches!(error, TurnError::NoFolder { .. }), "{error:?}");

    let orphan = stand.path("orphan");
    fs::write(&orphan, "#!/nowhere/interpreter\n").expect("room");
    fs::set_permissions(&orphan, fs::Permissions::from_mode(0o755)).expect("ours");
    let mut harness = stand.harness("echo answer");
    harness.program = orphan;
    let error = run_turn(&stand.spec(&harness, "hello"), |_| {}, &never()).expect_err("no interpreter");
    assert!(matches!(error, TurnError::Start { .. }), "{error:?}");
}

#[test]
fn a_prompt_too_long_for_an_argument_is_refused_before_anything_starts() {
    let stand = Stand::new();
    let mut harness = stand.harness("echo answer");
    harness.mode.prompt = PrintPrompt::Argument;
    let error = run_turn(&stand.spec(&harness, &"p".repeat(131_072)), |_| {}, &never()).expect_err("too long");
    assert!(error.to_string().contains("131072 bytes") && error.to_string().contains("131071"), "{error}");
    let error = run_turn(&stand.spec(&harness, "a\0b"), |_| {}, &never()).expect_err("a NUL");
    assert!(matches!(error, TurnError::PromptNul), "{error:?}");
    run_turn(&stand.spec(&harness, &"p".repeat(131_071)), |_| {}, &never()).expect("the longest that fits");
}
