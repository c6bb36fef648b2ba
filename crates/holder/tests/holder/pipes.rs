//! Sessions on pipes.

use coven_domain::session::ExitStatus;
use coven_holder::JOURNAL;
use coven_holder::journal::Record;
use coven_holder::wire::{MAX_BODY, Request};

use crate::fixture::{Follower, Given, Holder};
use crate::player::Noise;

fn stderr(holder: &Holder) -> Vec<u8> {
    let bytes = |record| if let Record::Stderr(bytes) = record { bytes } else { Vec::new() };
    holder.records().into_iter().flat_map(|it| bytes(it.record)).collect()
}

#[test]
fn standard_output_goes_to_the_log_and_standard_error_to_the_journal() {
    let mut holder = Given::shell("echo out; echo err >&2; exit 3").on_pipes().start();
    assert_eq!(holder.ends(), ExitStatus::Code(3));
    assert_eq!(holder.log(), b"out\n");
    assert_eq!(stderr(&holder), b"err\n");
    holder.check_files();
}

#[test]
fn a_flood_on_both_streams_is_kept_exactly() {
    const COUNT: usize = 24 << 20;
    let script = "head -c 3000000 /dev/zero >&2 & head -c 25165824 /dev/zero | tr '\\0' z; wait";
    let mut holder = Given::shell(script).on_pipes().start();
    let viewer = Follower::from(0, &holder);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log() == vec![b'z'; COUNT]);
    assert!(stderr(&holder) == vec![0; 3_000_000]);
    assert_eq!(viewer.got().1.len(), COUNT);
    holder.check_files();
}

#[test]
fn a_flood_on_standard_error_keeps_its_start_and_its_end() {
    const FLOOD: usize = 20_000_000;
    let script = format!(
        "echo first line >&2; head -c {FLOOD} /dev/zero | tr '\\0' e >&2; echo last line >&2; echo out; exit 3"
    );
    let mut holder = Given::shell(&script).on_pipes().start();
    assert_eq!(holder.ends(), ExitStatus::Code(3));
    let kept = stderr(&holder);
    assert!(kept.starts_with(b"first line\ne") && kept.ends_with(b"elast line\n"), "{} bytes", kept.len());
    assert!(kept.len() < 5 << 20, "{} bytes are kept", kept.len());
    let dropped = |record| if let Record::Note(text) = record { text.split(' ').next()?.parse().ok() } else { None };
    let dropped: Vec<usize> = holder.records().into_iter().filter_map(|it| dropped(it.record)).collect();
    assert_eq!(
        dropped,
        ["first line\nlast line\n".len() + FLOOD - kept.len()],
        "the number of dropped bytes is recorded"
    );
    let journal = std::fs::metadata(holder.dir().join(JOURNAL)).expect("a journal").len();
    assert!(journal < 6 << 20, "{journal} bytes of journal");
    assert_eq!(holder.log(), b"out\n");
    holder.check_files();
}

#[test]
fn standard_error_slightly_over_the_first_limit_is_kept_completely() {
    const COUNT: usize = (4 << 20) + 50_000;
    let mut holder = Given::shell(&format!("head -c {COUNT} /dev/zero >&2")).on_pipes().start();
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert_eq!(stderr(&holder).len(), COUNT);
    holder.check_files();
}

#[test]
fn input_larger_than_a_pipe_arrives_and_closing_it_is_end_of_file() {
    let sent = Noise::bytes(5, 2 * MAX_BODY + 7);
    let mut holder = Given::program(&["cat"]).on_pipes().start();
    let mut client = holder.client();
    for piece in sent.chunks(MAX_BODY) {
        client.send(&Request::Input(piece.to_vec())).expect("the holder accepts requests");
    }
    client.send(&Request::CloseInput).expect("the holder accepts requests");
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log() == sent);
    holder.check_files();
}

#[test]
fn input_after_end_of_file_is_dropped_and_not_recorded() {
    let mut holder =
        Given::shell("cat; read x; trap 'exit 1' TERM; echo eof; while :; do sleep 0.05; done").on_pipes().start();
    holder.ask(&Request::CloseInput);
    holder.shows("eof");
    let mut client = holder.client();
    for _ in 0..3 {
        client.request(&Request::Input(vec![b'x'; MAX_BODY])).expect("the input is dropped");
    }
    holder.ask(&Request::Signal(15));
    assert_eq!(holder.ends(), ExitStatus::Code(1));
    assert!(!holder.records().iter().any(|it| matches!(it.record, Record::Input(_))));
}

#[test]
fn a_harness_that_closed_its_output_keeps_running() {
    let mut holder = Given::shell("exec >&- 2>&-; read x; exit 8").on_pipes().start();
    holder.type_in("go\n");
    assert_eq!(holder.ends(), ExitStatus::Code(8));
    holder.check_files();
}

#[test]
fn a_harness_that_closed_its_input_keeps_running() {
    let mut holder =
        Given::shell("exec <&-; trap 'exit 8' TERM; echo ready; while :; do sleep 0.05; done").on_pipes().start();
    holder.shows("ready");
    holder.ask(&Request::Input(vec![b'x'; MAX_BODY]));
    holder.ask(&Request::Signal(15));
    assert_eq!(holder.ends(), ExitStatus::Code(8));
    holder.check_files();
}
