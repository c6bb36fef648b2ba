//! Which turns count as failed, and their error messages.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use coven_harness::print_mode::PrintPrompt;
use coven_host::print_mode::{TurnError, run_turn};

use crate::fixture::{Fixture, format_of, never};

#[test]
fn output_on_standard_error_is_not_a_failure() {
    let script = "echo 'ERROR: forbidden, unauthorized, 429 rate limit, connection refused' >&2; echo answer";
    assert_eq!(Fixture::new().turn(script, "hello").expect("an answer").text, "answer");
}

#[test]
fn a_nonzero_exit_code_is_a_failure_explained_by_standard_error() {
    let error = Fixture::new().turn("echo answer; echo first >&2; echo second >&2; exit 3", "hello");
    let error = error.expect_err("exit code 3");
    assert_eq!(error.to_string(), "Scripted failed (exit status: 3): second");
    let TurnError::Failed { status, stderr, .. } = error else { panic!("{error:?}") };
    assert_eq!((status.code(), stderr.as_str()), (Some(3), "first\nsecond"));
}

#[test]
fn death_by_a_signal_is_a_failure() {
    let error = Fixture::new().turn("kill -KILL $$", "hello").expect_err("a killed program").to_string();
    assert!(error.starts_with("Scripted failed (signal: 9"), "{error}");
}

#[test]
fn the_last_16_kib_of_standard_error_are_kept() {
    let error = Fixture::new().turn("head -c 3000000 /dev/zero | tr '\\0' e >&2; echo the end >&2; exit 1", "hello");
    let Err(TurnError::Failed { stderr, .. }) = error else { panic!("{error:?}") };
    assert!(stderr.len() <= 16 << 10 && stderr.ends_with("ethe end"), "{}", stderr.len());
}

#[test]
fn the_agents_error_message_takes_precedence_over_standard_error() {
    let fixture = Fixture::new();
    let line = r#"{"type":"turn.failed","error":{"message":"no such model"}}"#;
    let mut harness = fixture.harness(&format!("echo '{line}'; echo noise >&2; exit 1"));
    harness.mode.format = format_of("codex");
    let error = run_turn(&fixture.spec(&harness, "hello"), |_| {}, &never()).expect_err("a failed turn");
    assert_eq!(error.to_string(), "Scripted failed (exit status: 1): no such model");
}

#[test]
fn an_error_instead_of_an_answer_is_a_failure_even_with_exit_code_0() {
    let fixture = Fixture::new();
    let line = r#"{"type":"message_end","message":{"role":"assistant","content":[],"errorMessage":"400: no"}}"#;
    let mut harness = fixture.harness(&format!("echo '{line}'"));
    harness.mode.format = format_of("pi");
    let error = run_turn(&fixture.spec(&harness, "hello"), |_| {}, &never()).expect_err("no answer");
    assert_eq!(error.to_string(), "Scripted did not answer: 400: no");
}

#[test]
fn missing_programs_folders_and_interpreters_have_different_errors() {
    let fixture = Fixture::new();
    let mut harness = fixture.harness("echo answer");
    harness.program = PathBuf::from("/nowhere/agent");
    let error = run_turn(&fixture.spec(&harness, "hello"), |_| {}, &never()).expect_err("no program");
    assert!(matches!(error, TurnError::Missing { .. }), "{error:?}");
    assert!(error.to_string().contains("/nowhere/agent"), "{error}");

    let harness = fixture.harness("echo answer");
    let nowhere = fixture.path("nowhere");
    let mut spec = fixture.spec(&harness, "hello");
    spec.cwd = &nowhere;
    let error = run_turn(&spec, |_| {}, &never()).expect_err("no folder");
    assert!(matches!(error, TurnError::NoFolder { .. }), "{error:?}");

    let orphan = fixture.path("orphan");
    fs::write(&orphan, "#!/nowhere/interpreter\n").expect("a file");
    fs::set_permissions(&orphan, fs::Permissions::from_mode(0o755)).expect("an executable");
    let mut harness = fixture.harness("echo answer");
    harness.program = orphan;
    let error = run_turn(&fixture.spec(&harness, "hello"), |_| {}, &never()).expect_err("no interpreter");
    assert!(matches!(error, TurnError::Start { .. }), "{error:?}");
}

#[test]
fn a_prompt_too_long_for_an_argument_is_refused() {
    let fixture = Fixture::new();
    let mut harness = fixture.harness("echo answer");
    harness.mode.prompt = PrintPrompt::Argument;
    let error = run_turn(&fixture.spec(&harness, &"p".repeat(131_072)), |_| {}, &never()).expect_err("too long");
    assert!(error.to_string().contains("131072 bytes") && error.to_string().contains("131071"), "{error}");
    let error = run_turn(&fixture.spec(&harness, "a\0b"), |_| {}, &never()).expect_err("a NUL byte");
    assert!(matches!(error, TurnError::PromptNul), "{error:?}");
    run_turn(&fixture.spec(&harness, &"p".repeat(131_071)), |_| {}, &never()).expect("the longest allowed prompt");
}
