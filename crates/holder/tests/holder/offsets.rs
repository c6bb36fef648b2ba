//! Input that tells where it belongs: every byte is taken once, whoever sends it and however often.

use coven_domain::session::ExitStatus;
use coven_holder::client::HolderError;
use coven_holder::journal::Record;
use coven_holder::wire::{MAX_BODY, Request};

use crate::player::Noise;
use crate::stand::{Given, Holder, eventually};

/// With its offset it fills a frame.
const PIECE: usize = MAX_BODY - 8;

fn inputs(holder: &Holder) -> Vec<Vec<u8>> {
    let input = |record| if let Record::Input(bytes) = record { Some(bytes) } else { None };
    holder.records().into_iter().filter_map(|it| input(it.record)).collect()
}

fn at(offset: usize, bytes: &[u8]) -> Request {
    Request::InputAt { offset: offset as u64, bytes: bytes.to_vec() }
}

#[test]
fn what_was_taken_is_left_out_and_what_is_half_known_is_completed() {
    let mut holder = Given::program(&["cat"]).on_pipes().start();
    for (offset, text) in [
        (0, "one "),
        (0, "one "),
        (0, "one two "),
        (2, "e"),
        (6, "o three "),
        (8, "three "),
        (14, ""),
        (14, "four\n"),
        (0, "one two three four\n"),
    ] {
        holder.ask(&at(offset, text.as_bytes()));
    }
    holder.ask(&Request::CloseInput);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert_eq!(holder.log(), b"one two three four\n");
    let noted = ["one ", "two ", "three ", "four\n"].map(|it| it.as_bytes().to_vec());
    assert_eq!(inputs(&holder), noted, "only what is new is noted");
    holder.check_files();
}

#[test]
fn a_gap_is_refused_and_nothing_of_it_is_taken() {
    let mut holder = Given::program(&["cat"]).on_pipes().start();
    holder.ask(&at(0, b"one "));
    for offset in [5, 1 << 40, usize::MAX] {
        match holder.client().request(&at(offset, b"later")) {
            Err(HolderError::Refused(why)) => assert!(why.contains("byte 4 comes next"), "{why}"),
            other => panic!("a gap was taken: {other:?}"),
        }
    }
    holder.ask(&at(4, b"two"));
    holder.ask(&Request::CloseInput);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert_eq!(holder.log(), b"one two");
    holder.check_files();
}

#[test]
fn what_is_typed_without_an_offset_counts_and_an_answer_does_not() {
    let mut holder = Given::program(&["cat"]).on_pipes().start();
    holder.ask(&Request::Input(b"one ".to_vec()));
    holder.ask(&Request::Answer(b"(answer) ".to_vec()));
    holder.ask(&at(0, b"one two"));
    holder.ask(&Request::CloseInput);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert_eq!(holder.log(), b"one (answer) two");
    assert_eq!(inputs(&holder).concat(), b"one two");
    holder.check_files();
}

/// A harness that reads nothing until a file is there.
fn late_reader(folder: &tempfile::TempDir) -> (Given, std::path::PathBuf) {
    let gate = folder.path().join("gate");
    let script = format!("until test -e '{}'; do sleep 0.05; done; exec cat", gate.display());
    (Given::shell(&script).on_pipes(), gate)
}

#[test]
fn what_a_viewer_left_waiting_when_it_died_is_taken_once_with_what_the_next_one_sends() {
    let folder = tempfile::tempdir().expect("a folder");
    let (given, gate) = late_reader(&folder);
    let mut holder = given.start();
    // Two pieces fill the queue; a third that fits a socket waits, and behind it one that does not.
    let sent = Noise::bytes(9, 4 * PIECE + 100_000);
    let (third, fourth, rest) = (2 * PIECE, 2 * PIECE + 100_000, 3 * PIECE + 100_000);
    let mut first = holder.client();
    first.request(&at(0, &sent[..PIECE])).expect("there is room");
    first.request(&at(PIECE, &sent[PIECE..third])).expect("the last that is taken");
    first.send(&at(third, &sent[third..fourth])).expect("the socket takes it");
    drop(first);
    assert_eq!(inputs(&holder).concat().len(), third, "more waits");

    // Whoever comes next knows only the journal.
    let mut second = holder.client();
    let again = sent.clone();
    let typist = std::thread::spawn(move || {
        second.request(&at(third, &again[third..fourth])).expect("it is taken");
        second.request(&at(fourth, &again[fourth..rest])).expect("it is taken");
        second.request(&at(rest, &again[rest..])).expect("it is taken");
        second.request(&Request::CloseInput).expect("it is taken");
    });
    std::fs::write(&gate, "").expect("room on disk");
    typist.join().expect("everything was taken");

    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log() == sent, "{} bytes for {}", holder.log().len(), sent.len());
    assert!(inputs(&holder).concat() == sent, "each byte is noted once");
    holder.check_files();
}

#[test]
fn two_that_send_the_same_at_once_are_as_one() {
    let sent = Noise::bytes(10, 3 * PIECE + 7);
    let mut holder = Given::program(&["cat"]).on_pipes().start();
    let typists: Vec<_> = [PIECE, PIECE / 3]
        .into_iter()
        .map(|length| {
            let (mut client, sent) = (holder.client(), sent.clone());
            std::thread::spawn(move || {
                for (nth, piece) in sent.chunks(length).enumerate() {
                    client.request(&at(nth * length, piece)).expect("it never leaves a gap of its own");
                }
            })
        })
        .collect();
    typists.into_iter().for_each(|typist| typist.join().expect("everything was taken"));
    eventually("all of it is noted", || (inputs(&holder).concat().len() == sent.len()).then_some(()));
    holder.ask(&Request::CloseInput);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log() == sent);
    holder.check_files();
}
