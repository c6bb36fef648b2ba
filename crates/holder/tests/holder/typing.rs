//! Input and resizing: delivered exactly and recorded once.

use coven_domain::session::ExitStatus;
use coven_domain::session::RecordInput;
use coven_holder::journal::Record;
use coven_holder::wire::{EndMode, MAX_BODY, Reply, Request};

use crate::fixture::{Given, Holder, eventually, memmem};
use crate::player::Noise;

fn inputs(holder: &Holder) -> Vec<Vec<u8>> {
    let input = |record| if let Record::Input(bytes) = record { Some(bytes) } else { None };
    holder.records().into_iter().filter_map(|it| input(it.record)).collect()
}

#[test]
fn input_reaches_the_harness_once_and_is_recorded_once() {
    let mut holder = Given::shell("stty -echo; echo ready; read a; read b; echo got $a and $b")
        .with(|spec| spec.record_input = RecordInput::All)
        .start();
    holder.shows("ready");
    let mut client = holder.client();
    client.send(&Request::Input(b"one\n".to_vec())).expect("the holder accepts requests");
    client.send(&Request::TerminalReply(b"two\n".to_vec())).expect("the holder accepts requests");
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log().ends_with(b"got one and two\r\n"));
    assert_eq!(inputs(&holder), [b"one\n".to_vec()], "an answer of the terminal is not recorded");
    holder.check_files();
}

/// Returns the input records of answers to prompts with and without echo.
fn kept(record_input: RecordInput) -> Vec<Record> {
    let script = "echo user; read a; stty -echo; echo password; read b; stty echo; echo $a has $b; read c";
    let mut holder = Given::shell(script).with(|spec| spec.record_input = record_input).start();
    for (prompt, answer) in [("user", "ada\n"), ("password", "pässwort\n"), ("ada has", "bye\n")] {
        holder.shows(prompt);
        holder.type_in(answer);
    }
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(memmem(&holder.log(), "ada has pässwort".as_bytes()), "the program got every character");
    holder.check_files();
    let is_input = |record: &Record| matches!(record, Record::Input(_) | Record::HiddenInput { .. });
    holder.records().into_iter().map(|it| it.record).filter(is_input).collect()
}

#[test]
fn input_without_echo_is_counted_but_not_stored() {
    let [ada, bye] = ["ada\n", "bye\n"].map(|text| Record::Input(text.into()));
    assert_eq!(kept(RecordInput::HiddenSecrets), [ada, Record::HiddenInput { bytes: 10, characters: 9 }, bye]);
}

#[test]
fn stores_all_input_or_none_as_configured() {
    let texts = ["ada\n", "pässwort\n", "bye\n"];
    assert_eq!(kept(RecordInput::All), texts.map(|text| Record::Input(text.into())));
    assert_eq!(kept(RecordInput::None), texts.map(|text| Record::hidden(text.as_bytes())));
}

#[test]
fn every_byte_value_reaches_a_raw_terminal_and_is_echoed() {
    let all: Vec<u8> = (0..=255).collect();
    let mut holder = Given::player("raw; say ready; echo 256; exit 0").start();
    holder.shows("ready");
    holder.ask(&Request::Input(all.clone()));
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert_eq!(holder.log(), [b"ready".as_slice(), &all].concat());
    assert_eq!(inputs(&holder), [all]);
}

#[test]
fn a_paste_of_several_megabytes_arrives_completely_while_the_harness_writes() {
    let paste = Noise::bytes(3, 3 * MAX_BODY);
    let mut holder = Given::player(&format!("raw; say ready; echo {}; exit 0", paste.len())).start();
    holder.shows("ready");
    let mut client = holder.client();
    for piece in paste.chunks(MAX_BODY) {
        client.send(&Request::Input(piece.to_vec())).expect("the holder accepts requests");
    }
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log()[5..] == paste, "the paste is echoed");
    assert!(inputs(&holder).concat() == paste, "the paste is recorded");
    assert_eq!(inputs(&holder).len(), 3);
    holder.check_files();
}

#[test]
fn a_harness_that_does_not_read_can_still_be_ended() {
    let mut holder = Given::player("raw; say ready; wait /nowhere/at/all").start();
    holder.shows("ready");
    // More than the terminal, the holder's queue and the socket can buffer.
    let client = holder.client();
    let sender = std::thread::spawn(move || {
        let mut client = client;
        for _ in 0..8 {
            if client.send(&Request::Input(vec![b'x'; MAX_BODY])).is_err() {
                return;
            }
        }
    });
    eventually("the queue is full", || (inputs(&holder).len() >= 2).then_some(()));
    assert!(holder.status_field("RssAnon") < 16 << 10, "input that does not fit stays with the client");
    holder.ask(&Request::End { how: EndMode::Kill, grace_ms: 30_000 });
    assert_eq!(holder.ends(), ExitStatus::Signal(15));
    sender.join().expect("the client is disconnected");
    holder.check_files();
}

#[test]
fn handles_requests_sent_before_a_disconnect() {
    use std::io::Write;
    let mut holder = Given::shell("stty -echo; echo ready; read a; echo got $a").start();
    holder.shows("ready");
    let mut stream = coven_holder::client::connect_socket(holder.dir()).expect("the holder accepts the connection");
    let requests = [Request::Hello { version: 1 }, Request::Follow { from: 0 }, Request::Input(b"x\n".to_vec())];
    stream
        .write_all(&requests.iter().flat_map(Request::encode).collect::<Vec<_>>())
        .expect("the holder accepts the connection");
    drop(stream);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log().ends_with(b"got x\r\n"));
}

#[test]
fn a_new_size_reaches_the_harness_and_is_recorded_but_the_same_size_is_not() {
    let script = "trap 'stty size; exit 0' WINCH; stty size; echo ready; while :; do sleep 0.05; done";
    let mut holder = Given::shell(script).start();
    holder.shows("24 80\r\nready");
    let mut other = holder.client();
    holder.ask(&Request::Resize { rows: 24, cols: 80 });
    holder.ask(&Request::Resize { rows: 50, cols: 132 });
    assert_eq!(other.next().expect("a reply"), Reply::Resized { rows: 50, cols: 132 });
    drop(other);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log().ends_with(b"50 132\r\n"));
    let sizes: Vec<Record> =
        holder.records().into_iter().map(|it| it.record).filter(|it| matches!(it, Record::Resize { .. })).collect();
    assert_eq!(sizes, [Record::Resize { rows: 50, cols: 132 }]);
    holder.check_files();
}

#[test]
fn types_the_initial_input_of_the_spec_and_enter() {
    let mut holder = Given::shell("read a; echo got $a").with(|spec| spec.typed = "a wish".into()).start();
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log().ends_with(b"got a wish\r\n"));
    assert_eq!(inputs(&holder), [b"a wish".to_vec(), b"\r".to_vec()]);
    holder.check_files();
}

#[test]
fn a_watcher_receives_progress_without_the_bytes() {
    let mut holder = Given::shell("echo one; read x; echo two").start();
    let mut client = holder.client();
    client.send(&Request::Watch).expect("the holder accepts requests");
    let mut last = (0, 0);
    let mut is_entered = false;
    loop {
        match client.next().expect("a reply") {
            Reply::Progress { end, records } => {
                assert!(end >= last.0 && records >= last.1, "progress never decreases");
                assert!(holder.records().len() as u64 >= records, "the reported progress is in the files");
                assert!(holder.log().len() as u64 >= end, "the reported progress is in the files");
                last = (end, records);
                if end >= 5 && !is_entered {
                    is_entered = true;
                    holder.type_in("\n");
                }
            }
            Reply::Exited { end, .. } => {
                assert_eq!(last.0, end, "the last progress was sent before the exit");
                break;
            }
            other => panic!("unexpected reply: {other:?}"),
        }
    }
    holder.ends();
    assert_eq!(last.1, holder.records().len() as u64);
}
