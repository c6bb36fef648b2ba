//! Input with offsets: every byte is accepted once, even if several clients send it repeatedly.

use coven_domain::session::ExitStatus;
use coven_holder::client::HolderError;
use coven_holder::journal::Record;
use coven_holder::wire::{MAX_BODY, Request};

use crate::fixture::{Given, Holder, eventually};
use crate::player::Noise;

/// Fills a frame together with its offset.
const PIECE: usize = MAX_BODY - 8;

fn inputs(holder: &Holder) -> Vec<Vec<u8>> {
    let input = |record| if let Record::Input(bytes) = record { Some(bytes) } else { None };
    holder.records().into_iter().filter_map(|it| input(it.record)).collect()
}

fn at(offset: usize, bytes: &[u8]) -> Request {
    Request::InputAt { offset: offset as u64, bytes: bytes.to_vec() }
}

#[test]
fn skips_known_input_and_completes_partially_known_input() {
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
    assert_eq!(inputs(&holder), noted, "only new input is recorded");
    holder.check_files();
}

#[test]
fn refuses_input_after_a_gap() {
    let mut holder = Given::program(&["cat"]).on_pipes().start();
    holder.ask(&at(0, b"one "));
    for offset in [5, 1 << 40, usize::MAX] {
        match holder.client().request(&at(offset, b"later")) {
            Err(HolderError::Refused(why)) => assert!(why.contains("but byte 4 is next"), "{why}"),
            other => panic!("input after a gap was accepted: {other:?}"),
        }
    }
    holder.ask(&at(4, b"two"));
    holder.ask(&Request::CloseInput);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert_eq!(holder.log(), b"one two");
    holder.check_files();
}

#[test]
fn input_without_an_offset_advances_the_offset_but_an_answer_does_not() {
    let mut holder = Given::program(&["cat"]).on_pipes().start();
    holder.ask(&Request::Input(b"one ".to_vec()));
    holder.ask(&Request::TerminalReply(b"(answer) ".to_vec()));
    holder.ask(&at(0, b"one two"));
    holder.ask(&Request::CloseInput);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert_eq!(holder.log(), b"one (answer) two");
    assert_eq!(inputs(&holder).concat(), b"one two");
    holder.check_files();
}

/// A harness that reads nothing until a file exists.
fn late_reader(folder: &tempfile::TempDir) -> (Given, std::path::PathBuf) {
    let gate = folder.path().join("gate");
    let script = format!("until test -e '{}'; do sleep 0.05; done; exec cat", gate.display());
    (Given::shell(&script).on_pipes(), gate)
}

#[test]
fn input_queued_by_a_disconnected_client_is_accepted_once_if_another_resends_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (given, gate) = late_reader(&folder);
    let mut holder = given.start();
    // Two pieces fill the queue. A third, which fits into a socket buffer, waits.
    let sent = Noise::bytes(9, 4 * PIECE + 100_000);
    let (third, fourth, rest) = (2 * PIECE, 2 * PIECE + 100_000, 3 * PIECE + 100_000);
    let mut first = holder.client();
    first.request(&at(0, &sent[..PIECE])).expect("the queue has space");
    first.request(&at(PIECE, &sent[PIECE..third])).expect("the queue accepts one more piece");
    first.send(&at(third, &sent[third..fourth])).expect("the socket accepts it");
    drop(first);
    assert_eq!(inputs(&holder).concat().len(), third, "the third piece is not accepted yet");

    // The next client knows only the journal.
    let mut second = holder.client();
    let again = sent.clone();
    let sender = std::thread::spawn(move || {
        second.request(&at(third, &again[third..fourth])).expect("the input is accepted");
        second.request(&at(fourth, &again[fourth..rest])).expect("the input is accepted");
        second.request(&at(rest, &again[rest..])).expect("the input is accepted");
        second.request(&Request::CloseInput).expect("the input is accepted");
    });
    std::fs::write(&gate, "").expect("enough disk space");
    sender.join().expect("all input was accepted");

    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log() == sent, "{} bytes for {}", holder.log().len(), sent.len());
    assert!(inputs(&holder).concat() == sent, "each byte is recorded once");
    holder.check_files();
}

#[test]
fn two_clients_that_send_the_same_input_concurrently_act_as_one() {
    let sent = Noise::bytes(10, 3 * PIECE + 7);
    let mut holder = Given::program(&["cat"]).on_pipes().start();
    let senders: Vec<_> = [PIECE, PIECE / 3]
        .into_iter()
        .map(|length| {
            let (mut client, sent) = (holder.client(), sent.clone());
            std::thread::spawn(move || {
                for (nth, piece) in sent.chunks(length).enumerate() {
                    client.request(&at(nth * length, piece)).expect("a client never leaves a gap");
                }
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().expect("all input was accepted"));
    eventually("all input is recorded", || (inputs(&holder).concat().len() == sent.len()).then_some(()));
    holder.ask(&Request::CloseInput);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log() == sent);
    holder.check_files();
}
