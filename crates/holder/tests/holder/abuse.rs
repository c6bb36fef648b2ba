//! Clients that violate the protocol.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use coven_domain::session::ExitStatus;
use coven_holder::client::{HolderClient, HolderError, connect_socket};
use coven_holder::wire::{Decoder, EndMode, Reply, Request, VERSION};

use crate::fixture::{DEADLINE, Follower, Given, Holder, eventually, is_root, skip};
use crate::player::Noise;

fn listener() -> Holder {
    let holder = Given::shell("stty -echo; echo ready; read a; echo got $a").start();
    holder.shows("ready");
    holder
}

fn still_works(mut holder: Holder) {
    holder.type_in("fine\n");
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    assert_eq!(holder.log(), b"ready\r\ngot fine\r\n");
    holder.check_files();
}

fn connect(holder: &Holder) -> UnixStream {
    let stream = connect_socket(holder.dir()).expect("the holder accepts the connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    stream
}

/// Returns all replies until the holder closes the connection.
fn read_replies(mut stream: UnixStream) -> Vec<Reply> {
    let (mut decoder, mut replies, mut buffer) = (Decoder::default(), Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return replies,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return replies,
            Err(error) => panic!("the holder neither replies nor closes the connection: {error}"),
            Ok(count) => decoder.feed(&buffer[..count]),
        }
        while let Some(reply) = decoder.reply().expect("valid frames") {
            replies.push(reply);
        }
    }
}

#[test]
fn a_viewer_that_runs_inside_the_session_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("session");
    let script = format!("say ready; follow {}; exit 0", dir.display());
    let mut holder = Given::player(&script).with(|spec| spec.dir = dir).start();
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    let log = String::from_utf8(holder.log()).expect("text");
    assert!(log.starts_with("readyRefused(") && log.contains("inside itself"), "{log}");
    holder.check_files();
}

#[test]
fn invalid_requests_are_refused_and_the_session_continues() {
    let holder = listener();
    let hello = Request::Hello { version: VERSION }.encode();
    let cases: [(&str, Vec<u8>); 5] = [
        ("noise", Noise::bytes(9, 4096)),
        ("a request before hello, followed by a kill", {
            let kill = Request::End { how: EndMode::Kill, grace_ms: 0 }.encode();
            [Request::Sync.encode(), hello.clone(), kill].concat()
        }),
        ("an oversized frame", [hello.clone(), vec![3, 1, 0, 16, 0]].concat()),
        ("an unknown frame", [hello.clone(), vec![99, 0, 0, 0, 0]].concat()),
        ("a short frame", [hello, vec![2, 1, 0, 0, 0, 7]].concat()),
    ];
    for (what, bytes) in cases {
        let mut stream = connect(&holder);
        stream.write_all(&bytes).expect("the socket accepts the bytes");
        let got = read_replies(stream);
        assert!(matches!(got.last(), Some(Reply::Refused(_))), "{what}: {got:?}");
    }
    still_works(holder);
}

#[test]
fn an_incomplete_frame_has_no_effect() {
    let holder = listener();
    let input = Request::Input(b"half\n".to_vec()).encode();
    for cut in 1..input.len() {
        let mut stream = connect(&holder);
        stream.write_all(&Request::Hello { version: VERSION }.encode()).expect("the holder accepts the connection");
        stream.write_all(&input[..cut]).expect("the holder accepts the connection");
    }
    still_works(holder);
}

#[test]
fn serves_hundreds_of_clients() {
    let mut holder = listener();
    let silent: Vec<UnixStream> = (0..50).map(|_| connect(&holder)).collect();
    let viewers: Vec<_> = (0..200).map(|_| Follower::from(0, &holder)).collect();
    holder.type_in("all\n");
    assert_eq!(holder.ends(), ExitStatus::Code(0));
    for viewer in viewers {
        assert_eq!(viewer.got().1, b"ready\r\ngot all\r\n");
    }
    drop(silent);
    holder.check_files();
}

#[test]
fn refuses_a_client_beyond_the_limit() {
    let holder = listener();
    let silent: Vec<UnixStream> = (0..256).map(|_| connect(&holder)).collect();
    let refused = eventually("a client is refused", || HolderClient::connect(holder.dir()).err());
    assert!(matches!(refused, HolderError::Refused(_)), "{refused:?}");
    drop(silent);
    eventually("a client can connect again", || HolderClient::connect(holder.dir()).ok());
    still_works(holder);
}

#[test]
fn a_client_that_never_reads_blocks_only_itself() {
    let holder = listener();
    let stream = connect(&holder);
    stream.set_nonblocking(true).expect("a socket");
    let requests = [Request::Hello { version: VERSION }.encode(), Request::Sync.encode().repeat(10_000)].concat();
    // Until both sockets are full.
    for _ in 0..200 {
        if (&stream).write(&requests).is_err() {
            break;
        }
        holder.ask(&Request::Sync);
    }
    assert!(holder.status_field("RssAnon") < 8 << 10);
    still_works(holder);
}

#[test]
fn refuses_another_user() {
    const NAME: &str = "refuses_another_user";
    if !is_root() {
        return skip(NAME, "switching to another user requires root");
    }
    let holder = listener();
    // The folder's permissions already exclude other users; open them to test the holder's own check.
    for path in [holder.folder.path(), holder.dir(), &holder.dir().join(coven_holder::SOCKET)] {
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path, all).expect("the test owns the file");
    }
    let exe = std::env::current_exe().expect("own path");
    let copy = holder.folder.path().join("other-user");
    std::fs::copy(exe, &copy).expect("enough disk space");
    let status = Command::new(&copy)
        .args(["--exact", "other_user_process", "--nocapture"])
        .env(crate::fixture::ROLE, "other user")
        .env("COVEN_TEST_DIR", holder.dir())
        .uid(65_534)
        .gid(65_534)
        .status()
        .expect("the program starts");
    assert_eq!(status.code(), Some(42), "the holder closed the connection without a reply");
    still_works(holder);
}

/// Sends a kill as another user. Returns 42 if the holder closes the connection without a reply.
pub fn try_as_other_user() -> i32 {
    let dir = std::env::var_os("COVEN_TEST_DIR").expect("the test sets COVEN_TEST_DIR");
    let Ok(mut stream) = connect_socket(dir.as_ref()) else { return 1 };
    stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
    let kill = Request::End { how: EndMode::Kill, grace_ms: 0 };
    let requests = [Request::Hello { version: VERSION }, kill].iter().flat_map(Request::encode).collect::<Vec<_>>();
    let _ = stream.write_all(&requests);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(0) => 42,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset && answer.is_empty() => 42,
        _ => 2,
    }
}
