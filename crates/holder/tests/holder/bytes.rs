//! Output is kept byte for byte, in the files and over the socket.

use coven_domain::session::ExitStatus;
use coven_holder::journal::Record;
use coven_holder::wire::Request;

use crate::fixture::{Follower, Given, eventually};
use crate::player::Noise;

#[test]
fn shell_output_is_in_the_log_and_the_exit_is_the_last_record() {
    let mut holder = Given::shell("echo hello; exit 3").start();
    assert_eq!(holder.ends(), ExitStatus::Code(3));
    assert_eq!(holder.log(), b"hello\r\n");
    holder.check_files();
}

#[test]
fn a_binary_flood_is_kept_exactly_and_readable_from_any_offset() {
    const COUNT: usize = 32 << 20;
    let mut holder = Given::player(&format!("raw; flood 1 {COUNT}; exit 0")).start();
    let from_start = Follower::from(0, &holder);
    let offsets = [1, 4095, 65_536, 8 << 20, (8 << 20) + 1, 31 << 20, COUNT as u64 - 1];
    let others = offsets.map(|from| (from, Follower::from(from, &holder)));
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    let expected = Noise::bytes(1, COUNT);
    assert!(holder.log() == expected, "the segments contain the stream");
    let (first, got, status) = from_start.got();
    assert_eq!((first, status), (0, ExitStatus::Code(0)));
    assert!(got == expected, "a viewer from the start got the stream");
    for (from, other) in others {
        let (first, got, _) = other.got();
        assert_eq!(first, from);
        assert!(got == expected[usize::try_from(from).expect("the value fits")..], "a viewer from {from} got the rest");
    }
    holder.check_files();
}

#[test]
fn a_late_viewer_gets_past_and_new_output() {
    let mut holder = Given::shell("echo one; read x; echo two").start();
    holder.shows("one");
    let viewer = Follower::from(0, &holder);
    holder.type_in("\n");
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert_eq!(viewer.got().1, b"one\r\n\r\ntwo\r\n");
    holder.check_files();
}

#[test]
fn a_stalled_viewer_blocks_nothing_and_uses_no_memory() {
    const COUNT: usize = 48 << 20;
    let mut holder = Given::player(&format!("raw; flood 2 {COUNT}; exit 0")).start();
    let mut stalled = holder.client();
    stalled.send(&Request::Follow { from: 0 }).expect("the holder accepts requests");
    let viewer = Follower::from(0, &holder);
    let mut peak = 0;
    eventually("the flood is in the log", || {
        if let Ok(text) = std::fs::read_to_string(format!("/proc/{}/status", holder.holder_pid())) {
            let line = text.lines().find(|line| line.starts_with("RssAnon")).unwrap_or("RssAnon: 0");
            peak = peak.max(line.split_ascii_whitespace().nth(1).expect("a value").parse::<u64>().expect("a number"));
        }
        (holder.log().len() == COUNT).then_some(())
    });
    assert!(viewer.got().1 == Noise::bytes(2, COUNT));
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(peak < 8 << 10, "the holder used {peak} KiB of anonymous memory");
    holder.check_files();
}

#[test]
fn the_last_bytes_before_an_exit_are_never_lost() {
    for round in 0..200 {
        let mut holder = Given::shell(&format!("printf 'round {round} and out'; exit {}", round % 7)).start();
        assert_eq!(holder.ends(), ExitStatus::Code(round % 7));
        assert_eq!(holder.log(), format!("round {round} and out").into_bytes());
        holder.check_files();
    }
}

#[test]
fn a_holder_killed_during_a_flood_leaves_a_correct_prefix() {
    let expected = Noise::bytes(4, 64 << 20);
    for round in 1..=8 {
        let mut holder = Given::player(&format!("raw; flood 4 {}", expected.len()))
            .with(|spec| spec.segment_bytes = 1 << 20)
            .start();
        let minimum = round * 700_000;
        eventually("part of the flood is logged", || (holder.client().welcome.end > minimum).then_some(()));
        holder.kill_hard();
        let log = holder.log();
        assert!(log.len() as u64 > minimum);
        assert!(log == expected[..log.len()], "the log is a prefix of the output");
        let mut next = 0;
        for it in holder.records() {
            assert_eq!(it.offset, next);
            if let Record::Output { length, .. } = it.record {
                next += length;
            }
        }
        assert!(next <= log.len() as u64, "the journal records no output that the log lacks");
    }
}
