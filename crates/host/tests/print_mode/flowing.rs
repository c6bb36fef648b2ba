//! Prompt and answer: concurrent input and output, streaming, arbitrary bytes.

use std::fs;

use coven_harness::print_mode::PrintPrompt;
use coven_host::print_mode::{TurnStatus, run_turn};

use crate::fixture::{Fixture, never};

const MIB: usize = 1 << 20;

#[test]
fn five_mebibytes_each_way_do_not_block_each_other() {
    // Given a program that writes 5 MiB before it reads its first byte, and then counts its input
    let fixture = Fixture::new();
    let script = "head -c 5242880 /dev/zero | tr '\\0' a; wc -c";
    // When the prompt is also 5 MiB long
    let done = fixture.turn(script, &"p".repeat(5 * MIB)).expect("no deadlock");
    // Then both are complete
    assert_eq!(done.text.len(), 5 * MIB + "5242880".len());
    assert!(done.text.ends_with("a5242880"));
}

#[test]
fn five_mebibytes_are_echoed_while_they_are_written() {
    let fixture = Fixture::new();
    let prompt = "0123456789abcde\n".repeat(5 * MIB / 16);
    let done = fixture.turn("cat; cat </dev/null; echo errors >&2", &prompt).expect("no deadlock");
    assert_eq!(done.text, prompt.trim_end());
}

#[test]
fn a_program_that_closes_its_input_can_answer() {
    let done = Fixture::new().turn("exec 0<&-; echo answer", &"p".repeat(5 * MIB)).expect("an answer");
    assert_eq!(done.text, "answer");
}

#[test]
fn large_output_on_standard_error_does_not_block() {
    let done = Fixture::new().turn("head -c 5242880 /dev/zero >&2; echo answer", "hello").expect("an answer");
    assert_eq!(done.text, "answer");
}

#[test]
fn the_first_piece_arrives_while_the_program_is_running() {
    // Given a program that continues only once its first output was received
    let fixture = Fixture::new();
    let seen = fixture.path("seen");
    let script = format!("printf first; until [ -e {} ]; do :; done; printf ' second'", seen.display());
    let harness = fixture.harness(&script);
    // When the first piece arrives
    let on_text = |text: &str| {
        if text.starts_with("first") {
            fs::write(&seen, "").expect("a file");
        }
    };
    let done = run_turn(&fixture.spec(&harness, "hello"), on_text, &never()).expect("an answer");
    // Then the program writes the second
    assert_eq!(done.text, "first second");
}

#[test]
fn a_character_split_between_two_writes_arrives_whole() {
    let fixture = Fixture::new();
    let half = fixture.path("half");
    let script = format!("printf 'caf\\303'; until [ -e {} ]; do :; done; printf '\\251!'", half.display());
    let harness = fixture.harness(&script);
    let mut pieces = Vec::new();
    let on_text = |text: &str| {
        fs::write(&half, "").expect("a file");
        pieces.push(text.to_owned());
    };
    let done = run_turn(&fixture.spec(&harness, "hello"), on_text, &never()).expect("an answer");
    assert_eq!(done.text, "café!");
    assert_eq!(pieces, ["caf", "é!"]);
}

#[test]
fn invalid_bytes_become_replacement_characters() {
    let done = Fixture::new().turn("printf 'a\\377b\\303'", "hello").expect("an answer");
    assert_eq!(done.text, "a\u{fffd}b\u{fffd}");
}

#[test]
fn the_whole_prompt_is_written_to_standard_input_and_then_input_is_closed() {
    let prompt = "two\nlines, a dash, é and no line end";
    let done = Fixture::new().turn("cat", prompt).expect("an answer");
    assert_eq!((done.text.as_str(), done.status), (prompt, TurnStatus::Completed));
}

#[test]
fn a_prompt_passed_as_an_argument_leaves_standard_input_empty() {
    let fixture = Fixture::new();
    let mut harness = fixture.harness("cat; printf '%s' \"$1\"");
    harness.mode.prompt = PrintPrompt::Argument;
    let prompt = "$(id) `id` \"q\" 'q' \\ ; -x";
    let done = run_turn(&fixture.spec(&harness, prompt), |_| {}, &never()).expect("an answer");
    assert_eq!(done.text, prompt);
}

#[test]
fn the_program_runs_in_the_folder_with_its_variables_and_without_a_terminal() {
    let fixture = Fixture::new();
    let mut harness = fixture.harness("pwd -P; echo $MARK; (: </dev/tty) 2>/dev/null || echo no terminal");
    harness.env.insert("MARK".to_owned(), "marked".to_owned());
    let done = run_turn(&fixture.spec(&harness, "hello"), |_| {}, &never()).expect("an answer");
    let folder = fixture.path("").canonicalize().expect("the folder exists");
    assert_eq!(done.text, format!("{}\nmarked\nno terminal", folder.display()));
}
