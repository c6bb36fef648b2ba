//! Input and size: delivered exactly, noted once.

use coven_domain::session::ExitStatus;
use coven_domain::session::RecordInput;
use coven_holder::journal::Record;
use coven_holder::wire::{How, MAX_BODY, Reply, Request};

use crate::player::Noise;
use crate::stand::{Given, Holder, eventually, memmem};

fn inputs(holder: &Holder) -> Vec<Vec<u8>> {
    let input = |record| if let Record::Input(bytes) = record { Some(bytes) } else { None };
    holder.records().into_iter().filter_map(|it| input(it.record)).collect()
}

#[test]
fn input_reaches_the_harness_once_and_is_noted_once() {
    let mut holder = Given::shell("stty -echo; echo ready; read a; read b; echo got $a and $b")
        .with(|spec| spec.record_input = RecordInput::All)
        .start();
    holder.shows("ready");
    let mut client = holder.client();
    client.send(&Request::Input(b"one\n".to_vec())).expect("the holder listens");
    client.send(&Request::Answer(b"two\n".to_vec())).expect("the holder listens");
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log().ends_with(b"got one and two\r\n"));
    assert_eq!(inputs(&holder), [b"one\n".to_vec()], "an answer of the terminal is not noted");
    holder.check_files();
}

/// What the journal keeps of a word at an echoing prompt and one at a silent prompt.
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
fn what_is_typed_at_a_prompt_without_echo_is_counted_and_not_kept() {
    let [ada, bye] = ["ada\n", "bye\n"].map(|text| Record::Input(text.into()));
    assert_eq!(kept(RecordInput::HiddenSecrets), [ada, Record::HiddenInput { bytes: 10, characters: 9 }, bye]);
}

#[test]
fn all_input_or_none_is_kept_where_the_settings_say_so() {
    let texts = ["ada\n", "pässwort\n", "bye\n"];
    assert_eq!(kept(RecordInput::All), texts.map(|text| Record::Input(text.into())));
    assert_eq!(kept(RecordInput::None), texts.map(|text| Record::hidden(text.as_bytes())));
}

#[test]
fn every_byte_value_reaches_a_raw_terminal_and_comes_back() {
    let all: Vec<u8> = (0..=255).collect();
    let mut holder = Given::player("raw; say ready; echo 256; exit 0").start();
    holder.shows("ready");
    holder.ask(&Request::Input(all.clone()));
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert_eq!(holder.log(), [b"ready".as_slice(), &all].concat());
    assert_eq!(inputs(&holder), [all]);
}

#[test]
fn a_paste_of_many_megabytes_arrives_whole_while_the_harness_answers() {
    let paste = Noise::bytes(3, 3 * MAX_BODY);
    let mut holder = Given::player(&format!("raw; say ready; echo {}; exit 0", paste.len())).start();
    holder.shows("ready");
    let mut client = holder.client();
    for piece in paste.chunks(MAX_BODY) {
        client.send(&Request::Input(piece.to_vec())).expect("the holder listens");
    }
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log()[5..] == paste, "what was pasted came back");
    assert!(inputs(&holder).concat() == paste, "what was pasted was noted");
    assert_eq!(inputs(&holder).len(), 3);
    holder.check_files();
}

#[test]
fn a_harness_that_does_not_read_can_still_be_ended() {
    let mut holder = Given::player("raw; say ready; wait /nowhere/at/all").start();
    holder.shows("ready");
    // More than the terminal, the holder's queue and the socket can take.
    let client = holder.client();
    let typist = std::thread::spawn(move || {
        let mut client = client;
        for _ in 0..8 {
            if client.send(&Request::Input(vec![b'x'; MAX_BODY])).is_err() {
                return;
            }
        }
    });
    eventually("the queue is full", || (inputs(&holder).len() >= 2).then_some(()));
    assert!(holder.status_field("RssAnon") < 16 << 10, "what does not fit stays with who types");
    holder.ask(&Request::End { how: How::Kill, grace_ms: 100 });
    assert_eq!(holder.ends(), ExitStatus::Signal(15));
    typist.join().expect("it was let go");
    holder.check_files();
}

#[test]
fn what_was_asked_before_a_hang_up_is_done() {
    use std::io::Write;
    let mut holder = Given::shell("stty -echo; echo ready; read a; echo got $a").start();
    holder.shows("ready");
    let mut stream = coven_holder::client::connect_socket(holder.dir()).expect("it listens");
    let wishes = [Request::Hello { version: 1 }, Request::Follow { from: 0 }, Request::Input(b"x\n".to_vec())];
    stream.write_all(&wishes.iter().flat_map(Request::encode).collect::<Vec<_>>()).expect("it listens");
    drop(stream);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log().ends_with(b"got x\r\n"));
}

#[test]
fn a_new_size_reaches_the_harness_and_is_noted_and_the_same_size_is_not() {
    let script = "trap 'stty size; exit 0' WINCH; stty size; echo ready; while :; do sleep 0.05; done";
    let mut holder = Given::shell(script).start();
    holder.shows("24 80\r\nready");
    let mut other = holder.client();
    holder.ask(&Request::Resize { rows: 24, cols: 80 });
    holder.ask(&Request::Resize { rows: 50, cols: 132 });
    assert_eq!(other.next().expect("an answer"), Reply::Resized { rows: 50, cols: 132 });
    drop(other);
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log().ends_with(b"50 132\r\n"));
    let sizes: Vec<Record> =
        holder.records().into_iter().map(|it| it.record).filter(|it| matches!(it, Record::Resize { .. })).collect();
    assert_eq!(sizes, [Record::Resize { rows: 50, cols: 132 }]);
    holder.check_files();
}

#[test]
fn what_the_spec_wants_typed_is_typed_and_entered() {
    let mut holder = Given::shell("read a; echo got $a").with(|spec| spec.typed = "a wish".into()).start();
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert!(holder.log().ends_with(b"got a wish\r\n"));
    assert_eq!(inputs(&holder), [b"a wish".to_vec(), b"\r".to_vec()]);
    holder.check_files();
}

#[test]
fn a_watcher_hears_of_every_step_without_the_bytes() {
    let mut holder = Given::shell("echo one; read x; echo two").start();
    let mut client = holder.client();
    client.send(&Request::Watch).expect("the holder listens");
    let mut last = (0, 0);
    let mut is_entered = false;
    loop {
        match client.next().expect("an answer") {
            Reply::Progress { end, records } => {
                assert!(end >= last.0 && records >= last.1, "progress never goes back");
                assert!(holder.records().len() as u64 >= records, "what is told is in the files");
                assert!(holder.log().len() as u64 >= end, "what is told is in the files");
                last = (end, records);
                if end >= 5 && !is_entered {
                    is_entered = true;
                    holder.type_in("\n");
                }
            }
            Reply::Exited { end, .. } => {
                assert_eq!(last.0, end, "the last step was told before the exit");
                break;
            }
            other => panic!("unasked: {other:?}"),
        }
    }
    holder.ends();
    assert_eq!(last.1, holder.records().len() as u64);
}
